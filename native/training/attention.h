// Causal grouped-query attention over packed sequences, and the rotary embedding.
#pragma once

#include <vector>

#include "training/model_weights.h"

namespace isopro::training {

// Tokens [begin, end) of the batch form one sequence; nothing attends across sequences.
using kernels::Engine;
using Sequences = std::vector<Range>;

// cos and sin of every position and pair: [positions, ropeWidth / 2] each.
struct Rotation {
  std::vector<float> cosine, sine;
};
Rotation makeRotation(const Hyperparameters& hyper, const std::vector<float>& factors, std::int64_t positions);
// Rotates x [tokens, heads, headWidth] in place by the position within its sequence; `direction` -1 is the backward.
void rotate(Engine& engine, const Hyperparameters& hyper, const Rotation& rotation, const Sequences& sequences, float* x,
            std::int64_t heads, float direction);

// q [tokens, heads, headWidth], k and v [tokens, keyHeads, headWidth], out [tokens, heads, headWidth].
// window 0: a token sees all earlier ones of its sequence and itself; otherwise the last `window`.
void attentionForward(Engine& engine, const Hyperparameters& hyper, const Sequences& sequences, std::int64_t window, const float* q,
                      const float* k, const float* v, float* out);
// dq, dk and dv are overwritten. Probabilities are recomputed from q and k.
void attentionBackward(Engine& engine, const Hyperparameters& hyper, const Sequences& sequences, std::int64_t window, const float* q,
                       const float* k, const float* v, const float* dOut, float* dq, float* dk, float* dv);

}  // namespace isopro::training
