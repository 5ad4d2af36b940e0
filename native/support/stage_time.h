// What a part of the work has cost; for benchmarks only, never part of a result.
#pragma once

#include <cstdint>

#include "support/cpu.h"

namespace isopro {

// Nanoseconds. Processor time is that of the whole process.
struct StageTime {
  std::int64_t wall = 0;
  std::int64_t processor = 0;
};

// Adds its own life to a stage.
class Timed {
 public:
  explicit Timed(StageTime& stage)
      : stage_(stage), wall_(wallNanoseconds()), processor_(processCpuNanoseconds()) {}
  ~Timed() {
    stage_.wall += wallNanoseconds() - wall_;
    stage_.processor += processCpuNanoseconds() - processor_;
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  StageTime& stage_;
  std::int64_t wall_;
  std::int64_t processor_;
};

}  // namespace isopro
