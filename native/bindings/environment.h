// What one JavaScript environment, the main thread or a worker, keeps for as long as it lives: its
// job threads, the way back from them, the calls that are not settled, and the classes whose
// objects C++ makes.
//
// Before Node-API takes anything of the environment down, a clean-up hook ends the job threads and
// closes the way back. A job may therefore read JavaScript's memory and send messages for as long
// as it runs, and what a job uses is destroyed on the JavaScript thread, never by the job itself.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include <napi.h>

namespace isopro::bindings {

class Call;
class JobThread;

// Makes a promise's or an event's value, on the JavaScript thread.
using MakeValue = std::function<Napi::Value(Napi::Env)>;

// Everything but send() belongs to the JavaScript thread.
class Environment {
 public:
  using Message = std::function<void(Napi::Env)>;  // throws nothing of C++'s

  static void create(Napi::Env env);
  static Environment& of(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  // From any thread: runs the one message of the list on the JavaScript thread, after those sent
  // before it. A list, because moving its node takes no memory.
  void send(std::list<Message> message) noexcept;

  // The event loop goes on while there are calls.
  Call& add(std::unique_ptr<Call> call);
  void remove(Call* call);

  void add(JobThread* thread) { threads_.insert(thread); }
  void remove(JobThread* thread) { threads_.erase(thread); }
  // Ends the calls that were cancelled while they wait for their turn.
  void dropCancelled();
  // Cancels and ends every job thread; jobs that come later are dropped.
  void stopThreads();
  bool stopped() const { return stopped_; }

  Napi::FunctionReference adapter;

 private:
  explicit Environment(Napi::Env env);
  void receive();
  void close();

  const Napi::Env env_;
  std::set<JobThread*> threads_;
  std::map<Call*, std::unique_ptr<Call>> calls_;
  bool stopped_ = false;

  std::mutex mutex_;
  std::list<Message> messages_;
  napi_threadsafe_function bell_ =
      nullptr;  // null once closed; waking it up for each message is all that it does
};

}  // namespace isopro::bindings
