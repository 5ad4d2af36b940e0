#include "support/thread_pool.h"

#include <algorithm>
#include <exception>

#include "support/start_thread.h"

namespace isopro {

Range split(std::int64_t count, std::int64_t parts, std::int64_t index, std::int64_t unit) {
  const std::int64_t units = (count + unit - 1) / unit;
  return {std::min(count, units * index / parts * unit), std::min(count, units * (index + 1) / parts * unit)};
}

ThreadPool::ThreadPool(int threads) : failures_(static_cast<std::size_t>(std::max(1, threads))) {
  try {
    workers_.reserve(failures_.size());  // a running thread that finds no place in the vector ends the process
    for (int thread = 1; thread < threads; ++thread) workers_.push_back(startThread([this, thread] { work(thread); }));
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

void ThreadPool::work(int thread) {
  std::uint64_t seen = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    start_.wait(lock, [&] { return stopping_ || round_ != seen; });
    if (stopping_) return;
    seen = round_;
    lock.unlock();
    try {
      (*body_)(thread);
    } catch (...) {
      failures_[static_cast<std::size_t>(thread)] = std::current_exception();
    }
    lock.lock();
    if (--pending_ == 0) finish_.notify_one();
  }
}

void ThreadPool::run(const std::function<void(int)>& body) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    body_ = &body;
    pending_ = static_cast<int>(workers_.size());
    ++round_;
  }
  start_.notify_all();
  try {
    body(0);
  } catch (...) {
    failures_[0] = std::current_exception();
  }
  {
    std::unique_lock<std::mutex> lock(mutex_);
    finish_.wait(lock, [&] { return pending_ == 0; });
  }
  for (auto& failure : failures_) {
    if (!failure) continue;
    const std::exception_ptr first = failure;
    std::fill(failures_.begin(), failures_.end(), nullptr);
    std::rethrow_exception(first);
  }
}

void ThreadPool::parallelFor(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
  run([&](int thread) {
    const Range part = split(count, threads(), thread);
    if (part.begin < part.end) body(part.begin, part.end);
  });
}

}  // namespace isopro
