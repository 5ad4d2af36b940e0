// Plumbing of asynchronous calls: a thread that owns an engine and runs its jobs one after the other, and the promise
// and events that a job sends back to JavaScript.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include <napi.h>

namespace isopro::bindings {

using CancelFlag = std::shared_ptr<std::atomic<bool>>;

// JavaScript's handle on a CancelFlag: `new Cancellation()`, `cancel()`.
class Cancellation : public Napi::ObjectWrap<Cancellation> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit Cancellation(const Napi::CallbackInfo& info);
  const CancelFlag& flag() const { return flag_; }

 private:
  void cancel(const Napi::CallbackInfo& info);

  CancelFlag flag_;
};

// Runs jobs in order on its own thread, so that a long generation holds no thread of libuv's pool. Stopping cancels
// the job that runs and drops those that wait.
class JobThread {
 public:
  JobThread();
  ~JobThread();
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  // `dropped` runs instead of `job` when the thread stops first.
  void post(CancelFlag cancelled, std::function<void()> job, std::function<void()> dropped);
  // Sets the flag of the running job and of all that wait.
  void cancelAll();
  void stop();
  // Stops every job thread that was made on the calling thread, which is the JavaScript thread of one environment.
  static void stopAllOfThisThread();

 private:
  struct Job {
    CancelFlag cancelled;
    std::function<void()> run;
    std::function<void()> dropped;
  };

  void loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  CancelFlag running_;
  bool stopping_ = false;
  std::thread thread_;
};

// One asynchronous call: created on the JavaScript thread, used by a job, settled exactly once. Keeps `self` (the
// object whose method was called) alive until then.
class Call {
 public:
  using MakeValue = std::function<Napi::Value(Napi::Env)>;

  // onEvent may be undefined.
  static std::shared_ptr<Call> create(Napi::Env env, Napi::Value self, Napi::Value onEvent);

  Napi::Promise promise() const { return promise_; }

  // From the job's thread. An event calls onEvent(value); after the environment has begun to close both do nothing.
  void emit(MakeValue value);
  void resolve(MakeValue value);
  void reject(std::exception_ptr failure);

 private:
  struct State;  // lives and dies on the JavaScript thread

  explicit Call(Napi::Promise promise) : promise_(promise) {}
  void settle(std::function<void(Napi::Env, State&)> action);

  Napi::Promise promise_;
  Napi::ThreadSafeFunction channel_;
  State* state_ = nullptr;  // owned by the channel's finaliser
};

// Posts a job whose return value settles the call's promise. work(cancelled) returns a MakeValue.
template <typename Work>
Napi::Promise runAsync(JobThread& thread, const std::shared_ptr<Call>& call, CancelFlag cancelled, Work work) {
  Napi::Promise promise = call->promise();
  thread.post(
      cancelled,
      [call, cancelled, work = std::move(work)]() mutable {
        try {
          call->resolve(work(*cancelled));
        } catch (...) {
          call->reject(std::current_exception());
        }
      },
      [call] { call->reject(nullptr); });
  return promise;
}

}  // namespace isopro::bindings
