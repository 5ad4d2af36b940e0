// Which compilations of block_product.cpp, attention_rows.cpp and row_operations.cpp exist here and
// which of them this processor runs.
#include <array>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "kernels/attention_rows.h"
#include "kernels/block_product.h"
#include "kernels/row_operations.h"

namespace isopro::kernels {

#if defined(ISOPRO_PRODUCTS_avx512vnni)
namespace avx512vnni {
extern const BlockProducts blockProducts;
extern const AttentionRows attentionRows;
extern const RowOperations rowOperations;
}  // namespace avx512vnni
#endif
#if defined(ISOPRO_PRODUCTS_avx2)
namespace avx2 {
extern const BlockProducts blockProducts;
extern const AttentionRows attentionRows;
extern const RowOperations rowOperations;
}  // namespace avx2
#endif
#if defined(ISOPRO_PRODUCTS_neon)
namespace neon {
extern const BlockProducts blockProducts;
extern const AttentionRows attentionRows;
}  // namespace neon
#endif

namespace {

#if defined(ISOPRO_PRODUCTS_neon)
bool hasDotProducts() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
  return true;  // as every processor of Apple's that macOS runs on
#endif
}
#endif

struct Found {
  std::array<const BlockProducts*, 3> products{};
  std::array<const AttentionRows*, 3> attention{};
  std::array<const RowOperations*, 3> operations{};
};

Found find() {
  Found found;
  [[maybe_unused]] std::size_t count = 0;
#if defined(ISOPRO_PRODUCTS_avx512vnni)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni")) {
    found.products[count] = &avx512vnni::blockProducts;
    found.attention[count] = &avx512vnni::attentionRows;
    found.operations[count++] = &avx512vnni::rowOperations;
  }
#endif
#if defined(ISOPRO_PRODUCTS_avx2)
  // Every processor with AVX2 has F16C.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    found.products[count] = &avx2::blockProducts;
    found.attention[count] = &avx2::attentionRows;
    found.operations[count++] = &avx2::rowOperations;
  }
#endif
#if defined(ISOPRO_PRODUCTS_neon)
  if (hasDotProducts()) {
    found.products[count] = &neon::blockProducts;
    found.attention[count++] = &neon::attentionRows;
  }
#endif
  return found;
}

const Found& found() {
  static const Found all = find();
  return all;
}

}  // namespace

const BlockProducts* const* runnableBlockProducts() { return found().products.data(); }
const BlockProducts* blockProducts() { return runnableBlockProducts()[0]; }

const AttentionRows* const* runnableAttentionRows() { return found().attention.data(); }
const AttentionRows* attentionRows() { return runnableAttentionRows()[0]; }

const RowOperations* const* runnableRowOperations() { return found().operations.data(); }
const RowOperations* rowOperations() { return runnableRowOperations()[0]; }

}  // namespace isopro::kernels
