// What this machine has and how much processor time we get of it.
#pragma once

#include <cstdint>

namespace isopro {

// Physical cores that this process may run on: performance cores on Apple silicon, affinity mask and cgroup quota
// respected on Linux. At least 1.
int physicalCores();

// Nanoseconds of processor time that all threads of this process have used.
std::int64_t processCpuNanoseconds();

// Nanoseconds of a monotonic clock; for measuring only, never part of a result.
std::int64_t wallNanoseconds();

}  // namespace isopro
