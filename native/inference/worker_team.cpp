#include "inference/worker_team.h"

#include <algorithm>

#include "support/start_thread.h"

namespace isopro {

WorkerTeam::WorkerTeam(int threads) {
  try {
    threads_.reserve(
        static_cast<std::size_t>(std::max(0, threads)));  // a running thread that finds no place in the vector ends the process
    for (int i = 1; i < threads; ++i) threads_.push_back(startThread([this] { work(); }));
  } catch (...) {
    stop();
    throw;
  }
}

WorkerTeam::~WorkerTeam() { stop(); }

void WorkerTeam::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerTeam::run(int count, int threads, const std::function<void(int)>& task) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    task_ = &task;
    count_ = count;
    next_ = 0;
    failures_.assign(static_cast<size_t>(count), nullptr);
    seats_ = std::min({threads - 1, count - 1, static_cast<int>(threads_.size())});
  }
  if (seats_ > 0) wake_.notify_all();
  drain();
  std::unique_lock<std::mutex> lock(mutex_);
  seats_ = 0;
  done_.wait(lock, [this] { return running_ == 0; });
  task_ = nullptr;
  for (const std::exception_ptr& failure : failures_) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
}

void WorkerTeam::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || seats_ > 0; });
    if (stopping_) return;
    --seats_;
    ++running_;
    lock.unlock();
    drain();
    lock.lock();
    if (--running_ == 0) done_.notify_one();
  }
}

void WorkerTeam::drain() {
  for (int i = next_++; i < count_; i = next_++) {
    try {
      (*task_)(i);
    } catch (...) {
      failures_[static_cast<size_t>(i)] = std::current_exception();
    }
  }
}

}  // namespace isopro
