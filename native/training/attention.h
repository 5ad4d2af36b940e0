// Causal grouped-query attention over a tree of texts, and the rotary embedding.
#pragma once

#include <vector>

#include "training/model_weights.h"

namespace isopro::training {

using kernels::Engine;

// Rows that continue the text which ends with the last row of the parent, or begin one. A row
// attends to those of its segment up to itself and to all rows of the segments above it; nothing
// attends across branches.
struct Segment {
  Range rows;
  std::int64_t parent;    // a segment before this one; -1: none
  std::int64_t position;  // of the first row in its text
  // Of a segment without a parent: which text that is no row of the batch it continues; -1: none.
  std::int64_t past = -1;

  std::int64_t end() const { return position + rows.end - rows.begin; }
};
using Segments =
    std::vector<Segment>;  // rows follow each other from 0; those of one tree stand together

// A text whose keys and values [tokens, keyHeads, headWidth] are given: constants, which take no
// gradient.
struct Past {
  std::int64_t tokens;
  const float* k;
  const float* v;
};
using Pasts = std::vector<Past>;

// cos and sin of every position and pair, times the magnitude: [positions, pairs] each.
struct Rotation {
  std::vector<float> cosine, sine;
};
Rotation makeRotation(const Rope& rope, std::int64_t pairs, const std::vector<float>& factors,
                      std::int64_t positions);

// Of the layers that see the whole text and of those with a window; what q is lengthened by, by
// position, empty where it never is.
struct Rotations {
  Rotation whole, window;
  std::vector<float> temperature;
};
Rotations makeRotations(const Hyperparameters& hyper, const std::vector<float>& factors,
                        std::int64_t positions);
// x [tokens, heads, headWidth] times `temperature` of the position within its text.
void lengthen(Engine& engine, const Hyperparameters& hyper, const std::vector<float>& temperature,
              const Segments& segments, float* x, std::int64_t heads);
// Rotates x [tokens, heads, headWidth] in place by the position within its text; `direction` -1 is
// the backward.
void rotate(Engine& engine, const Hyperparameters& hyper, const Rotation& rotation,
            const Segments& segments, float* x, std::int64_t heads, float direction);

// q [tokens, heads, headWidth], k and v [tokens, keyHeads, headWidth], out [tokens, heads,
// headWidth]. window 0: a token sees all earlier ones of its text and itself; otherwise the last
// `window`. sinks [heads] or null: a score more of each head, which takes its share and gives
// nothing.
void attentionForward(Engine& engine, const Hyperparameters& hyper, const Segments& segments,
                      std::int64_t window, const float* sinks, const float* q, const float* k,
                      const float* v, float* out, const Pasts& pasts = {});
// dq, dk and dv are overwritten. Probabilities are recomputed from q and k.
void attentionBackward(Engine& engine, const Hyperparameters& hyper, const Segments& segments,
                       std::int64_t window, const float* sinks, const float* q, const float* k,
                       const float* v, const float* dOut, float* dq, float* dk, float* dv,
                       const Pasts& pasts = {});

}  // namespace isopro::training
