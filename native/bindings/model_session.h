// What a loaded model consists of, and the JavaScript handle of its adapters.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include <napi.h>

#include "bindings/batch_loop.h"
#include "bindings/job_thread.h"
#include "inference/adapter.h"
#include "inference/context.h"
#include "support/error.h"
#include "support/thread_pool.h"

namespace isopro::bindings {

// Everything but `model` and `hasOwnBits`, which do not change after loading, is touched by the job
// thread alone.
struct ModelSession {
  explicit ModelSession(Environment& environment) : thread(environment) {}

  std::shared_ptr<Model> model;
  bool hasOwnBits = false;  // as Context::hasOwnBits
  std::unique_ptr<Context> context;
  std::unique_ptr<ThreadPool> samplers;
  std::shared_ptr<Adapter> adapter;
  float adapterScale = 1.0f;
  std::unique_ptr<BatchLoop> batch;  // where there is one
  // Adapters that JavaScript has let go of. llama.cpp keeps a list of a model's adapters, which
  // only the job thread may change.
  std::mutex retiredMutex;
  std::list<std::shared_ptr<Adapter>> retired;
  JobThread thread;  // last: stops before the rest is destroyed

  // From the JavaScript thread.
  void retire(std::list<std::shared_ptr<Adapter>> adapters) noexcept;
  void dropRetired();

  // From a job: the next step of the batch, where it has work, is one more job. What else the
  // thread is asked for runs between two steps.
  void continueBatch();

  Context& readyContext() const {
    if (context == nullptr) throw Error(ErrorCode::objectDisposed, "the model has been disposed");
    return *context;
  }
};

class NativeAdapter : public Napi::ObjectWrap<NativeAdapter> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit NativeAdapter(const Napi::CallbackInfo& info) : Napi::ObjectWrap<NativeAdapter>(info) {}
  ~NativeAdapter() override { release(); }

  void fill(std::shared_ptr<ModelSession> session, std::shared_ptr<Adapter> adapter);
  // Throws OBJECT_DISPOSED.
  const std::shared_ptr<Adapter>& adapter() const;

 private:
  void dispose(const Napi::CallbackInfo& info);
  Napi::Value activated(const Napi::CallbackInfo& info);
  void release();

  std::shared_ptr<ModelSession> session_;
  std::list<std::shared_ptr<Adapter>>
      adapter_;  // one, or none; a list, because letting go of it takes no memory
};

// Null where undefined or null. Throws OBJECT_DISPOSED.
std::shared_ptr<Adapter> adapterOf(const Napi::Value& value);

// Sets the adapter of one call and puts the model's own back.
class AdapterOverride {
 public:
  AdapterOverride(ModelSession& session, bool active, std::shared_ptr<Adapter> adapter, float scale)
      : session_(session), active_(active) {
    if (active_) session_.readyContext().setAdapter(std::move(adapter), scale);
  }
  ~AdapterOverride() {
    if (!active_) return;
    try {
      session_.context->setAdapter(session_.adapter, session_.adapterScale);
    } catch (...) {
      // The context is given up then, and the next one is made with this adapter.
    }
  }
  AdapterOverride(const AdapterOverride&) = delete;
  AdapterOverride& operator=(const AdapterOverride&) = delete;

 private:
  ModelSession& session_;
  const bool active_;
};

}  // namespace isopro::bindings
