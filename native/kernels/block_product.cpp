// Compiled once for each instruction set (kernels.cmake); block_product_dispatch.cpp chooses.
#include "kernels/block_product.h"

#include <cstring>

#include <immintrin.h>

namespace isopro::kernels::ISOPRO_VARIANT {
namespace {

constexpr int kGroups = 8;               // of four weights in a block
constexpr std::size_t kBlockBytes = 20;  // Q4_1: d and m as f16, then 16 bytes: weights 0 to 15 in the low halves, 16 to 31 in the high

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

// ggml stores both scales of a block as f16: with them, only the order of the sums differs from its products.
float asHalf(float value) { return _cvtsh_ss(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT)); }

#if defined(__AVX512VNNI__)
Integers loadBytes(const void* from) { return _mm512_loadu_si512(from); }
void storeBytes(void* to, Integers values) { _mm512_storeu_si512(to, values); }
Floats load(const float* from) { return _mm512_loadu_ps(from); }
void store(float* to, Floats values) { _mm512_storeu_ps(to, values); }
Floats all(float value) { return _mm512_set1_ps(value); }
Floats multiplied(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
Integers lowHalves(Integers bytes) { return _mm512_and_si512(bytes, _mm512_set1_epi8(15)); }
Integers highHalves(Integers bytes) { return lowHalves(_mm512_srli_epi16(bytes, 4)); }
Integers lowPairs(Integers a, Integers b) { return _mm512_unpacklo_epi32(a, b); }
Integers highPairs(Integers a, Integers b) { return _mm512_unpackhi_epi32(a, b); }
Integers lowQuads(Integers a, Integers b) { return _mm512_unpacklo_epi64(a, b); }
Integers highQuads(Integers a, Integers b) { return _mm512_unpackhi_epi64(a, b); }

// Numbers of f16 in the lower and in the upper halves of 32 bits.
Floats floatsOfLowHalves(Integers pairs) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs)); }
Floats floatsOfHighHalves(Integers pairs) { return floatsOfLowHalves(_mm512_srli_epi32(pairs, 16)); }

// 16 bytes of every fourth row.
Integers gathered(const char* rows, std::size_t rowBytes) {
  const auto at = [&](std::size_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + 4 * i * rowBytes)); };
  Integers values = _mm512_castsi128_si512(at(0));
  values = _mm512_inserti32x4(values, at(1), 1);
  values = _mm512_inserti32x4(values, at(2), 2);
  return _mm512_inserti32x4(values, at(3), 3);
}

// Dot products of a block with each lane's weights.
Floats blockDot(const Integers* weights, const std::int8_t* q) {
  Integers sum = _mm512_setzero_si512();
  for (int g = 0; g < kGroups; ++g) sum = _mm512_dpbusd_epi32(sum, weights[g], _mm512_set1_epi32(fourOf(q + 4 * g)));
  return _mm512_cvtepi32_ps(sum);
}
#else
Integers loadBytes(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
void storeBytes(void* to, Integers values) { _mm256_storeu_si256(static_cast<__m256i*>(to), values); }
Floats load(const float* from) { return _mm256_loadu_ps(from); }
void store(float* to, Floats values) { _mm256_storeu_ps(to, values); }
Floats all(float value) { return _mm256_set1_ps(value); }
Floats multiplied(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
Integers lowHalves(Integers bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi8(15)); }
Integers highHalves(Integers bytes) { return lowHalves(_mm256_srli_epi16(bytes, 4)); }
Integers lowPairs(Integers a, Integers b) { return _mm256_unpacklo_epi32(a, b); }
Integers highPairs(Integers a, Integers b) { return _mm256_unpackhi_epi32(a, b); }
Integers lowQuads(Integers a, Integers b) { return _mm256_unpacklo_epi64(a, b); }
Integers highQuads(Integers a, Integers b) { return _mm256_unpackhi_epi64(a, b); }

Floats floatsOfHalves(Integers each) {
  const Integers packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(each, each), 0x08);
  return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}
Floats floatsOfLowHalves(Integers pairs) { return floatsOfHalves(_mm256_and_si256(pairs, _mm256_set1_epi32(0xffff))); }
Floats floatsOfHighHalves(Integers pairs) { return floatsOfHalves(_mm256_srli_epi32(pairs, 16)); }

Integers gathered(const char* rows, std::size_t rowBytes) {
  const auto at = [&](std::size_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + 4 * i * rowBytes)); };
  return _mm256_inserti128_si256(_mm256_castsi128_si256(at(0)), at(1), 1);
}

// A half of a lane is at most 8 * 2 * 15 * 127, which 16 bits hold.
Floats blockDot(const Integers* weights, const std::int8_t* q) {
  Integers sum = _mm256_setzero_si256();
  for (int g = 0; g < kGroups; ++g) {
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(weights[g], _mm256_set1_epi32(fourOf(q + 4 * g))));
  }
  return _mm256_cvtepi32_ps(_mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
}
#endif

void quantise(const float* x, std::int64_t blocks, std::int8_t* q, float* scales) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  for (std::int64_t block = 0; block < blocks; ++block, x += kProductBlock, q += kProductBlock, scales += 2) {
    __m256 values[4];
    for (int i = 0; i < 4; ++i) values[i] = _mm256_loadu_ps(x + 8 * i);
    __m256 largest = _mm256_andnot_ps(sign, values[0]);
    for (int i = 1; i < 4; ++i) largest = _mm256_max_ps(largest, _mm256_andnot_ps(sign, values[i]));
    __m128 most = _mm_max_ps(_mm256_castps256_ps128(largest), _mm256_extractf128_ps(largest, 1));
    most = _mm_max_ps(most, _mm_movehl_ps(most, most));
    const float magnitude = _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
    const __m256 inverse = _mm256_set1_ps(magnitude == 0.0f ? 0.0f : 127.0f / magnitude);
    __m256i whole[4];
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < 4; ++i) {
      whole[i] = _mm256_cvtps_epi32(_mm256_mul_ps(values[i], inverse));
      sum = _mm256_add_epi32(sum, whole[i]);
    }
    // Packing interleaves the halves of 128 bits.
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]), _mm256_packs_epi32(whole[2], whole[3]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
    const float scale = magnitude / 127.0f;
    scales[0] = asHalf(scale);
    scales[1] = asHalf(scale * static_cast<float>(_mm_cvtsi128_si32(four)));
  }
}

// d and m of one block of each lane's weights, which lie `rowBytes` apart.
void blockScales(const char* from, std::size_t rowBytes, Floats& d, Floats& m) {
  alignas(64) std::int32_t pairs[kLanes];  // m above d
  for (std::size_t i = 0; i < kLanes; ++i) pairs[i] = fourOf(from + i * rowBytes);
  d = floatsOfLowHalves(loadBytes(pairs));
  m = floatsOfHighHalves(loadBytes(pairs));
}

// The weights of one block: groups [8][lanes][4].
void blockWeights(const char* from, std::size_t rowBytes, Integers* groups) {
  // Four rows of four times four weights, transposed within each 128 bits.
  const char* bytes = from + 4;
  const Integers a = gathered(bytes, rowBytes);
  const Integers b = gathered(bytes + rowBytes, rowBytes);
  const Integers c = gathered(bytes + 2 * rowBytes, rowBytes);
  const Integers d = gathered(bytes + 3 * rowBytes, rowBytes);
  const Integers ab = lowPairs(a, b);
  const Integers cd = lowPairs(c, d);
  const Integers abHigh = highPairs(a, b);
  const Integers cdHigh = highPairs(c, d);
  const Integers packed[4] = {lowQuads(ab, cd), highQuads(ab, cd), lowQuads(abHigh, cdHigh), highQuads(abHigh, cdHigh)};
  for (int g = 0; g < 4; ++g) {
    groups[g] = lowHalves(packed[g]);
    groups[4 + g] = highHalves(packed[g]);
  }
}

// Of the weights after these: rows are short, so that processors do not see in time where one walks next.
void prefetchNext(const char* tile, std::size_t rowBytes, std::int64_t block) {
  constexpr std::int64_t kStep = kLanes * kBlockBytes;
  const char* from = tile + kLanes * rowBytes + block * kStep;
  for (std::int64_t at = 0; at < kStep; at += 64) _mm_prefetch(from + at, _MM_HINT_T0);
}

// The order of every sum: block by block, two fused multiply-adds each.
Floats added(Floats sum, const Integers* weights, Floats d, Floats m, const std::int8_t* q, const float* scales) {
  sum = fused(multiplied(d, all(scales[0])), blockDot(weights, q), sum);
  return fused(m, all(scales[1]), sum);
}

void unpack(const void* weights, std::size_t rowBytes, std::int64_t blocks, std::uint8_t* tile, float* tileScales) {
  const char* from = static_cast<const char*>(weights);
  for (std::int64_t block = 0; block < blocks; ++block, from += kBlockBytes, tileScales += 2 * kLanes) {
    Integers groups[kGroups];
    Floats d, m;
    prefetchNext(static_cast<const char*>(weights), rowBytes, block);
    blockScales(from, rowBytes, d, m);
    blockWeights(from, rowBytes, groups);
    store(tileScales, d);
    store(tileScales + kLanes, m);
    for (int g = 0; g < kGroups; ++g, tile += 4 * kLanes) storeBytes(tile, groups[g]);
  }
}

template <int kRows>
void multiplyPackedRows(const char* tile, std::size_t rowBytes, std::int64_t blocks, const std::int8_t* q, const float* scales, float* y,
                        std::int64_t yStride) {
  const char* from = tile;
  Floats sums[kRows];
  for (int row = 0; row < kRows; ++row) sums[row] = all(0.0f);
  for (std::int64_t block = 0; block < blocks; ++block, from += kBlockBytes) {
    Integers weights[kGroups];
    Floats d, m;
    prefetchNext(tile, rowBytes, block);
    blockScales(from, rowBytes, d, m);
    blockWeights(from, rowBytes, weights);
    for (int row = 0; row < kRows; ++row) {
      const std::int64_t at = row * blocks + block;
      sums[row] = added(sums[row], weights, d, m, q + at * kProductBlock, scales + 2 * at);
    }
  }
  for (int row = 0; row < kRows; ++row) store(y + row * yStride, sums[row]);
}

void multiplyPacked(const void* weights, std::size_t rowBytes, std::int64_t blocks, const std::int8_t* q, const float* scales,
                    std::int64_t rows, float* y, std::int64_t yStride) {
  const auto product = rows == 1 ? multiplyPackedRows<1> : rows == 2 ? multiplyPackedRows<2> : multiplyPackedRows<3>;
  product(static_cast<const char*>(weights), rowBytes, blocks, q, scales, y, yStride);
}

template <int kRows>
void multiplyRows(const std::uint8_t* tile, const float* tileScales, std::int64_t blocks, const std::int8_t* q, const float* scales,
                  float* y, std::int64_t yStride) {
  Floats sums[kRows];
  for (int row = 0; row < kRows; ++row) sums[row] = all(0.0f);
  for (std::int64_t block = 0; block < blocks; ++block) {
    Integers weights[kGroups];
    for (int g = 0; g < kGroups; ++g) weights[g] = loadBytes(tile + (block * kGroups + g) * 4 * kLanes);
    const Floats d = load(tileScales + block * 2 * kLanes);
    const Floats m = load(tileScales + block * 2 * kLanes + kLanes);
    for (int row = 0; row < kRows; ++row) {
      const std::int64_t at = row * blocks + block;
      sums[row] = added(sums[row], weights, d, m, q + at * kProductBlock, scales + 2 * at);
    }
  }
  for (int row = 0; row < kRows; ++row) store(y + row * yStride, sums[row]);
}

void multiply(const std::uint8_t* tile, const float* tileScales, std::int64_t blocks, const std::int8_t* q, const float* scales,
              std::int64_t rows, float* y, std::int64_t yStride) {
  for (std::int64_t row = 0; row < rows;) {
    const std::int64_t left = rows - row;
    const auto product = left >= kRowsAtOnce ? multiplyRows<kRowsAtOnce> : left >= 4 ? multiplyRows<4> : multiplyRows<1>;
    product(tile, tileScales, blocks, q + row * blocks * kProductBlock, scales + row * blocks * 2, y + row * yStride, yStride);
    row += left >= kRowsAtOnce ? kRowsAtOnce : left >= 4 ? 4 : 1;
  }
}

}  // namespace

extern const BlockProduct blockProduct;
const BlockProduct blockProduct = {ISOPRO_VARIANT_NAME, kLanes, quantise, unpack, multiply, multiplyPacked};

}  // namespace isopro::kernels::ISOPRO_VARIANT
