#include "support/resident_memory.h"

#include <cstdint>

#ifndef _WIN32
#include <sys/mman.h>
#include <unistd.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace isopro {

void releasePages([[maybe_unused]] const void* begin, [[maybe_unused]] std::size_t size) {
#ifndef _WIN32
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + page - 1) / page * page;
  const std::uintptr_t last = (address + size) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
#endif
}

void releaseFreeBlocks() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace isopro
