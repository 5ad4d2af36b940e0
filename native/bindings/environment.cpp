#include "bindings/environment.h"

#include <utility>
#include <vector>

#include "bindings/call.h"
#include "bindings/job_thread.h"

namespace isopro::bindings {

void Environment::create(Napi::Env env) {
  auto owned = std::unique_ptr<Environment>(new Environment(env));
  Environment* environment = owned.get();
  env.SetInstanceData(owned.release());
  // Hooks run last to first: after the bell was made, hence before Node takes it down.
  env.AddCleanupHook([environment] { environment->close(); });
}

Environment::Environment(Napi::Env env) : env_(env) {
  const auto ring = [](napi_env env, napi_value, void* self, void*) {
    if (env != nullptr) static_cast<Environment*>(self)->receive();
  };
  const napi_status status = napi_create_threadsafe_function(
      env, nullptr, nullptr, Napi::String::New(env, "isopro-native"), 0, 1, nullptr, nullptr, this,
      ring, &bell_);
  NAPI_THROW_IF_FAILED_VOID(env, status);
  napi_unref_threadsafe_function(env_, bell_);
}

Environment::~Environment() = default;

void Environment::send(std::list<Message> message) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  if (bell_ == nullptr) return;
  messages_.splice(messages_.end(), message);
  napi_call_threadsafe_function(bell_, nullptr, napi_tsfn_nonblocking);
}

// One message a ring, so that the microtasks of one run before the next.
void Environment::receive() {
  std::list<Message> message;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (messages_.empty()) return;
    message.splice(message.end(), messages_, messages_.begin());
  }
  Napi::HandleScope scope(env_);
  try {
    message.front()(env_);
  } catch (const Napi::Error& error) {
    // Of an environment that is being ended, where every call of Node-API fails.
    error.ThrowAsJavaScriptException();
  }
}

Call& Environment::add(std::unique_ptr<Call> call) {
  Call* added = call.get();
  calls_.emplace(added, std::move(call));
  if (calls_.size() == 1 && bell_ != nullptr) napi_ref_threadsafe_function(env_, bell_);
  return *added;
}

void Environment::remove(Call* call) {
  calls_.erase(call);
  if (calls_.empty() && bell_ != nullptr) napi_unref_threadsafe_function(env_, bell_);
}

void Environment::dropCancelled() {
  for (JobThread* thread : threads_) thread->dropCancelled();
}

void Environment::stopThreads() {
  stopped_ = true;
  const std::vector<JobThread*> threads(threads_.begin(), threads_.end());
  for (JobThread* thread : threads) thread->stop();
}

void Environment::close() {
  stopThreads();
  std::list<Message> unread;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    napi_release_threadsafe_function(std::exchange(bell_, nullptr), napi_tsfn_abort);
    unread.swap(messages_);
  }
  calls_.clear();
}

}  // namespace isopro::bindings
