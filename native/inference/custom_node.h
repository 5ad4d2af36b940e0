// How a function of ours takes the place of a node's operation in a graph of llama.cpp, before ggml
// plans how to compute it: in the same graph, on the same threads, into the same memory.
#pragma once

#include <atomic>
#include <cstdint>

#include <ggml.h>

namespace isopro {

// ggml calls `compute(node, thread, threads, self)` on each of its threads. The node's own
// parameters are lost.
void computeBy(ggml_tensor* node, ggml_custom_op_t compute, void* self);

// Whether the tensor's numbers lie where a kernel of the processor can read and write them.
bool inOrdinaryMemory(const ggml_tensor* tensor);

// Parts of the node that is being computed. They go to whoever is free: one of the threads may
// share its core with another process. What a part has does not depend on it.
class SharedParts {
 public:
  // Calls compute(part) of the parts below `count` that this thread gets, and leaves.
  template <typename Compute>
  void forEach(std::int64_t count, int threads, Compute compute) {
    if (threads == 1) {
      for (std::int64_t part = 0; part < count; ++part) compute(part);
      return;
    }
    for (std::int64_t part = take(); part < count; part = take()) compute(part);
    leave(threads);
  }

  std::int64_t take() { return taken_.fetch_add(1, std::memory_order_relaxed); }

  // Each thread's last call, once it has found no part left. ggml's threads wait for each other
  // before the next node.
  void leave(int threads) {
    if (finished_.fetch_add(1, std::memory_order_acq_rel) + 1 < threads) return;
    taken_.store(0, std::memory_order_relaxed);
    finished_.store(0, std::memory_order_release);
  }

 private:
  std::atomic<std::int64_t> taken_{0};
  std::atomic<int> finished_{0};
};

}  // namespace isopro
