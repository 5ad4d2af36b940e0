// Residual-stream values at layer boundaries, read from llama.cpp's graph while it runs. Boundary b
// is the input of block b; boundary n_layer is the output of the last block, before the final norm.
//
// llama.cpp multiplies quantised weights with activations that it quantises to 8 bits, so that
// these values differ from an exact f32 forward by that rounding.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "inference/context.h"

namespace isopro {

// Collects one boundary while a caller decodes batches: every row added to the batch names where
// its values go.
class BoundaryCapture {
 public:
  // boundary < 0: collects nothing.
  BoundaryCapture(Context& context, int boundary);
  ~BoundaryCapture();
  BoundaryCapture(const BoundaryCapture&) = delete;
  BoundaryCapture& operator=(const BoundaryCapture&) = delete;

  // What it observes; for who observes more in the same decodes.
  NodeObserver observer();

  void beginStep() { rows_.clear(); }
  // The next row of the batch appends its d_model f16 values to *destination, which must stay in
  // place until endStep(); null: nobody wants them.
  void expectRow(std::vector<std::uint16_t>* destination);
  void endStep();  // throws NUMERIC_FAILURE where a value does not fit

 private:
  Context& context_;
  const int boundary_;
  const bool enabled_;
  const size_t width_;  // d_model
  std::vector<std::vector<std::uint16_t>*> rows_;
  std::vector<float> values_;  // [rows, d_model] of the step
};

struct HiddenNorms {
  double out = 0;     // mean over tokens of the Euclidean norm of the block's output
  double in = 0;      // of its input
  double update = 0;  // of output - input
};

// Rows f16 [tokens, d_model] of each requested boundary. Throws INVALID_ARGUMENT, CONTEXT_OVERFLOW,
// NUMERIC_FAILURE, ABORTED.
std::map<int, std::vector<std::uint16_t>> hiddenRows(Context& context,
                                                     const std::vector<Token>& tokens,
                                                     const std::vector<int>& boundaries,
                                                     const std::atomic<bool>& cancelled);

// Norms of each requested block.
std::map<int, HiddenNorms> hiddenNorms(Context& context, const std::vector<Token>& tokens,
                                       const std::vector<int>& blocks,
                                       const std::atomic<bool>& cancelled);

}  // namespace isopro
