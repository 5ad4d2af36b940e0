#include "inference/llama_call.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <sstream>
#include <system_error>

#include <llama.h>

namespace isopro {
namespace {

// An array, because nothing here may allocate: it runs where an allocation has just failed.
thread_local std::array<char, 1024> errorLines{};
thread_local std::array<char, 4096> warningLines{};
thread_local int calls = 0;

// What another product of llama.cpp in this process (node-llama-cpp shares the library) had set,
// and sees to outside our calls.
std::mutex handlersMutex;
std::atomic<ggml_abort_callback_t> abortOfOthers{nullptr};
std::atomic<ggml_log_callback> logOfOthers{nullptr};
std::atomic<void*> logDataOfOthers{nullptr};

void onLlamaLog(ggml_log_level level, const char* text, void*) {
  if (calls == 0) {
    if (const ggml_log_callback log = logOfOthers) log(level, text, logDataOfOthers);
    return;
  }
  static const bool verbose = [] {
    const char* flag = std::getenv("ISOPRO_LLAMA_LOG");
    return flag != nullptr && *flag == '1';
  }();
  if (level == GGML_LOG_LEVEL_ERROR) {
    const std::size_t used = std::strlen(errorLines.data());
    const int length = static_cast<int>(std::strcspn(text, "\n"));
    std::snprintf(errorLines.data() + used, errorLines.size() - used, "%s%.*s",
                  used > 0 ? "; " : "", length, text);
  }
  if (level == GGML_LOG_LEVEL_WARN) {
    const std::size_t used = std::strlen(warningLines.data());
    std::snprintf(warningLines.data() + used, warningLines.size() - used, "%s", text);
  }
  if (verbose) std::fputs(text, stderr);
}

void onAbort(const char* message) {
  if (calls > 0) {
    // ggml logs what it was refused, and then gives up without saying why.
    std::string words = takeLlamaError();
    words += (words.empty() ? "" : "; ") + std::string(message);
    throw Error(refusalIn(words, ErrorCode::nativeFailure), "llama.cpp gave up: " + words);
  }
  if (const ggml_abort_callback_t abort = abortOfOthers) {
    abort(message);
  } else {
    std::fprintf(stderr, "%s\n", message);
  }
}

// Whoever set a handler last has it; each of our calls takes them back.
void takeHandlers() {
  std::lock_guard<std::mutex> lock(handlersMutex);
  const auto currentLog = [](void** data) {
    ggml_log_callback callback = nullptr;
    llama_log_get(&callback, data);
    return callback;
  };
  static const ggml_log_callback standard = [&] {
    void* data = nullptr;
    const ggml_log_callback found = currentLog(&data);
    llama_log_set(nullptr, nullptr);
    void* none = nullptr;
    const ggml_log_callback printing = currentLog(&none);
    llama_log_set(found, data);
    return printing;
  }();
  void* data = nullptr;
  const ggml_log_callback log = currentLog(&data);
  if (log != onLlamaLog) {
    logOfOthers = log == standard ? nullptr : log;
    logDataOfOthers = data;
    llama_log_set(onLlamaLog, nullptr);
  }
  const ggml_abort_callback_t abort = ggml_set_abort_callback(onAbort);
  if (abort != onAbort) abortOfOthers = abort;
}

}  // namespace

std::string takeLlamaError() {
  std::string text = errorLines.data();
  errorLines[0] = '\0';
  return text;
}

std::vector<std::string> takeLlamaWarnings() {
  std::vector<std::string> warnings;
  std::istringstream lines(warningLines.data());
  warningLines[0] = '\0';
  for (std::string line; std::getline(lines, line);) {
    const std::size_t name = line.find(": ");
    const std::size_t begin = line.find_first_not_of(' ', name == std::string::npos ? 0 : name + 1);
    const std::size_t end = line.find_last_not_of(" \r");
    if (begin == std::string::npos || line.find_first_not_of("* ", begin) == std::string::npos)
      continue;  // of a frame
    std::string words = line.substr(begin, end + 1 - begin);
    if (std::find(warnings.begin(), warnings.end(), words) == warnings.end())
      warnings.push_back(std::move(words));
  }
  return warnings;
}

ErrorCode refusalIn(const std::string& words, ErrorCode code) {
  const auto says = [&](const std::string& text) { return words.find(text) != std::string::npos; };
  const auto reason = [](int number) { return std::generic_category().message(number); };
  // ggml's own words where pthread_create and malloc failed.
  if (says(reason(EMFILE)) || says(reason(ENFILE)) || says(reason(EAGAIN)) ||
      says("GGML_ASSERT(rc == 0)"))
    return ErrorCode::systemLimit;
  if (says("alloc") || says("!= NULL) failed") || says(reason(ENOMEM)) || says("mem_buffer") ||
      says("out of memory"))
    return ErrorCode::outOfMemory;
  return code;
}

LlamaCall::LlamaCall(std::size_t unchecked) {
  if (unchecked > 0) {
    // What this thread gives back it gets again.
    const std::unique_ptr<void, decltype(&std::free)> block(std::malloc(unchecked), std::free);
    if (block == nullptr) throw std::bad_alloc();
    *static_cast<volatile char*>(block.get()) = 0;
  }
  if (calls == 0) takeHandlers();
  ++calls;
  errorLines[0] = warningLines[0] = '\0';
}

LlamaCall::~LlamaCall() { --calls; }

}  // namespace isopro
