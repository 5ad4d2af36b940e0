// The threads that ggml computes graphs with, for as long as a context uses them. Without them ggml
// starts threads anew for every graph, by allocations whose failure it does not look at.
#pragma once

#include <memory>

#include <llama.h>

namespace isopro {

class ComputeThreads {
 public:
  // `count` threads, the calling one among them. Throws SYSTEM_LIMIT, OUT_OF_MEMORY.
  explicit ComputeThreads(int count);

  void attach(llama_context* context) const;
  // Leaves them where they are: ggml ended in the middle of a graph, and they wait for a part of it
  // that never comes.
  void abandon() { static_cast<void>(pool_.release()); }

 private:
  struct Deleter {
    void operator()(ggml_threadpool* pool) const;
  };
  std::unique_ptr<ggml_threadpool, Deleter> pool_;
};

}  // namespace isopro
