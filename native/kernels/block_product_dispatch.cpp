// Which compilations of block_product.cpp exist here and which of them this processor runs.
#include "kernels/block_product.h"

#include <array>

namespace isopro::kernels {

#if defined(ISOPRO_PRODUCTS_avx512vnni)
namespace avx512vnni {
extern const BlockProducts blockProducts;
}
#endif
#if defined(ISOPRO_PRODUCTS_avx2)
namespace avx2 {
extern const BlockProducts blockProducts;
}
#endif

namespace {

std::array<const BlockProducts*, 3> findProducts() {
  std::array<const BlockProducts*, 3> found{};
  [[maybe_unused]] std::size_t count = 0;
#if defined(ISOPRO_PRODUCTS_avx512vnni)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni")) {
    found[count++] = &avx512vnni::blockProducts;
  }
#endif
#if defined(ISOPRO_PRODUCTS_avx2)
  // Every processor with AVX2 has F16C.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found[count++] = &avx2::blockProducts;
#endif
  return found;
}

}  // namespace

const BlockProducts* const* runnableBlockProducts() {
  static const std::array<const BlockProducts*, 3> found = findProducts();
  return found.data();
}

const BlockProducts* blockProducts() { return runnableBlockProducts()[0]; }

}  // namespace isopro::kernels
