#include "bindings/job_thread.h"

#include <utility>
#include <vector>

#include "support/error.h"
#include "support/start_thread.h"

namespace isopro::bindings {
namespace {

std::exception_ptr disposed() {
  return std::make_exception_ptr(
      Error(ErrorCode::objectDisposed, "the object was disposed before the call ran"));
}

}  // namespace

JobThread::JobThread(Environment& environment) : environment_(&environment) {
  environment.add(this);
}

JobThread::~JobThread() { stop(); }

void JobThread::post(CancelFlag cancelled, std::function<void()> job, Dropped dropped, bool call) {
  if (environment_ == nullptr || environment_->stopped()) {
    dropped(disposed());
    return;
  }
  if (!thread_.joinable()) thread_ = startThread([this] { loop(); });
  put({std::move(cancelled), std::move(job), std::move(dropped), call});
}

void JobThread::again(CancelFlag cancelled, std::function<void()> job, Dropped dropped) {
  put({std::move(cancelled), std::move(job), std::move(dropped), false});
}

void JobThread::put(Job job) {
  std::lock_guard<std::mutex> lock(mutex_);
  jobs_.push_back(std::move(job));
  wake_.notify_one();
}

void JobThread::dropCancelled() {
  std::vector<Dropped> dropped;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (Job& job : jobs_) {
      if (!job.call || job.ended || !job.cancelled->load()) continue;
      dropped.push_back(job.dropped);
      job.ended = true;
    }
  }
  for (const Dropped& drop : dropped)
    drop(std::make_exception_ptr(
        Error(ErrorCode::aborted, "the call was cancelled before its turn came")));
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
  if (environment_ != nullptr) environment_->remove(this);
  environment_ = nullptr;
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
    if (job.ended) {
      // Nobody waits for it; what it holds is destroyed where the others' is.
    } else if (drop) {
      job.dropped(disposed());
    } else {
      job.run();
    }
    job = {};
    lock.lock();
    running_ = nullptr;
  }
}

}  // namespace isopro::bindings
