// What a graph computes row by row between its products: norms, gates, rotations by position. ggml
// has other bits for them on other instruction sets, and takes sines and cosines from the C
// library, whose bits change with its version.
//
// A value depends on its own row alone. Sums are 16 partial sums, then their tree, whatever the
// instruction set; exponential, sine and cosine are our own.
#pragma once

#include <cstdint>

namespace isopro::kernels {

// Numbers of a table of rotations are read in groups of so many.
constexpr std::int64_t kTurnPart = 16;

// y may be x. Rows have any width.
struct RowOperations {
  const char* name;
  // y = x / sqrt(mean(x^2) + epsilon) [width], then times the weights where they are not null. The
  // sum is of doubles.
  void (*normalise)(const float* x, const float* weights, float* y, std::int64_t width,
                    float epsilon);
  // y = silu(gate) up, silu(x) = x / (1 + exp(-x)).
  void (*swiglu)(const float* gate, const float* up, float* y, std::int64_t count);
  // y = gelu(gate) up, by the tanh form of gelu (Hendrycks and Gimpel 2016).
  void (*geglu)(const float* gate, const float* up, float* y, std::int64_t count);

  // cosine and sine [pairs] of position * frequencies[i] radians, times `magnitude`; all three have
  // room for a multiple of kTurnPart. Below 2^26 radians the error is that of rounding to f32.
  void (*turns)(std::int32_t position, const double* frequencies, std::int64_t pairs,
                float magnitude, float* cosine, float* sine);
  // Rotates the pairs (x[i], x[pairs + i]), by a table of turns.
  void (*rotateHalves)(const float* x, const float* cosine, const float* sine, std::int64_t pairs,
                       float* y);
  // Rotates the pairs (x[2 i], x[2 i + 1]).
  void (*rotateNeighbours)(const float* x, const float* cosine, const float* sine,
                           std::int64_t pairs, float* y);
};

// The best ones that this processor runs; null where there are none.
const RowOperations* rowOperations();

// All that it runs, the best first, then null.
const RowOperations* const* runnableRowOperations();

}  // namespace isopro::kernels
