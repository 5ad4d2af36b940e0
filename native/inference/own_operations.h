// Norms, gates and rotations of llama.cpp's graphs that kernels of ours compute
// (kernels/row_operations.h), beside own products and own attention. What is then left to ggml is
// exact: one rounding an element, or none. A graph of such nodes alone has the same bits on every
// processor that runs our kernels, whatever ggml's back end and release, and whatever C library.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ggml.h>

#include "inference/custom_node.h"
#include "kernels/row_operations.h"

namespace isopro {

// The bits of graphs that are ours, of draws and log-probabilities. Raised by hand whenever a
// change to a kernel, an operation or the sampler changes one of them (test/engine/own-bits.json
// has hashes): runs of two versions are not of one class of machines.
constexpr int kOwnBits = 1;

class OwnOperations {
 public:
  // With the best kernels of this processor, which has some. At most `threads` compute.
  explicit OwnOperations(int threads);
  OwnOperations(const kernels::RowOperations& kernels, int threads);
  // What it took over points to it.
  OwnOperations(const OwnOperations&) = delete;
  OwnOperations& operator=(const OwnOperations&) = delete;

  // Takes the node over where it has a kernel for it. Nodes come in the order of their graph: a
  // norm and the product with its weights after it become one. The graph may be computed as long as
  // this lives.
  void take(ggml_tensor* node);

  // The nodes so far are computed before the next one is taken: no two become one across it.
  void onSplit();

  // Whether a node's values are the same wherever it is computed: taken over, or exact.
  static bool hasOneResult(const ggml_tensor* node);

  // Of a norm, a gate or a rotation, be it ggml's or ours, as ggml names it; else null.
  static const char* nameOf(const ggml_tensor* node);

 private:
  // What a node says of itself in the parameters that the function's take the place of. Equal nodes
  // share one.
  struct Operation {
    OwnOperations* self;
    ggml_op op;
    std::vector<std::int32_t> parameters;    // the node's own
    const void* factors = nullptr;           // of a rotation
    float epsilon = 0;                       // of a norm
    bool isGelu = false, isSwapped = false;  // of a gate
    std::int64_t rotated = 0;                // numbers of a head that a rotation turns
    bool neighbours = false;                 // it turns pairs of neighbours, not of halves
    float magnitude = 1;
    std::vector<double> frequencies;  // [rotated / 2], radians a position
  };
  struct TurnScratch {
    std::vector<float> cosine, sine;
  };

  static void onCompute(ggml_tensor* node, int thread, int threads, void* operation);
  Operation* operationOf(const ggml_tensor* node);
  void normalise(ggml_tensor* node, const Operation& operation, int threads);
  void gate(ggml_tensor* node, const Operation& operation, int threads);
  void rotate(ggml_tensor* node, const Operation& operation, int thread, int threads);

  const kernels::RowOperations& kernels_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<TurnScratch> scratch_;  // a thread each
  // The node taken last, where it is a norm.
  struct TakenNorm {
    ggml_tensor* node = nullptr;
    Operation* operation = nullptr;
  };
  TakenNorm before_;
  SharedParts parts_;
};

}  // namespace isopro
