#include "bindings/batch_loop.h"

#include <utility>
#include <vector>

#include "bindings/conversion.h"
#include "bindings/model_session.h"

namespace isopro::bindings {
namespace {

MakeValue valueOf(TokenEvent&& token) {
  return [token = std::move(token)](Napi::Env env) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("token", token.token);
    object.Set("logProbability", token.logProbability);
    object.Set("sampledLogProbability", token.sampledLogProbability);
    if (!token.top.empty()) object.Set("top", fromChances(env, token.top));
    object.Set("text", token.text);
    return object;
  };
}

MakeValue valueOf(FinishedReply&& finished) {
  return [finished = std::move(finished)](Napi::Env env) {
    Napi::Object object = fromReply(env, finished.reply);
    object.Set("reusedTokens", finished.reusedTokens);
    return object;
  };
}

}  // namespace

BatchRequest batchRequestOf(const Napi::Object& object) {
  BatchRequest request;
  request.prompt = tokensOf(object.Get("prompt"));
  request.sampling = samplingOf(object.Get("sampling").As<Napi::Object>());
  request.seed = seedOf(object.Get("seed"));
  request.limits = limitsOf(object);
  request.grammar = textOf(object.Get("grammar"));
  request.deterministic = truthOf(object.Get("deterministic"));
  request.cachePartition = textOf(object.Get("cachePartition"));
  request.rank = object.Get("rank").As<Napi::Number>().Int32Value();
  return request;
}

BatchLoop::BatchLoop(std::unique_ptr<Context> context, std::unique_ptr<Context> alone,
                     ThreadPool& pool, const BatchSettings& settings)
    : context_(std::move(context)),
      aloneContext_(std::move(alone)),
      batch_(*context_, pool, settings),
      alone_(*aloneContext_, pool, {settings.cells, 1, 0, true}) {}

void BatchLoop::join(Call& call, BatchRequest request) {
  const std::int64_t number = next_++;
  calls_.emplace(number, &call);
  try {
    (request.deterministic ? alone_ : batch_).join(number, std::move(request));
  } catch (...) {
    calls_.erase(number);
    throw;
  }
}

void BatchLoop::step() {
  awaited_ = false;
  try {
    for (RunningBatch* batch : {&batch_, &alone_}) {
      if (!batch->idle()) deliver(batch->step(*stopped_));
    }
  } catch (...) {
    close(std::current_exception());
  }
}

void BatchLoop::close(std::exception_ptr failure) {
  awaited_ = false;
  try {
    for (RunningBatch* batch : {&batch_, &alone_}) deliver(batch->fail(failure));
  } catch (...) {
    // Where there is no memory left to say more.
  }
  for (const auto& [number, call] : calls_) call->reject(failure);
  calls_.clear();
}

void BatchLoop::deliver(StepReport&& report) {
  std::vector<std::pair<Call*, MakeValue>> events;
  for (TokenEvent& token : report.tokens) {
    Call* const call = calls_.at(token.request);
    events.emplace_back(call, valueOf(std::move(token)));
  }
  Call::emitAll(std::move(events));
  for (FinishedReply& finished : report.finished) {
    const std::int64_t number = finished.request;
    MakeValue value = valueOf(std::move(finished));
    take(number).resolve(std::move(value));
  }
  for (const FailedReply& failed : report.failed) take(failed.request).reject(failed.failure);
}

Call& BatchLoop::take(std::int64_t number) {
  const auto found = calls_.find(number);
  Call& call = *found->second;
  calls_.erase(found);
  return call;
}

Napi::Promise joinBatch(ModelSession& session, Napi::Value alive, Napi::Value onToken,
                        BatchRequest request) {
  Call& call = Call::create(alive.Env(), alive, onToken);
  Napi::Promise promise = call.promise();
  try {
    CancelFlag cancelled = request.cancelled;
    const auto shared = std::make_shared<BatchRequest>(std::move(request));
    session.thread.post(
        std::move(cancelled),
        [&call, &session, shared] {
          try {
            session.dropRetired();
            if (session.batch == nullptr)
              throw Error(ErrorCode::objectDisposed, "the model has been disposed");
            session.batch->join(call, std::move(*shared));
          } catch (...) {
            call.reject(std::current_exception());
            return;
          }
          try {
            session.continueBatch();
          } catch (...) {
            session.batch->close(std::current_exception());
          }
        },
        [&call](std::exception_ptr reason) { call.reject(std::move(reason)); });
  } catch (...) {
    call.reject(std::current_exception());
  }
  return promise;
}

}  // namespace isopro::bindings
