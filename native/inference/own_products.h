// Products of llama.cpp's graphs that kernels of ours compute, where ggml's are slower: rows with
// weights in ordinary memory whose format has one (kernels/block_product.h), and with the pairs of
// an adapter beside them. When the scheduler asks whether a node's values are wanted, the node is
// given a function of ours in place of its operation (custom_node.h). Attention and what is between
// the products go with them (own_attention.h, own_operations.h).
//
// A row's values are the same whatever rows share its call, but not those of ggml's kernels to the
// last bit, and the layers make of such a bit hundredths of a nat, since activations are rounded to
// eight bits: all that a model computes goes one way (ModelOptions).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ggml.h>

#include "inference/custom_node.h"
#include "kernels/block_product.h"
#include "support/gguf.h"
#include "support/thread_pool.h"

namespace isopro {

// Whether the node multiplies src[0] with the rows of src[1], be it by ggml's kernel or ours.
bool isProduct(const ggml_tensor* node);

// Who multiplies with matrices: kernels of ours, with their name, or ggml's, with the reason.
struct Multiplier {
  bool isOwn;
  std::string why;
};

class OwnProducts {
 public:
  // Whether Matmul::kAuto takes them: their speed on arm64 was never measured.
#if defined(__aarch64__)
  static constexpr bool kIsAutomatic = false;
#else
  static constexpr bool kIsAutomatic = true;
#endif

  // Why nothing of this file is to be ours here; null where there is no reason.
  static const char* reasonAgainst(const GgufFile& file, bool usesGpu);
  // Who multiplies with the file's matrices of a type where no GPU does.
  static Multiplier multiplierOf(const GgufFile& file, ggml_type type);
  // Whether ggml has to repack matrices of the file while it loads them: those of a format that it
  // would otherwise multiply slowly, and we not at all. Then it multiplies all that it repacks.
  static bool needsRepacking(const GgufFile& file);
  // Whether there are kernels for every quantised format of the file.
  static bool knowsAllFormats(const GgufFile& file);

  // With the best kernels of this processor, which has some. At most `threads` compute.
  explicit OwnProducts(int threads);
  OwnProducts(const kernels::BlockProducts& kernels, int threads);
  // What it took over points to it.
  OwnProducts(const OwnProducts&) = delete;
  OwnProducts& operator=(const OwnProducts&) = delete;

  // Takes the node over where it has a kernel for it. The graph may be computed as long as this
  // lives.
  void take(ggml_tensor* node);

 private:
  struct Scratch {
    std::vector<std::int8_t> rows;
    std::vector<kernels::QuantisedBlock> rowBlocks;
    std::vector<float> lastLanes;  // [rows, kMostLanes] of the last tile, where it is not full
  };

  static void onCompute(ggml_tensor* node, int thread, int threads, void* self);
  void compute(ggml_tensor* node, int thread, int threads);
  void computeBlocks(ggml_tensor* node, int thread, int threads);
  void computeLowRank(ggml_tensor* node);
  void reserve(std::int64_t blocks);
  void multiply(const ggml_tensor* weights, Range lanes, Scratch& scratch, std::int64_t rows,
                float* y) const;

  const kernels::BlockProducts& kernels_;
  std::vector<Scratch> scratch_;  // a thread each
  std::int64_t reservedBlocks_ = 0;
  SharedParts parts_;
};

}  // namespace isopro
