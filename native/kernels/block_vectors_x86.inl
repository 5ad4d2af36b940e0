// The vectors of block_product.cpp on x86: of AVX-512 VNNI or AVX2.
#if defined(__AVX512VNNI__)
constexpr int kLanes = 16;
constexpr int kTilesAtOnce = 2;
#else
constexpr int kLanes = 8;
constexpr int kTilesAtOnce = 1;
#endif

// __m512i and __m512, or __m256i and __m256.
typedef long long Integers __attribute__((vector_size(4 * kLanes), may_alias));
typedef float Floats __attribute__((vector_size(4 * kLanes), may_alias));

// ggml stores both scales of a block as f16: with them, only the order of the sums differs from its
// products.
float asHalf(float value) { return _cvtsh_ss(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT)); }

#if defined(__AVX512VNNI__)
Integers loadBytes(const void* from) { return _mm512_loadu_si512(from); }
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
Integers inEachQuarter(const std::int8_t* bytes) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}
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

// Adds the dot products of `kCount` groups of weights [group][tile], which are at most `kMost`,
// with rows of x to sums[row][tile].
template <int kMost, int kCount, int kRows, int kTiles>
void addDots(Integers (*sums)[kTiles], const Integers* weights, const std::int8_t* q,
             std::int64_t qStride) {
#pragma GCC unroll 8
  for (int g = 0; g < kCount; ++g) {
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
      const Integers x = allFours(fourOf(q + row * qStride + 4 * g));
#pragma GCC unroll 2
      for (int t = 0; t < kTiles; ++t)
        sums[row][t] = _mm512_dpbusd_epi32(sums[row][t], weights[g * kTiles + t], x);
    }
  }
}
#else
Integers loadBytes(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
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
Integers inEachQuarter(const std::int8_t* bytes) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}
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

template <int kMost, int kCount, int kRows, int kTiles>
void addDots(Integers (*sums)[kTiles], const Integers* weights, const std::int8_t* q,
             std::int64_t qStride) {
  // A half of a lane is at most 2 * kMost * 127 a group: so many groups as 16 bits hold are added
  // up there.
  constexpr int kFit = kMost == 15 ? 8 : kMost == 31 ? 4 : kMost == 63 ? 2 : 1;
  constexpr int kTogether = kFit < kCount ? kFit : kCount;
  static_assert(kTogether * 2 * (kMost == 255 ? 128 : kMost) * 127 <= 32767);
#pragma GCC unroll 8
  for (int from = 0; from < kCount; from += kTogether) {
    Integers pairs[kRows][kTiles];
#pragma GCC unroll 8
    for (int i = 0; i < kTogether; ++i) {
      const int g = from + i;
#pragma GCC unroll 4
      for (int row = 0; row < kRows; ++row) {
        const Integers x = allFours(fourOf(q + row * qStride + 4 * g));
#pragma GCC unroll 2
        for (int t = 0; t < kTiles; ++t) {
          const Integers w = weights[g * kTiles + t];
          // Signed ones take the sign to x.
          const Integers products =
              kMost == 255 ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                           : _mm256_maddubs_epi16(w, x);
          pairs[row][t] = i == 0 ? products : _mm256_add_epi16(pairs[row][t], products);
        }
      }
    }
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
      for (int t = 0; t < kTiles; ++t)
        sums[row][t] =
            _mm256_add_epi32(sums[row][t], _mm256_madd_epi16(pairs[row][t], _mm256_set1_epi16(1)));
    }
  }
}
#endif

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
