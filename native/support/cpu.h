// What this machine has and how much processor time we get of it.
#pragma once

#include <cstdint>

namespace isopro {

// Physical cores that this process may run on: performance cores on Apple silicon, affinity mask
// and cgroup quota respected on Linux. At least 1.
int physicalCores();

// Lowers the priority of the calling thread and of those that it starts from now on, where the
// system has one for threads (Linux): what answers others, which computes little and often, is then
// not kept waiting by what computes all the time.
void giveWay();

// Nanoseconds of processor time that all threads of this process have used.
std::int64_t processCpuNanoseconds();

// Nanoseconds of a monotonic clock; for measuring only, never part of a result.
std::int64_t wallNanoseconds();

}  // namespace isopro
