// Compiled once for each instruction set (kernels.cmake); block_product_dispatch.cpp chooses. Of
// the standard library nothing that a compiler may emit for all to use (variant.cpp).
#include "kernels/attention_rows.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

namespace isopro::kernels::ISOPRO_VARIANT {
namespace {

#include "kernels/lanes.inl"

typedef float Four __attribute__((vector_size(4 * sizeof(float))));

#include "kernels/exponential.inl"

// Sums of this many lanes stay in registers.
#if defined(__AVX512F__)
constexpr int kMostSums = 16 * kLanes;

inline Vector halvesAt(const std::uint16_t* p) {
  return reinterpret_cast<Vector>(
      _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}
inline Vector larger(Vector a, Vector b) {
  return reinterpret_cast<Vector>(
      _mm512_max_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
}
// The lanes 8 apart, then those 4 apart.
inline Four quarters(const Vector (&v)[kRegisters]) {
  const auto all = reinterpret_cast<__m512>(v[0]);
  const __m256 eight =
      _mm256_add_ps(_mm512_castps512_ps256(all),
                    _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(all), 1)));
  return reinterpret_cast<Four>(
      _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)));
}
#elif defined(__AVX2__)
constexpr int kMostSums = 6 * kLanes;

inline Vector halvesAt(const std::uint16_t* p) {
  return reinterpret_cast<Vector>(
      _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline Vector larger(Vector a, Vector b) {
  return reinterpret_cast<Vector>(
      _mm256_max_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
}
inline Four quarters(const Vector (&v)[kRegisters]) {
  const auto eight = reinterpret_cast<__m256>(v[0] + v[kRegisters - 1]);
  return reinterpret_cast<Four>(
      _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)));
}
#else
constexpr int kMostSums = 6 * kLanes;

inline Vector halvesAt(const std::uint16_t* p) {
  return reinterpret_cast<Vector>(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))));
}
inline Vector larger(Vector a, Vector b) {
  return reinterpret_cast<Vector>(
      vmaxq_f32(reinterpret_cast<float32x4_t>(a), reinterpret_cast<float32x4_t>(b)));
}
inline Four quarters(const Vector (&v)[kRegisters]) { return (v[0] + v[2]) + (v[1] + v[3]); }
#endif

#if defined(__aarch64__)
inline void transpose(Four& a, Four& b, Four& c, Four& d) {
  const Four ac[2] = {__builtin_shufflevector(a, c, 0, 4, 1, 5),
                      __builtin_shufflevector(a, c, 2, 6, 3, 7)};
  const Four bd[2] = {__builtin_shufflevector(b, d, 0, 4, 1, 5),
                      __builtin_shufflevector(b, d, 2, 6, 3, 7)};
  a = __builtin_shufflevector(ac[0], bd[0], 0, 4, 1, 5);
  b = __builtin_shufflevector(ac[0], bd[0], 2, 6, 3, 7);
  c = __builtin_shufflevector(ac[1], bd[1], 0, 4, 1, 5);
  d = __builtin_shufflevector(ac[1], bd[1], 2, 6, 3, 7);
}
#else
inline void transpose(Four& a, Four& b, Four& c, Four& d) { _MM_TRANSPOSE4_PS(a, b, c, d); }
#endif

// The order of every sum of lanes: those of quarters(), then those 2 apart, then the last two.
inline Four sumsOf(Four a, Four b, Four c, Four d) {
  transpose(a, b, c, d);
  return (a + c) + (b + d);
}
inline float sum(const Vector (&v)[kRegisters]) {
  const Four four = quarters(v);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
inline float largest(Vector v) {
  float most = v[0];
  for (int i = 1; i < kWidth; ++i) most = v[i] > most ? v[i] : most;
  return most;
}

constexpr int kHeadsAtOnce = 4;

// scores [kHeads, stride] of four cells at a time.
template <int kHeads>
void scoreCells(const AttentionHeads& heads, const std::int32_t* cells, std::int64_t count,
                float* scores, std::int64_t stride) {
  for (std::int64_t at = 0; at < count; at += 4) {
    Four four[kHeads][4];
    for (int cell = 0; cell < 4; ++cell) {
      const std::uint16_t* k = heads.k + cells[at + cell] * heads.kStride;
      Vector sums[kHeads][kRegisters];
      for (int head = 0; head < kHeads; ++head) {
        for (int j = 0; j < kRegisters; ++j) sums[head][j] = Vector{};
      }
      for (std::int64_t i = 0; i < heads.keyWidth; i += kLanes) {
        for (int j = 0; j < kRegisters; ++j) {
          const Vector keys = halvesAt(k + i + j * kWidth);
          for (int head = 0; head < kHeads; ++head) {
            sums[head][j] =
                fused(load(heads.q + head * heads.qStride + i + j * kWidth), keys, sums[head][j]);
          }
        }
      }
      for (int head = 0; head < kHeads; ++head) four[head][cell] = quarters(sums[head]);
    }
    for (int head = 0; head < kHeads; ++head) {
      const Four found =
          sumsOf(four[head][0], four[head][1], four[head][2], four[head][3]) * heads.scale;
      __builtin_memcpy(scores + head * stride + at, &found, sizeof found);
    }
  }
}

// exp(score - the largest); what is beyond `count` becomes 0. Returns their sum.
float weighCells(float* scores, std::int64_t count, std::int64_t padded) {
  for (std::int64_t i = count; i < padded; ++i) scores[i] = scores[0];
  Vector most = load(scores);
  for (std::int64_t i = kWidth; i < padded; i += kWidth) most = larger(most, load(scores + i));
  const Vector shift = broadcast(largest(most));
  for (std::int64_t i = 0; i < padded; i += kWidth)
    store(scores + i, exponential(load(scores + i) - shift));
  for (std::int64_t i = count; i < padded; ++i) scores[i] = 0.0f;
  Vector total[kRegisters]{};
  for (std::int64_t i = 0; i < padded; i += kLanes) {
    for (int j = 0; j < kRegisters; ++j) total[j] += load(scores + i + j * kWidth);
  }
  return sum(total);
}

// y of kHeads heads, kParts times kLanes values of each, divided by their sums.
template <int kHeads, int kParts>
void addValues(const AttentionHeads& heads, std::int64_t from, const std::int32_t* cells,
               std::int64_t count, const float* weights, std::int64_t stride, const float* totals) {
  constexpr int kVectors = kParts * kRegisters;
  Vector sums[kHeads][kVectors];
  for (int head = 0; head < kHeads; ++head) {
    for (int i = 0; i < kVectors; ++i) sums[head][i] = Vector{};
  }
  for (std::int64_t at = 0; at < count; ++at) {
    const std::uint16_t* v = heads.v + cells[at] * heads.vStride + from;
    Vector weight[kHeads];
    for (int head = 0; head < kHeads; ++head) weight[head] = broadcast(weights[head * stride + at]);
    for (int i = 0; i < kVectors; ++i) {
      const Vector values = halvesAt(v + i * kWidth);
      for (int head = 0; head < kHeads; ++head)
        sums[head][i] = fused(weight[head], values, sums[head][i]);
    }
  }
  for (int head = 0; head < kHeads; ++head) {
    for (int i = 0; i < kVectors; ++i) {
      store(heads.y + head * heads.yStride + from + i * kWidth,
            sums[head][i] * (1.0f / totals[head]));
    }
  }
}

template <int kHeads>
void attendHeads(const AttentionHeads& heads, const std::int32_t* cells, std::int64_t count,
                 std::int64_t padded, float* scores) {
  float totals[kHeads];
  scoreCells<kHeads>(heads, cells, count, scores, padded);
  for (int head = 0; head < kHeads; ++head)
    totals[head] = weighCells(scores + head * padded, count, padded);
  constexpr int kParts = kMostSums / kLanes / kHeads < 4 ? kMostSums / kLanes / kHeads : 4;
  std::int64_t from = 0;
  for (; from + kParts * kLanes <= heads.valueWidth; from += kParts * kLanes) {
    addValues<kHeads, kParts>(heads, from, cells, count, scores, padded, totals);
  }
  for (; from < heads.valueWidth; from += kLanes)
    addValues<kHeads, 1>(heads, from, cells, count, scores, padded, totals);
}

void attend(const AttentionHeads& all, std::int32_t* cells, std::int64_t count, float* scores) {
  const std::int64_t padded = (count + kScorePart - 1) / kScorePart * kScorePart;
  for (std::int64_t i = count; i < padded; ++i) cells[i] = cells[count - 1];
  AttentionHeads heads = all;
  for (std::int64_t left = all.heads; left > 0;) {
    const std::int64_t some = left < kHeadsAtOnce ? left : kHeadsAtOnce;
    if (some == 4) attendHeads<4>(heads, cells, count, padded, scores);
    if (some == 3) attendHeads<3>(heads, cells, count, padded, scores);
    if (some == 2) attendHeads<2>(heads, cells, count, padded, scores);
    if (some == 1) attendHeads<1>(heads, cells, count, padded, scores);
    heads.q += some * heads.qStride;
    heads.y += some * heads.yStride;
    left -= some;
  }
}

constexpr std::uint16_t kMinusInfinity = 0xfc00;

std::int64_t visible(const std::uint16_t* mask, std::int64_t count, std::int32_t* found) {
  std::int64_t seen = 0;
  std::int64_t at = 0;
#if defined(__AVX2__)
  const __m256i hidden = _mm256_set1_epi16(static_cast<short>(kMinusInfinity));
  for (; at + 16 <= count; at += 16) {
    const __m256i same =
        _mm256_cmpeq_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(mask + at)), hidden);
    std::uint32_t bits = ~static_cast<std::uint32_t>(_mm256_movemask_epi8(same)) &
                         0x55555555u;  // a bit of each pair
    for (; bits != 0; bits &= bits - 1)
      found[seen++] = static_cast<std::int32_t>(at + __builtin_ctz(bits) / 2);
  }
#endif
  for (; at < count; ++at) {
    if (mask[at] != kMinusInfinity) found[seen++] = static_cast<std::int32_t>(at);
  }
  return seen;
}

}  // namespace

extern const AttentionRows attentionRows;
const AttentionRows attentionRows = {ISOPRO_VARIANT_NAME, visible, attend};

}  // namespace isopro::kernels::ISOPRO_VARIANT
