// The requests that run in a model's batch: from JavaScript's calls into the batch, and each step's
// report back to them.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>

#include <napi.h>

#include "bindings/call.h"
#include "inference/running_batch.h"

namespace isopro::bindings {

struct ModelSession;

// Used by the job thread of its session alone.
class BatchLoop {
 public:
  // `alone`: where deterministic requests run, one after the other.
  BatchLoop(std::unique_ptr<Context> context, std::unique_ptr<Context> alone, ThreadPool& pool,
            const BatchSettings& settings);

  // Settles the call when the reply has ended. Throws what RunningBatch::join throws; the call is
  // the caller's then.
  void join(Call& call, BatchRequest request);
  void step();
  // Settles every call.
  void close(std::exception_ptr failure);

  // Whether there is work and no step is waiting its turn.
  bool wantsStep() const { return !awaited_ && !(batch_.idle() && alone_.idle()); }
  void awaitStep() { awaited_ = true; }
  // Ends the step that is running, and with it every request.
  const CancelFlag& stopped() const { return stopped_; }

 private:
  void deliver(StepReport&& report);
  Call& take(std::int64_t number);

  const std::unique_ptr<Context> context_;
  const std::unique_ptr<Context> aloneContext_;
  RunningBatch batch_;
  RunningBatch alone_;
  const CancelFlag stopped_ = std::make_shared<std::atomic<bool>>(false);
  std::map<std::int64_t, Call*> calls_;
  std::int64_t next_ = 0;
  bool awaited_ = false;
};

// A request without its adapter, its cancellation and whether it is streamed.
BatchRequest batchRequestOf(const Napi::Object& object);

// The promise of a reply.
Napi::Promise joinBatch(ModelSession& session, Napi::Value alive, Napi::Value onToken,
                        BatchRequest request);

}  // namespace isopro::bindings
