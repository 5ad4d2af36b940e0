#include "bindings/model_session.h"

#include <atomic>
#include <exception>

namespace isopro::bindings {

void ModelSession::retire(std::list<std::shared_ptr<Adapter>> adapters) noexcept {
  {
    std::lock_guard<std::mutex> lock(retiredMutex);
    retired.splice(retired.end(), adapters);
  }
  try {
    const auto drop = [this] { dropRetired(); };
    thread.post(
        never(), drop, [drop](const std::exception_ptr&) { drop(); }, false);
  } catch (...) {
    // The next job drops them.
  }
}

void ModelSession::dropRetired() {
  std::list<std::shared_ptr<Adapter>> adapters;
  std::lock_guard<std::mutex> lock(retiredMutex);
  adapters.swap(retired);
}

void ModelSession::continueBatch() {
  if (batch == nullptr || !batch->wantsStep()) return;
  const auto step = [this] {
    dropRetired();
    if (batch == nullptr) return;
    batch->step();
    try {
      continueBatch();
    } catch (...) {
      batch->close(std::current_exception());
    }
  };
  const auto dropped = [this](std::exception_ptr reason) {
    if (batch != nullptr) batch->close(std::move(reason));
  };
  thread.again(batch->stopped(), step, dropped);
  batch->awaitStep();
}

Napi::Function NativeAdapter::define(Napi::Env env) {
  return DefineClass(env, "NativeAdapter",
                     {InstanceMethod<&NativeAdapter::dispose>("dispose"),
                      InstanceAccessor<&NativeAdapter::activated>("activated")});
}

void NativeAdapter::fill(std::shared_ptr<ModelSession> session, std::shared_ptr<Adapter> adapter) {
  adapter_.push_back(std::move(adapter));
  session_ = std::move(session);
}

const std::shared_ptr<Adapter>& NativeAdapter::adapter() const {
  if (adapter_.empty()) throw Error(ErrorCode::objectDisposed, "the adapter has been disposed");
  return adapter_.front();
}

void NativeAdapter::dispose(const Napi::CallbackInfo&) { release(); }

Napi::Value NativeAdapter::activated(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), !adapter_.empty() && adapter_.front()->activated());
}

void NativeAdapter::release() {
  if (!adapter_.empty()) std::exchange(session_, nullptr)->retire(std::move(adapter_));
}

std::shared_ptr<Adapter> adapterOf(const Napi::Value& value) {
  if (value.IsUndefined() || value.IsNull()) return nullptr;
  return NativeAdapter::Unwrap(value.As<Napi::Object>())->adapter();
}

}  // namespace isopro::bindings
