// Calls of llama.cpp whose failures arrive as typed errors. It says why only through its log, and where the system refuses
// ggml a thread or a small allocation, ggml ends the process; within callLlama that is an Error too.
#pragma once

#include <string>

namespace isopro {

// Once a process; ISOPRO_LLAMA_LOG=1 in the environment prints everything that llama.cpp says to stderr.
void installLlamaHandlers();

// The error lines of the calling thread since the last call, joined; empty where there were none.
std::string takeLlamaError();

// What the system refused, by llama.cpp's words: OUT_OF_MEMORY, SYSTEM_LIMIT, else `code`.
std::string refusalIn(const std::string& words, const std::string& code);

// While there is one, ggml's aborts on this thread throw. What the call had begun is to be discarded then; the threads and
// buffers that ggml held at that moment stay behind.
class LlamaCall {
 public:
  LlamaCall();
  ~LlamaCall();
  LlamaCall(const LlamaCall&) = delete;
  LlamaCall& operator=(const LlamaCall&) = delete;
};

template <typename Function>
auto callLlama(Function&& function) {
  const LlamaCall call;
  return function();
}

}  // namespace isopro
