// Compiled several times with different instruction sets, each time into its own namespace
// (kernels.cmake). It uses no template or inline function of the standard library: the linker keeps
// one copy of those, and must not keep one compiled for a processor that the user does not have.
#include "kernels/variant.h"

#include <ggml.h>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifndef ISOPRO_VARIANT
#error "compile through kernels.cmake"
#endif

namespace isopro::kernels::ISOPRO_VARIANT {
namespace {

// Lanes of a vector; rows and vectors of the register block of the product (rows * vectors
// accumulators, `vectors` operands and one broadcast must fit the registers: 32 for AVX-512 and
// NEON, 16 otherwise).
#if defined(__AVX512F__)
constexpr int kLanes = 16, kBlockRows = 12, kBlockVectors = 2;
#elif defined(__AVX2__)
constexpr int kLanes = 8, kBlockRows = 6, kBlockVectors = 2;
#elif defined(__aarch64__)
constexpr int kLanes = 4, kBlockRows = 6, kBlockVectors = 4;
#else
constexpr int kLanes = 4, kBlockRows = 6, kBlockVectors = 2;
#endif

typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
typedef std::int32_t IntVector __attribute__((vector_size(kLanes * sizeof(float))));

inline Vector load(const float* p) {
  Vector v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

inline void store(float* p, Vector v) { __builtin_memcpy(p, &v, sizeof v); }

inline Vector broadcast(float x) { return x - Vector{}; }

inline Vector select(IntVector mask, Vector yes, Vector no) {
  return reinterpret_cast<Vector>((mask & reinterpret_cast<IntVector>(yes)) |
                                  (~mask & reinterpret_cast<IntVector>(no)));
}

inline float sum(Vector v) {
  float total = 0;
  for (int i = 0; i < kLanes; ++i) total += v[i];
  return total;
}

// The first `count` lanes from memory, the rest zero; and back.
inline Vector loadPart(const float* p, std::int64_t count) {
  Vector v{};
  __builtin_memcpy(&v, p, static_cast<std::size_t>(count) * sizeof(float));
  return v;
}
inline void storePart(float* p, Vector v, std::int64_t count) {
  __builtin_memcpy(p, &v, static_cast<std::size_t>(count) * sizeof(float));
}

// Applies a function of vectors to whole rows: f(i, width) sees lanes i .. i + width.
template <typename F>
inline void forVectors(std::int64_t count, F f) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) f(i, std::int64_t{kLanes});
  if (i < count) f(i, count - i);
}

inline Vector get(const float* p, std::int64_t width) {
  return width == kLanes ? load(p) : loadPart(p, width);
}
inline void put(float* p, Vector v, std::int64_t width) {
  width == kLanes ? store(p, v) : storePart(p, v, width);
}

#include "kernels/dequantise.inl"
#include "kernels/exponential.inl"
#include "kernels/rows.inl"
#include "kernels/tile_product.inl"

}  // namespace

extern const Variant variant;
const Variant variant = {
    ISOPRO_VARIANT_NAME,
    kPanelWidth,
    multiply,
    pack,
    unpack,
    dequantise,
    normForward,
    normBackward,
    swigluForward,
    swigluBackward,
    gegluForward,
    gegluBackward,
    softCapForward,
    softCapBackward,
    exponentials,
    largest,
    softmaxForward,
    softmaxBackward,
    dot,
    addLowRank,
};

}  // namespace isopro::kernels::ISOPRO_VARIANT
