#include "support/thread_pool.h"

#include <algorithm>
#include <utility>

#include "support/start_thread.h"

namespace isopro {

Range split(std::int64_t count, std::int64_t parts, std::int64_t index, std::int64_t unit) {
  const std::int64_t units = (count + unit - 1) / unit;
  return {std::min(count, units * index / parts * unit),
          std::min(count, units * (index + 1) / parts * unit)};
}

ThreadPool::ThreadPool(int threads) {
  try {
    workers_.reserve(static_cast<std::size_t>(
        std::max(1, threads)));  // a running thread that finds no place there ends the process
    for (int i = 1; i < threads; ++i) workers_.push_back(startThread([this] { work(); }));
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  start_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    start_.wait(lock, [this] { return stopping_ || wanted_ > 0; });
    if (stopping_) return;
    --wanted_;
    ++running_;
    lock.unlock();
    takeIndices();
    lock.lock();
    if (--running_ == 0) finish_.notify_one();
  }
}

void ThreadPool::takeIndices() {
  for (int i = next_++; i < count_; i = next_++) {
    try {
      (*body_)(i);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (i < failed_) {
        failed_ = i;
        failure_ = std::current_exception();
      }
    }
  }
}

void ThreadPool::forEach(int count, int most, const std::function<void(int)>& body) {
  int helpers = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    body_ = &body;
    count_ = failed_ = count;
    next_ = 0;
    helpers = wanted_ = std::clamp(std::min(most, count) - 1, 0, static_cast<int>(workers_.size()));
  }
  if (helpers > 0) start_.notify_all();
  takeIndices();
  std::unique_lock<std::mutex> lock(mutex_);
  wanted_ = 0;
  finish_.wait(lock, [this] { return running_ == 0; });
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::parallelFor(std::int64_t count,
                             const std::function<void(std::int64_t, std::int64_t)>& body) {
  run([&](int part) {
    const Range range = split(count, threads(), part);
    if (range.begin < range.end) body(range.begin, range.end);
  });
}

}  // namespace isopro
