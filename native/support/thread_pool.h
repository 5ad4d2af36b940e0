// Fork and join over a fixed number of threads. Whichever thread is free takes the next index, but
// what an index stands for is said by the caller alone, so that every sum in this project is taken
// in the same order whatever the machine does; callers split only over independent outputs, so that
// the number of threads does not change a result either.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
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

  // Calls body(i) once for each i of [0, count), on at most `most` threads, the caller's among
  // them, and returns when all have returned; the exception of the lowest i is rethrown. Waits for
  // no thread that has not begun. Not re-entrant.
  void forEach(int count, int most, const std::function<void(int)>& body);

  // Calls body(part) once for each of as many parts as there are threads; parts that run at the
  // same time differ.
  void run(const std::function<void(int)>& body) { forEach(threads(), threads(), body); }

  // Calls body(begin, end) on the parts of [0, count).
  void parallelFor(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body);

 private:
  void work();
  void stop();
  void takeIndices();

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable finish_;
  const std::function<void(int)>* body_ = nullptr;
  std::atomic<int> next_{0};
  int count_ = 0;
  int wanted_ = 0;   // workers that may still join
  int running_ = 0;  // workers that have joined
  int failed_ = 0;   // lowest index that threw, count_ where none did
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace isopro
