// One-off work on libuv's pool, for calls that belong to no engine and no trainer.
#pragma once

#include <exception>
#include <functional>
#include <utility>

#include <napi.h>

#include "bindings/environment.h"
#include "bindings/errors.h"

namespace isopro::bindings {

class PoolJob : public Napi::AsyncWorker {
 public:
  // work() runs on the pool; what it returns makes the promise's value on the JavaScript thread.
  static Napi::Promise run(Napi::Env env, std::function<MakeValue()> work) {
    auto* job = new PoolJob(env, std::move(work));  // deletes itself when it has run
    job->Queue();
    return job->deferred_.Promise();
  }

 private:
  PoolJob(Napi::Env env, std::function<MakeValue()> work)
      : Napi::AsyncWorker(env), deferred_(env), work_(std::move(work)) {}

  void Execute() override {
    try {
      value_ = work_();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  void OnOK() override {
    try {
      if (failure_ != nullptr) std::rethrow_exception(failure_);
      deferred_.Resolve(value_(Env()));
    } catch (...) {
      deferred_.Reject(toJsError(Env(), std::current_exception()).Value());
    }
  }

  Napi::Promise::Deferred deferred_;
  std::function<MakeValue()> work_;
  MakeValue value_;
  std::exception_ptr failure_;
};

}  // namespace isopro::bindings
