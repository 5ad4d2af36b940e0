#include "training/block.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

namespace isopro::training {
namespace {

float* sized(Buffer& buffer, std::int64_t size) {
  buffer.resize(static_cast<std::size_t>(size));
  return buffer.data();
}

// Each of `rows` rows of `width`; inverseRms [rows].
void normForward(BlockContext& c, const Norm& norm, const float* x, float* y, Buffer& inverseRms,
                 std::int64_t rows, std::int64_t width) {
  float* inverse = sized(inverseRms, rows);
  const auto& variant = c.pass.engine.variant();
  c.pass.engine.pool().parallelFor(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      inverse[t] = variant.normForward(x + t * width, norm.values(), y + t * width, width,
                                       c.hyper.normEpsilon);
    }
  });
}

// What attention or feed-forward reads of x [tokens, width]: its norm, or x itself.
const float* preNorm(BlockContext& c, const Norm& norm, const float* x, Buffer& inverseRms) {
  if (!c.hyper.architecture.preNorms) return x;
  float* y = sized(c.scratch.normed, c.pass.tokens * c.hyper.width);
  normForward(c, norm, x, y, inverseRms, c.pass.tokens, c.hyper.width);
  return y;
}

// dx += gradient through the norm. One thread where the norm itself is trained: its gradient sums
// over the rows.
void normBackward(BlockContext& c, const Norm& norm, const float* x, const Buffer& inverseRms,
                  const float* dy, float* dx, std::int64_t rows, std::int64_t width) {
  const auto& variant = c.pass.engine.variant();
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      variant.normBackward(x + t * width, norm.values(), inverseRms[static_cast<std::size_t>(t)],
                           dy + t * width, dx + t * width, norm.gradient(), width);
    }
  };
  norm.trained ? body(0, rows) : c.pass.engine.pool().parallelFor(rows, body);
}

// y = x + z, which the architecture may scale.
void add(BlockContext& c, const float* x, const float* z, float* y, std::int64_t count) {
  const float scale = c.hyper.residualScale;
  c.pass.engine.pool().parallelFor(count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = x[i] + scale * z[i];
  });
}

// Rows that a norm of `heads` heads takes, and their width.
std::pair<std::int64_t, std::int64_t> headRows(const BlockContext& c, std::int64_t heads) {
  const std::int64_t width = c.hyper.headNormWidth(heads);
  return {c.pass.tokens * heads * c.hyper.headWidth / width, width};
}

// Of q and k by their places, or back.
void turn(BlockContext& c, std::int64_t layer, float* q, float* k, float direction) {
  const Hyperparameters& h = c.hyper;
  Engine& engine = c.pass.engine;
  if (!c.rotations.temperature.empty())
    lengthen(engine, h, c.rotations.temperature, c.segments, q, h.heads);
  if (!h.rotates(layer)) return;
  const Rotation& rotation = h.hasWindow(layer) ? c.rotations.window : c.rotations.whole;
  rotate(engine, h, rotation, c.segments, q, h.heads, direction);
  rotate(engine, h, rotation, c.segments, k, h.keyHeads, direction);
}

// dx += gradient dy of what preNorm read of x.
void preNormBackward(BlockContext& c, const Norm& norm, const float* x, const Buffer& inverseRms,
                     const float* dy, float* dx) {
  const std::int64_t rows = c.pass.tokens, width = c.hyper.width;
  if (c.hyper.architecture.preNorms) {
    normBackward(c, norm, x, inverseRms, dy, dx, rows, width);
    return;
  }
  c.pass.engine.pool().parallelFor(rows * width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) dx[i] += dy[i];
  });
}

// Gradient of what a linear map gave, before the post norm and the scale with which it was added:
// that of the sum itself, or its own in s.dAdded.
const float* addedBackward(BlockContext& c, const Norm& postNorm, const Buffer& x,
                           const Buffer& inverseRms, const float* gradient) {
  const std::int64_t rows = c.pass.tokens, width = c.hyper.width;
  const float scale = c.hyper.residualScale;
  Buffer& added = c.scratch.dAdded;
  if (c.hyper.architecture.postNorms) {
    added.assign(static_cast<std::size_t>(rows * width), 0.0f);
    normBackward(c, postNorm, x.data(), inverseRms, gradient, added.data(), rows, width);
  } else if (scale != 1) {
    added.assign(gradient, gradient + rows * width);
  } else {
    return gradient;
  }
  if (scale != 1) {
    for (float& value : added) value *= scale;
  }
  return added.data();
}

// Of two rows of gpt-oss's experts: min(gate, 7) * sigmoid(1.702 gate) * (up + 1), up within +-7.
constexpr float kLimit = 7, kSteepness = 1.702f;

void limitedForward(const float* gate, const float* up, float* h, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = std::min(gate[i], kLimit), y = std::clamp(up[i], -kLimit, kLimit);
    h[i] = x / (1 + std::exp(-kSteepness * x)) * (y + 1);
  }
}

void limitedBackward(const float* gate, const float* up, const float* dh, float* dGate, float* dUp,
                     std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = std::min(gate[i], kLimit), y = std::clamp(up[i], -kLimit, kLimit);
    const float sigmoid = 1 / (1 + std::exp(-kSteepness * x));
    const float slope = sigmoid * (1 + kSteepness * x * (1 - sigmoid)), dy = dh[i];
    dGate[i] = gate[i] < kLimit ? dy * slope * (y + 1) : 0.0f;
    dUp[i] = std::fabs(up[i]) < kLimit ? dy * x * sigmoid : 0.0f;
  }
}

ExpertGate gateOf(const BlockContext& c) {
  const auto& variant = c.pass.engine.variant();
  switch (c.hyper.architecture.gate) {
    case Gate::swiglu:
      return {variant.swigluForward, variant.swigluBackward};
    case Gate::geglu:
      return {variant.gegluForward, variant.gegluBackward};
    case Gate::swigluLimited:
      break;
  }
  return {limitedForward, limitedBackward};
}

// Rows of one of several maps that are one matrix.
struct Part {
  float* rows;
  std::int64_t width;
};
using Parts = std::initializer_list<Part>;

// Calls body(part, its row of token t, where that is in the row of all).
template <typename Body>
void forParts(BlockContext& c, Parts parts, Body body) {
  std::int64_t whole = 0;
  for (const Part& part : parts) whole += part.width;
  c.pass.engine.pool().parallelFor(c.pass.tokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      std::int64_t at = t * whole;
      for (const Part& part : parts) {
        body(part, part.rows + t * part.width, at);
        at += part.width;
      }
    }
  });
}

void takeApart(BlockContext& c, const float* rows, Parts parts) {
  forParts(c, parts, [&](const Part& part, float* row, std::int64_t at) {
    std::copy_n(rows + at, part.width, row);
  });
}

void putTogether(BlockContext& c, Parts parts, float* rows) {
  forParts(c, parts, [&](const Part& part, const float* row, std::int64_t at) {
    std::copy_n(row, part.width, rows + at);
  });
}

const float* sinksOf(const Layer& layer) {
  return layer.sinks.empty() ? nullptr : layer.sinks.data();
}

void gateForward(BlockContext& c, const BlockActivations& act, float* h) {
  const auto f = gateOf(c).forward;
  c.pass.engine.pool().parallelFor(
      static_cast<std::int64_t>(act.gate.size()), [&](std::int64_t begin, std::int64_t end) {
        f(act.gate.data() + begin, act.up.data() + begin, h + begin, end - begin);
      });
}

// dNormed [T, d] = gradient of what gate and up read from that of what down gives.
void feedForwardBackward(BlockContext& c, Layer& layer, const BlockActivations& act,
                         const float* normed, const float* dFed, float* dNormed) {
  const std::int64_t T = c.pass.tokens, f = c.hyper.feedForward;
  BlockScratch& s = c.scratch;
  gateForward(c, act, sized(s.h, T * f));
  linearBackward(c.pass, layer.linear[kDown], s.h.data(), dFed, sized(s.dh, T * f), false);
  // From here s.h holds dGate and s.dh holds dUp.
  const auto gateBackward = gateOf(c).backward;
  c.pass.engine.pool().parallelFor(T * f, [&](std::int64_t begin, std::int64_t end) {
    gateBackward(act.gate.data() + begin, act.up.data() + begin, s.dh.data() + begin,
                 s.h.data() + begin, s.dh.data() + begin, end - begin);
  });
  if (c.hyper.architecture.fused) {
    putTogether(c, {{s.h.data(), f}, {s.dh.data(), f}}, sized(s.fused, T * 2 * f));
    linearBackward(c.pass, layer.linear[kUp], normed, s.fused.data(), dNormed, false);
  } else {
    linearBackward(c.pass, layer.linear[kGate], normed, s.h.data(), dNormed, false);
    linearBackward(c.pass, layer.linear[kUp], normed, s.dh.data(), dNormed, true);
  }
}

std::int64_t windowOf(const Hyperparameters& hyper, std::int64_t layer) {
  return hyper.hasWindow(layer) ? hyper.window : 0;
}

Pasts pastsOf(const BlockContext& c, std::int64_t layer) {
  return c.prompts == nullptr ? Pasts{} : pastsAt(*c.prompts, layer);
}

}  // namespace

std::size_t BlockActivations::bytes(const Hyperparameters& hyper, std::int64_t tokens) {
  const std::int64_t queries = hyper.queryWidth(), keys = hyper.keyWidth();
  std::int64_t perToken = 2 * hyper.width + 2 * queries + 2 * keys;
  perToken += 2 * (hyper.architecture.experts ? hyper.expertsUsed : hyper.feedForward);
  if (hyper.architecture.preNorms) perToken += 2;
  if (hyper.architecture.headNorms == HeadNorms::each)
    perToken += queries + keys + hyper.heads + hyper.keyHeads;
  if (hyper.architecture.headNorms == HeadNorms::whole) perToken += queries + keys + 2;
  if (hyper.architecture.postNorms) perToken += 2 * hyper.width + 2;
  return static_cast<std::size_t>(perToken * tokens) * sizeof(float);
}

std::size_t BlockScratch::bytes(const Hyperparameters& hyper, std::int64_t tokens) {
  std::int64_t perToken = 4 * hyper.width + 4 * hyper.queryWidth() + 2 * hyper.keyWidth();
  perToken += hyper.architecture.experts
                  ? expertScratch(hyper.width, hyper.feedForward, hyper.experts, hyper.expertsUsed)
                  : 2 * hyper.feedForward;
  if (hyper.architecture.fused)
    perToken += std::max(2 * hyper.feedForward, hyper.queryWidth() + 2 * hyper.keyWidth());
  return static_cast<std::size_t>(perToken * tokens) * sizeof(float);
}

void blockForward(BlockContext& c, Layer& layer, std::int64_t index, BlockActivations& act,
                  float* output) {
  const Hyperparameters& h = c.hyper;
  Engine& engine = c.pass.engine;
  const std::int64_t T = c.pass.tokens, d = h.width;
  const std::int64_t queries = h.queryWidth(), keys = h.keyWidth();
  BlockScratch& s = c.scratch;

  // q, k, v = heads of norm(input)
  const float* normed = preNorm(c, layer.attentionNorm, act.input.data(), act.inputRms);
  const bool headNorms = h.architecture.headNorms != HeadNorms::none;
  float* q = sized(headNorms ? act.rawQ : act.q, T * queries);
  float* k = sized(headNorms ? act.rawK : act.k, T * keys);
  float* v = sized(act.v, T * keys);
  if (h.architecture.fused) {
    linearForward(c.pass, layer.linear[kFused], normed, sized(s.fused, T * (queries + 2 * keys)));
    takeApart(c, s.fused.data(), {{q, queries}, {k, keys}, {v, keys}});
  } else {
    linearForward(c.pass, layer.linear[kQuery], normed, q);
    linearForward(c.pass, layer.linear[kKey], normed, k);
    linearForward(c.pass, layer.linear[kValue], normed, v);
  }
  if (headNorms) {
    const auto [queryRows, queryRow] = headRows(c, h.heads);
    normForward(c, layer.queryNorm, act.rawQ.data(), sized(act.q, T * queries), act.queryRms,
                queryRows, queryRow);
    const auto [keyRows, keyRow] = headRows(c, h.keyHeads);
    normForward(c, layer.keyNorm, act.rawK.data(), sized(act.k, T * keys), act.keyRms, keyRows,
                keyRow);
  }
  turn(c, index, act.q.data(), act.k.data(), 1);
  if (output == nullptr) return;

  // middle = input + attention
  attentionForward(engine, h, c.segments, windowOf(h, index), sinksOf(layer), act.q.data(),
                   act.k.data(), act.v.data(), sized(act.attended, T * queries), pastsOf(c, index));
  const bool postNorms = h.architecture.postNorms;
  float* projected = sized(postNorms ? act.projected : s.normed, T * d);
  linearForward(c.pass, layer.linear[kOutput], act.attended.data(), projected);
  if (postNorms)
    normForward(c, layer.attentionPostNorm, projected, sized(s.normed, T * d), act.projectedRms, T,
                d);
  add(c, act.input.data(), s.normed.data(), sized(act.middle, T * d), T * d);

  // output = middle + down(f(gate) up)
  normed = preNorm(c, layer.feedForwardNorm, act.middle.data(), act.middleRms);
  if (layer.experts) {
    expertsForward(engine, layer.experts, gateOf(c), T, h.expertsUsed, normed, act.routing,
                   sized(s.dNormed, T * d));
    add(c, act.middle.data(), s.dNormed.data(), output, T * d);
    return;
  }
  const std::int64_t f = h.feedForward;
  float* gate = sized(act.gate, T * f);
  float* up = sized(act.up, T * f);
  if (h.architecture.fused) {
    linearForward(c.pass, layer.linear[kUp], normed, sized(s.fused, T * 2 * f));
    takeApart(c, s.fused.data(), {{gate, f}, {up, f}});
  } else {
    linearForward(c.pass, layer.linear[kGate], normed, gate);
    linearForward(c.pass, layer.linear[kUp], normed, up);
  }
  gateForward(c, act, sized(s.h, T * f));
  float* fed = sized(postNorms ? act.fed : s.normed, T * d);
  linearForward(c.pass, layer.linear[kDown], s.h.data(), fed);
  if (postNorms)
    normForward(c, layer.feedForwardPostNorm, fed, sized(s.normed, T * d), act.fedRms, T, d);
  add(c, act.middle.data(), s.normed.data(), output, T * d);
}

void blockBackward(BlockContext& c, Layer& layer, std::int64_t index, const BlockActivations& act,
                   float* gradient, bool needInput) {
  const Hyperparameters& h = c.hyper;
  Engine& engine = c.pass.engine;
  const std::int64_t T = c.pass.tokens, d = h.width;
  const std::int64_t queries = h.queryWidth(), keys = h.keyWidth();
  BlockScratch& s = c.scratch;
  Buffer ignored;

  // output = middle + post(down(h)): `gradient` is also that of middle, and collects it.
  const float* dFed = addedBackward(c, layer.feedForwardPostNorm, act.fed, act.fedRms, gradient);
  float* dNormed = sized(s.dNormed, T * d);
  const float* normed = preNorm(c, layer.feedForwardNorm, act.middle.data(), ignored);
  if (layer.experts) {
    expertsBackward(engine, layer.experts, gateOf(c), T, h.expertsUsed, normed, act.routing, dFed,
                    dNormed);
  } else {
    feedForwardBackward(c, layer, act, normed, dFed, dNormed);
  }
  preNormBackward(c, layer.feedForwardNorm, act.middle.data(), act.middleRms, dNormed, gradient);

  // middle = input + post(o(attended)): `gradient` is now that of middle and, directly, of input.
  const float* dProjected =
      addedBackward(c, layer.attentionPostNorm, act.projected, act.projectedRms, gradient);
  linearBackward(c.pass, layer.linear[kOutput], act.attended.data(), dProjected,
                 sized(s.dAttended, T * queries), false);
  attentionBackward(engine, h, c.segments, windowOf(h, index), sinksOf(layer), act.q.data(),
                    act.k.data(), act.v.data(), s.dAttended.data(), sized(s.dq, T * queries),
                    sized(s.dk, T * keys), sized(s.dv, T * keys), pastsOf(c, index));
  turn(c, index, s.dq.data(), s.dk.data(), -1);
  if (h.architecture.headNorms != HeadNorms::none) {
    // dAttended is free: it takes the gradient before the head norms.
    s.dAttended.assign(static_cast<std::size_t>(T * queries), 0.0f);
    const auto [queryRows, queryRow] = headRows(c, h.heads);
    normBackward(c, layer.queryNorm, act.rawQ.data(), act.queryRms, s.dq.data(), s.dAttended.data(),
                 queryRows, queryRow);
    s.dq.swap(s.dAttended);
    s.dAttended.assign(static_cast<std::size_t>(T * keys), 0.0f);
    const auto [keyRows, keyRow] = headRows(c, h.keyHeads);
    normBackward(c, layer.keyNorm, act.rawK.data(), act.keyRms, s.dk.data(), s.dAttended.data(),
                 keyRows, keyRow);
    s.dk.swap(s.dAttended);
  }

  // q, k, v = W norm(input)
  normed = preNorm(c, layer.attentionNorm, act.input.data(), ignored);
  float* dInput = needInput ? dNormed : nullptr;
  if (h.architecture.fused) {
    putTogether(c, {{s.dq.data(), queries}, {s.dk.data(), keys}, {s.dv.data(), keys}},
                sized(s.fused, T * (queries + 2 * keys)));
    linearBackward(c.pass, layer.linear[kFused], normed, s.fused.data(), dInput, false);
  } else {
    linearBackward(c.pass, layer.linear[kQuery], normed, s.dq.data(), dInput, false);
    linearBackward(c.pass, layer.linear[kKey], normed, s.dk.data(), dInput, true);
    linearBackward(c.pass, layer.linear[kValue], normed, s.dv.data(), dInput, true);
  }
  if (needInput)
    preNormBackward(c, layer.attentionNorm, act.input.data(), act.inputRms, dNormed, gradient);
}

}  // namespace isopro::training
