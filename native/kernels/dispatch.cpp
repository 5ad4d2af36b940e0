// Which compilations of variant.cpp and bf16_product.cpp exist here and which of them this
// processor runs.
#include <array>

#include "kernels/bf16_product.h"

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
#if defined(ISOPRO_BF16_PRODUCT)
namespace avx512bf16 {
extern const Bf16Product product;
}
#endif

namespace {

#if defined(ISOPRO_KERNELS_avx512)
bool runsAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

std::array<const Variant*, 4> findVariants() {
  std::array<const Variant*, 4> found{};
  std::size_t count = 0;
#if defined(ISOPRO_KERNELS_avx512)
  if (runsAvx512()) found[count++] = &avx512::variant;
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

const Bf16Product* bf16Product() {
#if defined(ISOPRO_BF16_PRODUCT)
  if (runsAvx512() && __builtin_cpu_supports("avx512bf16")) return &avx512bf16::product;
#endif
  return nullptr;
}

}  // namespace isopro::kernels
