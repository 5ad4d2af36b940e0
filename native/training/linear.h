// A linear map of the frozen model with what can be trained on it: y = W x + b + s B A x.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "training/parameter.h"

namespace isopro::training {

using kernels::Engine;
using kernels::Matrix;

// LoRA (Hu et al. 2021) with the scale s kept per module. Both factors hold one direction a row: A
// is [r, in] and B is stored transposed, [r, out], so that a direction is one row of each and rank
// can grow or a direction be recycled in place.
struct Lora {
  std::string module;  // GGUF tensor name without ".weight", e.g. blk.3.attn_k
  float scale = 1;
  float dropout = 0;
  std::uint64_t dropoutKey = 0;  // distinguishes modules in the dropout draw
  Parameter a;
  Parameter b;
  double baseNorm = 0;  // ||W||_F
  // Sum over the step's tokens, shared ones as often as they occur, of |(A x)_j|, and their number:
  // dormancy (statistics.h).
  std::vector<double> activity;
  std::int64_t activityTokens = 0;

  std::int64_t rank() const { return a.rows; }
};

inline std::uint64_t dropoutKey(std::int64_t layer, int module) {
  return (static_cast<std::uint64_t>(layer) << 8 | static_cast<std::uint64_t>(module + 1)) << 32;
}

struct Linear {
  Matrix weight;            // [out, in]
  std::vector<float> bias;  // [out] or empty
  std::unique_ptr<Lora> lora;
  // Training of all weights: `weight` then points into trainedWeight->value.
  std::unique_ptr<Parameter> trainedWeight;
  std::unique_ptr<Parameter> trainedBias;

  // Whether the architecture has it.
  explicit operator bool() const { return weight.data != nullptr; }
  std::int64_t outputs() const { return weight.rows; }
  std::int64_t inputs() const { return weight.columns; }
};

// What a forward or backward needs to know besides its tensors.
struct Pass {
  Engine& engine;
  std::int64_t tokens;
  bool adapter = true;    // false: the base model alone
  bool training = false;  // dropout and activity statistics
  std::uint64_t dropoutSeed =
      0;  // differs by step and micro-batch, equal in forward and recomputation
  const std::int32_t* copies =
      nullptr;  // [tokens] of the batch that a row stands for, in statistics; null: one each
  std::vector<float> low = {}, dropped = {};  // scratch: [tokens, rank], [tokens, in]
};

// y[tokens, out] = x[tokens, in] WT + b + s (x AT) B.
void linearForward(Pass& pass, Linear& linear, const float* x, float* y);
// Gradients of the trained factors, and dx (may be null) = or += dy W + s (dy BT) A.
void linearBackward(Pass& pass, Linear& linear, const float* x, const float* dy, float* dx,
                    bool accumulate);

}  // namespace isopro::training
