// The native tests' harness: TEST(name) { CHECK(...); } in any file of this folder; main.cpp runs
// them all.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// For calls that nobody stops.
inline const std::atomic<bool> kNotStopped{false};

namespace check {

struct Test {
  const char* name;
  void (*body)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

inline int& failures() {
  static int count = 0;
  return count;
}

struct Registration {
  Registration(const char* name, void (*body)()) { tests().push_back({name, body}); }
};

// The long campaigns of `npm run test:full`.
inline bool full() {
  const char* const value = std::getenv("ISOPRO_FULL");
  return value != nullptr && std::string(value) == "1";
}

inline void report(bool holds, const char* file, int line, const std::string& what) {
  if (holds) return;
  ++failures();
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
}

}  // namespace check

#define TEST(name)                                                          \
  static void test_##name();                                                \
  static const check::Registration registration_##name(#name, test_##name); \
  static void test_##name()

#define CHECK(condition) \
  check::report(static_cast<bool>(condition), __FILE__, __LINE__, "CHECK(" #condition ")")

// |actual - expected| <= tolerance; the values are printed where it does not hold.
#define CHECK_NEAR(actual, expected, tolerance)                                                    \
  do {                                                                                             \
    const double actual_ = (actual), expected_ = (expected), tolerance_ = (tolerance);             \
    check::report(std::fabs(actual_ - expected_) <= tolerance_, __FILE__, __LINE__,                \
                  "CHECK_NEAR(" #actual ", " #expected "): " + std::to_string(actual_) + " and " + \
                      std::to_string(expected_) + " differ by " +                                  \
                      std::to_string(std::fabs(actual_ - expected_)));                             \
  } while (false)

// isopro::Error with this code.
#define CHECK_THROWS(expression, expectedCode)                                                 \
  do {                                                                                         \
    std::string code_ = "nothing";                                                             \
    try {                                                                                      \
      (void)(expression);                                                                      \
    } catch (const isopro::Error& error_) {                                                    \
      code_ = codeName(error_.code());                                                         \
    }                                                                                          \
    check::report(code_ == (expectedCode), __FILE__, __LINE__, #expression " threw " + code_); \
  } while (false)

// isopro::Error with this code, whose message contains `part`.
#define CHECK_SAYS(expression, expectedCode, part)                            \
  do {                                                                        \
    std::string said_ = "nothing";                                            \
    bool holds_ = false;                                                      \
    try {                                                                     \
      (void)(expression);                                                     \
    } catch (const isopro::Error& error_) {                                   \
      said_ = codeName(error_.code()) + std::string(": ") + error_.what();    \
      holds_ = codeName(error_.code()) == std::string(expectedCode) &&        \
               std::string(error_.what()).find(part) != std::string::npos;    \
    }                                                                         \
    check::report(holds_, __FILE__, __LINE__, #expression " threw " + said_); \
  } while (false)
