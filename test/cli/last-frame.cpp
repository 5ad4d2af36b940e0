// Loaded before node (LD_PRELOAD): a process that a signal ends says in whose code, on a line
// `ended in FILE`: the file of the innermost frame that is not of the C and C++ libraries; behind
// std::terminate, whose handler is ggml's, where an exception was not caught.
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>

namespace {

void onEnd(int signal, siginfo_t*, void*) {
  void* frames[64];
  const int count = backtrace(frames, 64);
  Dl_info here, from;
  dladdr(reinterpret_cast<void*>(&onEnd), &here);
  int first = 0;
  for (int i = 0; i < count; ++i) {
    frames[i] = static_cast<char*>(frames[i]) - 1;  // in the call, not behind it
    if (dladdr(frames[i], &from) != 0 && from.dli_sname != nullptr &&
        std::strcmp(from.dli_sname, "_ZSt9terminatev") == 0)
      first = i + 1;
  }
  for (int i = first; i < count; ++i) {
    if (dladdr(frames[i], &from) == 0 || from.dli_fname == nullptr ||
        from.dli_fbase == here.dli_fbase)
      continue;
    const char* slash = std::strrchr(from.dli_fname, '/');
    const char* name = slash == nullptr ? from.dli_fname : slash + 1;
    const bool library = std::strncmp(name, "libc.", 5) == 0 ||
                         std::strncmp(name, "libstdc++", 9) == 0 ||
                         std::strncmp(name, "libgcc", 6) == 0;
    if (library) continue;
    char line[256];
    const int length = std::snprintf(line, sizeof line, "\nended in %s\n", name);
    static_cast<void>(!write(2, line, static_cast<std::size_t>(length)));
    break;
  }
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  reinterpret_cast<int (*)(int, const struct sigaction*, struct sigaction*)>(
      dlsym(RTLD_NEXT, "sigaction"))(signal, &standard, nullptr);
  raise(signal);
}

__attribute__((constructor)) void install() {
  void* frames[2];
  backtrace(frames, 2);  // loads libgcc now
  struct sigaction ending {};
  ending.sa_sigaction = onEnd;
  ending.sa_flags = SA_SIGINFO;
  const auto real = reinterpret_cast<int (*)(int, const struct sigaction*, struct sigaction*)>(
      dlsym(RTLD_NEXT, "sigaction"));
  for (const int signal : {SIGABRT, SIGSEGV, SIGTRAP, SIGILL, SIGBUS})
    real(signal, &ending, nullptr);
}

}  // namespace

// Node sets handlers of its own for some of them.
extern "C" int sigaction(int signal, const struct sigaction* wanted,
                         struct sigaction* before) noexcept {
  static const auto real =
      reinterpret_cast<int (*)(int, const struct sigaction*, struct sigaction*)>(
          dlsym(RTLD_NEXT, "sigaction"));
  const bool ending = signal == SIGABRT || signal == SIGSEGV || signal == SIGTRAP ||
                      signal == SIGILL || signal == SIGBUS;
  return real(signal, ending ? nullptr : wanted, before);
}
