// Loaded before node (LD_PRELOAD): refuses what this package and llama.cpp ask the system for, from
// the n-th request on. Set by process.env.REFUSE = 'KIND COUNT MODE' while the process runs: KIND
// is one or more of a (allocations), m (mappings of 64 kB and more), t (threads), o (files opened);
// MODE 1 refuses that one request only, 2 every one from it on. Threads are counted as the system
// does: COUNT is how many are one too many at once. process.env.REFUSE = '' ends it. After that
// process.env.REFUSED is the number of requests that were refused.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

struct Module {
  std::uintptr_t begin, end;
};
Module modules[64];
std::atomic<int> moduleCount{0};
char kinds[8] = "";
std::atomic<long> left{0};
std::atomic<int> mode{0};  // 0: nothing is refused
std::atomic<long> refused{0};

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void findModules() {
  moduleCount = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void*) {
        const char* name = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        if (std::strstr(name, "isopro_native") == nullptr &&
            std::strstr(name, "libllama") == nullptr && std::strstr(name, "libggml") == nullptr)
          return 0;
        for (int i = 0; i < info->dlpi_phnum && moduleCount < 64; ++i) {
          const auto& part = info->dlpi_phdr[i];
          if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
          modules[moduleCount++] = {info->dlpi_addr + part.p_vaddr,
                                    info->dlpi_addr + part.p_vaddr + part.p_memsz};
        }
        return 0;
      },
      nullptr);
}

bool ours(const void* caller) {
  const auto at = reinterpret_cast<std::uintptr_t>(caller);
  for (int i = 0; i < moduleCount; ++i) {
    if (at >= modules[i].begin && at < modules[i].end) return true;
  }
  return false;
}

bool refuses(char kind, const void* caller) {
  const int how = mode;
  if (how == 0 || std::strchr(kinds, kind) == nullptr || !ours(caller)) return false;
  const long before = left--;
  if (how == 1 ? before != 1 : before > 1) return false;
  ++refused;
  return true;
}

// A block of this size and more that the package's own code gives back is there for what this
// thread asks for next: ggml's requests by malloc, whose failure it does not look at, are served
// from it first. A new block of ours begins anew.
constexpr std::size_t kSpare = 64 * 1024;
thread_local std::size_t spare = 0;
thread_local const void* spareBlock = nullptr;

bool isOurs(const void* caller, const char* name) {
  Dl_info from;
  return ours(caller) && dladdr(caller, &from) != 0 && from.dli_fname != nullptr &&
         std::strstr(from.dli_fname, name) != nullptr;
}

bool refusesBlock(std::size_t size, const void* caller) {
  if (mode != 0 && size <= spare && isOurs(caller, "libggml")) {
    spare -= size;
    return false;
  }
  return refuses('a', caller);
}

struct Start {
  void* (*body)(void*);
  void* argument;
};
std::atomic<long> alive{0};

void* run(void* given) {
  const Start start = *static_cast<Start*>(given);
  delete static_cast<Start*>(given);
  void* result = start.body(start.argument);
  --alive;
  return result;
}

}  // namespace

extern "C" {

int setenv(const char* name, const char* value, int overwrite) {
  static const auto real = next<int (*)(const char*, const char*, int)>("setenv");
  if (std::strcmp(name, "REFUSE") == 0) {
    mode = 0;
    long count = 0;
    int how = 0;
    char wanted[8] = "";
    if (std::sscanf(value, "%7s %ld %d", wanted, &count, &how) == 3) {
      findModules();
      std::strcpy(kinds, wanted);
      left = count;
      refused = 0;
      mode = how;
    } else {
      char text[32];
      std::snprintf(text, sizeof text, "%ld", refused.load());
      real("REFUSED", text, 1);
    }
  }
  return real(name, value, overwrite);
}

void* malloc(std::size_t size) {
  static const auto real = next<void* (*)(std::size_t)>("malloc");
  const void* caller = __builtin_return_address(0);
  if (refusesBlock(size, caller)) return errno = ENOMEM, nullptr;
  void* block = real(size);
  if (mode != 0 && size >= kSpare && isOurs(caller, "isopro_native")) spareBlock = block, spare = 0;
  return block;
}

void* __libc_calloc(std::size_t, std::size_t);
void* calloc(std::size_t count, std::size_t size) {
  if (refusesBlock(count * size, __builtin_return_address(0))) return errno = ENOMEM, nullptr;
  return __libc_calloc(count, size);
}

void free(void* block) {
  static const auto real = next<void (*)(void*)>("free");
  if (block != nullptr && block == spareBlock)
    spareBlock = nullptr, spare = malloc_usable_size(block);
  real(block);
}

void* realloc(void* old, std::size_t size) {
  static const auto real = next<void* (*)(void*, std::size_t)>("realloc");
  if (refusesBlock(size, __builtin_return_address(0))) return errno = ENOMEM, nullptr;
  return real(old, size);
}

int posix_memalign(void** to, std::size_t alignment, std::size_t size) {
  static const auto real = next<int (*)(void**, std::size_t, std::size_t)>("posix_memalign");
  if (refusesBlock(size, __builtin_return_address(0))) return ENOMEM;
  return real(to, alignment, size);
}

void* mmap(void* at, std::size_t size, int protection, int flags, int file, off_t offset) {
  static const auto real = next<void* (*)(void*, std::size_t, int, int, int, off_t)>("mmap");
  if (size >= 65536 && refuses('m', __builtin_return_address(0))) return errno = ENOMEM, MAP_FAILED;
  return real(at, size, protection, flags, file, offset);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) {
  static const auto real =
      next<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  const void* caller = __builtin_return_address(0);
  Dl_info from;
  // std::thread calls it from libstdc++, which makes no threads of its own.
  const bool counted = mode != 0 && std::strchr(kinds, 't') != nullptr &&
                       dladdr(caller, &from) != 0 && from.dli_fname != nullptr &&
                       (ours(caller) || std::strstr(from.dli_fname, "libstdc++") != nullptr);
  if (!counted) return real(thread, attributes, body, argument);
  if (alive >= left - 1) {
    ++refused;
    return EAGAIN;
  }
  ++alive;
  auto* start = new Start{body, argument};
  return real(thread, attributes, run, start);
}

int open(const char* path, int flags, ...) {
  static const auto real = next<int (*)(const char*, int, ...)>("open");
  va_list list;
  va_start(list, flags);
  const int permissions = va_arg(list, int);
  va_end(list);
  if (refuses('o', __builtin_return_address(0))) return errno = EMFILE, -1;
  return real(path, flags, permissions);
}

FILE* fopen(const char* path, const char* how) {
  static const auto real = next<FILE* (*)(const char*, const char*)>("fopen");
  if (refuses('o', __builtin_return_address(0))) return errno = EMFILE, nullptr;
  return real(path, how);
}

FILE* fopen64(const char* path, const char* how) {
  static const auto real = next<FILE* (*)(const char*, const char*)>("fopen64");
  if (refuses('o', __builtin_return_address(0))) return errno = EMFILE, nullptr;
  return real(path, how);
}
}

namespace {

void* allocate(std::size_t size, const void* caller) {
  static const auto real = next<void* (*)(std::size_t)>("malloc");
  void* block = refuses('a', caller) ? nullptr : real(size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, __builtin_return_address(0)); }
void* operator new[](std::size_t size) { return allocate(size, __builtin_return_address(0)); }
