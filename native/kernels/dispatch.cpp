// Which compilations of variant.cpp exist here and which of them this processor runs.
#include "kernels/variant.h"

#include <array>

namespace isopro::kernels {

namespace baseline {
extern const Variant variant;
}
#if defined(ISOPRO_KERNELS_avx2)
namespace avx2 {
extern const Variant variant;
}
#endif
#if defined(ISOPRO_KERNELS_avx512)
namespace avx512 {
extern const Variant variant;
}
#endif

namespace {

std::array<const Variant*, 4> findVariants() {
  std::array<const Variant*, 4> found{};
  std::size_t count = 0;
#if defined(ISOPRO_KERNELS_avx512)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    found[count++] = &avx512::variant;
  }
#endif
#if defined(ISOPRO_KERNELS_avx2)
  // Every processor with AVX2 has F16C.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    found[count++] = &avx2::variant;
#endif
  found[count] = &baseline::variant;
  return found;
}

const std::array<const Variant*, 4>& variants() {
  static const std::array<const Variant*, 4> found = findVariants();
  return found;
}

}  // namespace

const Variant& kernels() { return *variants()[0]; }

const Variant* const* runnableVariants() { return variants().data(); }

}  // namespace isopro::kernels
