#include "support/cpu.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>

#if defined(_WIN32)
#define NOMINMAX
#include <windows.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#include <time.h>
#else
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#endif

namespace isopro {
namespace {

int logicalCores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

#if defined(__linux__)
int readInt(const std::string& path, int fallback) {
  std::ifstream file(path);
  int value = fallback;
  return (file >> value) ? value : fallback;
}

// cgroup v2: "max 100000" or "quota period", in microseconds.
int cgroupCores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return logicalCores();
  return std::max(1, static_cast<int>(std::stod(quota) / period));
}
#endif

}  // namespace

int physicalCores() {
#if defined(__APPLE__)
  for (const char* name : {"hw.perflevel0.physicalcpu", "hw.physicalcpu"}) {
    int count = 0;
    size_t size = sizeof count;
    if (sysctlbyname(name, &count, &size, nullptr, 0) == 0 && count > 0) return count;
  }
  return logicalCores();
#elif defined(__linux__)
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return logicalCores();
  std::set<std::pair<int, int>> cores;  // (package, core)
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    cores.emplace(readInt(topology + "physical_package_id", 0), readInt(topology + "core_id", cpu));
  }
  return std::max(1, std::min(static_cast<int>(cores.size()), cgroupCores()));
#else
  return std::max(1, logicalCores() / 2);
#endif
}

void giveWay() {
#if defined(__linux__)
  // Of one thread, although the call says process. Where it is refused, nothing is lost but the
  // order.
  constexpr int kNice = 5;
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  static_cast<void>(
      setpriority(PRIO_PROCESS, thread, std::min(19, getpriority(PRIO_PROCESS, thread) + kNice)));
#endif
}

std::int64_t processCpuNanoseconds() {
#if defined(_WIN32)
  FILETIME created, exited, kernel, user;
  GetProcessTimes(GetCurrentProcess(), &created, &exited, &kernel, &user);
  const auto ticks = [](const FILETIME& t) {
    return (static_cast<std::int64_t>(t.dwHighDateTime) << 32) | t.dwLowDateTime;
  };
  return (ticks(kernel) + ticks(user)) * 100;
#else
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
#endif
}

std::int64_t wallNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace isopro
