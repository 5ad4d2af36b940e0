#include "support/process_limits.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "support/cpu.h"
#include "support/start_thread.h"

#ifdef _WIN32
#define NOMINMAX
#include <windows.h>
// After windows.h.
#include <psapi.h>
#elif defined(__APPLE__)
#include <mach/mach.h>
#include <unistd.h>
#else
#include <sys/resource.h>
#include <unistd.h>
#endif

namespace isopro {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{5};

[[noreturn]] void endNow(int code) {
#ifdef _WIN32
  TerminateProcess(GetCurrentProcess(), static_cast<UINT>(code));
  std::abort();
#else
  ::_exit(code);
#endif
}

}  // namespace

std::uint64_t privateBytes() {
#ifdef _WIN32
  PROCESS_MEMORY_COUNTERS_EX counters{};
  const bool told = K32GetProcessMemoryInfo(GetCurrentProcess(),
                                            reinterpret_cast<PROCESS_MEMORY_COUNTERS*>(&counters),
                                            sizeof counters) != 0;
  return told ? counters.PrivateUsage : 0;
#elif defined(__APPLE__)
  task_vm_info_data_t info{};
  mach_msg_type_number_t count = TASK_VM_INFO_COUNT;
  const bool told = task_info(mach_task_self(), TASK_VM_INFO, reinterpret_cast<task_info_t>(&info),
                              &count) == KERN_SUCCESS;
  return told ? info.phys_footprint : 0;
#else
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return 0;
  std::uint64_t kilobytes = 0;
  char line[256];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, "RssAnon:", 8) == 0 || std::strncmp(line, "RssShmem:", 9) == 0)
      kilobytes += std::strtoull(std::strchr(line, ':') + 1, nullptr, 10);
  }
  std::fclose(file);
  return kilobytes * 1024;
#endif
}

void limitProcess(const ProcessLimits& limits) {
#if !defined(_WIN32) && !defined(__APPLE__)
  // A crash here is an answer: nobody wants its memory on the disk.
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
#endif
  const std::int64_t begin = processCpuNanoseconds();
  startThread([limits, begin] {
    for (;;) {
      if (processCpuNanoseconds() - begin >= limits.processorNanoseconds)
        endNow(limits.processorExit);
      if (privateBytes() >= limits.bytes) endNow(limits.memoryExit);
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }).detach();
}

}  // namespace isopro
