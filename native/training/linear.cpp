#include "training/linear.h"

#include <cmath>

#include "support/random.h"

namespace isopro::training {
namespace {

using kernels::denseMatrix;

// Products with the model's weights may round, those with what is added to them do not.
Matrix weightOf(const Linear& linear) {
  Matrix w = linear.weight;
  w.rounds = true;
  return w;
}

Matrix factor(const Parameter& p) { return denseMatrix(p.value.data(), p.rows, p.columns); }

// to = or += from, each entry kept with probability 1 - p and scaled by 1 / (1 - p). The draw
// depends on the place alone, so that forward, recomputation and backward agree in any order and
// with any number of threads.
void applyDropout(Pass& pass, const Lora& lora, const float* from, float* to, std::int64_t width,
                  bool accumulate) {
  const float keep = 1.0f / (1.0f - lora.dropout);
  const auto threshold =
      static_cast<std::uint64_t>(std::ldexp(static_cast<double>(lora.dropout), 32));
  const std::uint64_t key = SplitMix64(pass.dropoutSeed ^ lora.dropoutKey).next();
  pass.engine.pool().parallelFor(pass.tokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * width; i < end * width; ++i) {
      const bool dropped =
          (SplitMix64(key + static_cast<std::uint64_t>(i)).next() >> 32) < threshold;
      const float value = dropped ? 0.0f : from[i] * keep;
      to[i] = accumulate ? to[i] + value : value;
    }
  });
}

bool drops(const Pass& pass, const Lora& lora) { return pass.training && lora.dropout > 0; }

// low[tokens, r] = s x AT; with dropout x is the dropped copy, left in pass.dropped. Returns that
// x.
const float* projectDown(Pass& pass, const Lora& lora, const float* x) {
  const std::int64_t width = lora.a.columns;
  if (drops(pass, lora)) {
    pass.dropped.resize(static_cast<std::size_t>(pass.tokens * width));
    applyDropout(pass, lora, x, pass.dropped.data(), width, false);
    x = pass.dropped.data();
  }
  pass.low.resize(static_cast<std::size_t>(pass.tokens * lora.rank()));
  pass.engine.xWt(factor(lora.a), x, pass.low.data(), pass.tokens);
  return x;
}

void scaleLow(Pass& pass, float scale) {
  for (float& value : pass.low) value *= scale;
}

}  // namespace

void linearForward(Pass& pass, Linear& linear, const float* x, float* y) {
  pass.engine.xWt(weightOf(linear), x, y, pass.tokens);
  if (!linear.bias.empty()) {
    const float* bias = linear.trainedBias ? linear.trainedBias->value.data() : linear.bias.data();
    const std::int64_t width = linear.outputs();
    pass.engine.pool().parallelFor(pass.tokens, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        for (std::int64_t i = 0; i < width; ++i) y[t * width + i] += bias[i];
      }
    });
  }
  if (!linear.lora || !pass.adapter) return;
  Lora& lora = *linear.lora;
  projectDown(pass, lora, x);
  scaleLow(pass, lora.scale);
  pass.engine.yW(factor(lora.b), pass.low.data(), y, pass.tokens, true);
}

void linearBackward(Pass& pass, Linear& linear, const float* x, const float* dy, float* dx,
                    bool accumulate) {
  Engine& engine = pass.engine;
  const std::int64_t tokens = pass.tokens;
  if (dx != nullptr) engine.yW(weightOf(linear), dy, dx, tokens, accumulate);
  if (linear.trainedWeight) {
    engine.addYtX(dy, x, linear.trainedWeight->gradient.data(), tokens, linear.outputs(),
                  linear.inputs());
  }
  if (linear.trainedBias) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t i = 0; i < linear.outputs(); ++i)
        linear.trainedBias->gradient[static_cast<std::size_t>(i)] += dy[t * linear.outputs() + i];
    }
  }
  if (!linear.lora || !pass.adapter) return;
  Lora& lora = *linear.lora;
  const std::int64_t rank = lora.rank();
  // dB += (s x AT)T dy.
  const float* input = projectDown(pass, lora, x);
  if (pass.training) {
    lora.activity.resize(static_cast<std::size_t>(rank));
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int32_t copies = pass.copies == nullptr ? 1 : pass.copies[t];
      for (std::int64_t j = 0; j < rank; ++j) {
        lora.activity[static_cast<std::size_t>(j)] +=
            copies *
            std::fabs(static_cast<double>(pass.low[static_cast<std::size_t>(t * rank + j)]));
      }
      lora.activityTokens += copies;
    }
  }
  scaleLow(pass, lora.scale);
  engine.addYtX(pass.low.data(), dy, lora.b.gradient.data(), tokens, rank, lora.b.columns);
  // dlow = s dy BT; dA += dlowT x; dx += dlow A.
  engine.xWt(factor(lora.b), dy, pass.low.data(), tokens);
  scaleLow(pass, lora.scale);
  engine.addYtX(pass.low.data(), input, lora.a.gradient.data(), tokens, rank, lora.a.columns);
  if (dx == nullptr) return;
  if (drops(pass, lora)) {
    engine.yW(factor(lora.a), pass.low.data(), pass.dropped.data(), tokens);
    applyDropout(pass, lora, pass.dropped.data(), dx, lora.a.columns, true);
  } else {
    engine.yW(factor(lora.a), pass.low.data(), dx, tokens, true);
  }
}

}  // namespace isopro::training
