// One asynchronous call: the promise that JavaScript holds, and the events and the value that a job
// sends back to it.
#pragma once

#include <exception>
#include <list>
#include <utility>
#include <vector>

#include <napi.h>

#include "bindings/job_thread.h"
#include "support/error.h"

namespace isopro::bindings {

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

// Created on the JavaScript thread, used by a job, settled exactly once and gone then; keeps
// `alive` from being collected until then.
class Call {
 public:
  // onEvent may be undefined.
  static Call& create(Napi::Env env, Napi::Value alive, Napi::Value onEvent);

  // In the scope of create().
  Napi::Promise promise() const { return deferred_.Promise(); }

  // From the job's thread. An event calls onEvent(value), and where that fails, so does the call,
  // when it is settled; once the environment has begun to close they do nothing. A call can be
  // settled without any memory left.
  void emit(MakeValue value);
  // Events of several calls of one environment, in one message.
  static void emitAll(std::vector<std::pair<Call*, MakeValue>> events);
  void resolve(MakeValue value) noexcept;
  void reject(std::exception_ptr failure) noexcept;

 private:
  Call(Napi::Env env, Napi::Value alive, Napi::Value onEvent);
  void deliver(Napi::Env env, const MakeValue& make);
  void settle(Napi::Env env);

  Environment& environment_;
  Napi::Promise::Deferred deferred_;
  Napi::Reference<Napi::Value> alive_;
  Napi::FunctionReference onEvent_;
  MakeValue value_;               // or
  std::exception_ptr failure_;    // why there is none
  std::exception_ptr lostEvent_;  // of the first event that did not arrive
  std::list<Environment::Message> settlement_;
};

// Of a job without a result.
inline MakeValue undefined() {
  return [](Napi::Env env) { return env.Undefined(); };
}

// Posts a job whose return value settles the promise. work(call, cancelled) returns a MakeValue.
// `alive` and `onEvent` are those of Call::create; the call is made last, when nothing can keep it
// from being settled any more.
template <typename Work>
Napi::Promise runAsync(JobThread& thread, Napi::Value alive, Napi::Value onEvent,
                       CancelFlag cancelled, Work work) {
  Call& call = Call::create(alive.Env(), alive, onEvent);
  Napi::Promise promise = call.promise();
  try {
    thread.post(
        cancelled,
        [&call, cancelled, work = std::move(work)]() mutable {
          try {
            call.resolve(work(call, *cancelled));
          } catch (...) {
            call.reject(std::current_exception());
          }
        },
        [&call](std::exception_ptr reason) { call.reject(std::move(reason)); });
  } catch (...) {
    call.reject(std::current_exception());
  }
  return promise;
}

}  // namespace isopro::bindings
