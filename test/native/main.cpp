// Usage: isopro_native_tests [parts of tests' names]: all tests, or those whose name has one of the
// parts.
#include <algorithm>
#include <cstring>
#include <exception>

#include "check.h"

int main(int argc, char** argv) {
  int run = 0;
  for (const check::Test& test : check::tests()) {
    if (argc > 1 && std::none_of(argv + 1, argv + argc, [&](const char* part) {
          return std::strstr(test.name, part) != nullptr;
        }))
      continue;
    const int before = check::failures();
    try {
      test.body();
    } catch (const std::exception& error) {
      check::report(false, test.name, 0, std::string("threw ") + error.what());
    }
    std::printf("%s %s\n", check::failures() == before ? "ok  " : "FAIL", test.name);
    std::fflush(stdout);
    ++run;
  }
  std::printf("%d tests, %d failed checks\n", run, check::failures());
  return check::failures() == 0 && run > 0 ? 0 : 1;
}
