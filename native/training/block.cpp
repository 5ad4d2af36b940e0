#include "training/block.h"

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

// y = x + z
void add(BlockContext& c, const float* x, const float* z, float* y, std::int64_t count) {
  c.pass.engine.pool().parallelFor(count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = x[i] + z[i];
  });
}

void gateForward(BlockContext& c, const BlockActivations& act, float* h) {
  const auto& variant = c.pass.engine.variant();
  const auto f =
      c.hyper.architecture.gate == Gate::swiglu ? variant.swigluForward : variant.gegluForward;
  c.pass.engine.pool().parallelFor(
      static_cast<std::int64_t>(act.gate.size()), [&](std::int64_t begin, std::int64_t end) {
        f(act.gate.data() + begin, act.up.data() + begin, h + begin, end - begin);
      });
}

std::int64_t windowOf(const Hyperparameters& hyper, std::int64_t layer) {
  return hyper.architecture.alternatesWindow && layer % 2 == 0 ? hyper.window : 0;
}

Pasts pastsOf(const BlockContext& c, std::int64_t layer) {
  return c.prompts == nullptr ? Pasts{} : pastsAt(*c.prompts, layer);
}

}  // namespace

std::size_t BlockActivations::bytes(const Hyperparameters& hyper, std::int64_t tokens) {
  const std::int64_t queries = hyper.queryWidth(), keys = hyper.keyWidth();
  std::int64_t perToken = 2 * hyper.width + 2 + 2 * queries + 2 * keys + 2 * hyper.feedForward;
  if (hyper.architecture.headNorms) perToken += queries + keys + hyper.heads + hyper.keyHeads;
  if (hyper.architecture.postNorms) perToken += 2 * hyper.width + 2;
  return static_cast<std::size_t>(perToken * tokens) * sizeof(float);
}

std::size_t BlockScratch::bytes(const Hyperparameters& hyper, std::int64_t tokens) {
  const std::int64_t perToken =
      4 * hyper.width + 2 * hyper.feedForward + 4 * hyper.queryWidth() + 2 * hyper.keyWidth();
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
  float* normed = sized(s.normed, T * d);
  normForward(c, layer.attentionNorm, act.input.data(), normed, act.inputRms, T, d);
  const bool headNorms = h.architecture.headNorms;
  linearForward(c.pass, layer.linear[kQuery], normed,
                sized(headNorms ? act.rawQ : act.q, T * queries));
  linearForward(c.pass, layer.linear[kKey], normed, sized(headNorms ? act.rawK : act.k, T * keys));
  linearForward(c.pass, layer.linear[kValue], normed, sized(act.v, T * keys));
  if (headNorms) {
    normForward(c, layer.queryNorm, act.rawQ.data(), sized(act.q, T * queries), act.queryRms,
                T * h.heads, h.headWidth);
    normForward(c, layer.keyNorm, act.rawK.data(), sized(act.k, T * keys), act.keyRms,
                T * h.keyHeads, h.headWidth);
  }
  rotate(engine, h, c.rotation, c.segments, act.q.data(), h.heads, 1);
  rotate(engine, h, c.rotation, c.segments, act.k.data(), h.keyHeads, 1);
  if (output == nullptr) return;

  // middle = input + attention
  attentionForward(engine, h, c.segments, windowOf(h, index), act.q.data(), act.k.data(),
                   act.v.data(), sized(act.attended, T * queries), pastsOf(c, index));
  const bool postNorms = h.architecture.postNorms;
  float* projected = sized(postNorms ? act.projected : s.normed, T * d);
  linearForward(c.pass, layer.linear[kOutput], act.attended.data(), projected);
  if (postNorms)
    normForward(c, layer.attentionPostNorm, projected, sized(s.normed, T * d), act.projectedRms, T,
                d);
  add(c, act.input.data(), s.normed.data(), sized(act.middle, T * d), T * d);

  // output = middle + down(f(gate) up)
  normForward(c, layer.feedForwardNorm, act.middle.data(), normed, act.middleRms, T, d);
  linearForward(c.pass, layer.linear[kGate], normed, sized(act.gate, T * h.feedForward));
  linearForward(c.pass, layer.linear[kUp], normed, sized(act.up, T * h.feedForward));
  gateForward(c, act, sized(s.h, T * h.feedForward));
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
  const bool postNorms = h.architecture.postNorms;
  BlockScratch& s = c.scratch;
  Buffer ignored;

  // output = middle + post(down(h)): `gradient` is also that of middle, and collects it.
  const float* dFed = gradient;
  if (postNorms) {
    s.dAdded.assign(static_cast<std::size_t>(T * d), 0.0f);
    normBackward(c, layer.feedForwardPostNorm, act.fed.data(), act.fedRms, gradient,
                 s.dAdded.data(), T, d);
    dFed = s.dAdded.data();
  }
  gateForward(c, act, sized(s.h, T * h.feedForward));
  linearBackward(c.pass, layer.linear[kDown], s.h.data(), dFed, sized(s.dh, T * h.feedForward),
                 false);
  // From here s.h holds dGate and s.dh holds dUp.
  const auto& variant = engine.variant();
  const auto gateBackward =
      h.architecture.gate == Gate::swiglu ? variant.swigluBackward : variant.gegluBackward;
  engine.pool().parallelFor(T * h.feedForward, [&](std::int64_t begin, std::int64_t end) {
    gateBackward(act.gate.data() + begin, act.up.data() + begin, s.dh.data() + begin,
                 s.h.data() + begin, s.dh.data() + begin, end - begin);
  });
  float* normed = sized(s.normed, T * d);
  float* dNormed = sized(s.dNormed, T * d);
  normForward(c, layer.feedForwardNorm, act.middle.data(), normed, ignored, T, d);
  linearBackward(c.pass, layer.linear[kGate], normed, s.h.data(), dNormed, false);
  linearBackward(c.pass, layer.linear[kUp], normed, s.dh.data(), dNormed, true);
  normBackward(c, layer.feedForwardNorm, act.middle.data(), act.middleRms, dNormed, gradient, T, d);

  // middle = input + post(o(attended)): `gradient` is now that of middle and, directly, of input.
  const float* dProjected = gradient;
  if (postNorms) {
    s.dAdded.assign(static_cast<std::size_t>(T * d), 0.0f);
    normBackward(c, layer.attentionPostNorm, act.projected.data(), act.projectedRms, gradient,
                 s.dAdded.data(), T, d);
    dProjected = s.dAdded.data();
  }
  linearBackward(c.pass, layer.linear[kOutput], act.attended.data(), dProjected,
                 sized(s.dAttended, T * queries), false);
  attentionBackward(engine, h, c.segments, windowOf(h, index), act.q.data(), act.k.data(),
                    act.v.data(), s.dAttended.data(), sized(s.dq, T * queries),
                    sized(s.dk, T * keys), sized(s.dv, T * keys), pastsOf(c, index));
  rotate(engine, h, c.rotation, c.segments, s.dq.data(), h.heads, -1);
  rotate(engine, h, c.rotation, c.segments, s.dk.data(), h.keyHeads, -1);
  if (h.architecture.headNorms) {
    // dAttended is free: it takes the gradient before the head norms.
    s.dAttended.assign(static_cast<std::size_t>(T * queries), 0.0f);
    normBackward(c, layer.queryNorm, act.rawQ.data(), act.queryRms, s.dq.data(), s.dAttended.data(),
                 T * h.heads, h.headWidth);
    s.dq.swap(s.dAttended);
    s.dAttended.assign(static_cast<std::size_t>(T * keys), 0.0f);
    normBackward(c, layer.keyNorm, act.rawK.data(), act.keyRms, s.dk.data(), s.dAttended.data(),
                 T * h.keyHeads, h.headWidth);
    s.dk.swap(s.dAttended);
  }

  // q, k, v = W norm(input)
  normForward(c, layer.attentionNorm, act.input.data(), normed, ignored, T, d);
  float* dInput = needInput ? dNormed : nullptr;
  linearBackward(c.pass, layer.linear[kQuery], normed, s.dq.data(), dInput, false);
  linearBackward(c.pass, layer.linear[kKey], normed, s.dk.data(), dInput, true);
  linearBackward(c.pass, layer.linear[kValue], normed, s.dv.data(), dInput, true);
  if (needInput)
    normBackward(c, layer.attentionNorm, act.input.data(), act.inputRms, dNormed, gradient, T, d);
}

}  // namespace isopro::training
