// Formats that kernels of ours multiply with, and weights in them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ggml.h>

#include "kernels/block_product.h"
#include "support/random.h"

namespace isopro::testing {

struct ProductFormat {
  ggml_type type;
  kernels::BlockFormat block;
};
constexpr ProductFormat kFormats[] = {{GGML_TYPE_Q4_1, kernels::BlockFormat::kQ4_1},
                                      {GGML_TYPE_Q5_0, kernels::BlockFormat::kQ5_0},
                                      {GGML_TYPE_Q6_K, kernels::BlockFormat::kQ6_K},
                                      {GGML_TYPE_Q8_0, kernels::BlockFormat::kQ8_0},
                                      {GGML_TYPE_Q4_K, kernels::BlockFormat::kQ4_K},
                                      {GGML_TYPE_Q5_K, kernels::BlockFormat::kQ5_K},
                                      {GGML_TYPE_Q4_0, kernels::BlockFormat::kQ4_0},
                                      {GGML_TYPE_IQ4_XS, kernels::BlockFormat::kIQ4_XS},
                                      {GGML_TYPE_MXFP4, kernels::BlockFormat::kMXFP4}};

// Of 256 weights, of which ggml multiplies with 256 numbers of x of one scale.
inline bool isWide(ggml_type type) { return ggml_blck_size(type) == 256; }

inline std::vector<float> uniformNumbers(std::int64_t count, std::uint64_t seed, double scale = 1) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>((random.nextDouble() * 2 - 1) * scale);
  return values;
}

inline std::vector<std::uint8_t> weightsOf(ggml_type type, const std::vector<float>& weights,
                                           std::int64_t width) {
  const std::int64_t rows = static_cast<std::int64_t>(weights.size()) / width;
  std::vector<std::uint8_t> bytes(ggml_row_size(type, width) * static_cast<std::size_t>(rows));
  ggml_quantize_chunk(type, weights.data(), bytes.data(), 0, rows, width, nullptr);
  return bytes;
}

inline void forProducts(
    const std::function<void(const kernels::BlockProducts&, const ProductFormat&)>& body) {
  for (const kernels::BlockProducts* const* products = kernels::runnableBlockProducts();
       *products != nullptr; ++products) {
    for (const ProductFormat& format : kFormats) body(**products, format);
  }
}

}  // namespace isopro::testing
