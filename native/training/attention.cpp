#include "training/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace isopro::training {
namespace {

using kernels::denseMatrix;
using kernels::ProductScratch;
using kernels::serialProduct;

// Queries are taken in blocks, so that a block's scores [block, keys] stay in the cache and the upper triangle is
// skipped block by block.
constexpr std::int64_t kBlock = 128;

// One head of one sequence; pointers are at the sequence's first token.
struct Head {
  const Hyperparameters& hyper;
  Engine& engine;
  ProductScratch& scratch;
  std::int64_t tokens, window;
  std::int64_t queryStride, keyStride;  // floats from a token to the next
  const float* q;
  const float* k;
  const float* v;

  std::int64_t firstKey(std::int64_t query) const { return window == 0 ? 0 : std::max<std::int64_t>(0, query - window + 1); }

  // Capped scores and probabilities [q1 - q0, k1 - k0] of the queries [q0, q1); zero where a query does not look.
  void probabilities(std::int64_t q0, std::int64_t q1, std::int64_t k0, std::vector<float>& capped, std::vector<float>& p) const {
    const std::int64_t keys = q1 - k0;
    p.resize(static_cast<std::size_t>((q1 - q0) * keys));
    serialProduct(engine.variant(), scratch, denseMatrix(q + q0 * queryStride, q1 - q0, hyper.headWidth, queryStride), false,
                  k + k0 * keyStride, 1, keyStride, p.data(), keys, 1, keys, false);
    for (float& score : p) score *= hyper.attentionScale;
    if (hyper.attentionCap > 0) {
      engine.variant().softCapForward(p.data(), hyper.attentionCap, static_cast<std::int64_t>(p.size()));
      capped = p;
    }
    for (std::int64_t i = q0; i < q1; ++i) {
      float* row = p.data() + (i - q0) * keys;
      const std::int64_t from = firstKey(i) - k0, to = i + 1 - k0;
      std::fill(row, row + from, 0.0f);
      engine.variant().softmaxForward(row + from, to - from);
      std::fill(row + to, row + keys, 0.0f);
    }
  }
};

// Calls body(sequence, head, thread) for every head of every sequence, split over the threads.
template <typename Body>
void forHeads(Engine& engine, const Hyperparameters& hyper, const Sequences& sequences, Body body) {
  const auto count = static_cast<std::int64_t>(sequences.size()) * hyper.heads;
  engine.pool().run([&](int thread) {
    const Range part = split(count, engine.pool().threads(), thread);
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      body(sequences[static_cast<std::size_t>(i / hyper.heads)], i % hyper.heads, thread);
    }
  });
}

Head headOf(Engine& engine, const Hyperparameters& hyper, Range sequence, std::int64_t head, std::int64_t window, int thread,
            const float* q, const float* k, const float* v) {
  const std::int64_t queryStride = hyper.queryWidth(), keyStride = hyper.keyWidth();
  const std::int64_t atKey = sequence.begin * keyStride + head / (hyper.heads / hyper.keyHeads) * hyper.headWidth;
  return {hyper,
          engine,
          engine.scratch(thread),
          sequence.end - sequence.begin,
          window,
          queryStride,
          keyStride,
          q + sequence.begin * queryStride + head * hyper.headWidth,
          k + atKey,
          v + atKey};
}

}  // namespace

Rotation makeRotation(const Hyperparameters& hyper, const std::vector<float>& factors, std::int64_t positions) {
  const std::int64_t pairs = hyper.headWidth / 2;
  Rotation rotation;
  rotation.cosine.resize(static_cast<std::size_t>(positions * pairs));
  rotation.sine.resize(rotation.cosine.size());
  // The angle is a product in f32, pair after pair, as llama.cpp takes it: both must see the same angles.
  const float step = std::pow(hyper.ropeBase, -2.0f / static_cast<float>(hyper.headWidth));
  for (std::int64_t position = 0; position < positions; ++position) {
    float angle = static_cast<float>(position);
    for (std::int64_t i = 0; i < pairs; ++i, angle *= step) {
      const float factor = factors.empty() ? 1.0f : factors[static_cast<std::size_t>(i)];
      const float theta = hyper.ropeScale * (angle / factor);
      rotation.cosine[static_cast<std::size_t>(position * pairs + i)] = std::cos(theta);
      rotation.sine[static_cast<std::size_t>(position * pairs + i)] = std::sin(theta);
    }
  }
  return rotation;
}

void rotate(Engine& engine, const Hyperparameters& hyper, const Rotation& rotation, const Sequences& sequences, float* x,
            std::int64_t heads, float direction) {
  const std::int64_t pairs = hyper.headWidth / 2;
  const std::int64_t next = hyper.architecture.halfRotation ? pairs : 1;
  const std::int64_t stride = hyper.architecture.halfRotation ? 1 : 2;
  for (const Range& sequence : sequences) {
    engine.pool().parallelFor(sequence.end - sequence.begin, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t position = begin; position < end; ++position) {
        const float* cosine = rotation.cosine.data() + position * pairs;
        const float* sine = rotation.sine.data() + position * pairs;
        for (std::int64_t head = 0; head < heads; ++head) {
          float* at = x + ((sequence.begin + position) * heads + head) * hyper.headWidth;
          for (std::int64_t i = 0; i < pairs; ++i) {
            const float first = at[i * stride], second = at[i * stride + next], s = direction * sine[i];
            at[i * stride] = first * cosine[i] - second * s;
            at[i * stride + next] = first * s + second * cosine[i];
          }
        }
      }
    });
  }
}

void attentionForward(Engine& engine, const Hyperparameters& hyper, const Sequences& sequences, std::int64_t window, const float* q,
                      const float* k, const float* v, float* out) {
  const std::int64_t queryStride = hyper.queryWidth();
  forHeads(engine, hyper, sequences, [&](Range sequence, std::int64_t index, int thread) {
    const Head head = headOf(engine, hyper, sequence, index, window, thread, q, k, v);
    float* o = out + sequence.begin * queryStride + index * hyper.headWidth;
    std::vector<float> capped, p;
    for (std::int64_t q0 = 0; q0 < head.tokens; q0 += kBlock) {
      const std::int64_t q1 = std::min(q0 + kBlock, head.tokens), k0 = head.firstKey(q0), keys = q1 - k0;
      head.probabilities(q0, q1, k0, capped, p);
      // o[block, headWidth] = p v
      serialProduct(engine.variant(), head.scratch, denseMatrix(p.data(), q1 - q0, keys), false, head.v + k0 * head.keyStride,
                    head.keyStride, 1, o + q0 * queryStride, queryStride, 1, hyper.headWidth, false);
    }
  });
}

void attentionBackward(Engine& engine, const Hyperparameters& hyper, const Sequences& sequences, std::int64_t window, const float* q,
                       const float* k, const float* v, const float* dOut, float* dq, float* dk, float* dv) {
  const std::int64_t queryStride = hyper.queryWidth(), keyStride = hyper.keyWidth();
  const std::int64_t tokens = sequences.back().end;
  // Each head of q has its own share of dk and dv; the heads that use one k and v are added below in a fixed order.
  std::vector<float> dkShare(static_cast<std::size_t>(tokens * queryStride)), dvShare(dkShare.size());
  forHeads(engine, hyper, sequences, [&](Range sequence, std::int64_t index, int thread) {
    const Head head = headOf(engine, hyper, sequence, index, window, thread, q, k, v);
    const std::int64_t at = sequence.begin * queryStride + index * hyper.headWidth;
    const std::int64_t width = hyper.headWidth;
    const auto& variant = engine.variant();
    std::vector<float> capped, p, ds;
    for (std::int64_t q0 = 0; q0 < head.tokens; q0 += kBlock) {
      const std::int64_t q1 = std::min(q0 + kBlock, head.tokens), k0 = head.firstKey(q0), keys = q1 - k0, rows = q1 - q0;
      head.probabilities(q0, q1, k0, capped, p);
      const float* dO = dOut + at + q0 * queryStride;
      // ds = p * (dp - sum(p dp)), dp[block, keys] = dO vT
      ds.resize(p.size());
      serialProduct(variant, head.scratch, denseMatrix(dO, rows, width, queryStride), false, head.v + k0 * head.keyStride, 1,
                    head.keyStride, ds.data(), keys, 1, keys, false);
      for (std::int64_t i = 0; i < rows; ++i) variant.softmaxBackward(p.data() + i * keys, ds.data() + i * keys, keys);
      if (hyper.attentionCap > 0) {
        variant.softCapBackward(capped.data(), hyper.attentionCap, ds.data(), static_cast<std::int64_t>(ds.size()));
      }
      for (float& value : ds) value *= hyper.attentionScale;
      // dq = ds k; dk += dsT q; dv += pT dO
      serialProduct(variant, head.scratch, denseMatrix(ds.data(), rows, keys), false, head.k + k0 * head.keyStride, head.keyStride, 1,
                    dq + at + q0 * queryStride, queryStride, 1, width, false);
      serialProduct(variant, head.scratch, denseMatrix(ds.data(), rows, keys), true, head.q + q0 * queryStride, queryStride, 1,
                    dkShare.data() + at + k0 * queryStride, queryStride, 1, width, true);
      serialProduct(variant, head.scratch, denseMatrix(p.data(), rows, keys), true, dO, queryStride, 1,
                    dvShare.data() + at + k0 * queryStride, queryStride, 1, width, true);
    }
  });
  const std::int64_t group = hyper.heads / hyper.keyHeads;
  engine.pool().parallelFor(tokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t i = 0; i < keyStride; ++i) {
        const std::int64_t from = t * queryStride + i / hyper.headWidth * group * hyper.headWidth + i % hyper.headWidth;
        float sumK = 0, sumV = 0;
        for (std::int64_t member = 0; member < group; ++member) {
          sumK += dkShare[static_cast<std::size_t>(from + member * hyper.headWidth)];
          sumV += dvShare[static_cast<std::size_t>(from + member * hyper.headWidth)];
        }
        dk[t * keyStride + i] = sumK;
        dv[t * keyStride + i] = sumV;
      }
    }
  });
}

}  // namespace isopro::training
