#include "training/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace isopro::training {
namespace {

using kernels::denseMatrix;
using kernels::ProductScratch;
using kernels::serialProduct;

// Queries are taken in blocks, so that a block's scores [block, keys] stay in the cache and the
// upper triangle is skipped block by block.
constexpr std::int64_t kBlock = 128;

// One head of one segment. Its keys and values, [keys, headWidth], are those of the whole text down
// to the segment, brought together: its queries then look at them as if nothing were shared, in the
// same order of sums. Queries and keys count from the text's beginning.
struct Head {
  const Hyperparameters& hyper;
  Engine& engine;
  ProductScratch& scratch;
  std::int64_t window;
  const float* sink;        // null: none
  std::int64_t first, end;  // queries
  std::int64_t queryStride;
  const float* q;  // of query 0, were it there
  const float* k;
  const float* v;

  std::int64_t firstKey(std::int64_t query) const {
    return window == 0 ? 0 : std::max<std::int64_t>(0, query - window + 1);
  }

  // Calls body(q0, q1, k0) for each block of queries [q0, q1), whose keys are [k0, q1).
  template <typename Body>
  void forBlocks(Body body) const {
    for (std::int64_t q0 = first; q0 < end; q0 += kBlock)
      body(q0, std::min(q0 + kBlock, end), firstKey(q0));
  }

  // Capped scores and probabilities [q1 - q0, q1 - k0] of the queries [q0, q1); zero where a query
  // does not look.
  void probabilities(std::int64_t q0, std::int64_t q1, std::int64_t k0, std::vector<float>& capped,
                     std::vector<float>& p) const {
    const std::int64_t keys = q1 - k0;
    p.resize(static_cast<std::size_t>((q1 - q0) * keys));
    serialProduct(engine.variant(), scratch,
                  denseMatrix(q + q0 * queryStride, q1 - q0, hyper.headWidth, queryStride), false,
                  k + k0 * hyper.headWidth, 1, hyper.headWidth, p.data(), keys, 1, keys, false);
    for (float& score : p) score *= hyper.attentionScale;
    if (hyper.attentionCap > 0) {
      engine.variant().softCapForward(p.data(), hyper.attentionCap,
                                      static_cast<std::int64_t>(p.size()));
      capped = p;
    }
    for (std::int64_t i = q0; i < q1; ++i) {
      float* row = p.data() + (i - q0) * keys;
      const std::int64_t from = firstKey(i) - k0, to = i + 1 - k0;
      std::fill(row, row + from, 0.0f);
      const float total = engine.variant().softmaxForward(row + from, to - from);
      if (sink != nullptr) {
        const float share = 1.0f / (1.0f + std::exp(*sink - total));
        for (std::int64_t key = from; key < to; ++key) row[key] *= share;
      }
      std::fill(row + to, row + keys, 0.0f);
    }
  }
};

// A segment's text, from its beginning to the segment's end: what is given of it, and its rows.
struct Text {
  Past past{0, nullptr, nullptr};
  std::vector<Range> parts;
};

Text textOf(const Segments& segments, const Pasts& pasts, std::size_t index) {
  Text text;
  for (auto at = static_cast<std::int64_t>(index); at >= 0;) {
    const Segment& segment = segments[static_cast<std::size_t>(at)];
    text.parts.push_back(segment.rows);
    if (segment.past >= 0) text.past = pasts[static_cast<std::size_t>(segment.past)];
    at = segment.parent;
  }
  std::reverse(text.parts.begin(), text.parts.end());
  return text;
}

// Calls body(at, row) for each row of a text; `at` is its position.
template <typename Body>
void forText(const Text& text, Body body) {
  std::int64_t at = text.past.tokens;
  for (const Range& part : text.parts) {
    for (std::int64_t row = part.begin; row < part.end; ++row) body(at++, row);
  }
}

// Calls body(group, head, thread) for every head of every group, split over the threads.
template <typename Body>
void forHeads(Engine& engine, const Hyperparameters& hyper, std::size_t groups, Body body) {
  const auto count = static_cast<std::int64_t>(groups);
  engine.pool().run([&](int thread) {
    const Range part = split(count * hyper.heads, engine.pool().threads(), thread);
    for (std::int64_t i = part.begin; i < part.end; ++i)
      body(static_cast<std::size_t>(i % count), i / count, thread);
  });
}

// Segments that one text begins, and all that continue it.
std::vector<Range> treesOf(const Segments& segments) {
  std::vector<Range> trees;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const auto index = static_cast<std::int64_t>(s);
    if (segments[s].parent < 0) trees.push_back({index, index});
    trees.back().end = index + 1;
  }
  return trees;
}

struct Gathered {
  std::vector<float> k, v;
};

Head headOf(Engine& engine, const Hyperparameters& hyper, const Segment& segment, const Text& text,
            std::int64_t head, std::int64_t window, const float* sinks, int thread, const float* q,
            const float* k, const float* v, Gathered& gathered) {
  const std::int64_t queryStride = hyper.queryWidth(), keyStride = hyper.keyWidth(),
                     width = hyper.headWidth;
  const std::int64_t offset = head / (hyper.heads / hyper.keyHeads) * width;
  gathered.k.resize(static_cast<std::size_t>(segment.end() * width));
  gathered.v.resize(gathered.k.size());
  for (std::int64_t at = 0; at < text.past.tokens; ++at) {
    std::copy_n(text.past.k + at * keyStride + offset, width, gathered.k.data() + at * width);
    std::copy_n(text.past.v + at * keyStride + offset, width, gathered.v.data() + at * width);
  }
  forText(text, [&](std::int64_t at, std::int64_t row) {
    std::copy_n(k + row * keyStride + offset, width, gathered.k.data() + at * width);
    std::copy_n(v + row * keyStride + offset, width, gathered.v.data() + at * width);
  });
  return {hyper,
          engine,
          engine.scratch(thread),
          window,
          sinks == nullptr ? nullptr : sinks + head,
          segment.position,
          segment.end(),
          queryStride,
          q + (segment.rows.begin - segment.position) * queryStride + head * width,
          gathered.k.data(),
          gathered.v.data()};
}

}  // namespace

namespace {

// Of pair i the share of the plain angle, as ggml ramps it (Peng et al. 2023, YaRN, section 3.2).
float plainShare(const Rope& rope, std::int64_t pairs, std::int64_t i) {
  const auto width = static_cast<float>(2 * pairs);
  const auto context = static_cast<float>(rope.originalContext);
  constexpr float kPi = 3.14159265358979323846f;
  const auto pairOf = [&](float turns) {
    return width * std::log(context / (turns * 2 * kPi)) / (2 * std::log(rope.base));
  };
  const float low = std::max(0.0f, std::floor(pairOf(rope.fastTurns)));
  const float high = std::min(width - 1, std::ceil(pairOf(rope.slowTurns)));
  const float at = (static_cast<float>(i) - low) / std::max(0.001f, high - low);
  return rope.mixture * (1 - std::clamp(at, 0.0f, 1.0f));
}

}  // namespace

Rotation makeRotation(const Rope& rope, std::int64_t pairs, const std::vector<float>& factors,
                      std::int64_t positions) {
  Rotation rotation;
  rotation.cosine.resize(static_cast<std::size_t>(positions * pairs));
  rotation.sine.resize(rotation.cosine.size());
  std::vector<float> shares(static_cast<std::size_t>(rope.mixture == 0 ? 0 : pairs));
  for (std::size_t i = 0; i < shares.size(); ++i)
    shares[i] = plainShare(rope, pairs, static_cast<std::int64_t>(i));
  const float magnitude =
      rope.magnitude * (shares.empty() ? 1.0f : 1.0f + 0.1f * std::log(1.0f / rope.scale));
  // The angle is a product in f32, pair after pair, as llama.cpp takes it: both must see the same
  // angles.
  const float step = std::pow(rope.base, -2.0f / static_cast<float>(2 * pairs));
  for (std::int64_t position = 0; position < positions; ++position) {
    float angle = static_cast<float>(position);
    for (std::int64_t i = 0; i < pairs; ++i, angle *= step) {
      const float factor = factors.empty() ? 1.0f : factors[static_cast<std::size_t>(i)];
      const float plain = angle / factor;
      float theta = rope.scale * plain;
      if (!shares.empty()) {
        const float share = shares[static_cast<std::size_t>(i)];
        theta = theta * (1 - share) + plain * share;
      }
      rotation.cosine[static_cast<std::size_t>(position * pairs + i)] = std::cos(theta) * magnitude;
      rotation.sine[static_cast<std::size_t>(position * pairs + i)] = std::sin(theta) * magnitude;
    }
  }
  return rotation;
}

Rotations makeRotations(const Hyperparameters& hyper, const std::vector<float>& factors,
                        std::int64_t positions) {
  const std::int64_t pairs = hyper.rotatedWidth / 2;
  Rotations rotations;
  rotations.whole = makeRotation(hyper.rope, pairs, factors, positions);
  if (hyper.window > 0)
    rotations.window = makeRotation(hyper.windowRope, pairs, factors, positions);
  for (std::int64_t i = 0; i < positions && hyper.temperatureScale != 0; ++i) {
    const double texts =
        std::floor(static_cast<float>(i) / static_cast<float>(hyper.temperatureLength));
    rotations.temperature.push_back(static_cast<float>(
        std::log(texts + 1.0) * static_cast<double>(hyper.temperatureScale) + 1.0));
  }
  return rotations;
}

void lengthen(Engine& engine, const Hyperparameters& hyper, const std::vector<float>& temperature,
              const Segments& segments, float* x, std::int64_t heads) {
  const std::int64_t width = heads * hyper.headWidth;
  for (const Segment& segment : segments) {
    engine.pool().parallelFor(
        segment.rows.end - segment.rows.begin, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = begin; row < end; ++row) {
            float* at = x + (segment.rows.begin + row) * width;
            const float by = temperature[static_cast<std::size_t>(segment.position + row)];
            for (std::int64_t i = 0; i < width; ++i) at[i] *= by;
          }
        });
  }
}

void rotate(Engine& engine, const Hyperparameters& hyper, const Rotation& rotation,
            const Segments& segments, float* x, std::int64_t heads, float direction) {
  const std::int64_t pairs = hyper.rotatedWidth / 2;
  const std::int64_t next = hyper.architecture.halfRotation ? pairs : 1;
  const std::int64_t stride = hyper.architecture.halfRotation ? 1 : 2;
  for (const Segment& segment : segments) {
    engine.pool().parallelFor(
        segment.rows.end - segment.rows.begin, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = begin; row < end; ++row) {
            const float* cosine = rotation.cosine.data() + (segment.position + row) * pairs;
            const float* sine = rotation.sine.data() + (segment.position + row) * pairs;
            for (std::int64_t head = 0; head < heads; ++head) {
              float* at = x + ((segment.rows.begin + row) * heads + head) * hyper.headWidth;
              for (std::int64_t i = 0; i < pairs; ++i) {
                const float first = at[i * stride], second = at[i * stride + next],
                            s = direction * sine[i];
                at[i * stride] = first * cosine[i] - second * s;
                at[i * stride + next] = first * s + second * cosine[i];
              }
            }
          }
        });
  }
}

void attentionForward(Engine& engine, const Hyperparameters& hyper, const Segments& segments,
                      std::int64_t window, const float* sinks, const float* q, const float* k,
                      const float* v, float* out, const Pasts& pasts) {
  const std::int64_t queryStride = hyper.queryWidth(), width = hyper.headWidth;
  forHeads(engine, hyper, segments.size(), [&](std::size_t index, std::int64_t which, int thread) {
    const Segment& segment = segments[index];
    Gathered gathered;
    const Head head = headOf(engine, hyper, segment, textOf(segments, pasts, index), which, window,
                             sinks, thread, q, k, v, gathered);
    float* o = out + (segment.rows.begin - segment.position) * queryStride + which * width;
    std::vector<float> capped, p;
    head.forBlocks([&](std::int64_t q0, std::int64_t q1, std::int64_t k0) {
      head.probabilities(q0, q1, k0, capped, p);
      // o[block, headWidth] = p v
      serialProduct(engine.variant(), head.scratch, denseMatrix(p.data(), q1 - q0, q1 - k0), false,
                    head.v + k0 * width, width, 1, o + q0 * queryStride, queryStride, 1, width,
                    false);
    });
  });
}

void attentionBackward(Engine& engine, const Hyperparameters& hyper, const Segments& segments,
                       std::int64_t window, const float* sinks, const float* q, const float* k,
                       const float* v, const float* dOut, float* dq, float* dk, float* dv,
                       const Pasts& pasts) {
  const std::int64_t queryStride = hyper.queryWidth(), keyStride = hyper.keyWidth(),
                     width = hyper.headWidth;
  const std::int64_t tokens = segments.back().rows.end;
  // Each head of q has its own share of dk and dv; the heads that use one k and v are added below
  // in a fixed order. A tree's segments all add to the keys above them: one thread takes them in
  // their order.
  std::vector<float> dkShare(static_cast<std::size_t>(tokens * queryStride)),
      dvShare(dkShare.size());
  const std::vector<Range> trees = treesOf(segments);
  forHeads(engine, hyper, trees.size(), [&](std::size_t tree, std::int64_t which, int thread) {
    const auto& variant = engine.variant();
    Gathered gathered, gradient;
    std::vector<float> capped, p, ds;
    for (auto index = static_cast<std::size_t>(trees[tree].begin);
         index < static_cast<std::size_t>(trees[tree].end); ++index) {
      const Segment& segment = segments[index];
      const Text text = textOf(segments, pasts, index);
      const Head head =
          headOf(engine, hyper, segment, text, which, window, sinks, thread, q, k, v, gathered);
      const std::int64_t at = (segment.rows.begin - segment.position) * queryStride + which * width;
      gradient.k.assign(gathered.k.size(), 0.0f);
      gradient.v.assign(gathered.v.size(), 0.0f);
      head.forBlocks([&](std::int64_t q0, std::int64_t q1, std::int64_t k0) {
        const std::int64_t keys = q1 - k0, rows = q1 - q0;
        head.probabilities(q0, q1, k0, capped, p);
        const float* dO = dOut + at + q0 * queryStride;
        // ds = p * (dp - sum(p dp)), dp[block, keys] = dO vT
        ds.resize(p.size());
        serialProduct(variant, head.scratch, denseMatrix(dO, rows, width, queryStride), false,
                      head.v + k0 * width, 1, width, ds.data(), keys, 1, keys, false);
        for (std::int64_t i = 0; i < rows; ++i)
          variant.softmaxBackward(p.data() + i * keys, ds.data() + i * keys, keys);
        if (hyper.attentionCap > 0) {
          variant.softCapBackward(capped.data(), hyper.attentionCap, ds.data(),
                                  static_cast<std::int64_t>(ds.size()));
        }
        for (float& value : ds) value *= hyper.attentionScale;
        // dq = ds k; dk += dsT q; dv += pT dO, of the keys that are no constants
        const std::int64_t k1 = std::max(k0, text.past.tokens), some = q1 - k1;
        serialProduct(variant, head.scratch, denseMatrix(ds.data(), rows, keys), false,
                      head.k + k0 * width, width, 1, dq + at + q0 * queryStride, queryStride, 1,
                      width, false);
        serialProduct(variant, head.scratch, denseMatrix(ds.data() + k1 - k0, rows, some, keys),
                      true, head.q + q0 * queryStride, queryStride, 1,
                      gradient.k.data() + k1 * width, width, 1, width, true);
        serialProduct(variant, head.scratch, denseMatrix(p.data() + k1 - k0, rows, some, keys),
                      true, dO, queryStride, 1, gradient.v.data() + k1 * width, width, 1, width,
                      true);
      });
      forText(text, [&](std::int64_t position, std::int64_t row) {
        for (std::int64_t i = 0; i < width; ++i) {
          const auto to = static_cast<std::size_t>(row * queryStride + which * width + i);
          dkShare[to] += gradient.k[static_cast<std::size_t>(position * width + i)];
          dvShare[to] += gradient.v[static_cast<std::size_t>(position * width + i)];
        }
      });
    }
  });
  const std::int64_t group = hyper.heads / hyper.keyHeads;
  engine.pool().parallelFor(tokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t i = 0; i < keyStride; ++i) {
        const std::int64_t from =
            t * queryStride + i / hyper.headWidth * group * hyper.headWidth + i % hyper.headWidth;
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
