#include "bindings/trainer.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/adapter_file.h"
#include "bindings/call.h"
#include "bindings/conversion.h"
#include "bindings/model_file.h"
#include "bindings/wrapped.h"
#include "inference/validate_model.h"
#include "support/cpu.h"
#include "support/error.h"
#include "training/trainer.h"

namespace isopro::bindings {
namespace {

using training::Objective;
using training::Trainer;
using training::TrainerOptions;
using training::TrainSequence;

struct State {
  explicit State(Environment& environment) : thread(environment) {}

  std::unique_ptr<training::Model> opened;  // between open() and create()
  std::unique_ptr<Trainer> trainer;         // touched by the job thread alone
  JobThread thread;                         // last: stops before the trainer is destroyed

  Trainer& ready() const {
    if (trainer == nullptr) throw Error("OBJECT_DISPOSED", "the trainer has been disposed");
    return *trainer;
  }
};

std::int64_t integerOf(const Napi::Value& value) { return value.As<Napi::Number>().Int64Value(); }
bool truthOf(const Napi::Value& value) { return value.As<Napi::Boolean>().Value(); }

// A typed array's elements; empty where undefined.
template <typename Array, typename Element>
std::vector<Element> elementsOf(const Napi::Value& value) {
  if (value.IsUndefined()) return {};
  const auto array = value.As<Array>();
  return std::vector<Element>(array.Data(), array.Data() + array.ElementLength());
}

std::vector<float> floatsOf(const Napi::Value& value) { return elementsOf<Napi::Float32Array, float>(value); }

training::Target targetOf(const Napi::Value& value) {
  const auto object = value.As<Napi::Object>();
  return {integerOf(object.Get("layer")), training::moduleNamed(textOf(object.Get("module"))), integerOf(object.Get("rank")),
          floatOf(object.Get("scale")), floatOf(object.Get("dropout"))};
}

TrainerOptions optionsOf(const Napi::Object& object) {
  TrainerOptions options;
  const auto targets = object.Get("targets").As<Napi::Array>();
  for (std::uint32_t i = 0; i < targets.Length(); ++i) options.targets.push_back(targetOf(targets.Get(i)));
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
  options.memoryBytes = static_cast<std::size_t>(integerOf(object.Get("memoryBytes")));
  options.microBatchTokens = integerOf(object.Get("microBatchTokens"));
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

// Boundaries stay in JavaScript's memory, which the call keeps alive and nobody else can reach (src/engine/typed-array.ts).
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

template <typename T>
Napi::Array fromNumbers(Napi::Env env, const std::vector<T>& values) {
  Napi::Array array = Napi::Array::New(env, values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    array.Set(static_cast<std::uint32_t>(i), Napi::Number::New(env, static_cast<double>(values[i])));
  return array;
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
  for (std::size_t i = 0; i < s.nonFinite.size(); ++i) nonFinite.Set(static_cast<std::uint32_t>(i), s.nonFinite[i]);
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

struct TargetFact {
  std::string module;
  std::int64_t rank;
  float scale;
  std::size_t parameters;
};

class NativeTrainer : public Wrapped<NativeTrainer> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "NativeTrainer",
                       {
                           asynchronous<&NativeTrainer::open>("open"),
                           asynchronous<&NativeTrainer::create>("create"),
                           asynchronous<&NativeTrainer::information>("information"),
                           asynchronous<&NativeTrainer::step>("step"),
                           asynchronous<&NativeTrainer::evaluate>("evaluate"),
                           asynchronous<&NativeTrainer::captureBoundary>("captureBoundary"),
                           asynchronous<&NativeTrainer::edit>("edit"),
                           asynchronous<&NativeTrainer::state>("state"),
                           asynchronous<&NativeTrainer::loadState>("loadState"),
                           asynchronous<&NativeTrainer::encodeAdapter>("encodeAdapter"),
                           asynchronous<&NativeTrainer::setAdapter>("setAdapter"),
                           asynchronous<&NativeTrainer::factors>("factors"),
                           asynchronous<&NativeTrainer::encodeModel>("encodeModel"),
                           asynchronous<&NativeTrainer::dispose>("dispose"),
                       });
  }

  explicit NativeTrainer(const Napi::CallbackInfo& info)
      : Wrapped(info), state_(guarded(info.Env(), [&] { return std::make_unique<State>(Environment::of(info.Env())); })) {}

 private:
  static CancelFlag never() { return std::make_shared<std::atomic<bool>>(false); }
  static Call::MakeValue undefined() {
    return [](Napi::Env env) { return env.Undefined(); };
  }

  // llama.cpp maps the same file for sampling: between calls the trainer holds none of it.
  struct ReleaseWeights {
    const State& state;
    ~ReleaseWeights() {
      if (state.trainer != nullptr) state.trainer->releaseWeights();
    }
  };

  // Runs work(state, cancelled) on the job thread. The call keeps this object and every argument alive until it is done.
  template <typename Work>
  Napi::Value start(const Napi::CallbackInfo& info, const CancelFlag& cancelled, Work work) {
    Napi::Array alive = Napi::Array::New(info.Env());
    alive.Set(0u, info.This());
    for (std::size_t i = 0; i < info.Length(); ++i) alive.Set(static_cast<std::uint32_t>(i + 1), info[i]);
    return runAsync(state_->thread, alive, info.Env().Undefined(), cancelled,
                    [&state = *state_, work = std::move(work)](Call&, const std::atomic<bool>& flag) mutable -> Call::MakeValue {
                      const ReleaseWeights release{state};
                      return work(state, flag);
                    });
  }

  // open(path): Promise<{architecture, layers, heads, keyHeads}>; create() then makes the trainer on the opened model.
  Napi::Value open(const Napi::CallbackInfo& info) {
    return start(info, never(), [path = textOf(info[0])](State& state, const auto&) {
      validateModel(GgufFile::open(path));  // what inference refuses is not trained either
      state.opened = training::loadModel(path);
      return Call::MakeValue([hyper = state.opened->hyper](Napi::Env env) {
        Napi::Object object = Napi::Object::New(env);
        object.Set("architecture", hyper.architecture.name);
        object.Set("layers", static_cast<double>(hyper.layers));
        object.Set("heads", static_cast<double>(hyper.heads));
        object.Set("keyHeads", static_cast<double>(hyper.keyHeads));
        return object;
      });
    });
  }

  // create(options): Promise<void>
  Napi::Value create(const Napi::CallbackInfo& info) {
    return start(info, never(), [options = optionsOf(info[0].As<Napi::Object>())](State& state, const auto&) {
      state.trainer = std::make_unique<Trainer>(std::move(state.opened), options);
      return undefined();
    });
  }

  // information(): Promise<{architecture, layers, ..., steps, targets: [{module, rank, scale, parameters}]}>
  Napi::Value information(const Napi::CallbackInfo& info) {
    return start(info, never(), [](State& state, const auto&) {
      Trainer& trainer = state.ready();
      const auto facts = trainer.information();
      const auto steps = trainer.steps();
      const int threads = trainer.engine().pool().threads();
      std::vector<TargetFact> targets;
      for (const training::Lora* lora : trainer.loras())
        targets.push_back({lora->module, lora->rank(), lora->scale, lora->a.value.size() + lora->b.value.size()});
      return Call::MakeValue([facts, steps, threads, targets](Napi::Env env) {
        Napi::Object object = Napi::Object::New(env);
        object.Set("architecture", facts.architecture);
        object.Set("layers", static_cast<double>(facts.layers));
        object.Set("width", static_cast<double>(facts.width));
        object.Set("vocabulary", static_cast<double>(facts.vocabulary));
        object.Set("contextLength", static_cast<double>(facts.contextLength));
        object.Set("lowestTrained", static_cast<double>(facts.lowestTrained));
        object.Set("parameters", static_cast<double>(facts.parameters));
        object.Set("keptLayers", static_cast<double>(facts.keptLayers));
        object.Set("modelBytes", static_cast<double>(facts.modelBytes));
        object.Set("steps", static_cast<double>(steps));
        object.Set("threads", threads);
        Napi::Array list = Napi::Array::New(env, targets.size());
        for (std::size_t i = 0; i < targets.size(); ++i) {
          Napi::Object target = Napi::Object::New(env);
          target.Set("module", targets[i].module);
          target.Set("rank", static_cast<double>(targets[i].rank));
          target.Set("scale", static_cast<double>(targets[i].scale));
          target.Set("parameters", static_cast<double>(targets[i].parameters));
          list.Set(static_cast<std::uint32_t>(i), target);
        }
        object.Set("targets", list);
        return object;
      });
    });
  }

  // step(batch, objective, microBatches: Int32Array, apply, cancellation): Promise<statistics>
  Napi::Value step(const Napi::CallbackInfo& info) {
    const auto counts = elementsOf<Napi::Int32Array, std::int64_t>(info[2]);
    return start(info, flagOf(info[4]),
                 [sequences = sequencesOf(info[0]), objective = objectiveOf(info[1].As<Napi::Object>()), counts, apply = truthOf(info[3])](
                     State& state, const auto& cancelled) {
                   Trainer& trainer = state.ready();
                   // Before the update, so that nothing after it can fail for want of memory.
                   auto s = std::make_shared<training::StepStatistics>();
                   Call::MakeValue value = [s](Napi::Env env) { return fromStatistics(env, *s); };
                   *s = apply ? trainer.step(sequences, objective, cancelled, counts)
                              : trainer.differentiate(sequences, objective, cancelled, counts);
                   return value;
                 });
  }

  // evaluate(batch, objective, adapter, cancellation): Promise<{loss, tokens, sequences}>
  Napi::Value evaluate(const Napi::CallbackInfo& info) {
    return start(info, flagOf(info[3]),
                 [sequences = sequencesOf(info[0]), objective = objectiveOf(info[1].As<Napi::Object>()), adapter = truthOf(info[2])](
                     State& state, const auto& cancelled) {
                   auto e = std::make_shared<training::Evaluation>(state.ready().evaluate(sequences, objective, adapter, cancelled));
                   return Call::MakeValue([e](Napi::Env env) { return fromEvaluation(env, *e); });
                 });
  }

  // captureBoundary(batch, cancellation): Promise<Uint16Array[]>
  Napi::Value captureBoundary(const Napi::CallbackInfo& info) {
    return start(info, flagOf(info[1]), [sequences = sequencesOf(info[0])](State& state, const auto& cancelled) {
      auto rows = std::make_shared<std::vector<std::vector<std::uint16_t>>>(state.ready().captureBoundary(sequences, cancelled));
      return Call::MakeValue([rows](Napi::Env env) {
        Napi::Array result = Napi::Array::New(env, rows->size());
        for (std::size_t i = 0; i < rows->size(); ++i) {
          Napi::Uint16Array array = Napi::Uint16Array::New(env, (*rows)[i].size());
          std::copy((*rows)[i].begin(), (*rows)[i].end(), array.Data());
          result.Set(static_cast<std::uint32_t>(i), array);
        }
        return result;
      });
    });
  }

  // edit({kind, ...}): Promise<void>
  Napi::Value edit(const Napi::CallbackInfo& info) {
    const auto object = info[0].As<Napi::Object>();
    const std::string kind = textOf(object.Get("kind"));
    std::function<void(Trainer&)> apply;
    if (kind == "setOptimiser") {
      const float rate = floatOf(object.Get("learningRate")), norm = floatOf(object.Get("maxNorm"));
      const Napi::Value epsilon = object.Get("epsilon");
      apply = [rate, norm, eps = epsilon.IsUndefined() ? 0.0f : floatOf(epsilon)](Trainer& t) {
        t.optimiser().learningRate = rate, t.optimiser().maxNorm = norm;
        if (eps > 0) t.optimiser().epsilon = eps;
      };
    } else if (kind == "addTarget") {
      apply = [target = targetOf(object)](Trainer& t) { t.addTarget(target); };
    } else {
      const std::string module = textOf(object.Get("module"));
      if (kind == "raiseRank") {
        apply = [module, rank = integerOf(object.Get("rank"))](Trainer& t) { t.raiseRank(module, rank); };
      } else if (kind == "recycleDirections") {
        apply = [module, directions = elementsOf<Napi::Int32Array, std::int64_t>(object.Get("directions"))](Trainer& t) {
          t.recycleDirections(module, directions);
        };
      } else {
        const double factor = object.Get("factor").As<Napi::Number>().DoubleValue();
        if (kind == "rebalance") apply = [=](Trainer& t) { t.rebalance(module, factor); };
        if (kind == "rescale") apply = [=](Trainer& t) { t.rescale(module, factor); };
        if (kind == "setRateFactor") apply = [=](Trainer& t) { t.setLearningRate(module, static_cast<float>(factor)); };
      }
    }
    return start(info, never(), [apply](State& state, const auto&) {
      apply(state.ready());
      return undefined();
    });
  }

  // state(): Promise<Buffer>
  Napi::Value state(const Napi::CallbackInfo& info) {
    return start(info, never(), [](State& state, const auto&) {
      auto bytes = std::make_shared<std::vector<std::uint8_t>>(state.ready().state());
      return Call::MakeValue([bytes](Napi::Env env) { return fromBytes(env, bytes); });
    });
  }

  // loadState(bytes): Promise<void>
  Napi::Value loadState(const Napi::CallbackInfo& info) {
    return start(info, never(), [bytes = elementsOf<Napi::Uint8Array, std::uint8_t>(info[0])](State& state, const auto&) {
      state.ready().loadState(bytes);
      return undefined();
    });
  }

  // encodeAdapter(baseSha256): Promise<Buffer>, a GGUF
  Napi::Value encodeAdapter(const Napi::CallbackInfo& info) {
    return start(info, never(), [base = textOf(info[0])](State& state, const auto&) {
      auto bytes = std::make_shared<std::vector<std::uint8_t>>(training::encodeAdapter(state.ready(), base));
      return Call::MakeValue([bytes](Napi::Env env) { return fromBytes(env, bytes); });
    });
  }

  // setAdapter(modules): Promise<void>
  Napi::Value setAdapter(const Napi::CallbackInfo& info) {
    return start(info, never(), [modules = modulesOf(info[0])](State& state, const auto&) mutable {
      state.ready().setAdapter(std::move(modules));
      return undefined();
    });
  }

  // factors(): Promise<modules>
  Napi::Value factors(const Napi::CallbackInfo& info) {
    return start(info, never(), [](State& state, const auto&) {
      auto modules = std::make_shared<std::vector<training::AdapterModule>>(training::factorsOf(state.ready()));
      return Call::MakeValue([modules](Napi::Env env) { return fromModules(env, *modules); });
    });
  }

  // encodeModel(file: NativeModelFile, type): Promise<void>; the file then holds the model as trained so far
  Napi::Value encodeModel(const Napi::CallbackInfo& info) {
    return start(info, never(), [file = modelFileOf(info[0]), type = textOf(info[1])](State& state, const auto&) {
      *file = training::trainedModel(state.ready(), type);
      return undefined();
    });
  }

  // dispose(): Promise<void>; cancels what runs
  Napi::Value dispose(const Napi::CallbackInfo& info) {
    state_->thread.cancelAll();
    return start(info, never(), [](State& state, const auto&) {
      state.trainer.reset();
      return undefined();
    });
  }

  const std::unique_ptr<State> state_;
};

}  // namespace

void exportTrainer(Napi::Env env, Napi::Object exports) { exports.Set("NativeTrainer", NativeTrainer::define(env)); }

}  // namespace isopro::bindings
