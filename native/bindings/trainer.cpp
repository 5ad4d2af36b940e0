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
#include "bindings/trainer_conversion.h"
#include "bindings/wrapped.h"
#include "inference/validate_decoder.h"
#include "inference/validate_model.h"
#include "support/error.h"
#include "support/resident_memory.h"
#include "training/trainer.h"

namespace isopro::bindings {
namespace {

using training::Trainer;

struct TrainerSession {
  explicit TrainerSession(Environment& environment) : thread(environment) {}

  std::unique_ptr<training::ModelWeights> opened;  // between open() and create()
  std::unique_ptr<Trainer> trainer;                // touched by the job thread alone
  JobThread thread;                                // last: stops before the trainer is destroyed

  Trainer& ready() const {
    if (trainer == nullptr) throw Error(ErrorCode::objectDisposed, "the trainer has been disposed");
    return *trainer;
  }
};

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
                           asynchronous<&NativeTrainer::times>("times"),
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
                           asynchronous<&NativeTrainer::releaseBuffers>("releaseBuffers"),
                           asynchronous<&NativeTrainer::dispose>("dispose"),
                       });
  }

  explicit NativeTrainer(const Napi::CallbackInfo& info)
      : Wrapped(info), session_(guarded(info.Env(), [&] {
          return std::make_unique<TrainerSession>(Environment::of(info.Env()));
        })) {}

 private:
  // llama.cpp maps the same file for sampling: between calls the trainer holds none of it.
  struct ReleaseWeights {
    const TrainerSession& session;
    ~ReleaseWeights() {
      if (session.trainer != nullptr) session.trainer->releaseWeights();
    }
  };

  // Runs work(session, cancelled) on the job thread. The call keeps this object and every argument
  // alive until it is done.
  template <typename Work>
  Napi::Value start(const Napi::CallbackInfo& info, const CancelFlag& cancelled, Work work) {
    Napi::Array alive = Napi::Array::New(info.Env());
    alive.Set(0u, info.This());
    for (std::size_t i = 0; i < info.Length(); ++i)
      alive.Set(static_cast<std::uint32_t>(i + 1), info[i]);
    return runAsync(session_->thread, alive, info.Env().Undefined(), cancelled,
                    [&session = *session_, work = std::move(work)](
                        Call&, const std::atomic<bool>& flag) mutable -> MakeValue {
                      const ReleaseWeights release{session};
                      return work(session, flag);
                    });
  }

  // open(path): Promise<{architecture, layers, heads, keyHeads, fused,
  // experts}>; create() then makes the trainer
  // on the opened model.
  Napi::Value open(const Napi::CallbackInfo& info) {
    return start(info, never(), [path = textOf(info[0])](TrainerSession& session, const auto&) {
      const GgufFile file = GgufFile::open(path);
      if (isOtherDecoder(file)) readHyperparameters(file);  // which refuses it by name
      validateModel(file);  // what inference refuses is not trained either
      session.opened = training::loadWeights(path);
      return MakeValue([hyper = session.opened->hyper](Napi::Env env) {
        Napi::Object object = Napi::Object::New(env);
        object.Set("architecture", hyper.architecture.name);
        object.Set("layers", static_cast<double>(hyper.layers));
        object.Set("heads", static_cast<double>(hyper.heads));
        object.Set("keyHeads", static_cast<double>(hyper.keyHeads));
        object.Set("fused", hyper.architecture.fused);
        object.Set("experts", hyper.architecture.experts);
        return object;
      });
    });
  }

  // create(options): Promise<void>
  Napi::Value create(const Napi::CallbackInfo& info) {
    return start(
        info, never(),
        [options = optionsOf(info[0].As<Napi::Object>())](TrainerSession& session, const auto&) {
          session.trainer = std::make_unique<Trainer>(std::move(session.opened), options);
          return undefined();
        });
  }

  // information(): Promise<{architecture, layers, ..., steps, targets: [{module, rank, scale,
  // parameters}]}>
  Napi::Value information(const Napi::CallbackInfo& info) {
    return start(info, never(), [](TrainerSession& session, const auto&) {
      Trainer& trainer = session.ready();
      const auto facts = trainer.information();
      const auto steps = trainer.steps();
      const int threads = trainer.engine().pool().threads();
      std::vector<TargetFact> targets;
      for (const training::Lora* lora : trainer.loras())
        targets.push_back(
            {lora->module, lora->rank(), lora->scale, lora->a.value.size() + lora->b.value.size()});
      return MakeValue([facts, steps, threads, targets](Napi::Env env) {
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

  // times(): Promise<{boundaries: {seconds, processorSeconds}, evaluation, forward, head, backward,
  // optimiser}>
  Napi::Value times(const Napi::CallbackInfo& info) {
    return start(info, never(), [](TrainerSession& session, const auto&) {
      return MakeValue([times = session.ready().times()](Napi::Env env) {
        Napi::Object object = Napi::Object::New(env);
        object.Set("boundaries", fromStageTime(env, times.boundaries));
        object.Set("evaluation", fromStageTime(env, times.evaluation));
        object.Set("forward", fromStageTime(env, times.passes.forward));
        object.Set("head", fromStageTime(env, times.passes.head));
        object.Set("backward", fromStageTime(env, times.passes.backward));
        object.Set("optimiser", fromStageTime(env, times.optimiser));
        return object;
      });
    });
  }

  // step(batch, objective, microBatches: Int32Array, leastMicroBatches, apply, cancellation):
  // Promise<statistics>
  Napi::Value step(const Napi::CallbackInfo& info) {
    const training::Division division{elementsOf<Napi::Int32Array, std::int64_t>(info[2]),
                                      integerOf(info[3])};
    return start(
        info, flagOf(info[5]),
        [sequences = sequencesOf(info[0]), objective = objectiveOf(info[1].As<Napi::Object>()),
         division, apply = truthOf(info[4])](TrainerSession& session, const auto& cancelled) {
          Trainer& trainer = session.ready();
          // Before the update, so that nothing after it can fail for want of memory.
          auto s = std::make_shared<training::StepStatistics>();
          MakeValue value = [s](Napi::Env env) { return fromStatistics(env, *s); };
          *s = apply ? trainer.step(sequences, objective, cancelled, division)
                     : trainer.differentiate(sequences, objective, cancelled, division);
          return value;
        });
  }

  // evaluate(batch, objective, adapter, cancellation): Promise<{loss, tokens, sequences}>
  Napi::Value evaluate(const Napi::CallbackInfo& info) {
    return start(
        info, flagOf(info[3]),
        [sequences = sequencesOf(info[0]), objective = objectiveOf(info[1].As<Napi::Object>()),
         adapter = truthOf(info[2])](TrainerSession& session, const auto& cancelled) {
          auto e = std::make_shared<training::Evaluation>(
              session.ready().evaluate(sequences, objective, adapter, cancelled));
          return MakeValue([e](Napi::Env env) { return fromEvaluation(env, *e); });
        });
  }

  // captureBoundary(batch, cancellation): Promise<Uint16Array[]>
  Napi::Value captureBoundary(const Napi::CallbackInfo& info) {
    return start(
        info, flagOf(info[1]),
        [sequences = sequencesOf(info[0])](TrainerSession& session, const auto& cancelled) {
          auto rows = std::make_shared<std::vector<std::vector<std::uint16_t>>>(
              session.ready().captureBoundary(sequences, cancelled));
          return MakeValue([rows](Napi::Env env) {
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
        apply = [module, rank = integerOf(object.Get("rank"))](Trainer& t) {
          t.raiseRank(module, rank);
        };
      } else if (kind == "recycleDirections") {
        apply = [module,
                 directions = elementsOf<Napi::Int32Array, std::int64_t>(object.Get("directions"))](
                    Trainer& t) { t.recycleDirections(module, directions); };
      } else {
        const double factor = object.Get("factor").As<Napi::Number>().DoubleValue();
        if (kind == "rebalance") apply = [=](Trainer& t) { t.rebalance(module, factor); };
        if (kind == "rescale") apply = [=](Trainer& t) { t.rescale(module, factor); };
        if (kind == "setRateFactor")
          apply = [=](Trainer& t) { t.setLearningRate(module, static_cast<float>(factor)); };
      }
    }
    return start(info, never(), [apply](TrainerSession& session, const auto&) {
      apply(session.ready());
      return undefined();
    });
  }

  // state(): Promise<Buffer>
  Napi::Value state(const Napi::CallbackInfo& info) {
    return start(info, never(), [](TrainerSession& session, const auto&) {
      auto bytes = std::make_shared<std::vector<std::uint8_t>>(session.ready().state());
      return MakeValue([bytes](Napi::Env env) { return fromBytes(env, bytes); });
    });
  }

  // loadState(bytes): Promise<void>
  Napi::Value loadState(const Napi::CallbackInfo& info) {
    return start(info, never(),
                 [bytes = elementsOf<Napi::Uint8Array, std::uint8_t>(info[0])](
                     TrainerSession& session, const auto&) {
                   session.ready().loadState(bytes);
                   return undefined();
                 });
  }

  // encodeAdapter(baseSha256): Promise<Buffer>, a GGUF
  Napi::Value encodeAdapter(const Napi::CallbackInfo& info) {
    return start(info, never(), [base = textOf(info[0])](TrainerSession& session, const auto&) {
      auto bytes = std::make_shared<std::vector<std::uint8_t>>(
          training::encodeAdapter(session.ready(), base));
      return MakeValue([bytes](Napi::Env env) { return fromBytes(env, bytes); });
    });
  }

  // setAdapter(modules): Promise<void>
  Napi::Value setAdapter(const Napi::CallbackInfo& info) {
    return start(info, never(),
                 [modules = modulesOf(info[0])](TrainerSession& session, const auto&) mutable {
                   session.ready().setAdapter(std::move(modules));
                   return undefined();
                 });
  }

  // factors(): Promise<modules>
  Napi::Value factors(const Napi::CallbackInfo& info) {
    return start(info, never(), [](TrainerSession& session, const auto&) {
      auto modules = std::make_shared<std::vector<training::AdapterModule>>(
          training::factorsOf(session.ready()));
      return MakeValue([modules](Napi::Env env) { return fromModules(env, *modules); });
    });
  }

  // encodeModel(file: NativeModelFile, type): Promise<void>; the file then holds the model as
  // trained so far
  Napi::Value encodeModel(const Napi::CallbackInfo& info) {
    return start(info, never(),
                 [file = modelFileOf(info[0]), type = textOf(info[1])](TrainerSession& session,
                                                                       const auto&) {
                   *file = training::trainedModel(session.ready(), type);
                   return undefined();
                 });
  }

  // releaseBuffers(): Promise<void>; gives what steps keep for the next one, or have freed, back to
  // the system
  Napi::Value releaseBuffers(const Napi::CallbackInfo& info) {
    return start(info, never(), [](TrainerSession& session, const auto&) {
      session.ready().releaseBuffers();
      releaseFreeBlocks();
      return undefined();
    });
  }

  // dispose(): Promise<void>; cancels what runs, and gives the memory back to the system
  Napi::Value dispose(const Napi::CallbackInfo& info) {
    session_->thread.cancelAll();
    return start(info, never(), [](TrainerSession& session, const auto&) {
      session.trainer.reset();
      session.opened.reset();
      releaseFreeBlocks();
      return undefined();
    });
  }

  const std::unique_ptr<TrainerSession> session_;
};

}  // namespace

void exportTrainer(Napi::Env env, Napi::Object exports) {
  exports.Set("NativeTrainer", NativeTrainer::define(env));
}

}  // namespace isopro::bindings
