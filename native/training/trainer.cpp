#include "training/trainer.h"

#include <algorithm>
#include <cmath>

#include "support/error.h"

namespace isopro::training {
namespace {

constexpr std::size_t kLeastActivationBytes = 150'000'000;

const kernels::Bf16Product* bf16For(Precision precision) {
  if (!available(precision)) invalid("precision: this processor does not multiply in bf16");
  return precision == Precision::bf16 ? kernels::bf16Product() : nullptr;
}

}  // namespace

bool available(Precision precision) {
  return precision == Precision::f32 || kernels::bf16Product() != nullptr;
}

Trainer::Trainer(const std::string& modelPath, const TrainerOptions& options)
    : Trainer(loadWeights(modelPath), options) {}

Trainer::Trainer(std::unique_ptr<ModelWeights> model, const TrainerOptions& options)
    : options_(options),
      engine_(options.threads, kernels::kernels(), bf16For(options.precision)),
      model_(std::move(model)),
      random_(options.seed) {
  network_ = std::make_unique<Network>(*model_, engine_, kLeastActivationBytes);
  if (options_.allWeights) {
    trainAllWeights();
  } else {
    for (const Target& target : options_.targets) attach(target);
  }
  if (parameters().empty()) invalid("nothing to train: no target was given");
  if (options_.allWeights && !options_.invocationTokens.empty())
    invalid("invocation tokens are an adapter's; all weights are trained");
  for (const std::int32_t token : options_.invocationTokens) {
    if (token < 0 || token >= model_->hyper.vocabulary)
      invalid("invocation token " + std::to_string(token) + " is outside the vocabulary");
  }
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

// A: Kaiming-uniform with slope sqrt(5), that is uniform in +-1 / sqrt(in), as PyTorch and PEFT
// draw it. B: zero.
void Trainer::drawDirection(Lora& lora, std::int64_t direction) {
  const std::int64_t in = lora.a.columns, out = lora.b.columns;
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  const auto zero = [direction](std::vector<float>& values, std::int64_t width) {
    std::fill_n(values.begin() + direction * width, width, 0.0f);
  };
  for (std::int64_t i = 0; i < in; ++i) {
    lora.a.value[static_cast<std::size_t>(direction * in + i)] =
        static_cast<float>((2 * random_.nextDouble() - 1) * bound);
  }
  zero(lora.b.value, out);
  for (auto* moment : {&lora.a.firstMoment, &lora.a.secondMoment}) zero(*moment, in);
  for (auto* moment : {&lora.b.firstMoment, &lora.b.secondMoment}) zero(*moment, out);
  lora.a.steps[static_cast<std::size_t>(direction)] = 0;
  lora.b.steps[static_cast<std::size_t>(direction)] = 0;
}

// Without directions drawn.
std::unique_ptr<Lora> Trainer::loraFor(const Target& target) {
  if (target.layer < 0 || target.layer >= model_->hyper.layers)
    invalid("the model has no layer " + std::to_string(target.layer));
  const Linear& linear =
      model_->layers[static_cast<std::size_t>(target.layer)].linear[target.module];
  const std::string module = moduleName(target.layer, target.module);
  if (!linear) invalid(absentModule(model_->hyper.architecture, target.module));
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
  if (!std::isfinite(lora->baseNorm))
    throw Error(ErrorCode::numericFailure,
                "tensor " + module + ".weight holds a value that is not finite");
  return lora;
}

void Trainer::attach(const Target& target) {
  std::unique_ptr<Lora> lora = loraFor(target);
  Linear& linear = model_->layers[static_cast<std::size_t>(target.layer)].linear[target.module];
  if (linear.lora) invalid(lora->module + " is a target already");
  for (std::int64_t direction = 0; direction < target.rank; ++direction)
    drawDirection(*lora, direction);
  linear.lora = std::move(lora);
}

void Trainer::trainAllWeights() {
  if (model_->hyper.architecture.experts)
    throw Error(ErrorCode::modelUnsupported,
                "of a mixture of experts only an adapter on attention can be trained");
  const auto take = [](Linear& linear, const std::string& name) {
    if (linear.weight.type != GGML_TYPE_F32)
      throw Error(ErrorCode::modelUnsupported, "all weights can be trained in F32 only; " + name +
                                                   " is " + ggml_type_name(linear.weight.type));
    auto p = std::make_unique<Parameter>(name + ".weight", linear.outputs(), linear.inputs());
    for (std::int64_t row = 0; row < p->rows; ++row) {
      kernels::readRow(kernels::kernels(), linear.weight, row, 0, p->columns,
                       p->value.data() + row * p->columns);
    }
    if (!allFinite(p->value))
      throw Error(ErrorCode::numericFailure,
                  "tensor " + name + " holds a value that is not finite");
    linear.weight = kernels::denseMatrix(p->value.data(), p->rows, p->columns);
    linear.trainedWeight = std::move(p);
    if (linear.bias.empty()) return;
    linear.trainedBias = std::make_unique<Parameter>(name + ".bias", 1, linear.outputs());
    linear.trainedBias->value = linear.bias;
    linear.trainedBias->decays = false;
  };
  const auto takeNorm = [](Norm& norm, const std::string& name) {
    if (!norm) return;
    norm.trained =
        std::make_unique<Parameter>(name, 1, static_cast<std::int64_t>(norm.weight.size()));
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
    for (int m = 0; m < kModules; ++m) {
      if (layer.linear[m]) take(layer.linear[m], prefix + moduleTensor(m));
    }
    takeNorm(layer.attentionNorm, prefix + "attn_norm.weight");
    takeNorm(layer.feedForwardNorm, prefix + feedForwardNormTensor(model_->hyper.architecture));
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
    for (Norm* norm : {&layer.attentionNorm, &layer.feedForwardNorm, &layer.queryNorm,
                       &layer.keyNorm, &layer.attentionPostNorm, &layer.feedForwardPostNorm})
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

TrainerTimes Trainer::times() const {
  TrainerTimes times = times_;
  times.passes = network_->times();
  return times;
}

void Trainer::releaseWeights() const {
  if (model_->file != nullptr) model_->file->release();
}

}  // namespace isopro::training
