// The yardsticks of `bench kernels` and `bench train`: the trainer's products beside those of
// others.
#pragma once

#include <cstdint>
#include <string>

namespace isopro::bench {

struct ProductRequest {
  bool transposed = false;  // yW instead of xWt
  std::string type;         // ggml's name
  std::int64_t rows = 0, columns = 0, tokens = 0;
  int threads = 1, rounds = 1;
  bool peers = true;  // measure the others too, everything in processor time then
};

// GFLOP/s of the median round; 0 where a peer is absent.
struct ProductRates {
  double ours = 0;
  double bf16 = 0;     // ours, rounded to bf16; 0 where this processor has no such product
  double toFloat = 0;  // ours, with the tiles dequantised by ggml's to_float
  double openBlas = 0, outProd = 0;
};

// Throws INVALID_ARGUMENT where there is no such type, or rows are not whole blocks of it.
ProductRates productRates(const ProductRequest& request);

}  // namespace isopro::bench
