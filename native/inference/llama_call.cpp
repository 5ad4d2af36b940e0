#include "inference/llama_call.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>

#include <llama.h>

#include "support/error.h"

namespace isopro {
namespace {

// An array, because nothing here may allocate: it runs where an allocation has just failed.
thread_local std::array<char, 1024> errorLines{};
thread_local int calls = 0;
ggml_abort_callback_t abortOfOthers = nullptr;

void onLlamaLog(ggml_log_level level, const char* text, void*) {
  static const bool verbose = [] {
    const char* flag = std::getenv("ISOPRO_LLAMA_LOG");
    return flag != nullptr && *flag == '1';
  }();
  if (level == GGML_LOG_LEVEL_ERROR) {
    const std::size_t used = std::strlen(errorLines.data());
    const int length = static_cast<int>(std::strcspn(text, "\n"));
    std::snprintf(errorLines.data() + used, errorLines.size() - used, "%s%.*s", used > 0 ? "; " : "", length, text);
  }
  if (verbose) std::fputs(text, stderr);
}

void onAbort(const char* message) {
  if (calls > 0) throw Error(refusalIn(message, "NATIVE_FAILURE"), std::string("llama.cpp gave up at ") + message);
  if (abortOfOthers != nullptr) {
    abortOfOthers(message);
  } else {
    std::fprintf(stderr, "%s\n", message);
  }
}

}  // namespace

void installLlamaHandlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    llama_log_set(onLlamaLog, nullptr);
    abortOfOthers = ggml_set_abort_callback(onAbort);
  });
}

std::string takeLlamaError() {
  std::string text = errorLines.data();
  errorLines[0] = '\0';
  return text;
}

std::string refusalIn(const std::string& words, const std::string& code) {
  const auto says = [&](const std::string& text) { return words.find(text) != std::string::npos; };
  const auto reason = [](int number) { return std::generic_category().message(number); };
  // ggml's own words where pthread_create and malloc failed.
  if (says(reason(EMFILE)) || says(reason(ENFILE)) || says(reason(EAGAIN)) || says("GGML_ASSERT(rc == 0)")) return "SYSTEM_LIMIT";
  if (says("alloc") || says(reason(ENOMEM)) || says("mem_buffer") || says("out of memory")) return "OUT_OF_MEMORY";
  return code;
}

LlamaCall::LlamaCall() {
  ++calls;
  errorLines[0] = '\0';
}

LlamaCall::~LlamaCall() { --calls; }

}  // namespace isopro
