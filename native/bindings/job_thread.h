// A thread that runs the jobs of one engine or trainer, one after the other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "bindings/environment.h"

namespace isopro::bindings {

using CancelFlag = std::shared_ptr<std::atomic<bool>>;

// Of a job that no caller cancels; the thread that runs it still can.
inline CancelFlag never() { return std::make_shared<std::atomic<bool>>(false); }

// A long generation holds no thread of libuv's pool this way. Made, stopped and destroyed on the
// JavaScript thread; whoever has one as its last member may be used by its jobs without being owned
// by them.
class JobThread {
 public:
  using Dropped = std::function<void(std::exception_ptr)>;

  explicit JobThread(Environment& environment);
  ~JobThread();
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  // `dropped` runs instead of `job`, with the reason, when the thread stops first, and for a
  // `call`, which somebody waits for, on the JavaScript thread when it is cancelled before its
  // turn. The first job starts the thread; throws SYSTEM_LIMIT.
  void post(CancelFlag cancelled, std::function<void()> job, Dropped dropped, bool call = true);
  // From a job: puts another one behind those that wait.
  void again(CancelFlag cancelled, std::function<void()> job, Dropped dropped);
  // Ends the calls that wait and are cancelled.
  void dropCancelled();
  // Sets the flag of the running job and of all that wait.
  void cancelAll();
  // Cancels the job that runs, drops those that wait and those that come.
  void stop();

 private:
  struct Job {
    CancelFlag cancelled;
    std::function<void()> run;
    Dropped dropped;
    bool call = false;
    bool ended = false;  // before its turn
  };

  void put(Job job);
  void loop();

  Environment* environment_;  // null once stopped
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  CancelFlag running_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace isopro::bindings
