#include "bindings/model.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/call.h"
#include "bindings/conversion.h"
#include "bindings/model_info.h"
#include "bindings/model_session.h"
#include "bindings/tokenization.h"
#include "bindings/wrapped.h"
#include "inference/boundary.h"
#include "inference/embedding.h"
#include "inference/rollouts.h"
#include "inference/scoring.h"
#include "support/cpu.h"

namespace isopro::bindings {
namespace {

constexpr std::int64_t kProgressInterval = 100'000'000;  // ns between progress events

class NativeModel : public Wrapped<NativeModel> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "NativeModel",
                       {
                           asynchronous<&NativeModel::load>("load"),
                           method<&NativeModel::info>("info"),
                           method<&NativeModel::tokenize>("tokenize"),
                           method<&NativeModel::tokenizeAll>("tokenizeAll"),
                           method<&NativeModel::tokenizesInjectively>("tokenizesInjectively"),
                           method<&NativeModel::detokenize>("detokenize"),
                           method<&NativeModel::bytes>("bytes"),
                           method<&NativeModel::controlTokens>("controlTokens"),
                           asynchronous<&NativeModel::generate>("generate"),
                           asynchronous<&NativeModel::openBatch>("openBatch"),
                           asynchronous<&NativeModel::reply>("reply"),
                           asynchronous<&NativeModel::score>("score"),
                           asynchronous<&NativeModel::scoreBranches>("scoreBranches"),
                           asynchronous<&NativeModel::hiddenRows>("hiddenRows"),
                           asynchronous<&NativeModel::hiddenNorms>("hiddenNorms"),
                           asynchronous<&NativeModel::embed>("embed"),
                           asynchronous<&NativeModel::loadAdapter>("loadAdapter"),
                           asynchronous<&NativeModel::setAdapter>("setAdapter"),
                           asynchronous<&NativeModel::releaseContext>("releaseContext"),
                           asynchronous<&NativeModel::measureOperations>("measureOperations"),
                           asynchronous<&NativeModel::operationTimes>("operationTimes"),
                           asynchronous<&NativeModel::dispose>("dispose"),
                       });
  }

  explicit NativeModel(const Napi::CallbackInfo& info)
      : Wrapped(info), session_(guarded(info.Env(), [&] {
          return std::make_shared<ModelSession>(Environment::of(info.Env()));
        })) {}

 private:
  // load({path, gpuLayers, kvType, matmul, threads, fixedThreads}, cancellation, onProgress):
  // Promise<void>
  Napi::Value load(const Napi::CallbackInfo& info) {
    const auto options = info[0].As<Napi::Object>();
    const std::string matmul = textOf(options.Get("matmul"));
    const ModelOptions modelOptions{textOf(options.Get("path")), intOf(options.Get("gpuLayers")),
                                    textOf(options.Get("kvType")),
                                    matmul == "ggml"  ? Matmul::kGgml
                                    : matmul == "own" ? Matmul::kOwn
                                                      : Matmul::kAuto};
    const int threads = intOf(options.Get("threads"));
    const bool fixedThreads = options.Get("fixedThreads").As<Napi::Boolean>().Value();
    return startWithEvents(
        info, info[2], flagOf(info[1]),
        [modelOptions, threads, fixedThreads](Call& call, ModelSession& session,
                                              const auto& cancelled) {
          int shown = -1;
          LoadControl control;
          control.cancelled = &cancelled;
          control.progress = [&](float progress) {
            const int percent = static_cast<int>(progress * 100);
            if (percent == shown) return;
            shown = percent;
            call.emit([percent](Napi::Env env) { return Napi::Number::New(env, percent / 100.0); });
          };
          session.model = Model::load(modelOptions, control);
          const int count = threads > 0 ? threads : physicalCores();
          session.context = std::make_unique<Context>(session.model, count, fixedThreads);
          session.samplers = std::make_unique<ThreadPool>(count);
          session.hasOwnBits = session.context->hasOwnBits();
          return undefined();
        });
  }

  // info(): facts that do not change after loading.
  Napi::Value info(const Napi::CallbackInfo& info) {
    return modelInfo(info.Env(), loaded(), *session_);
  }

  // tokenize(text, parseControl): Int32Array
  Napi::Value tokenize(const Napi::CallbackInfo& info) {
    return fromTokens(info.Env(),
                      loaded().tokenize(textOf(info[0]), info[1].As<Napi::Boolean>().Value()));
  }

  Napi::Value tokenizeAll(const Napi::CallbackInfo& info) {
    return bindings::tokenizeAll(info, loaded(), session_->model);
  }

  // tokenizesInjectively(): boolean
  Napi::Value tokenizesInjectively(const Napi::CallbackInfo& info) {
    return Napi::Boolean::New(info.Env(), loaded().tokenizesInjectively());
  }

  // detokenize(tokens, withControl): string
  Napi::Value detokenize(const Napi::CallbackInfo& info) {
    const std::vector<Token> tokens = tokensOf(info[0]);
    loaded().checkTokens(tokens, "tokens");
    return Napi::String::New(info.Env(),
                             loaded().detokenize(tokens, info[1].As<Napi::Boolean>().Value()));
  }

  // bytes(token): Buffer. Of a token that is a part of a character, too, which is no text.
  Napi::Value bytes(const Napi::CallbackInfo& info) {
    const std::vector<Token> token = {info[0].As<Napi::Number>().Int32Value()};
    loaded().checkTokens(token, "tokens");
    const std::string piece = loaded().detokenize(token, true);
    return Napi::Buffer<char>::Copy(info.Env(), piece.data(), piece.size());
  }

  // controlTokens(): [{id, text}]
  Napi::Value controlTokens(const Napi::CallbackInfo& info) {
    const Model& model = loaded();
    Napi::Array result = Napi::Array::New(info.Env());
    for (Token token = 0; token < model.vocabularySize(); ++token) {
      const int attributes = llama_vocab_get_attr(model.vocab(), token);
      if ((attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) == 0) continue;
      Napi::Object entry = Napi::Object::New(info.Env());
      entry.Set("id", token);
      entry.Set("text", llama_vocab_get_text(model.vocab(), token));
      result.Set(result.Length(), entry);
    }
    return result;
  }

  // generate(request, cancellation, onEvent): Promise<progress>; events are {rollout} or
  // {progress}.
  Napi::Value generate(const Napi::CallbackInfo& info) {
    const auto object = info[0].As<Napi::Object>();
    auto request = std::make_shared<RolloutRequest>(requestOf(object));
    const Napi::Value adapterValue = object.Get("adapter");
    const bool override = !adapterValue.IsUndefined();
    std::shared_ptr<Adapter> adapter = adapterOf(adapterValue);
    const float scale = floatOf(object.Get("adapterScale"));
    return startWithEvents(
        info, info[2], flagOf(info[1]),
        [=](Call& call, ModelSession& session, const auto& cancelled) {
          AdapterOverride guard(session, override, adapter, scale);
          RolloutProgress last;
          std::int64_t shown = 0;
          RolloutEvents events;
          events.finished = [&](Rollout&& rollout) {
            auto shared = std::make_shared<Rollout>(std::move(rollout));
            call.emit([shared](Napi::Env env) {
              Napi::Object event = Napi::Object::New(env);
              event.Set("rollout", fromRollout(env, *shared));
              return event;
            });
          };
          events.progress = [&](const RolloutProgress& progress) {
            last = progress;
            const std::int64_t now = wallNanoseconds();
            if (now - shown < kProgressInterval && progress.finished < progress.total) return;
            shown = now;
            call.emit([progress](Napi::Env env) {
              Napi::Object event = Napi::Object::New(env);
              event.Set("progress", fromProgress(env, progress));
              return event;
            });
          };
          generateRollouts(session.readyContext(), *session.samplers, *request, events, cancelled);
          return MakeValue([last](Napi::Env env) { return fromProgress(env, last); });
        });
  }

  // openBatch({cells, maxSequences, prefixTokens}): Promise<void>; a running batch in a context of
  // its own.
  Napi::Value openBatch(const Napi::CallbackInfo& info) {
    const auto object = info[0].As<Napi::Object>();
    const BatchSettings settings{intOf(object.Get("cells")), intOf(object.Get("maxSequences")),
                                 intOf(object.Get("prefixTokens"))};
    return start(info, never(), [settings](Call&, ModelSession& session, const auto&) {
      Context& own = session.readyContext();
      if (session.batch != nullptr)
        throw Error(ErrorCode::invalidArgument, "the model has a running batch");
      giveWay();
      const int threads = own.governor().maxThreads();
      auto context = std::make_unique<Context>(session.model, threads, own.fixedThreads());
      auto alone = std::make_unique<Context>(session.model, threads, true);
      session.batch = std::make_unique<BatchLoop>(std::move(context), std::move(alone),
                                                  *session.samplers, settings);
      return undefined();
    });
  }

  // reply(request, cancellation, onToken): Promise<reply>; the request joins the running batch.
  // Events are tokens.
  Napi::Value reply(const Napi::CallbackInfo& info) {
    const auto object = info[0].As<Napi::Object>();
    BatchRequest request = batchRequestOf(object);
    request.adapter = {adapterOf(object.Get("adapter")), floatOf(object.Get("adapterScale"))};
    request.streamed = info[2].IsFunction();
    request.cancelled = flagOf(info[1]);
    return joinBatch(*session_, info.This(), info[2], std::move(request));
  }

  // score(prefix, continuations, {cellBudget, stepwise, alternatives}, cancellation):
  // Promise<{logProbabilities, ranks, top}[]>
  Napi::Value score(const Napi::CallbackInfo& info) {
    const std::vector<Token> prefix = tokensOf(info[0]);
    const std::vector<std::vector<Token>> continuations = arrayOf(info[1], tokensOf);
    const auto how = info[2].As<Napi::Object>();
    const int cellBudget = intOf(how.Get("cellBudget"));
    const bool stepwise = truthOf(how.Get("stepwise"));
    const int alternatives = intOf(how.Get("alternatives"));
    return start(info, flagOf(info[3]), [=](Call&, ModelSession& session, const auto& cancelled) {
      auto scores = std::make_shared<std::vector<TokenScores>>(
          scoreContinuations(session.readyContext(), *session.samplers, prefix, continuations,
                             cellBudget, stepwise, alternatives, cancelled));
      return MakeValue([scores](Napi::Env env) { return fromScores(env, *scores); });
    });
  }

  // scoreBranches(trunk, {at, tokens, from}[], {cellBudget}, cancellation):
  // Promise<{logProbabilities: Float32Array[], trunk: cost, branches: cost, repeatedTokens}>
  Napi::Value scoreBranches(const Napi::CallbackInfo& info) {
    const std::vector<Token> trunk = tokensOf(info[0]);
    const std::vector<Branch> branches = arrayOf(info[1], branchOf);
    const int cellBudget = intOf(info[2].As<Napi::Object>().Get("cellBudget"));
    return start(info, flagOf(info[3]), [=](Call&, ModelSession& session, const auto& cancelled) {
      auto scored = std::make_shared<BranchScores>(isopro::scoreBranches(
          session.readyContext(), *session.samplers, trunk, branches, cellBudget, cancelled));
      return MakeValue([scored](Napi::Env env) { return fromBranchScores(env, *scored); });
    });
  }

  // hiddenRows(tokens, boundaries, cancellation): Promise<Uint16Array[]> in the order of the
  // boundaries
  Napi::Value hiddenRows(const Napi::CallbackInfo& info) {
    const std::vector<Token> tokens = tokensOf(info[0]);
    const std::vector<Token> boundaries = tokensOf(info[1]);
    return start(info, flagOf(info[2]), [=](Call&, ModelSession& session, const auto& cancelled) {
      auto rows = std::make_shared<std::map<int, std::vector<std::uint16_t>>>(
          isopro::hiddenRows(session.readyContext(), tokens, boundaries, cancelled));
      return MakeValue([rows, boundaries](Napi::Env env) {
        Napi::Array result = Napi::Array::New(env, boundaries.size());
        for (size_t i = 0; i < boundaries.size(); ++i) {
          result.Set(static_cast<std::uint32_t>(i), fromHalves(env, rows->at(boundaries[i])));
        }
        return result;
      });
    });
  }

  // hiddenNorms(tokens, blocks, cancellation): Promise<{out, in, update}[]> in the order of the
  // blocks
  Napi::Value hiddenNorms(const Napi::CallbackInfo& info) {
    const std::vector<Token> tokens = tokensOf(info[0]);
    const std::vector<Token> blocks = tokensOf(info[1]);
    return start(info, flagOf(info[2]), [=](Call&, ModelSession& session, const auto& cancelled) {
      const auto norms = isopro::hiddenNorms(session.readyContext(), tokens, blocks, cancelled);
      return MakeValue([norms, blocks](Napi::Env env) {
        Napi::Array result = Napi::Array::New(env, blocks.size());
        for (size_t i = 0; i < blocks.size(); ++i) {
          const HiddenNorms& of = norms.at(blocks[i]);
          Napi::Object entry = Napi::Object::New(env);
          entry.Set("out", of.out);
          entry.Set("in", of.in);
          entry.Set("update", of.update);
          result.Set(static_cast<std::uint32_t>(i), entry);
        }
        return result;
      });
    });
  }

  // embed(tokens, adapter | null | undefined, cancellation): Promise<Float32Array>
  Napi::Value embed(const Napi::CallbackInfo& info) {
    const std::vector<Token> tokens = tokensOf(info[0]);
    const bool override = !info[1].IsUndefined();
    const std::shared_ptr<Adapter> adapter = adapterOf(info[1]);
    return start(info, flagOf(info[2]), [=](Call&, ModelSession& session, const auto& cancelled) {
      Context& context = session.readyContext();
      AdapterOverride guard(session, override, adapter, 1.0f);
      const auto unit =
          std::make_shared<std::vector<float>>(isopro::embed(context, tokens, cancelled));
      return MakeValue([unit](Napi::Env env) { return fromFloats(env, *unit); });
    });
  }

  // loadAdapter(path): Promise<NativeAdapter>
  Napi::Value loadAdapter(const Napi::CallbackInfo& info) {
    const std::string path = textOf(info[0]);
    return start(info, never(), [path, self = this](Call&, ModelSession& session, const auto&) {
      session.readyContext();
      auto adapter = Adapter::load(session.model, path, session.batch != nullptr);
      // The call keeps `self` alive until this has run, on the JavaScript thread.
      return MakeValue([adapter, self](Napi::Env env) -> Napi::Value {
        Napi::Object object = Environment::of(env).adapter.New({});
        NativeAdapter::Unwrap(object)->fill(self->session_, adapter);
        return object;
      });
    });
  }

  // setAdapter(adapter | null, scale): Promise<void>
  Napi::Value setAdapter(const Napi::CallbackInfo& info) {
    std::shared_ptr<Adapter> adapter = adapterOf(info[0]);
    const float scale = floatOf(info[1]);
    return start(info, never(), [=](Call&, ModelSession& session, const auto&) {
      session.readyContext().setAdapter(adapter, scale);
      session.adapter = adapter;
      session.adapterScale = scale;
      return undefined();
    });
  }

  // releaseContext(): Promise<void>; frees KV cache and compute buffers until the next call needs
  // them.
  Napi::Value releaseContext(const Napi::CallbackInfo& info) {
    return start(info, never(), [](Call&, ModelSession& session, const auto&) {
      session.readyContext().release();
      return undefined();
    });
  }

  // measureOperations(): Promise<void>; operationTimes() counts from here.
  Napi::Value measureOperations(const Napi::CallbackInfo& info) {
    return start(info, never(), [](Call&, ModelSession& session, const auto&) {
      session.readyContext().measureOperations();
      return undefined();
    });
  }

  // operationTimes(): Promise<{operation, computer, nodes, seconds, processorSeconds}[]>; empty
  // where nothing was measured.
  Napi::Value operationTimes(const Napi::CallbackInfo& info) {
    return start(info, never(), [](Call&, ModelSession& session, const auto&) -> MakeValue {
      const OperationTimes* times = session.readyContext().operationTimes();
      return [costs = times == nullptr ? std::map<OperationKey, OperationCost>{}
                                       : times->costs()](Napi::Env env) -> Napi::Value {
        Napi::Array list = Napi::Array::New(env, costs.size());
        std::uint32_t next = 0;
        for (const auto& [key, cost] : costs) {
          Napi::Object entry = Napi::Object::New(env);
          entry.Set("operation", key.first);
          entry.Set("computer", key.second);
          entry.Set("nodes", static_cast<double>(cost.nodes));
          entry.Set("seconds", cost.seconds);
          entry.Set("processorSeconds", cost.processorSeconds);
          list.Set(next++, entry);
        }
        return list;
      };
    });
  }

  // dispose(): Promise<void>; cancels what runs, frees everything, harmless when repeated.
  Napi::Value dispose(const Napi::CallbackInfo& info) {
    disposed_ = true;
    session_->thread.cancelAll();
    return start(info, never(), [](Call&, ModelSession& session, const auto&) {
      if (session.batch != nullptr)
        session.batch->close(
            std::make_exception_ptr(Error(ErrorCode::aborted, "the model was disposed")));
      session.batch.reset();
      session.adapter.reset();
      session.samplers.reset();
      session.context.reset();
      session.model.reset();
      return undefined();
    });
  }

  // Runs work(call, session, cancelled) on the job thread. The call keeps this object alive, and
  // with it the session.
  template <typename Work>
  Napi::Promise start(const Napi::CallbackInfo& info, CancelFlag cancelled, Work work) {
    return startWithEvents(info, info.Env().Undefined(), std::move(cancelled), std::move(work));
  }
  template <typename Work>
  Napi::Promise startWithEvents(const Napi::CallbackInfo& info, Napi::Value onEvent,
                                CancelFlag cancelled, Work work) {
    return runAsync(session_->thread, info.This(), onEvent, std::move(cancelled),
                    [session = session_.get(), work = std::move(work)](
                        Call& call, const std::atomic<bool>& flag) mutable {
                      session->dropRetired();
                      return work(call, *session, flag);
                    });
  }

  const Model& loaded() const {
    if (disposed_ || session_->model == nullptr)
      throw Error(ErrorCode::objectDisposed, "the model has been disposed");
    return *session_->model;
  }

  std::shared_ptr<ModelSession> session_;
  bool disposed_ = false;
};

// stopAll(): cancels and ends the job threads of this environment. process.exit() runs C++'s static
// destructors without tearing the environment down; a thread inside llama.cpp would outlive what it
// uses.
Napi::Value stopAll(const Napi::CallbackInfo& info) {
  Environment::of(info.Env()).stopThreads();
  return info.Env().Undefined();
}

}  // namespace

void exportModel(Napi::Env env, Napi::Object exports) {
  Environment::of(env).adapter = Napi::Persistent(NativeAdapter::define(env));
  exports.Set("Cancellation", Cancellation::define(env));
  exports.Set("NativeModel", NativeModel::define(env));
  exports.Set("stopAll", Napi::Function::New(env, stopAll, "stopAll"));
}

}  // namespace isopro::bindings
