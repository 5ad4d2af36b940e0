// Attention of llama.cpp's graphs that a kernel of ours computes (kernels/attention_rows.h): keys
// and values in f16, no bias by distance, no cap on the logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <ggml.h>

#include "inference/custom_node.h"
#include "kernels/attention_rows.h"
#include "model/hyper_parameters.h"

namespace isopro {

class OwnAttention {
 public:
  // Whether the attention of such a model is ours, with keys and values in f16.
  static bool reads(const Hyperparameters& hyper);

  // With the best kernel of this processor, which has one. At most `threads` compute.
  explicit OwnAttention(int threads);
  OwnAttention(const kernels::AttentionRows& kernel, int threads);
  // What it took over points to it.
  OwnAttention(const OwnAttention&) = delete;
  OwnAttention& operator=(const OwnAttention&) = delete;

  // Takes the node over where it has a kernel for it. The graph may be computed as long as this
  // lives.
  void take(ggml_tensor* node);

 private:
  struct AttentionScratch {
    std::vector<std::int32_t> cells;
    std::vector<float> scores;
  };
  // What a node says of itself in the parameters that the function's take the place of. Layers of
  // one model share one.
  struct Scaled {
    OwnAttention* self;
    float scale;
  };

  static void onCompute(ggml_tensor* node, int thread, int threads, void* scaled);
  void compute(ggml_tensor* node, float scale, int thread, int threads);
  void attend(const ggml_tensor* node, float scale, std::int64_t row, std::int64_t group,
              std::int64_t groups, AttentionScratch& scratch) const;

  const kernels::AttentionRows& kernel_;
  std::vector<std::unique_ptr<Scaled>> scaled_;
  std::vector<AttentionScratch> scratch_;  // a thread each
  SharedParts parts_;
};

}  // namespace isopro
