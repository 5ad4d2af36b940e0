// Calls of llama.cpp whose failures arrive as typed errors. It says why only through its log, and
// where the system refuses ggml a thread or a small allocation, ggml ends the process; within
// callLlama that is an Error too.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "support/error.h"

namespace isopro {

// The error lines of the calling thread since the last call, joined; empty where there were none.
std::string takeLlamaError();

// The warnings of the calling thread since the last call, a line each, without the name of the
// function that gave them.
std::vector<std::string> takeLlamaWarnings();

// What the system refused, by llama.cpp's words: OUT_OF_MEMORY, SYSTEM_LIMIT, else `code`.
ErrorCode refusalIn(const std::string& words, ErrorCode code);

// What ggml takes by malloc in one call without looking whether it got it, beside what its context
// takes for graphs.
constexpr std::size_t kUncheckedBytes = 64 * 1024;

// While there is one, what llama.cpp says on this thread is ours (ISOPRO_LLAMA_LOG=1 in the
// environment prints it to stderr), and ggml's aborts on it throw. What the call had begun is to be
// discarded then; the threads and buffers that ggml held at that moment stay behind.
class LlamaCall {
 public:
  // Throws OUT_OF_MEMORY where there are not `unchecked` bytes at this moment, which ggml would
  // write to all the same.
  explicit LlamaCall(std::size_t unchecked);
  ~LlamaCall();
  LlamaCall(const LlamaCall&) = delete;
  LlamaCall& operator=(const LlamaCall&) = delete;
};

template <typename Function>
auto callLlama(Function&& function, std::size_t unchecked = kUncheckedBytes) {
  const LlamaCall call(unchecked);
  return function();
}

// For what only gives back: needs no memory.
template <typename Function>
void freeLlama(Function&& function) {
  const LlamaCall call(0);
  function();
}

}  // namespace isopro
