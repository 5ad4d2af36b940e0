// One transformer block, forward beside backward.
#pragma once

#include <vector>

#include "training/attention.h"
#include "training/prompt_keys.h"

namespace isopro::training {

// What the backward of a block needs; T tokens, d = width, f = feedForward.
struct BlockActivations {
  Buffer input;                // [T, d]
  Buffer inputRms, middleRms;  // [T] 1 / rms
  Buffer q, k, v;  // [T, heads, headWidth], [T, keyHeads, headWidth], after norm and rope
  Buffer rawQ, rawK, queryRms, keyRms;  // before the head norms, where there are any
  Buffer attended;                      // [T, heads, headWidth]
  Buffer projected, projectedRms;       // [T, d] before the post norm, where there is one
  Buffer middle;                        // [T, d] residual after attention
  Buffer gate, up;                      // [T, f] but of experts
  Routing routing;                      // [T, used] of experts
  Buffer fed, fedRms;                   // [T, d] before the post norm, where there is one

  static std::size_t bytes(const Hyperparameters& hyper, std::int64_t tokens);
};

struct BlockScratch {
  Buffer normed;           // [T, d]
  Buffer h, dh;            // [T, f] but of experts
  Buffer fused;            // of matrices that are several in one
  Buffer dNormed, dAdded;  // [T, d]
  Buffer dq, dk, dv, dAttended;

  // With what attention adds, and the gradient [T, d] that goes down.
  static std::size_t bytes(const Hyperparameters& hyper, std::int64_t tokens);
};

struct BlockContext {
  Pass& pass;
  const Hyperparameters& hyper;
  const Rotations& rotations;
  const Segments& segments;
  BlockScratch& scratch;
  const PromptList* prompts = nullptr;  // what segments continue; null: nothing
};

// Reads act.input, fills the rest of act, writes output [T, d]. `output` null: act.k and act.v
// alone are wanted.
void blockForward(BlockContext& context, Layer& layer, std::int64_t index, BlockActivations& act,
                  float* output);
// gradient [T, d]: that of the output on entry, of the input on return. `needInput` false: the
// gradient of the input is not wanted (lowest trained layer), and `gradient` is undefined on
// return.
void blockBackward(BlockContext& context, Layer& layer, std::int64_t index,
                   const BlockActivations& act, float* gradient, bool needInput);

}  // namespace isopro::training
