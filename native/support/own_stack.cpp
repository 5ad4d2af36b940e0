#include "support/own_stack.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>

#include "support/error.h"

#ifdef _WIN32
#define NOMINMAX
#include <process.h>
#include <windows.h>
#include <cerrno>
#else
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cerrno>
#endif

namespace isopro {
namespace {

struct StackWork {
  const std::function<void()>& work;
  std::exception_ptr failure;

  void run() noexcept {
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }
};

[[noreturn]] void noStack(int systemError, std::size_t bytes) {
  throw Error(refusal(systemError, ErrorCode::systemLimit),
              "the system gave no thread with a stack of " + std::to_string(bytes) +
                  " bytes: " + std::system_category().message(systemError));
}

#ifdef _WIN32

unsigned __stdcall runStackWork(void* given) {
  static_cast<StackWork*>(given)->run();
  return 0;
}

#else

void* runStackWork(void* given) {
  static_cast<StackWork*>(given)->run();
  return nullptr;
}

// Anonymous pages; the lowest one ends the process if it is ever reached, instead of what lies
// below.
class StackPages {
 public:
  explicit StackPages(std::size_t bytes) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    size_ = (bytes + page_ - 1) / page_ * page_ + page_;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
    flags |= MAP_NORESERVE;
#endif
    void* pages = mmap(nullptr, size_, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (pages == MAP_FAILED) noStack(errno, bytes);
    pages_ = static_cast<std::uint8_t*>(pages);
    mprotect(pages_, page_, PROT_NONE);
  }
  ~StackPages() { munmap(pages_, size_); }
  StackPages(const StackPages&) = delete;
  StackPages& operator=(const StackPages&) = delete;

  std::uint8_t* begin() const { return pages_ + page_; }
  std::size_t size() const { return size_ - page_; }

 private:
  std::size_t page_;
  std::size_t size_ = 0;
  std::uint8_t* pages_ = nullptr;
};

void runOn(const StackPages& stack, const std::function<void()>& work) {
  StackWork stackWork{work, nullptr};
  pthread_attr_t attributes;
  int refused = pthread_attr_init(&attributes);
  if (refused == 0) {
    refused = pthread_attr_setstack(&attributes, stack.begin(), stack.size());
    pthread_t thread{};
    if (refused == 0) refused = pthread_create(&thread, &attributes, runStackWork, &stackWork);
    pthread_attr_destroy(&attributes);
    if (refused == 0) pthread_join(thread, nullptr);
  }
  if (refused != 0) noStack(refused, stack.size());
  if (stackWork.failure != nullptr) std::rethrow_exception(stackWork.failure);
}

#endif

}  // namespace

#ifdef _WIN32

void onOwnStack(std::size_t bytes, const std::function<void()>& work) {
  StackWork stackWork{work, nullptr};
  const auto thread = reinterpret_cast<HANDLE>(
      _beginthreadex(nullptr, static_cast<unsigned>(bytes), runStackWork, &stackWork,
                     STACK_SIZE_PARAM_IS_A_RESERVATION, nullptr));
  if (thread == nullptr) noStack(static_cast<int>(GetLastError()), bytes);
  WaitForSingleObject(thread, INFINITE);
  CloseHandle(thread);
  if (stackWork.failure != nullptr) std::rethrow_exception(stackWork.failure);
}

std::size_t stackUsedBy(std::size_t bytes, const std::function<void()>& work) {
  onOwnStack(bytes, work);
  return 0;
}

#else

void onOwnStack(std::size_t bytes, const std::function<void()>& work) {
  runOn(StackPages(bytes), work);
}

std::size_t stackUsedBy(std::size_t bytes, const std::function<void()>& work) {
  constexpr std::uint8_t untouched = 0xa5;
  const StackPages stack(bytes);
  std::memset(stack.begin(), untouched, stack.size());
  runOn(stack, work);
  const std::uint8_t* const end = stack.begin() + stack.size();
  return static_cast<std::size_t>(
      end - std::find_if(stack.begin(), stack.begin() + stack.size(),
                         [](std::uint8_t byte) { return byte != untouched; }));
}

#endif

}  // namespace isopro
