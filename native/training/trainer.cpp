#include "training/trainer.h"

#include <algorithm>
#include <cmath>

#include "support/error.h"
#include "support/halves.h"

namespace isopro::training {
namespace {

constexpr std::size_t kLeastActivationBytes = 150'000'000;

[[noreturn]] void invalid(const std::string& what) { throw Error("INVALID_ARGUMENT", what); }

std::int64_t labels(const std::vector<TrainSequence>& sequences) {
  std::int64_t count = 0;
  for (const TrainSequence& sequence : sequences) count += sequence.labels();
  return count;
}

bool finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

}  // namespace

Trainer::Trainer(const std::string& modelPath, const TrainerOptions& options) : Trainer(loadModel(modelPath), options) {}

Trainer::Trainer(std::unique_ptr<Model> model, const TrainerOptions& options)
    : options_(options), engine_(options.threads), model_(std::move(model)), random_(options.seed) {
  network_ = std::make_unique<Network>(*model_, engine_, kLeastActivationBytes);
  if (options_.allWeights) {
    trainAllWeights();
  } else {
    for (const Target& target : options_.targets) attach(target);
  }
  if (parameters().empty()) invalid("nothing to train: no target was given");
}

std::size_t Trainer::optimiserBytes() {
  std::size_t bytes = 0;
  for (const Parameter* p : parameters()) bytes += 3 * p->value.size() * sizeof(float);
  return bytes;
}

void Trainer::shareMemory() {
  const std::size_t optimiser = optimiserBytes();
  const std::size_t rest = options_.memoryBytes > optimiser ? options_.memoryBytes - optimiser : 0;
  network_->setActivationBytes(std::max(rest, kLeastActivationBytes));
}

// A: Kaiming-uniform with slope sqrt(5), that is uniform in +-1 / sqrt(in), as PyTorch and PEFT draw it. B: zero.
void Trainer::drawDirection(Lora& lora, std::int64_t direction) {
  const std::int64_t in = lora.a.columns, out = lora.b.columns;
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  const auto zero = [direction](std::vector<float>& values, std::int64_t width) {
    std::fill_n(values.begin() + direction * width, width, 0.0f);
  };
  for (std::int64_t i = 0; i < in; ++i) {
    lora.a.value[static_cast<std::size_t>(direction * in + i)] = static_cast<float>((2 * random_.nextDouble() - 1) * bound);
  }
  zero(lora.b.value, out);
  for (auto* moment : {&lora.a.firstMoment, &lora.a.secondMoment}) zero(*moment, in);
  for (auto* moment : {&lora.b.firstMoment, &lora.b.secondMoment}) zero(*moment, out);
  lora.a.steps[static_cast<std::size_t>(direction)] = 0;
  lora.b.steps[static_cast<std::size_t>(direction)] = 0;
}

// Without directions drawn.
std::unique_ptr<Lora> Trainer::loraFor(const Target& target) {
  if (target.layer < 0 || target.layer >= model_->hyper.layers) invalid("the model has no layer " + std::to_string(target.layer));
  const Linear& linear = model_->layers[static_cast<std::size_t>(target.layer)].linear[target.module];
  const std::string module = moduleName(target.layer, target.module);
  if (target.rank < 1 || target.rank > std::min(linear.inputs(), linear.outputs()))
    invalid("rank of " + module + " is not between 1 and its width");
  if (!(target.dropout >= 0 && target.dropout < 1)) invalid("dropout is not in [0, 1)");
  auto lora = std::make_unique<Lora>();
  lora->module = module;
  lora->scale = target.scale;
  lora->dropout = target.dropout;
  lora->dropoutKey = dropoutKey(target.layer, target.module);
  lora->a = Parameter(module + ".A", target.rank, linear.inputs());
  lora->b = Parameter(module + ".B", target.rank, linear.outputs());
  lora->b.learningRateFactor = options_.optimiser.factorB;
  lora->activity.resize(static_cast<std::size_t>(target.rank));
  lora->baseNorm = frobeniusNorm(engine_, linear.weight);
  if (!std::isfinite(lora->baseNorm)) throw Error("NUMERIC_FAILURE", "tensor " + module + ".weight holds a value that is not finite");
  return lora;
}

void Trainer::attach(const Target& target) {
  std::unique_ptr<Lora> lora = loraFor(target);
  Linear& linear = model_->layers[static_cast<std::size_t>(target.layer)].linear[target.module];
  if (linear.lora) invalid(lora->module + " is a target already");
  for (std::int64_t direction = 0; direction < target.rank; ++direction) drawDirection(*lora, direction);
  linear.lora = std::move(lora);
}

void Trainer::trainAllWeights() {
  const auto take = [](Linear& linear, const std::string& name) {
    if (linear.weight.type != GGML_TYPE_F32)
      throw Error("MODEL_UNSUPPORTED", "all weights can be trained in F32 only; " + name + " is " + ggml_type_name(linear.weight.type));
    auto p = std::make_unique<Parameter>(name + ".weight", linear.outputs(), linear.inputs());
    for (std::int64_t row = 0; row < p->rows; ++row) {
      kernels::readRow(kernels::kernels(), linear.weight, row, 0, p->columns, p->value.data() + row * p->columns);
    }
    if (!finite(p->value)) throw Error("NUMERIC_FAILURE", "tensor " + name + " holds a value that is not finite");
    linear.weight = kernels::denseMatrix(p->value.data(), p->rows, p->columns);
    linear.trainedWeight = std::move(p);
    if (linear.bias.empty()) return;
    linear.trainedBias = std::make_unique<Parameter>(name + ".bias", 1, linear.outputs());
    linear.trainedBias->value = linear.bias;
    linear.trainedBias->decays = false;
  };
  const auto takeNorm = [](Norm& norm, const std::string& name) {
    if (!norm) return;
    norm.trained = std::make_unique<Parameter>(name, 1, static_cast<std::int64_t>(norm.weight.size()));
    norm.trained->value = norm.weight;
    norm.trained->decays = false;
  };
  take(model_->head, model_->tied ? "token_embd" : "output");
  if (model_->head.trainedBias) model_->head.trainedBias->name = "output.bias";
  if (model_->tied) {
    model_->embedding = model_->head.weight;
  } else {
    Linear embedding;
    embedding.weight = model_->embedding;
    take(embedding, "token_embd");
    model_->embedding = embedding.weight;
    model_->trainedEmbedding = std::move(embedding.trainedWeight);
  }
  takeNorm(model_->outputNorm, "output_norm.weight");
  for (std::size_t i = 0; i < model_->layers.size(); ++i) {
    Layer& layer = model_->layers[i];
    const std::string prefix = "blk." + std::to_string(i) + ".";
    for (int m = 0; m < kModules; ++m) take(layer.linear[m], prefix + moduleTensor(m));
    takeNorm(layer.attentionNorm, prefix + "attn_norm.weight");
    takeNorm(layer.feedForwardNorm, prefix + "ffn_norm.weight");
    takeNorm(layer.queryNorm, prefix + "attn_q_norm.weight");
    takeNorm(layer.keyNorm, prefix + "attn_k_norm.weight");
    takeNorm(layer.attentionPostNorm, prefix + "post_attention_norm.weight");
    takeNorm(layer.feedForwardPostNorm, prefix + "post_ffw_norm.weight");
  }
}

std::vector<Lora*> Trainer::loras() {
  std::vector<Lora*> all;
  for (Layer& layer : model_->layers) {
    for (Linear& linear : layer.linear) {
      if (linear.lora) all.push_back(linear.lora.get());
    }
  }
  return all;
}

Lora& Trainer::lora(const std::string& module) {
  for (Lora* lora : loras()) {
    if (lora->module == module) return *lora;
  }
  invalid("module " + module + " is not a target");
}

std::vector<Parameter*> Trainer::parameters() {
  std::vector<Parameter*> all;
  const auto add = [&](const std::unique_ptr<Parameter>& p) {
    if (p) all.push_back(p.get());
  };
  const auto addLinear = [&](Linear& linear) {
    if (linear.lora) {
      all.push_back(&linear.lora->a);
      all.push_back(&linear.lora->b);
    }
    add(linear.trainedWeight);
    add(linear.trainedBias);
  };
  add(model_->trainedEmbedding);
  addLinear(model_->head);
  add(model_->outputNorm.trained);
  for (Layer& layer : model_->layers) {
    for (Linear& linear : layer.linear) addLinear(linear);
    for (Norm* norm : {&layer.attentionNorm, &layer.feedForwardNorm, &layer.queryNorm, &layer.keyNorm, &layer.attentionPostNorm,
                       &layer.feedForwardPostNorm})
      add(norm->trained);
  }
  return all;
}

TrainerInformation Trainer::information() {
  const Hyperparameters& h = model_->hyper;
  std::int64_t count = 0;
  for (const Parameter* p : parameters()) count += p->rows * p->columns;
  shareMemory();
  return {h.layers,
          h.width,
          h.vocabulary,
          h.contextLength,
          network_->lowestTrained(),
          count,
          network_->keptLayers(options_.microBatchTokens),
          model_->frozenBytes,
          h.architecture.name};
}

void Trainer::check(const std::vector<TrainSequence>& sequences, const Objective& objective, bool step) const {
  if (sequences.empty()) invalid("the batch is empty");
  if (labels(sequences) == 0) invalid("no token of the batch is labelled");
  const Hyperparameters& h = model_->hyper;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const TrainSequence& sequence = sequences[s];
    const std::string which = "sequence " + std::to_string(s);
    const std::size_t count = sequence.tokens.size();
    if (count < 2) invalid(which + " has fewer than two tokens");
    if (static_cast<std::int64_t>(count) > h.contextLength) {
      throw Error("CONTEXT_OVERFLOW",
                  which + " has " + std::to_string(count) + " tokens, the model's context " + std::to_string(h.contextLength));
    }
    for (const std::int32_t token : sequence.tokens) {
      if (token < 0 || token >= h.vocabulary) invalid(which + " has token " + std::to_string(token) + " outside the vocabulary");
    }
    if (sequence.labelled.size() != count) invalid(which + " has a label mask of another length");
    if (sequence.labelled[0] != 0) invalid(which + " labels its first token, which nothing predicts");
    for (const std::uint8_t label : sequence.labelled) {
      if (label > 1) invalid(which + " has a label mask other than 0 and 1");
    }
    if (!std::isfinite(sequence.weight)) invalid(which + " has a weight that is not finite");
    const auto checkRow = [&](const std::vector<float>& row, const char* name, bool needed) {
      if (row.empty() && !needed) return;
      if (row.size() != count) invalid(which + " needs " + std::string(name) + " for each token");
      if (!finite(row)) invalid(which + " has " + name + " that are not finite");
    };
    checkRow(sequence.advantages, "advantages", objective.policy && step);
    checkRow(sequence.oldLogprobs, "old log-probabilities", false);
    checkRow(sequence.referenceLogprobs, "reference log-probabilities", objective.policy && objective.klCoefficient != 0);
    if (sequence.boundary.empty()) continue;
    // A generation has not evaluated its last token; nothing depends on that row.
    const auto width = static_cast<std::size_t>(h.width);
    if (sequence.boundary.size != count * width && sequence.boundary.size != (count - 1) * width) {
      invalid(which + " has a boundary of another size than tokens x width");
    }
    if (sequence.boundaryLayer < 0 || sequence.boundaryLayer > network_->lowestTrained()) {
      throw Error("ADAPTER_MISMATCH", which + " has a boundary at layer " + std::to_string(sequence.boundaryLayer) +
                                          ", above the lowest trained layer " + std::to_string(network_->lowestTrained()));
    }
  }
}

std::vector<Batch> Trainer::microBatches(const std::vector<TrainSequence>& sequences, const std::vector<std::int64_t>& counts) const {
  std::vector<Batch> batches;
  if (!counts.empty()) {
    std::size_t next = 0;
    for (const std::int64_t count : counts) {
      if (count < 1 || next + static_cast<std::size_t>(count) > sequences.size()) invalid("micro-batches do not add up to the batch");
      batches.emplace_back();
      for (std::int64_t i = 0; i < count; ++i) batches.back().push_back(&sequences[next++]);
    }
    if (next != sequences.size()) invalid("micro-batches do not add up to the batch");
    return batches;
  }
  std::int64_t tokens = 0;
  for (const TrainSequence& sequence : sequences) {
    const auto some = static_cast<std::int64_t>(sequence.tokens.size());
    if (batches.empty() || tokens + some > options_.microBatchTokens) {
      batches.emplace_back();
      tokens = 0;
    }
    batches.back().push_back(&sequence);
    tokens += some;
  }
  return batches;
}

void Trainer::checkMemory(const Batch& batch) {
  std::int64_t tokens = 0;
  for (const TrainSequence* sequence : batch) tokens += static_cast<std::int64_t>(sequence->tokens.size());
  const std::size_t needed = network_->activationBytes(tokens, 0);
  if (needed <= network_->activationBytes()) return;
  const std::string what = batch.size() == 1 ? "a sequence" : std::to_string(batch.size()) + " sequences in one micro-batch";
  invalid("memoryBytes of " + std::to_string(options_.memoryBytes) + " does not hold the activations of " + what + " of " +
          std::to_string(tokens) + " tokens: it takes " + std::to_string(needed + optimiserBytes()) + ", or a " +
          (batch.size() == 1 ? "sequence" : "micro-batch") + " of at most " +
          std::to_string(static_cast<std::size_t>(tokens) * network_->activationBytes() / needed) + " tokens, or fewer trained layers");
}

StepStatistics Trainer::differentiate(const std::vector<TrainSequence>& sequences, const Objective& objective,
                                      const std::atomic<bool>& abort, const std::vector<std::int64_t>& counts) {
  check(sequences, objective, true);
  const std::vector<Batch> batches = microBatches(sequences, counts);
  shareMemory();
  for (const Batch& batch : batches) checkMemory(batch);
  StepStatistics s;
  s.step = step_ + 1;
  s.tokens = labels(sequences);
  const double scale = 1.0 / static_cast<double>(s.tokens);
  const std::vector<Parameter*> all = parameters();
  for (Parameter* p : all) std::fill(p->gradient.begin(), p->gradient.end(), 0.0f);
  for (Lora* lora : loras()) {
    lora->activity.assign(static_cast<std::size_t>(lora->rank()), 0.0);
    lora->activityTokens = 0;
  }

  // With several micro-batches each one's own gradient is wanted too: it is summed apart and then added.
  std::vector<std::vector<float>> sums(batches.size() > 1 ? all.size() : 0);
  double clipped = 0, gap = 0, kl = 0;
  std::int64_t gapTokens = 0, klTokens = 0;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const std::uint64_t dropoutSeed = SplitMix64(options_.seed ^ SplitMix64(static_cast<std::uint64_t>(step_) << 20 | b).next()).next();
    const auto results = network_->differentiate(batches[b], objective, scale, dropoutSeed, abort);
    std::int64_t tokens = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const TrainSequence& sequence = *batches[b][i];
      s.loss += results[i].loss;
      clipped += results[i].clippedTokens;
      tokens += sequence.labels();
      for (std::size_t t = 0; t < sequence.tokens.size(); ++t) {
        if (!sequence.labelled[t]) continue;
        const double logprob = static_cast<double>(results[i].logprobs[t]);
        if (!sequence.oldLogprobs.empty()) gap += std::fabs(logprob - static_cast<double>(sequence.oldLogprobs[t])), ++gapTokens;
        if (sequence.referenceLogprobs.empty()) continue;
        const double d = static_cast<double>(sequence.referenceLogprobs[t]) - logprob;
        kl += std::expm1(d) - d, ++klTokens;
      }
    }
    double squared = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      squared += squaredNorm(all[i]->gradient);
      if (sums.empty()) continue;
      sums[i].resize(all[i]->gradient.size());
      for (std::size_t k = 0; k < sums[i].size(); ++k) sums[i][k] += all[i]->gradient[k];
      std::fill(all[i]->gradient.begin(), all[i]->gradient.end(), 0.0f);
    }
    s.microBatchNorms.push_back(tokens == 0 ? 0.0 : std::sqrt(squared) * static_cast<double>(s.tokens) / static_cast<double>(tokens));
    s.microBatchTokens.push_back(tokens);
  }
  for (std::size_t i = 0; i < sums.size(); ++i) all[i]->gradient.swap(sums[i]);

  s.loss *= scale;
  s.clipFraction = clipped * scale;
  s.oldPolicyGap = gapTokens == 0 ? 0.0 : gap / static_cast<double>(gapTokens);
  s.klToReference = klTokens == 0 ? 0.0 : kl / static_cast<double>(klTokens);
  if (!std::isfinite(s.loss)) s.nonFinite.push_back("loss");
  double squared = 0;
  for (const Parameter* p : all) {
    const double norm = squaredNorm(p->gradient);
    if (!std::isfinite(norm)) s.nonFinite.push_back(p->name);
    squared += norm;
  }
  s.gradNorm = std::sqrt(squared);
  for (Lora* lora : loras()) {
    ModuleStatistics m;
    m.module = lora->module;
    m.pairGradNorm = std::sqrt(squaredNorm(lora->a.gradient) + squaredNorm(lora->b.gradient));
    m.dormantDirections = dormantDirections(*lora);
    m.dormantFraction = static_cast<double>(m.dormantDirections.size()) / static_cast<double>(lora->rank());
    s.modules.push_back(std::move(m));
  }
  return s;
}

StepStatistics Trainer::step(const std::vector<TrainSequence>& sequences, const Objective& objective, const std::atomic<bool>& abort,
                             const std::vector<std::int64_t>& counts) {
  StepStatistics s = differentiate(sequences, objective, abort, counts);
  s.learningRate = static_cast<double>(learningRateAt(options_.optimiser, step_ + 1));
  if (s.nonFinite.empty()) {
    update(s);
    ++step_;
    s.applied = true;
  }
  return s;
}

void Trainer::update(StepStatistics& s) {
  const OptimiserOptions& o = options_.optimiser;
  s.clipped = o.maxNorm > 0 && s.gradNorm > static_cast<double>(o.maxNorm);
  const float gradientScale = s.clipped ? static_cast<float>(static_cast<double>(o.maxNorm) / s.gradNorm) : 1.0f;
  const auto rate = static_cast<float>(s.learningRate);
  const std::vector<Lora*> adapted = loras();
  const std::vector<Parameter*> all = parameters();
  // What may fail for want of memory, on copies; after it nothing can.
  engine_.pool().parallelFor(static_cast<std::int64_t>(adapted.size()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Lora& lora = *adapted[static_cast<std::size_t>(i)];
      Parameter a = lora.a, b = lora.b;
      adamwStep(o, rate, gradientScale, a);
      adamwStep(o, rate, gradientScale, b);
      s.modules[static_cast<std::size_t>(i)].updateRatio = updateRatio(lora, a.value, b.value);
      s.modules[static_cast<std::size_t>(i)].rankUse = rankUse(a, b);
    }
  });
  engine_.pool().parallelFor(static_cast<std::int64_t>(all.size()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) adamwStep(o, rate, gradientScale, *all[static_cast<std::size_t>(i)]);
  });
}

void Trainer::releaseWeights() const {
  if (model_->file != nullptr) model_->file->release();
}

Evaluation Trainer::evaluate(const std::vector<TrainSequence>& sequences, const Objective& objective, bool adapter,
                             const std::atomic<bool>& abort) {
  check(sequences, objective, false);
  Evaluation evaluation;
  evaluation.tokens = labels(sequences);
  for (const Batch& batch : microBatches(sequences, {})) {
    for (SequenceResult& result : network_->evaluate(batch, objective, adapter, abort)) {
      evaluation.loss += result.loss / static_cast<double>(evaluation.tokens);
      evaluation.sequences.push_back(std::move(result));
    }
  }
  return evaluation;
}

std::vector<std::vector<std::uint16_t>> Trainer::captureBoundary(const std::vector<TrainSequence>& sequences,
                                                                 const std::atomic<bool>& abort) {
  check(sequences, Objective{}, false);
  std::vector<std::vector<std::uint16_t>> boundaries;
  for (const Batch& batch : microBatches(sequences, {})) {
    const Buffer rows = network_->hiddenBefore(batch, network_->lowestTrained(), abort);
    std::size_t at = 0;
    for (const TrainSequence* sequence : batch) {
      std::vector<std::uint16_t> halves(sequence->tokens.size() * static_cast<std::size_t>(model_->hyper.width));
      toHalves(rows.data() + at, halves.data(), static_cast<std::int64_t>(halves.size()), static_cast<int>(network_->lowestTrained()));
      at += halves.size();
      boundaries.push_back(std::move(halves));
    }
  }
  return boundaries;
}

}  // namespace isopro::training
