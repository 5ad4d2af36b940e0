// Fork and join over a fixed number of threads. Work is split by index alone, never by who is free, so that every sum
// in this project is taken in the same order whatever the machine does; callers split only over independent outputs,
// so that the number of threads does not change a result either.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace isopro {

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

// Part `index` of `parts` of [0, count), in whole units of `unit`.
Range split(std::int64_t count, std::int64_t parts, std::int64_t index, std::int64_t unit = 1);

class ThreadPool {
 public:
  // Throws SYSTEM_LIMIT where the system refuses a thread.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(thread) once for each thread, thread 0 being the caller, and returns when all have returned. The first
  // exception, by thread number, is rethrown. Not re-entrant.
  void run(const std::function<void(int)>& body);

  // Calls body(begin, end) on the parts of [0, count).
  void parallelFor(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body);

 private:
  void work(int thread);
  void stop();

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable finish_;
  const std::function<void(int)>* body_ = nullptr;
  std::vector<std::exception_ptr> failures_;
  std::uint64_t round_ = 0;
  int pending_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace isopro
