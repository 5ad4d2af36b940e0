// Compiled once for each instruction set (kernels.cmake); block_product_dispatch.cpp chooses. Of
// the standard library nothing that a compiler may emit for all to use (variant.cpp).
#include "kernels/row_operations.h"

#include <immintrin.h>

namespace isopro::kernels::ISOPRO_VARIANT {
namespace {

#include "kernels/lanes.inl"

static_assert(kTurnPart % kWidth == 0, "a vector of a table is within its room");

// A register of doubles, and as many floats.
constexpr int kWideWidth = kWidth / 2;
constexpr int kWideRegisters = kLanes / kWideWidth;
typedef double Wide __attribute__((vector_size(kWideWidth * sizeof(double))));
typedef std::int64_t WideInt __attribute__((vector_size(kWideWidth * sizeof(double))));
typedef float Half __attribute__((vector_size(kWideWidth * sizeof(float))));

// The first `count` lanes, at most kWidth; those beyond are 0, and not written.
#if defined(__AVX512F__)
inline __mmask16 lanesBelow(std::int64_t count) {
  return static_cast<__mmask16>((1u << count) - 1u);
}
inline Vector loadPart(const float* p, std::int64_t count) {
  return reinterpret_cast<Vector>(_mm512_maskz_loadu_ps(lanesBelow(count), p));
}
inline void storePart(float* p, Vector v, std::int64_t count) {
  _mm512_mask_storeu_ps(p, lanesBelow(count), reinterpret_cast<__m512>(v));
}
inline Vector within(Vector v, float least, float most) {
  const __m512 above = _mm512_max_ps(_mm512_set1_ps(least), reinterpret_cast<__m512>(v));
  return reinterpret_cast<Vector>(_mm512_min_ps(_mm512_set1_ps(most), above));
}
inline Vector swapNeighbours(Vector v) {
  return reinterpret_cast<Vector>(_mm512_permute_ps(reinterpret_cast<__m512>(v), 0xb1));
}
inline Wide fusedWide(Wide a, Wide b, Wide c) {
  return reinterpret_cast<Wide>(_mm512_fmadd_pd(
      reinterpret_cast<__m512d>(a), reinterpret_cast<__m512d>(b), reinterpret_cast<__m512d>(c)));
}
#else
inline __m256i lanesBelow(std::int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vector loadPart(const float* p, std::int64_t count) {
  return reinterpret_cast<Vector>(_mm256_maskload_ps(p, lanesBelow(count)));
}
inline void storePart(float* p, Vector v, std::int64_t count) {
  _mm256_maskstore_ps(p, lanesBelow(count), reinterpret_cast<__m256>(v));
}
inline Vector within(Vector v, float least, float most) {
  const __m256 above = _mm256_max_ps(_mm256_set1_ps(least), reinterpret_cast<__m256>(v));
  return reinterpret_cast<Vector>(_mm256_min_ps(_mm256_set1_ps(most), above));
}
inline Vector swapNeighbours(Vector v) {
  return reinterpret_cast<Vector>(_mm256_permute_ps(reinterpret_cast<__m256>(v), 0xb1));
}
inline Wide fusedWide(Wide a, Wide b, Wide c) {
  return reinterpret_cast<Wide>(_mm256_fmadd_pd(
      reinterpret_cast<__m256d>(a), reinterpret_cast<__m256d>(b), reinterpret_cast<__m256d>(c)));
}
#endif

// f(i, read, write) for the vectors of `count` numbers: `read` and `write` take pointers to lane i.
template <typename F>
inline void forVectors(std::int64_t count, F f) {
  std::int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth)
    f(
        i, [](const float* p) { return load(p); }, [](float* p, Vector v) { store(p, v); });
  if (i == count) return;
  const std::int64_t rest = count - i;
  f(
      i, [rest](const float* p) { return loadPart(p, rest); },
      [rest](float* p, Vector v) { storePart(p, v, rest); });
}

// exp of each, to 0.6 units in the last place: x = n ln 2 + r, and exp(r) by its series to r^7.
// Clamped to where 2^n is a normal number. Of NaN it is any number: what it weighs is then NaN
// itself. Several at a time, step by step: of one chain of dependent steps after another a
// processor has too few in view.
template <int N>
inline void exponentials(Vector (&x)[N]) {
  Vector p[N], rounded[N];
  const auto each = [](auto step) {
    for (int i = 0; i < N; ++i) step(i);
  };
  each([&](int i) { x[i] = within(x[i], -87.0f, 88.0f); });
  // Adding 1.5 * 2^23 rounds to integer, which the sum's lowest bits then are.
  each([&](int i) {
    rounded[i] = fused(x[i], broadcast(1.44269504088896341f), broadcast(12582912.0f));
  });
  // ln 2 in two parts (Cody and Waite 1980).
  each([&](int i) {
    const Vector n = rounded[i] - 12582912.0f;
    x[i] = fused(n, broadcast(2.12194440e-4f), fused(n, broadcast(-0.693359375f), x[i]));
  });
  each([&](int i) { p[i] = fused(broadcast(1.0f / 5040), x[i], broadcast(1.0f / 720)); });
  each([&](int i) { p[i] = fused(p[i], x[i], broadcast(1.0f / 120)); });
  each([&](int i) { p[i] = fused(p[i], x[i], broadcast(1.0f / 24)); });
  each([&](int i) { p[i] = fused(p[i], x[i], broadcast(1.0f / 6)); });
  each([&](int i) { p[i] = fused(p[i], x[i], broadcast(0.5f)); });
  each([&](int i) { p[i] = fused(p[i], x[i] * x[i], x[i]) + 1.0f; });
  // Times 2^n.
  each([&](int i) {
    x[i] = reinterpret_cast<Vector>(reinterpret_cast<IntVector>(p[i]) +
                                    (reinterpret_cast<IntVector>(rounded[i]) << 23));
  });
}

// y = x / (1 + exp(argument(x))) up.
template <typename Argument>
inline void gated(const float* gate, const float* up, float* y, std::int64_t count,
                  Argument argument) {
  // As many as there are registers for.
  constexpr int kTogether = 4;
  std::int64_t i = 0;
  for (; i + kTogether * kWidth <= count; i += kTogether * kWidth) {
    Vector power[kTogether];
    for (int j = 0; j < kTogether; ++j) power[j] = argument(load(gate + i + j * kWidth));
    exponentials(power);
    for (int j = 0; j < kTogether; ++j) {
      const std::int64_t at = i + j * kWidth;
      store(y + at, load(gate + at) / (1.0f + power[j]) * load(up + at));
    }
  }
  forVectors(count - i, [&](std::int64_t at, auto read, auto write) {
    const Vector x = read(gate + i + at);
    Vector power[] = {argument(x)};
    exponentials(power);
    write(y + i + at, x / (1.0f + power[0]) * read(up + i + at));
  });
}

void normalise(const float* x, const float* weights, float* y, std::int64_t width, float epsilon) {
  Wide sums[kWideRegisters]{};
  // A product of two f32 is exact in double.
  const auto addSquares = [&](const float* row) {
    for (int j = 0; j < kWideRegisters; ++j) {
      Half part;
      __builtin_memcpy(&part, row + j * kWideWidth, sizeof part);
      const Wide wide = __builtin_convertvector(part, Wide);
      sums[j] = fusedWide(wide, wide, sums[j]);
    }
  };
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) addSquares(x + i);
  if (i < width) {
    float rest[kLanes]{};
    __builtin_memcpy(rest, x + i, static_cast<std::size_t>(width - i) * sizeof(float));
    addSquares(rest);
  }
  double each[kLanes];
  __builtin_memcpy(each, sums, sizeof each);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) each[lane] += each[lane + half];
  }
  const double mean = each[0] / static_cast<double>(width);
  const auto scale = static_cast<float>(1.0 / __builtin_sqrt(mean + static_cast<double>(epsilon)));
  if (weights == nullptr) {
    forVectors(width, [&](std::int64_t at, auto read, auto write) {
      write(y + at, read(x + at) * scale);
    });
  } else {
    forVectors(width, [&](std::int64_t at, auto read, auto write) {
      write(y + at, read(x + at) * scale * read(weights + at));
    });
  }
}

void swiglu(const float* gate, const float* up, float* y, std::int64_t count) {
  gated(gate, up, y, count, [](Vector x) { return -x; });
}

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
void geglu(const float* gate, const float* up, float* y, std::int64_t count) {
  constexpr float kTwice = 1.59576912160573071f;
  gated(gate, up, y, count, [](Vector x) {
    return -(x * kTwice * fused(x * x, broadcast(0.044715f), broadcast(1.0f)));
  });
}

inline Wide wide(double x) { return x - Wide{}; }

inline Wide selectWide(WideInt mask, Wide yes, Wide no) {
  return reinterpret_cast<Wide>((mask & reinterpret_cast<WideInt>(yes)) |
                                (~mask & reinterpret_cast<WideInt>(no)));
}

void turns(std::int32_t position, const double* frequencies, std::int64_t pairs, float magnitude,
           float* cosine, float* sine) {
  // Adding it rounds to integer, which the sum's lowest bits then are.
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  for (std::int64_t i = 0; i < pairs; i += kWideWidth) {
    Wide angle;
    __builtin_memcpy(&angle, frequencies + i, sizeof angle);
    angle *= static_cast<double>(position);
    // angle = n pi / 2 + r, |r| <= pi / 4; pi / 2 in two parts.
    const Wide rounded = angle * 0.63661977236758134 + kRound;
    const Wide n = rounded - kRound;
    const Wide r =
        fusedWide(n, wide(-6.123233995736766e-17), fusedWide(n, wide(-1.5707963267948966), angle));
    const Wide z = r * r;
    // Taylor series: the next terms are below 2e-12.
    Wide s = fusedWide(wide(-1.0 / 39916800), z, wide(1.0 / 362880));
    s = fusedWide(s, z, wide(-1.0 / 5040));
    s = fusedWide(s, z, wide(1.0 / 120));
    s = fusedWide(s, z, wide(-1.0 / 6));
    s = fusedWide(s, z * r, r);
    Wide c = fusedWide(wide(1.0 / 479001600), z, wide(-1.0 / 3628800));
    c = fusedWide(c, z, wide(1.0 / 40320));
    c = fusedWide(c, z, wide(-1.0 / 720));
    c = fusedWide(c, z, wide(1.0 / 24));
    c = fusedWide(c, z, wide(-0.5));
    c = fusedWide(c, z, wide(1.0));
    const WideInt quadrant = reinterpret_cast<WideInt>(rounded) & 3;
    const WideInt odd = (quadrant & 1) == 1;
    const WideInt sineFalls = (quadrant & 2) == 2;
    const WideInt cosineFalls = ((quadrant + 1) & 2) == 2;
    const Wide turnedSine = selectWide(odd, c, s), turnedCosine = selectWide(odd, s, c);
    const auto put = [&](float* to, Wide value) {
      const Half rounding = __builtin_convertvector(value * static_cast<double>(magnitude), Half);
      __builtin_memcpy(to + i, &rounding, sizeof rounding);
    };
    put(sine, selectWide(sineFalls, -turnedSine, turnedSine));
    put(cosine, selectWide(cosineFalls, -turnedCosine, turnedCosine));
  }
}

void rotateHalves(const float* x, const float* cosine, const float* sine, std::int64_t pairs,
                  float* y) {
  forVectors(pairs, [&](std::int64_t i, auto read, auto write) {
    const Vector c = load(cosine + i), s = load(sine + i);
    const Vector first = read(x + i), second = read(x + pairs + i);
    write(y + i, fused(first, c, -(second * s)));
    write(y + pairs + i, fused(second, c, first * s));
  });
}

void rotateNeighbours(const float* x, const float* cosine, const float* sine, std::int64_t pairs,
                      float* y) {
  for (std::int64_t begin = 0; begin < pairs; begin += kWidth) {
    // Of each pair the same cosine twice, and the sine with either sign.
    float cosines[2 * kWidth], sines[2 * kWidth];
    for (int i = 0; i < kWidth; ++i) {
      cosines[2 * i] = cosines[2 * i + 1] = cosine[begin + i];
      sines[2 * i] = -sine[begin + i];
      sines[2 * i + 1] = sine[begin + i];
    }
    const std::int64_t left = 2 * (pairs - begin);
    forVectors(left < 2 * kWidth ? left : 2 * kWidth, [&](std::int64_t i, auto read, auto write) {
      const Vector v = read(x + 2 * begin + i);
      write(y + 2 * begin + i, fused(v, load(cosines + i), swapNeighbours(v) * load(sines + i)));
    });
  }
}

}  // namespace

extern const RowOperations rowOperations;
const RowOperations rowOperations = {
    ISOPRO_VARIANT_NAME, normalise, swiglu, geglu, turns, rotateHalves, rotateNeighbours,
};

}  // namespace isopro::kernels::ISOPRO_VARIANT
