#include "bindings/call.h"

#include <memory>
#include <utility>

#include "bindings/errors.h"

namespace isopro::bindings {

Napi::Function Cancellation::define(Napi::Env env) {
  return DefineClass(env, "Cancellation", {InstanceMethod<&Cancellation::cancel>("cancel")});
}

Cancellation::Cancellation(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<Cancellation>(info),
      flag_(guarded(info.Env(), [] { return std::make_shared<std::atomic<bool>>(false); })) {}

void Cancellation::cancel(const Napi::CallbackInfo& info) {
  flag_->store(true);
  Environment::of(info.Env()).dropCancelled();
}

Call::Call(Napi::Env env, Napi::Value alive, Napi::Value onEvent)
    : environment_(Environment::of(env)), deferred_(Napi::Promise::Deferred::New(env)) {
  if (alive.IsObject()) alive_ = Napi::Reference<Napi::Value>::New(alive, 1);
  if (onEvent.IsFunction()) onEvent_ = Napi::Persistent(onEvent.As<Napi::Function>());
  settlement_.push_back([this](Napi::Env owner) { settle(owner); });
}

Call& Call::create(Napi::Env env, Napi::Value alive, Napi::Value onEvent) {
  return Environment::of(env).add(std::unique_ptr<Call>(new Call(env, alive, onEvent)));
}

void Call::emit(MakeValue value) {
  if (onEvent_.IsEmpty()) return;
  environment_.send({[this, make = std::move(value)](Napi::Env env) { deliver(env, make); }});
}

void Call::emitAll(std::vector<std::pair<Call*, MakeValue>> events) {
  if (events.empty()) return;
  Environment& environment = events.front().first->environment_;
  environment.send({[events = std::move(events)](Napi::Env env) {
    for (const auto& [call, make] : events) call->deliver(env, make);
  }});
}

void Call::deliver(Napi::Env env, const MakeValue& make) {
  try {
    onEvent_.Call({make(env)});
  } catch (...) {
    if (lostEvent_ == nullptr) lostEvent_ = std::current_exception();
  }
}

void Call::resolve(MakeValue value) noexcept {
  value_ = std::move(value);
  environment_.send(std::move(settlement_));
}

void Call::reject(std::exception_ptr failure) noexcept {
  failure_ = std::move(failure);
  environment_.send(std::move(settlement_));
}

void Call::settle(Napi::Env env) {
  const struct Removal {
    Call* call;
    ~Removal() { call->environment_.remove(call); }
  } removal{this};
  try {
    for (const std::exception_ptr& failure : {failure_, lostEvent_}) {
      if (failure != nullptr) std::rethrow_exception(failure);
    }
    deferred_.Resolve(value_(env));
  } catch (...) {
    deferred_.Reject(toJsError(env, std::current_exception()).Value());
  }
}

}  // namespace isopro::bindings
