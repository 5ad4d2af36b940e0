// Threads that sample the rows of a decode step. Which thread handles which row never affects a result: each row has
// its own generator.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace isopro {

class WorkerTeam {
 public:
  // Throws SYSTEM_LIMIT where the system refuses a thread.
  explicit WorkerTeam(int threads);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  // Runs task(i) for i in [0, count) on at most `threads` threads, the caller's included; rethrows the exception of
  // the lowest i.
  void run(int count, int threads, const std::function<void(int)>& task);

 private:
  void work();
  void stop();
  void drain();

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const std::function<void(int)>* task_ = nullptr;
  std::vector<std::exception_ptr> failures_;
  std::atomic<int> next_{0};
  int count_ = 0;
  int seats_ = 0;    // workers that may still join this round
  int running_ = 0;  // workers inside drain()
  bool stopping_ = false;
};

}  // namespace isopro
