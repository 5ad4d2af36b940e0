#include "bindings/job_thread.h"

#include <utility>

#include "support/start_thread.h"

namespace isopro::bindings {

JobThread::JobThread(Environment& environment) : environment_(&environment) { environment.add(this); }

JobThread::~JobThread() { stop(); }

void JobThread::post(CancelFlag cancelled, std::function<void()> job, std::function<void()> dropped) {
  if (environment_ == nullptr || environment_->stopped()) {
    dropped();
    return;
  }
  if (!thread_.joinable()) thread_ = startThread([this] { loop(); });
  again(std::move(cancelled), std::move(job), std::move(dropped));
}

void JobThread::again(CancelFlag cancelled, std::function<void()> job, std::function<void()> dropped) {
  std::lock_guard<std::mutex> lock(mutex_);
  jobs_.push_back({std::move(cancelled), std::move(job), std::move(dropped)});
  wake_.notify_one();
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

}  // namespace isopro::bindings
