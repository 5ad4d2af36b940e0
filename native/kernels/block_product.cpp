// Compiled once for each instruction set (kernels.cmake); block_product_dispatch.cpp chooses. Of
// the standard library nothing that a compiler may emit for all to use (variant.cpp).
#include "kernels/block_product.h"

#include <cstring>

#include <immintrin.h>

namespace isopro::kernels::ISOPRO_VARIANT {
namespace {

constexpr int kGroups = 8;  // of four weights in a block

#if defined(__AVX512VNNI__)
constexpr int kLanes = 16;
constexpr int kRowsAtOnce = 8;
#else
constexpr int kLanes = 8;
constexpr int kRowsAtOnce = 4;
#endif
// __m512i and __m512, or __m256i and __m256.
typedef long long Integers __attribute__((vector_size(4 * kLanes), may_alias));
typedef float Floats __attribute__((vector_size(4 * kLanes), may_alias));

std::int32_t fourOf(const void* from) {
  std::int32_t four;
  std::memcpy(&four, from, sizeof four);
  return four;
}

// ggml stores both scales of a block as f16: with them, only the order of the sums differs from its
// products.
float asHalf(float value) { return _cvtsh_ss(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT)); }

#if defined(__AVX512VNNI__)
Integers loadBytes(const void* from) { return _mm512_loadu_si512(from); }
void storeBytes(void* to, Integers values) { _mm512_storeu_si512(to, values); }
Floats load(const float* from) { return _mm512_loadu_ps(from); }
void store(float* to, Floats values) { _mm512_storeu_ps(to, values); }
Floats all(float value) { return _mm512_set1_ps(value); }
Floats multiplied(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
Integers allBytes(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }
Integers allFours(int value) { return _mm512_set1_epi32(value); }
Integers both(Integers a, Integers b) { return _mm512_and_si512(a, b); }
Integers either(Integers a, Integers b) { return _mm512_or_si512(a, b); }
Integers differing(Integers a, Integers b) { return _mm512_xor_si512(a, b); }
Integers leastBytes(Integers a, Integers b) { return _mm512_min_epu8(a, b); }
template <int kBits>
Integers up(Integers pairs) {
  return _mm512_slli_epi16(pairs, kBits);
}
template <int kBits>
Integers down(Integers pairs) {
  return _mm512_srli_epi16(pairs, kBits);
}
template <int kByte>
Integers signedByte(Integers fours) {
  return _mm512_srai_epi32(_mm512_slli_epi32(fours, 24 - 8 * kByte), 24);
}
Integers upHalf(Integers fours) { return _mm512_srli_epi32(fours, 16); }
Integers lookedUp(Integers bytes, Integers order) { return _mm512_shuffle_epi8(bytes, order); }
Integers inEachQuarter(__m128i bytes) { return _mm512_broadcast_i32x4(bytes); }
Floats asFloats(Integers fours) { return _mm512_cvtepi32_ps(fours); }
Integers lowPairs(Integers a, Integers b) { return _mm512_unpacklo_epi32(a, b); }
Integers highPairs(Integers a, Integers b) { return _mm512_unpackhi_epi32(a, b); }
Integers lowQuads(Integers a, Integers b) { return _mm512_unpacklo_epi64(a, b); }
Integers highQuads(Integers a, Integers b) { return _mm512_unpackhi_epi64(a, b); }

// Numbers of f16 in the lower and in the upper halves of 32 bits.
Floats floatsOfLowHalves(Integers pairs) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs)); }
Floats floatsOfHighHalves(Integers pairs) {
  return floatsOfLowHalves(_mm512_srli_epi32(pairs, 16));
}

// 16 bytes of every fourth row.
Integers gathered(const char* rows, std::size_t rowBytes) {
  const auto at = [&](std::size_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + 4 * i * rowBytes));
  };
  Integers values = _mm512_castsi128_si512(at(0));
  values = _mm512_inserti32x4(values, at(1), 1);
  values = _mm512_inserti32x4(values, at(2), 2);
  return _mm512_inserti32x4(values, at(3), 3);
}

// Integers of eight bits that are signed in the file become unsigned ones, 128 more, as the
// instruction takes them.
constexpr int kSignOffset = 128;
Integers signedBytes(Integers bytes) { return differing(bytes, allBytes(kSignOffset)); }

// Dot products of `kCount` groups with each lane's weights, which are at most `kMost`, added to
// `sum`.
template <int kCount, int kMost>
Integers dots(Integers sum, const Integers* weights, const std::int8_t* q) {
  for (int g = 0; g < kCount; ++g)
    sum = _mm512_dpbusd_epi32(sum, weights[g], allFours(fourOf(q + 4 * g)));
  return sum;
}
#else
Integers loadBytes(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
void storeBytes(void* to, Integers values) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), values);
}
Floats load(const float* from) { return _mm256_loadu_ps(from); }
void store(float* to, Floats values) { _mm256_storeu_ps(to, values); }
Floats all(float value) { return _mm256_set1_ps(value); }
Floats multiplied(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
Integers allBytes(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
Integers allFours(int value) { return _mm256_set1_epi32(value); }
Integers both(Integers a, Integers b) { return _mm256_and_si256(a, b); }
Integers either(Integers a, Integers b) { return _mm256_or_si256(a, b); }
Integers leastBytes(Integers a, Integers b) { return _mm256_min_epu8(a, b); }
template <int kBits>
Integers up(Integers pairs) {
  return _mm256_slli_epi16(pairs, kBits);
}
template <int kBits>
Integers down(Integers pairs) {
  return _mm256_srli_epi16(pairs, kBits);
}
template <int kByte>
Integers signedByte(Integers fours) {
  return _mm256_srai_epi32(_mm256_slli_epi32(fours, 24 - 8 * kByte), 24);
}
Integers upHalf(Integers fours) { return _mm256_srli_epi32(fours, 16); }
Integers lookedUp(Integers bytes, Integers order) { return _mm256_shuffle_epi8(bytes, order); }
Integers inEachQuarter(__m128i bytes) { return _mm256_broadcastsi128_si256(bytes); }
Floats asFloats(Integers fours) { return _mm256_cvtepi32_ps(fours); }
Integers lowPairs(Integers a, Integers b) { return _mm256_unpacklo_epi32(a, b); }
Integers highPairs(Integers a, Integers b) { return _mm256_unpackhi_epi32(a, b); }
Integers lowQuads(Integers a, Integers b) { return _mm256_unpacklo_epi64(a, b); }
Integers highQuads(Integers a, Integers b) { return _mm256_unpackhi_epi64(a, b); }

Floats floatsOfHalves(Integers each) {
  const Integers packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(each, each), 0x08);
  return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}
Floats floatsOfLowHalves(Integers pairs) {
  return floatsOfHalves(_mm256_and_si256(pairs, _mm256_set1_epi32(0xffff)));
}
Floats floatsOfHighHalves(Integers pairs) { return floatsOfHalves(_mm256_srli_epi32(pairs, 16)); }

Integers gathered(const char* rows, std::size_t rowBytes) {
  const auto at = [&](std::size_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + 4 * i * rowBytes));
  };
  return _mm256_inserti128_si256(_mm256_castsi128_si256(at(0)), at(1), 1);
}

constexpr int kSignOffset = 0;
Integers signedBytes(Integers bytes) { return bytes; }

template <int kCount, int kMost>
Integers dots(Integers sum, const Integers* weights, const std::int8_t* q) {
  // A half of a lane is at most 2 * kMost * 127 a group: so many groups as 16 bits hold are added
  // up there.
  constexpr int kTogether = kMost == 15 ? 8 : kMost == 31 ? 4 : kMost == 63 ? 2 : 1;
  static_assert(kTogether * 2 * (kMost == 255 ? 128 : kMost) * 127 <= 32767);
  for (int g = 0; g < kCount;) {
    Integers pairs = _mm256_setzero_si256();
    for (const int end = g + (kTogether < kCount ? kTogether : kCount); g < end; ++g) {
      const Integers x = allFours(fourOf(q + 4 * g));
      // Signed ones take the sign to x.
      const Integers products = kMost == 255 ? _mm256_maddubs_epi16(_mm256_abs_epi8(weights[g]),
                                                                    _mm256_sign_epi8(x, weights[g]))
                                             : _mm256_maddubs_epi16(weights[g], x);
      pairs = _mm256_add_epi16(pairs, products);
    }
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  return sum;
}
#endif

// The byte `byte` of each lane, four times.
Integers ofEachLane(Integers fours, int byte) {
  const __m128i order =
      _mm_add_epi8(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12),
                   _mm_set1_epi8(static_cast<char>(byte)));
  return lookedUp(fours, inEachQuarter(order));
}

// Of eight integers of 32 bits.
std::int32_t sumOf(__m256i values) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

void quantise(const float* x, std::int64_t blocks, std::int8_t* q, QuantisedBlock* xBlocks) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  for (std::int64_t block = 0; block < blocks; ++block, x += kProductBlock, q += kProductBlock) {
    __m256 values[4];
    for (int i = 0; i < 4; ++i) values[i] = _mm256_loadu_ps(x + 8 * i);
    __m256 largest = _mm256_andnot_ps(sign, values[0]);
    for (int i = 1; i < 4; ++i) largest = _mm256_max_ps(largest, _mm256_andnot_ps(sign, values[i]));
    __m128 most = _mm_max_ps(_mm256_castps256_ps128(largest), _mm256_extractf128_ps(largest, 1));
    most = _mm_max_ps(most, _mm_movehl_ps(most, most));
    const float magnitude = _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
    const __m256 inverse = _mm256_set1_ps(magnitude == 0.0f ? 0.0f : 127.0f / magnitude);
    __m256i whole[4];
    for (int i = 0; i < 4; ++i) whole[i] = _mm256_cvtps_epi32(_mm256_mul_ps(values[i], inverse));
    // Packing interleaves the halves of 128 bits.
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]),
                                             _mm256_packs_epi32(whole[2], whole[3]));
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(q),
        _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    const std::int32_t first = sumOf(_mm256_add_epi32(whole[0], whole[1]));
    const std::int32_t second = sumOf(_mm256_add_epi32(whole[2], whole[3]));
    const float scale = magnitude / 127.0f;
    xBlocks[block] = {
        asHalf(scale), asHalf(scale * static_cast<float>(first + second)), {first, second}};
  }
}

// A tile of weights as the file has it: rows `rowBytes` apart.
struct PackedTile {
  const char* first;
  std::size_t rowBytes;

  const char* row(std::size_t i) const { return first + i * rowBytes; }
};

// Two bytes of each lane at the place `at` of its row, as f16.
Floats halvesAt(PackedTile tile, std::int64_t at) {
  alignas(64) std::int32_t each[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) {
    std::uint16_t half;
    std::memcpy(&half, tile.row(i) + at, sizeof half);
    each[i] = half;
  }
  return floatsOfLowHalves(loadBytes(each));
}

// Four bytes of each lane.
Integers foursAt(PackedTile tile, std::int64_t at) {
  alignas(64) std::int32_t each[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) each[i] = fourOf(tile.row(i) + at);
  return loadBytes(each);
}

// 16 bytes of each lane: groups [4][lanes][4]. Four rows of four times four bytes are transposed
// within each 128 bits.
void groupsAt(PackedTile tile, std::int64_t at, Integers* groups) {
  const Integers a = gathered(tile.row(0) + at, tile.rowBytes);
  const Integers b = gathered(tile.row(1) + at, tile.rowBytes);
  const Integers c = gathered(tile.row(2) + at, tile.rowBytes);
  const Integers d = gathered(tile.row(3) + at, tile.rowBytes);
  const Integers ab = lowPairs(a, b);
  const Integers cd = lowPairs(c, d);
  const Integers abHigh = highPairs(a, b);
  const Integers cdHigh = highPairs(c, d);
  groups[0] = lowQuads(ab, cd);
  groups[1] = highQuads(ab, cd);
  groups[2] = lowQuads(abHigh, cdHigh);
  groups[3] = highQuads(abHigh, cdHigh);
}

Integers lowHalves(Integers bytes) { return both(bytes, allBytes(15)); }

// 16 bytes of each lane from `at` on, whose low halves are the weights 0 to 15 of a block and whose
// high halves the others.
void halfBytesAt(PackedTile tile, std::int64_t at, Integers* groups) {
  Integers bytes[4];
  groupsAt(tile, at, bytes);
  for (int g = 0; g < 4; ++g) {
    groups[g] = lowHalves(bytes[g]);
    groups[4 + g] = lowHalves(down<4>(bytes[g]));
  }
}

#include "kernels/block_formats.inl"

// Of the weights after these: rows are short, so that processors do not see in time where one walks
// next.
template <class Format>
void prefetchNext(PackedTile tile, std::int64_t block) {
  constexpr std::int64_t kStep = kLanes * Format::kStripe * Format::kBytes / Format::kSpan;
  const char* from = tile.row(kLanes) + block / Format::kStripe * kStep;
  for (std::int64_t at = 0; at < kStep; at += 64) _mm_prefetch(from + at, _MM_HINT_T0);
}

template <class Format>
void unpack(const void* weights, std::size_t rowBytes, std::int64_t blocks, std::uint8_t* tile,
            float* tileScales) {
  const PackedTile packed{static_cast<const char*>(weights), rowBytes};
  for (std::int64_t block = 0; block < blocks; block += Format::kStripe) {
    Integers groups[Format::kStripe][kGroups];
    Floats scales[Format::kStripe][kBlockScales];
    prefetchNext<Format>(packed, block);
    Format::read(packed, block, groups, scales);
    for (int i = 0; i < Format::kStripe; ++i) {
      for (const Floats& scale : scales[i]) {
        store(tileScales, scale);
        tileScales += kLanes;
      }
      for (int g = 0; g < kGroups; ++g, tile += 4 * kLanes) storeBytes(tile, groups[i][g]);
    }
  }
}

template <class Format, int kRows>
void multiplyPackedRows(PackedTile tile, std::int64_t blocks, const std::int8_t* q,
                        const QuantisedBlock* xBlocks, float* y, std::int64_t yStride) {
  Floats sums[kRows];
  for (int row = 0; row < kRows; ++row) sums[row] = all(0.0f);
  for (std::int64_t block = 0; block < blocks; block += Format::kStripe) {
    Integers groups[Format::kStripe][kGroups];
    Floats scales[Format::kStripe][kBlockScales];
    prefetchNext<Format>(tile, block);
    Format::read(tile, block, groups, scales);
    for (int i = 0; i < Format::kStripe; ++i) {
      for (int row = 0; row < kRows; ++row) {
        const std::int64_t at = row * blocks + block + i;
        sums[row] =
            Format::add(sums[row], groups[i], scales[i], q + at * kProductBlock, xBlocks[at]);
      }
    }
  }
  for (int row = 0; row < kRows; ++row) store(y + row * yStride, sums[row]);
}

template <class Format>
void multiplyPacked(const void* weights, std::size_t rowBytes, std::int64_t blocks,
                    const std::int8_t* q, const QuantisedBlock* xBlocks, std::int64_t rows,
                    float* y, std::int64_t yStride) {
  const auto product = rows == 1   ? multiplyPackedRows<Format, 1>
                       : rows == 2 ? multiplyPackedRows<Format, 2>
                                   : multiplyPackedRows<Format, 3>;
  product({static_cast<const char*>(weights), rowBytes}, blocks, q, xBlocks, y, yStride);
}

template <class Format, int kRows>
void multiplyRows(const std::uint8_t* tile, const float* tileScales, std::int64_t blocks,
                  const std::int8_t* q, const QuantisedBlock* xBlocks, float* y,
                  std::int64_t yStride) {
  Floats sums[kRows];
  for (int row = 0; row < kRows; ++row) sums[row] = all(0.0f);
  for (std::int64_t block = 0; block < blocks; ++block) {
    Integers groups[kGroups];
    Floats scales[kBlockScales];
    for (int g = 0; g < kGroups; ++g)
      groups[g] = loadBytes(tile + (block * kGroups + g) * 4 * kLanes);
    for (int i = 0; i < kBlockScales; ++i)
      scales[i] = load(tileScales + (block * kBlockScales + i) * kLanes);
    for (int row = 0; row < kRows; ++row) {
      const std::int64_t at = row * blocks + block;
      sums[row] = Format::add(sums[row], groups, scales, q + at * kProductBlock, xBlocks[at]);
    }
  }
  for (int row = 0; row < kRows; ++row) store(y + row * yStride, sums[row]);
}

template <class Format>
void multiply(const std::uint8_t* tile, const float* tileScales, std::int64_t blocks,
              const std::int8_t* q, const QuantisedBlock* xBlocks, std::int64_t rows, float* y,
              std::int64_t yStride) {
  for (std::int64_t row = 0; row < rows;) {
    const std::int64_t left = rows - row;
    const auto product = left >= kRowsAtOnce ? multiplyRows<Format, kRowsAtOnce>
                         : left >= 4         ? multiplyRows<Format, 4>
                                             : multiplyRows<Format, 1>;
    product(tile, tileScales, blocks, q + row * blocks * kProductBlock, xBlocks + row * blocks,
            y + row * yStride, yStride);
    row += left >= kRowsAtOnce ? kRowsAtOnce : left >= 4 ? 4 : 1;
  }
}

#include "kernels/low_rank.inl"

template <class Format>
constexpr BlockProduct productOf() {
  return {unpack<Format>, multiply<Format>, multiplyPacked<Format>};
}

}  // namespace

extern const BlockProducts blockProducts;
const BlockProducts blockProducts = {
    ISOPRO_VARIANT_NAME,
    kLanes,
    quantise,
    {productOf<Q4_1>(), productOf<Q5_0>(), productOf<Q6_K>(), productOf<Q8_0>()},
    {widen, narrow, add}};

}  // namespace isopro::kernels::ISOPRO_VARIANT
