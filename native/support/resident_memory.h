// What this process holds and does not need, given back to the system. Neither call changes
// anything but what counts as resident, and where a system does not know them they do nothing.
#pragma once

#include <cstddef>

namespace isopro {

// The whole pages within a read-only file mapping. They stay in the system's cache as long as it
// likes and come back when touched.
void releasePages(const void* begin, std::size_t size);

// What was freed and the allocator kept (glibc keeps it for each thread that ever freed).
void releaseFreeBlocks();

}  // namespace isopro
