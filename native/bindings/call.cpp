#include "bindings/call.h"

#include <set>
#include <utility>

#include "bindings/errors.h"
#include "support/error.h"

namespace isopro::bindings {

Napi::Function Cancellation::define(Napi::Env env) {
  return DefineClass(env, "Cancellation", {InstanceMethod<&Cancellation::cancel>("cancel")});
}

Cancellation::Cancellation(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<Cancellation>(info), flag_(std::make_shared<std::atomic<bool>>(false)) {}

void Cancellation::cancel(const Napi::CallbackInfo&) { flag_->store(true); }

namespace {

// Made and destroyed on the JavaScript thread of their environment, and listed there.
std::set<JobThread*>& jobThreadsOfThisThread() {
  thread_local std::set<JobThread*> threads;
  return threads;
}

}  // namespace

JobThread::JobThread() : thread_([this] { loop(); }) { jobThreadsOfThisThread().insert(this); }

JobThread::~JobThread() {
  jobThreadsOfThisThread().erase(this);
  stop();
}

void JobThread::stopAllOfThisThread() {
  for (JobThread* thread : jobThreadsOfThisThread()) thread->stop();
}

void JobThread::post(CancelFlag cancelled, std::function<void()> job, std::function<void()> dropped) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!stopping_) {
      jobs_.push_back({std::move(cancelled), std::move(job), std::move(dropped)});
      wake_.notify_one();
      return;
    }
  }
  dropped();
}

void JobThread::cancelAll() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (running_ != nullptr) running_->store(true);
  for (Job& job : jobs_) job.cancelled->store(true);
}

void JobThread::stop() {
  cancelAll();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void JobThread::loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    running_ = job.cancelled;
    const bool drop = stopping_;
    lock.unlock();
    if (drop) {
      job.dropped();
    } else {
      job.run();
    }
    job = {};
    lock.lock();
    running_ = nullptr;
  }
}

struct Call::State {
  Napi::Promise::Deferred deferred;
  Napi::Reference<Napi::Value> self;
};

std::shared_ptr<Call> Call::create(Napi::Env env, Napi::Value self, Napi::Value onEvent) {
  auto state = std::make_unique<State>(State{Napi::Promise::Deferred::New(env), {}});
  if (self.IsObject()) state->self = Napi::Reference<Napi::Value>::New(self, 1);
  const Napi::Function callback =
      onEvent.IsFunction() ? onEvent.As<Napi::Function>() : Napi::Function::New(env, [](const Napi::CallbackInfo&) {});
  auto call = std::shared_ptr<Call>(new Call(state->deferred.Promise()));
  call->state_ = state.get();
  call->channel_ = Napi::ThreadSafeFunction::New(env, callback, "isopro-native", 0, 1, state.release(),
                                                 [](Napi::Env, void*, State* owned) { std::unique_ptr<State> deleted(owned); },
                                                 static_cast<void*>(nullptr));
  return call;
}

void Call::emit(MakeValue value) {
  auto message = std::make_unique<MakeValue>(std::move(value));
  const napi_status status =
      channel_.BlockingCall(message.get(), [](Napi::Env env, Napi::Function onEvent, MakeValue* received) {
        std::unique_ptr<MakeValue> owned(received);
        if (env != nullptr) onEvent.Call({(*owned)(env)});
      });
  if (status == napi_ok) message.release();
}

void Call::settle(std::function<void(Napi::Env, State&)> action) {
  using Action = std::function<void(Napi::Env)>;
  auto message = std::make_unique<Action>([state = state_, act = std::move(action)](Napi::Env env) {
    Napi::HandleScope scope(env);
    act(env, *state);
  });
  const napi_status status = channel_.BlockingCall(message.get(), [](Napi::Env env, Napi::Function, Action* received) {
    std::unique_ptr<Action> owned(received);
    if (env != nullptr) (*owned)(env);
  });
  if (status == napi_ok) message.release();
  channel_.Release();
}

void Call::resolve(MakeValue value) {
  settle([make = std::move(value)](Napi::Env env, State& state) {
    try {
      state.deferred.Resolve(make(env));
    } catch (...) {
      state.deferred.Reject(toJsError(env, std::current_exception()).Value());
    }
  });
}

void Call::reject(std::exception_ptr failure) {
  if (failure == nullptr) failure = std::make_exception_ptr(Error("OBJECT_DISPOSED", "the object was disposed before the call ran"));
  settle([failure](Napi::Env env, State& state) { state.deferred.Reject(toJsError(env, failure).Value()); });
}

}  // namespace isopro::bindings
