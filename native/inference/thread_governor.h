// How many threads a decode step uses. ggml's threads meet at a spinning barrier after every node
// of the graph: when another process holds one of their cores, each barrier waits for a time slice
// and a step becomes 10 to 30 times slower than with one thread less. The governor sees that as
// wall time far above processor time, steps down within the step itself, and tries the higher count
// again after a pause that doubles with each failure.
#pragma once

#include <cstdint>

#include "support/cpu.h"

namespace isopro {

class ThreadGovernor {
 public:
  struct Clocks {  // ns
    std::int64_t (*wall)() = wallNanoseconds;
    std::int64_t (*processor)() = processCpuNanoseconds;
  };

  // fixed: always maxThreads.
  ThreadGovernor(int maxThreads, bool fixed, Clocks clocks);
  ThreadGovernor(int maxThreads, bool fixed) : ThreadGovernor(maxThreads, fixed, Clocks()) {}
  virtual ~ThreadGovernor() = default;

  int threads() const { return threads_; }
  int maxThreads() const { return maxThreads_; }

  // held: this step runs with maxThreads, whatever was learned of others, and teaches nothing.
  void beginStep(bool held = false);
  int stepThreads() const { return held_ ? maxThreads_ : threads_; }
  // Asked between graph nodes: true when this step should be given up and repeated with fewer
  // threads.
  virtual bool stepIsStarved();
  // After an abandoned step: lowers the count.
  virtual void abandonStep();
  // After a completed step: adapts the count for the next one.
  void endStep();

 private:
  // Of the time of all threads in `wall`, how much the processor worked for this process.
  double share(std::int64_t wall, std::int64_t cpu) const;
  void change(int threads, std::int64_t now);
  void stepDown(std::int64_t now);

  const int maxThreads_;
  const bool fixed_;
  const Clocks clocks_;
  int threads_;
  bool held_ = false;
  std::int64_t stepWall_ = 0;    // ns at the start of the step
  std::int64_t stepCpu_ = 0;     // ns of process time at the start of the step
  std::int64_t judgedWall_ = 0;  // ns of steps with this count that are not judged yet
  std::int64_t judgedCpu_ = 0;   // ns of process time in them
  std::int64_t lastCheck_ = 0;   // ns of the last look inside the step
  std::int64_t calmSince_ = 0;   // ns since when this thread count has had its cores to itself
  std::int64_t pause_ = 0;       // ns of calm required before the next attempt to step up
  std::int64_t lastRise_ = 0;    // ns of the last step up
};

}  // namespace isopro
