#include "bindings/trainer_conversion.h"

#include <string>
#include <utility>

#include "bindings/conversion.h"
#include "support/cpu.h"

namespace isopro::bindings {

using training::Objective;
using training::TrainerOptions;
using training::TrainSequence;

namespace {

template <typename T>
Napi::Array fromNumbers(Napi::Env env, const std::vector<T>& values) {
  Napi::Array array = Napi::Array::New(env, values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    array.Set(static_cast<std::uint32_t>(i),
              Napi::Number::New(env, static_cast<double>(values[i])));
  return array;
}

}  // namespace

training::Target targetOf(const Napi::Value& value) {
  const auto object = value.As<Napi::Object>();
  return {integerOf(object.Get("layer")), training::moduleNamed(textOf(object.Get("module"))),
          integerOf(object.Get("rank")), floatOf(object.Get("scale")),
          floatOf(object.Get("dropout"))};
}

TrainerOptions optionsOf(const Napi::Object& object) {
  TrainerOptions options;
  const auto targets = object.Get("targets").As<Napi::Array>();
  for (std::uint32_t i = 0; i < targets.Length(); ++i)
    options.targets.push_back(targetOf(targets.Get(i)));
  options.allWeights = truthOf(object.Get("allWeights"));
  const auto o = object.Get("optimiser").As<Napi::Object>();
  options.optimiser.learningRate = floatOf(o.Get("learningRate"));
  options.optimiser.factorB = floatOf(o.Get("factorB"));
  options.optimiser.beta1 = floatOf(o.Get("beta1"));
  options.optimiser.beta2 = floatOf(o.Get("beta2"));
  options.optimiser.epsilon = floatOf(o.Get("epsilon"));
  options.optimiser.weightDecay = floatOf(o.Get("weightDecay"));
  options.optimiser.maxNorm = floatOf(o.Get("maxNorm"));
  const std::string schedule = textOf(o.Get("schedule"));
  options.optimiser.schedule = schedule == "cosine"   ? training::Schedule::cosine
                               : schedule == "linear" ? training::Schedule::linear
                                                      : training::Schedule::constant;
  options.optimiser.warmupSteps = integerOf(o.Get("warmupSteps"));
  options.optimiser.totalSteps = integerOf(o.Get("totalSteps"));
  options.optimiser.finalFactor = floatOf(o.Get("finalFactor"));
  bool lossless = false;
  options.seed = object.Get("seed").As<Napi::BigInt>().Uint64Value(&lossless);
  const auto threads = static_cast<int>(integerOf(object.Get("threads")));
  options.threads = threads > 0 ? threads : physicalCores();
  options.precision = textOf(object.Get("precision")) == "bf16" ? training::Precision::bf16
                                                                : training::Precision::f32;
  options.memoryBytes = static_cast<std::size_t>(integerOf(object.Get("memoryBytes")));
  options.microBatchTokens = integerOf(object.Get("microBatchTokens"));
  options.sharePrefixes = truthOf(object.Get("sharePrefixes"));
  options.invocationTokens = tokensOf(object.Get("invocationTokens"));
  return options;
}

Objective objectiveOf(const Napi::Object& object) {
  Objective objective;
  objective.policy = truthOf(object.Get("policy"));
  objective.temperature = floatOf(object.Get("temperature"));
  objective.clipLow = floatOf(object.Get("clipLow"));
  objective.clipHigh = floatOf(object.Get("clipHigh"));
  objective.klCoefficient = floatOf(object.Get("klCoefficient"));
  return objective;
}

std::vector<TrainSequence> sequencesOf(const Napi::Value& value) {
  const auto array = value.As<Napi::Array>();
  std::vector<TrainSequence> sequences;
  for (std::uint32_t i = 0; i < array.Length(); ++i) {
    Napi::HandleScope scope(value.Env());
    const auto object = array.Get(i).As<Napi::Object>();
    TrainSequence sequence;
    sequence.tokens = elementsOf<Napi::Int32Array, std::int32_t>(object.Get("tokenIds"));
    sequence.labelled = elementsOf<Napi::Uint8Array, std::uint8_t>(object.Get("labelMask"));
    sequence.weight = floatOf(object.Get("weight"));
    sequence.advantages = floatsOf(object.Get("advantages"));
    sequence.oldLogprobs = floatsOf(object.Get("oldLogprobs"));
    sequence.referenceLogprobs = floatsOf(object.Get("referenceLogprobs"));
    const Napi::Value boundary = object.Get("boundary");
    if (!boundary.IsUndefined()) {
      const auto rows = boundary.As<Napi::Object>().Get("rows").As<Napi::Uint16Array>();
      sequence.boundary = {rows.Data(), rows.ElementLength()};
      sequence.boundaryLayer = integerOf(boundary.As<Napi::Object>().Get("layer"));
    }
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

Napi::Value fromStatistics(Napi::Env env, const training::StepStatistics& s) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("step", static_cast<double>(s.step));
  object.Set("learningRate", s.learningRate);
  object.Set("tokens", static_cast<double>(s.tokens));
  object.Set("loss", s.loss);
  object.Set("gradNorm", s.gradNorm);
  object.Set("clipped", s.clipped);
  object.Set("applied", s.applied);
  object.Set("clipFraction", s.clipFraction);
  object.Set("klToReference", s.klToReference);
  object.Set("oldPolicyGap", s.oldPolicyGap);
  Napi::Array nonFinite = Napi::Array::New(env, s.nonFinite.size());
  for (std::size_t i = 0; i < s.nonFinite.size(); ++i)
    nonFinite.Set(static_cast<std::uint32_t>(i), s.nonFinite[i]);
  object.Set("nonFinite", nonFinite);
  object.Set("microBatchNorms", fromNumbers(env, s.microBatchNorms));
  object.Set("microBatchTokens", fromNumbers(env, s.microBatchTokens));
  Napi::Object modules = Napi::Object::New(env);
  for (const auto& m : s.modules) {
    Napi::Object module = Napi::Object::New(env);
    module.Set("pairGradNorm", m.pairGradNorm);
    module.Set("updateRatio", m.updateRatio);
    module.Set("dormantFraction", m.dormantFraction);
    module.Set("dormantDirections", fromNumbers(env, m.dormantDirections));
    module.Set("rankUse", m.rankUse);
    modules.Set(m.module, module);
  }
  object.Set("modules", modules);
  return object;
}

Napi::Value fromEvaluation(Napi::Env env, const training::Evaluation& e) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("loss", e.loss);
  object.Set("tokens", static_cast<double>(e.tokens));
  Napi::Array sequences = Napi::Array::New(env, e.sequences.size());
  for (std::size_t i = 0; i < e.sequences.size(); ++i) {
    Napi::Object sequence = Napi::Object::New(env);
    sequence.Set("loss", e.sequences[i].loss);
    sequence.Set("entropy", e.sequences[i].entropy);
    sequence.Set("logprobs", fromFloats(env, e.sequences[i].logprobs));
    sequences.Set(static_cast<std::uint32_t>(i), sequence);
  }
  object.Set("sequences", sequences);
  return object;
}

}  // namespace isopro::bindings
