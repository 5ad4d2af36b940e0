// A small model with random weights, and its loss as plain loops in double: the oracle of the
// gradient tests.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/reference.h"
#include "support/random.h"
#include "training/trainer.h"

extern "C" {
void quantize_row_q8_K_ref(const float* x, void* y, std::int64_t k);
void dequantize_row_q8_K(const void* x, float* y, std::int64_t k);
}

namespace isopro::testing {

using namespace isopro::training;
using kernels::reference::Values;

struct Shape {
  std::int64_t layers = 2, width = 64, heads = 4, keyHeads = 2, headWidth = 16, feedForward = 96,
               vocabulary = 50, context = 64;
  std::int64_t experts = 5, expertsUsed = 2, rotatedWidth = 0;  // 0: all of a head
  bool tied = false, biases = false, ropeFactors = false;
  std::int64_t window = 5;
  ggml_type type = GGML_TYPE_F32;
};

// Owns what ModelWeights's matrices point to.
struct ModelData {
  std::vector<std::vector<std::uint8_t>> matrices;
};

inline Matrix randomMatrix(ModelData& data, Random& random, std::int64_t rows, std::int64_t columns,
                           ggml_type type, double deviation) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (float& value : values)
    value = static_cast<float>((random.nextDouble() * 2 - 1) * deviation * 1.7);
  const std::size_t rowBytes = ggml_row_size(type, columns);
  std::vector<std::uint8_t> bytes(rowBytes * static_cast<std::size_t>(rows));
  if (type == GGML_TYPE_F32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  } else {
    ggml_quantize_chunk(type, values.data(), bytes.data(), 0, rows, columns, nullptr);
  }
  data.matrices.push_back(std::move(bytes));
  return {data.matrices.back().data(), type, rows, columns, rowBytes};
}

inline std::unique_ptr<ModelWeights> randomModel(const std::string& architecture,
                                                 const Shape& shape, std::uint64_t seed) {
  Random random(seed);
  auto data = std::make_shared<ModelData>();
  data->matrices.reserve(1000);
  auto model = std::make_unique<ModelWeights>();
  Hyperparameters& h = model->hyper;
  h.architecture = *findArchitecture(architecture);
  h.layers = shape.layers, h.width = shape.width, h.heads = shape.heads,
  h.keyHeads = shape.keyHeads;
  h.headWidth = shape.headWidth;
  h.rotatedWidth = shape.rotatedWidth == 0 ? h.headWidth : shape.rotatedWidth;
  if (h.architecture.experts) h.experts = shape.experts, h.expertsUsed = shape.expertsUsed;
  h.feedForward = shape.feedForward, h.vocabulary = shape.vocabulary,
  h.contextLength = shape.context;
  h.normEpsilon = 1e-5f;
  h.attentionScale = 1.0f / std::sqrt(static_cast<float>(h.headWidth));
  if (h.architecture.windowPeriod > 0) h.window = shape.window;
  // So that few layers have one of each kind.
  h.architecture.windowPeriod = std::min(h.architecture.windowPeriod, h.layers);
  switch (h.architecture.family) {
    case Family::Gemma2:
      h.attentionCap = 3, h.finalCap = 2;
      h.embeddingScale = std::sqrt(static_cast<float>(h.width));
      break;
    case Family::Gemma3:
      h.rope.base = 1000, h.rope.scale = 0.5f;
      h.embeddingScale = std::sqrt(static_cast<float>(h.width));
      break;
    case Family::Olmo2:
      h.rope.scale = 0.5f;
      break;
    case Family::SmolLm3:
      h.plainPeriod = std::min<std::int64_t>(4, h.layers);
      break;
    case Family::Granite:
      h.embeddingScale = 3, h.residualScale = 0.4f, h.attentionScale = 0.2f, h.logitScale = 0.5f;
      break;
    case Family::Mistral3:
      h.temperatureScale = 0.3f, h.temperatureLength = 4;
      h.rope.scale = 0.25f, h.rope.mixture = 1, h.rope.magnitude = 0.9f;
      h.rope.fastTurns = 4, h.rope.originalContext = 32;
      break;
    case Family::Phi3:
      h.rope.magnitude = 1.1f, h.rope.originalContext = 1024;
      break;
    case Family::GptOss:
      h.rope.scale = 0.25f, h.rope.mixture = 1, h.rope.originalContext = 64;
      h.windowRope = h.rope;
      break;
    default:
      break;
  }
  const auto vector = [&](std::int64_t width, double mean, double deviation) {
    std::vector<float> values(static_cast<std::size_t>(width));
    for (float& value : values)
      value = static_cast<float>(mean + deviation * (random.nextDouble() * 2 - 1));
    return values;
  };
  const auto norm = [&](std::int64_t width) { return Norm{vector(width, 1, 0.3), nullptr}; };
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return randomMatrix(*data, random, rows, columns, shape.type,
                        1.0 / std::sqrt(static_cast<double>(columns)));
  };
  model->embedding = randomMatrix(*data, random, h.vocabulary, h.width, shape.type,
                                  h.embeddingScale == 1 ? 0.15 : 0.1);
  model->tied = shape.tied;
  model->head.weight = shape.tied ? model->embedding : matrix(h.vocabulary, h.width);
  model->outputNorm = norm(h.width);
  if (shape.ropeFactors) model->ropeFactors = vector(h.rotatedWidth / 2, 3, 2);
  const std::int64_t queries = h.heads * h.headWidth, keys = h.keyHeads * h.headWidth;
  const std::int64_t halves = h.architecture.fused ? 2 : 1;
  const std::int64_t outputs[kModules] = {
      queries,           keys, keys, h.width, h.feedForward, halves * h.feedForward, h.width,
      queries + 2 * keys};
  const std::int64_t inputs[kModules] = {h.width, h.width, h.width,       queries,
                                         h.width, h.width, h.feedForward, h.width};
  for (std::int64_t i = 0; i < h.layers; ++i) {
    Layer layer;
    for (int m = 0; m < kModules; ++m) {
      if (!hasModule(h.architecture, m)) continue;
      layer.linear[m].weight = matrix(outputs[m], inputs[m]);
      const bool biased = m <= kValue || (m == kOutput && h.architecture.experts);
      if (shape.biases && biased) layer.linear[m].bias = vector(outputs[m], 0, 0.5);
    }
    if (h.architecture.experts) {
      const auto stack = [&](std::int64_t rows, std::int64_t columns) {
        const Matrix all = matrix(h.experts * rows, columns);
        std::vector<Matrix> each;
        for (std::int64_t e = 0; e < h.experts; ++e) {
          const auto* data = static_cast<const std::uint8_t*>(all.data);
          each.push_back({data + static_cast<std::size_t>(e * rows) * all.rowBytes, all.type, rows,
                          columns, all.rowBytes});
        }
        return each;
      };
      layer.experts.router = randomMatrix(*data, random, h.experts, h.width, GGML_TYPE_F32, 0.2);
      layer.experts.gate = stack(h.feedForward, h.width);
      layer.experts.up = stack(h.feedForward, h.width);
      layer.experts.down = stack(h.width, h.feedForward);
    }
    if (h.architecture.family == Family::GptOss) {
      layer.sinks = vector(h.heads, 0, 1);
      layer.experts.routerBias = vector(h.experts, 0, 0.3);
      layer.experts.gateBias = vector(h.experts * h.feedForward, 0, 0.5);
      layer.experts.upBias = vector(h.experts * h.feedForward, 0, 0.5);
      layer.experts.downBias = vector(h.experts * h.width, 0, 0.5);
    }
    if (h.architecture.preNorms)
      layer.attentionNorm = norm(h.width), layer.feedForwardNorm = norm(h.width);
    if (h.architecture.headNorms != HeadNorms::none) {
      layer.queryNorm = norm(h.headNormWidth(h.heads));
      layer.keyNorm = norm(h.headNormWidth(h.keyHeads));
    }
    if (h.architecture.postNorms)
      layer.attentionPostNorm = norm(h.width), layer.feedForwardPostNorm = norm(h.width);
    model->layers.push_back(std::move(layer));
  }
  model->file =
      std::shared_ptr<const GgufFile>(data, nullptr);  // keeps the values alive; there is no file
  return model;
}

// Everything that the reference reads, in double. `parameters` of a trainer, changed one entry at a
// time, are read from the trainer's model at construction; perturb() changes the copy.
class ReferenceModel {
 public:
  explicit ReferenceModel(ModelWeights& model) : h_(model.hyper) {
    embedding_ = widen(model.embedding);
    head_ = takeLinear(model.head);
    outputNorm_ = takeNorm(model.outputNorm);
    ropeFactors_ = {model.ropeFactors.begin(), model.ropeFactors.end()};
    for (Layer& layer : model.layers) {
      RefLayer copy;
      for (int m = 0; m < kModules; ++m) {
        if (layer.linear[m]) copy.linear[m] = takeLinear(layer.linear[m]);
      }
      copy.sinks = {layer.sinks.begin(), layer.sinks.end()};
      const Experts& experts = layer.experts;
      for (std::size_t e = 0; e < experts.gate.size(); ++e) {
        const auto d = static_cast<std::size_t>(h_.width),
                   f = static_cast<std::size_t>(h_.feedForward);
        const auto part = [e](const Buffer& biases, std::size_t width) {
          const auto from = biases.begin() + static_cast<std::ptrdiff_t>(e * width);
          return biases.empty() ? Values()
                                : Values(from, from + static_cast<std::ptrdiff_t>(width));
        };
        RefExpert expert;
        expert.gate.weight = widen(experts.gate[e]), expert.gate.bias = part(experts.gateBias, f);
        expert.up.weight = widen(experts.up[e]), expert.up.bias = part(experts.upBias, f);
        expert.down.weight = widen(experts.down[e]), expert.down.bias = part(experts.downBias, d);
        copy.experts.push_back(std::move(expert));
      }
      if (experts) {
        copy.router.weight = widen(experts.router);
        copy.router.bias = {experts.routerBias.begin(), experts.routerBias.end()};
      }
      copy.attentionNorm = takeNorm(layer.attentionNorm),
      copy.feedForwardNorm = takeNorm(layer.feedForwardNorm);
      copy.queryNorm = takeNorm(layer.queryNorm), copy.keyNorm = takeNorm(layer.keyNorm);
      copy.attentionPostNorm = takeNorm(layer.attentionPostNorm),
      copy.feedForwardPostNorm = takeNorm(layer.feedForwardPostNorm);
      layers_.push_back(std::move(copy));
    }
    tied_ = model.tied;
    trainedEmbedding_ = model.tied ? model.head.trainedWeight.get() : model.trainedEmbedding.get();
  }

  // The double that stands for entry i of a trained parameter; nullptr where it is not part of the
  // model.
  std::vector<double*> entry(const Parameter& p, std::size_t i) {
    std::vector<double*> found;
    const auto look = [&](const Parameter* owner, Values& values) {
      if (owner == &p) found.push_back(&values[i]);
    };
    look(trainedEmbedding_, embedding_);
    const auto lookLinear = [&](RefLinear& l) {
      look(l.weightOwner, l.weight), look(l.biasOwner, l.bias), look(l.aOwner, l.a),
          look(l.bOwner, l.b);
    };
    const auto lookNorm = [&](RefNorm& n) { look(n.owner, n.weight); };
    lookLinear(head_);
    lookNorm(outputNorm_);
    for (RefLayer& layer : layers_) {
      for (RefLinear& l : layer.linear) lookLinear(l);
      for (RefNorm* n : {&layer.attentionNorm, &layer.feedForwardNorm, &layer.queryNorm,
                         &layer.keyNorm, &layer.attentionPostNorm, &layer.feedForwardPostNorm})
        lookNorm(*n);
    }
    return found;
  }

  // Logits [tokens, vocabulary] of one sequence, whose adapter acts from a token on.
  Values logits(const std::vector<std::int32_t>& tokens, std::int64_t adapterFrom = 0) const {
    const auto apply = [&, from = static_cast<std::size_t>(adapterFrom)](
                           const RefLinear& l, const Values& x, std::size_t count) {
      return product(l, x, count, from);
    };
    namespace ref = kernels::reference;
    const auto T = tokens.size();
    const auto d = static_cast<std::size_t>(h_.width), hw = static_cast<std::size_t>(h_.headWidth);
    Values x;
    for (const std::int32_t token : tokens) {
      for (std::size_t i = 0; i < d; ++i) {
        x.push_back(embedding_[static_cast<std::size_t>(token) * d + i] *
                    static_cast<double>(h_.embeddingScale));
      }
    }
    for (std::size_t index = 0; index < layers_.size(); ++index) {
      const RefLayer& layer = layers_[index];
      const auto read = [&](const RefNorm& norm) {
        return h_.architecture.preNorms ? ref::norm(x, norm.weight, h_.normEpsilon) : x;
      };
      Values normed = read(layer.attentionNorm);
      const auto queryWidth = static_cast<std::size_t>(h_.queryWidth()),
                 keyWidth = static_cast<std::size_t>(h_.keyWidth());
      Values q, k, v;
      if (h_.architecture.fused) {
        const Values all = apply(layer.linear[kFused], normed, T);
        q = columns(all, T, 0, queryWidth);
        k = columns(all, T, queryWidth, keyWidth);
        v = columns(all, T, queryWidth + keyWidth, keyWidth);
      } else {
        q = apply(layer.linear[kQuery], normed, T), k = apply(layer.linear[kKey], normed, T);
        v = apply(layer.linear[kValue], normed, T);
      }
      if (h_.architecture.headNorms != HeadNorms::none) {
        q = ref::norm(q, layer.queryNorm.weight, h_.normEpsilon);
        k = ref::norm(k, layer.keyNorm.weight, h_.normEpsilon);
      }
      const auto heads = static_cast<std::size_t>(h_.heads),
                 keyHeads = static_cast<std::size_t>(h_.keyHeads);
      const std::int64_t place = static_cast<std::int64_t>(index);
      const auto turns = angles(h_.hasWindow(place) ? h_.windowRope : h_.rope);
      const auto turn = [&](Values& values, std::size_t count) {
        for (std::size_t t = 0; t < T && h_.rotates(place); ++t) {
          for (std::size_t head = 0; head < count; ++head) {
            ref::rotate(&values[(t * count + head) * hw], h_.architecture.halfRotation,
                        static_cast<double>(t), turns);
          }
        }
      };
      turn(q, heads);
      turn(k, keyHeads);
      if (h_.temperatureScale != 0) {
        for (std::size_t i = 0; i < q.size(); ++i) {
          const auto t = static_cast<std::int64_t>(i / (heads * hw));
          q[i] *= 1 + static_cast<double>(h_.temperatureScale) *
                          std::log(1 + static_cast<double>(t / h_.temperatureLength));
        }
      }
      const std::size_t window = h_.hasWindow(place) ? static_cast<std::size_t>(h_.window) : 0;
      Values attended(T * heads * hw);
      for (std::size_t head = 0; head < heads; ++head) {
        const auto pick = [&](const Values& from, std::size_t count, std::size_t which) {
          Values values;
          for (std::size_t t = 0; t < T; ++t) {
            for (std::size_t i = 0; i < hw; ++i)
              values.push_back(from[(t * count + which) * hw + i]);
          }
          return values;
        };
        const std::size_t shared = head / (heads / keyHeads);
        const Values out = ref::attention(
            pick(q, heads, head), pick(k, keyHeads, shared), pick(v, keyHeads, shared), hw,
            static_cast<double>(h_.attentionScale), static_cast<double>(h_.attentionCap), window,
            layer.sinks.empty() ? nullptr : &layer.sinks[head]);
        for (std::size_t t = 0; t < T; ++t) {
          for (std::size_t i = 0; i < hw; ++i)
            attended[(t * heads + head) * hw + i] = out[t * hw + i];
        }
      }
      Values added = apply(layer.linear[kOutput], attended, T);
      if (h_.architecture.postNorms)
        added = ref::norm(added, layer.attentionPostNorm.weight, h_.normEpsilon);
      const double residual = h_.residualScale;
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += residual * added[i];
      normed = read(layer.feedForwardNorm);
      const auto f = static_cast<std::size_t>(h_.feedForward);
      if (!layer.experts.empty()) {
        added = mixture(layer, normed, T);
      } else if (h_.architecture.fused) {
        const Values both = apply(layer.linear[kUp], normed, T);
        added =
            apply(layer.linear[kDown], joined(columns(both, T, 0, f), columns(both, T, f, f)), T);
      } else {
        added = apply(
            layer.linear[kDown],
            joined(apply(layer.linear[kGate], normed, T), apply(layer.linear[kUp], normed, T)), T);
      }
      if (h_.architecture.postNorms)
        added = ref::norm(added, layer.feedForwardPostNorm.weight, h_.normEpsilon);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += residual * added[i];
    }
    Values y = apply(head_, ref::norm(x, outputNorm_.weight, h_.normEpsilon), T);
    for (double& value : y) {
      value = ref::softCap(value * static_cast<double>(h_.logitScale),
                           static_cast<double>(h_.finalCap));
    }
    return y;
  }

  // Log-probability of token t of the sequence at the temperature.
  Values logprobs(const std::vector<std::int32_t>& tokens, double temperature,
                  std::int64_t adapterFrom = 0) const {
    const Values all = logits(tokens, adapterFrom);
    const auto V = static_cast<std::size_t>(h_.vocabulary);
    Values result(tokens.size());
    for (std::size_t t = 1; t < tokens.size(); ++t) {
      Values row(all.begin() + static_cast<std::ptrdiff_t>((t - 1) * V),
                 all.begin() + static_cast<std::ptrdiff_t>(t * V));
      for (double& value : row) value /= temperature;
      result[t] = row[static_cast<std::size_t>(tokens[t])] - kernels::reference::logSumExp(row);
    }
    return result;
  }

  // The step's loss as loss.h defines it, written out anew.
  double loss(const std::vector<TrainSequence>& batch, const Objective& o) const {
    double total = 0;
    std::int64_t count = 0;
    for (const TrainSequence& s : batch) {
      const Values lp =
          logprobs(s.tokens, o.policy ? static_cast<double>(o.temperature) : 1.0, s.adapterFrom);
      for (std::size_t t = 0; t < s.tokens.size(); ++t) {
        if (!s.labelled[t]) continue;
        ++count;
        if (!o.policy) {
          total -= static_cast<double>(s.weight) * lp[t];
          continue;
        }
        const double ratio = std::exp(lp[t] - static_cast<double>(s.oldLogprobs[t]));
        const double low = 1 - static_cast<double>(o.clipLow),
                     high = 1 + static_cast<double>(o.clipHigh);
        const double bounded = ratio < low ? low : ratio > high ? high : ratio;
        const double a = s.advantages[t];
        double term = -std::min(ratio * a, bounded * a);
        if (o.klCoefficient != 0) {
          const double gap = static_cast<double>(s.referenceLogprobs[t]) - lp[t];
          term += static_cast<double>(o.klCoefficient) * (std::exp(gap) - gap - 1);
        }
        total += static_cast<double>(s.weight) * term;
      }
    }
    return total / static_cast<double>(count);
  }

  // How llama.cpp computes some things less exactly; both as the definition says where not set.
  double (*gelu)(double) = kernels::reference::gelu;
  ggml_type activationType =
      GGML_TYPE_F32;  // what it rounds the input of a product with weights to

 private:
  struct RefLinear {
    Values weight, bias, a, b;
    double scale = 0;
    const Parameter *weightOwner = nullptr, *biasOwner = nullptr, *aOwner = nullptr,
                    *bOwner = nullptr;
  };
  struct RefNorm {
    Values weight;
    const Parameter* owner = nullptr;
  };
  struct RefExpert {
    RefLinear gate, up, down;
  };
  struct RefLayer {
    RefLinear linear[kModules];
    RefLinear router;
    std::vector<RefExpert> experts;
    Values sinks;
    RefNorm attentionNorm, feedForwardNorm, queryNorm, keyNorm, attentionPostNorm,
        feedForwardPostNorm;
  };

  // Columns [first, first + width) of rows.
  static Values columns(const Values& rows, std::size_t count, std::size_t first,
                        std::size_t width) {
    Values part;
    for (std::size_t row = 0; row < count; ++row) {
      for (std::size_t i = 0; i < width; ++i)
        part.push_back(rows[row * (rows.size() / count) + first + i]);
    }
    return part;
  }

  Values joined(const Values& gate, const Values& up) const {
    Values hidden(gate.size());
    for (std::size_t i = 0; i < gate.size(); ++i) {
      if (h_.architecture.gate == Gate::swigluLimited) {
        const double x = std::min(gate[i], 7.0), y = std::min(7.0, std::max(-7.0, up[i]));
        hidden[i] = x / (1 + std::exp(-1.702 * x)) * (y + 1);
      } else {
        hidden[i] = (h_.architecture.gate == Gate::swiglu ? kernels::reference::silu(gate[i])
                                                          : gelu(gate[i])) *
                    up[i];
      }
    }
    return hidden;
  }

  // Softmax over all experts; the best are chosen, and their shares divided by their sum.
  Values mixture(const RefLayer& layer, const Values& x, std::size_t tokens) const {
    const std::size_t d = x.size() / tokens;
    const Values logits = product(layer.router, x, tokens);
    Values y(x.size());
    for (std::size_t t = 0; t < tokens; ++t) {
      const std::size_t count = layer.experts.size();
      const double* own = logits.data() + t * count;
      std::vector<std::size_t> order;
      for (std::size_t e = 0; e < count; ++e) order.push_back(e);
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return own[a] > own[b]; });
      order.resize(static_cast<std::size_t>(h_.expertsUsed));
      double sum = 0;
      for (const std::size_t e : order) sum += std::exp(own[e]);
      const Values row = columns(x, 1, t * d, d);
      for (const std::size_t e : order) {
        const RefExpert& expert = layer.experts[e];
        const Values out = product(
            expert.down, joined(product(expert.gate, row, 1), product(expert.up, row, 1)), 1);
        for (std::size_t i = 0; i < d; ++i) y[t * d + i] += std::exp(own[e]) / sum * out[i];
      }
    }
    return y;
  }

  // Of one position, for each pair: how far it turns, and the length that it gets.
  std::vector<std::pair<double, double>> angles(const Rope& rope) const {
    std::vector<std::pair<double, double>> all;
    const auto width = static_cast<double>(h_.rotatedWidth), base = static_cast<double>(rope.base);
    constexpr double kPi = 3.14159265358979323846;
    const auto pairOf = [&](double turns) {
      return width * std::log(static_cast<double>(rope.originalContext) / (turns * 2 * kPi)) /
             (2 * std::log(base));
    };
    for (std::int64_t i = 0; i < h_.rotatedWidth / 2; ++i) {
      const auto pair = static_cast<double>(i);
      const double factor = ropeFactors_.empty() ? 1 : ropeFactors_[static_cast<std::size_t>(i)];
      const double plain = std::pow(base, -2 * pair / width) / factor;
      const auto scale = static_cast<double>(rope.scale);
      double share = 0, length = rope.magnitude;
      if (rope.mixture != 0) {
        const double low = std::max(0.0, std::floor(pairOf(static_cast<double>(rope.fastTurns))));
        const double high =
            std::min(width - 1, std::ceil(pairOf(static_cast<double>(rope.slowTurns))));
        const double at = (pair - low) / std::max(0.001, high - low);
        share = static_cast<double>(rope.mixture) * (1 - std::min(1.0, std::max(0.0, at)));
        length *= 1 + 0.1 * std::log(1 / scale);
      }
      all.emplace_back(plain * (scale * (1 - share) + share), length);
    }
    return all;
  }

  static Values widen(const Matrix& w) {
    std::vector<float> row(static_cast<std::size_t>(w.columns));
    Values values;
    for (std::int64_t r = 0; r < w.rows; ++r) {
      const auto* from =
          static_cast<const std::uint8_t*>(w.data) + static_cast<std::size_t>(r) * w.rowBytes;
      if (w.type == GGML_TYPE_F32) {
        std::memcpy(row.data(), from, row.size() * sizeof(float));
      } else {
        ggml_get_type_traits(w.type)->to_float(from, row.data(), w.columns);
      }
      values.insert(values.end(), row.begin(), row.end());
    }
    return values;
  }
  static RefLinear takeLinear(Linear& linear) {
    RefLinear r;
    r.weight = widen(linear.weight);
    r.weightOwner = linear.trainedWeight.get();
    const std::vector<float>& bias = linear.trainedBias ? linear.trainedBias->value : linear.bias;
    r.bias = {bias.begin(), bias.end()};
    r.biasOwner = linear.trainedBias.get();
    if (linear.lora) {
      r.scale = linear.lora->scale;
      r.a = {linear.lora->a.value.begin(), linear.lora->a.value.end()};
      r.b = {linear.lora->b.value.begin(), linear.lora->b.value.end()};
      r.aOwner = &linear.lora->a, r.bOwner = &linear.lora->b;
    }
    return r;
  }
  static RefNorm takeNorm(Norm& norm) {
    if (!norm) return {};
    const float* values = norm.values();
    return {Values(values, values + norm.weight.size()), norm.trained.get()};
  }
  // y = x WT + b + s x AT B, with A [r, in] and B [r, out]; the last term from a token on.
  Values product(const RefLinear& l, const Values& x, std::size_t tokens,
                 std::size_t from = 0) const {
    const std::size_t in = x.size() / tokens, out = l.weight.size() / in;
    Values y = kernels::reference::product(rounded(x), l.weight, tokens, in, out);
    for (std::size_t t = 0; t < tokens && !l.bias.empty(); ++t) {
      for (std::size_t o = 0; o < out; ++o) y[t * out + o] += l.bias[o];
    }
    const std::size_t rank = l.a.size() / in;
    for (std::size_t t = from; t < tokens; ++t) {
      for (std::size_t j = 0; j < rank; ++j) {
        double low = 0;
        for (std::size_t i = 0; i < in; ++i) low += x[t * in + i] * l.a[j * in + i];
        for (std::size_t o = 0; o < out; ++o) y[t * out + o] += l.scale * low * l.b[j * out + o];
      }
    }
    return y;
  }

  Values rounded(const Values& x) const {
    if (activationType == GGML_TYPE_F32) return x;
    std::vector<float> values(x.begin(), x.end());
    const auto count = static_cast<std::int64_t>(values.size());
    std::vector<std::uint8_t> blocks(ggml_row_size(activationType, count));
    if (activationType == GGML_TYPE_Q8_K) {  // not among ggml's type traits
      quantize_row_q8_K_ref(values.data(), blocks.data(), count);
      dequantize_row_q8_K(blocks.data(), values.data(), count);
    } else {
      ggml_get_type_traits(activationType)->from_float_ref(values.data(), blocks.data(), count);
      ggml_get_type_traits(activationType)->to_float(blocks.data(), values.data(), count);
    }
    return {values.begin(), values.end()};
  }

  Hyperparameters h_;
  Values embedding_, ropeFactors_;
  bool tied_ = false;
  const Parameter* trainedEmbedding_ = nullptr;
  RefLinear head_;
  RefNorm outputNorm_;
  std::vector<RefLayer> layers_;
};

}  // namespace isopro::testing
