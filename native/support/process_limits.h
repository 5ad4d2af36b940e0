// Limits of a process that tries something which may not end: it ends itself.
#pragma once

#include <cstdint>

namespace isopro {

struct ProcessLimits {
  std::int64_t processorNanoseconds = 0;  // of the whole process, from now on
  std::uint64_t bytes = 0;                // resident, without the pages of files
  int processorExit = 0;                  // exit codes
  int memoryExit = 0;
};

// From now on a thread looks every few milliseconds, and ends the process at once, without any
// destructor, where it is over a limit. Throws SYSTEM_LIMIT.
void limitProcess(const ProcessLimits& limits);

// Bytes that are resident and are not pages of a file; 0 where the system does not say.
std::uint64_t privateBytes();

}  // namespace isopro
