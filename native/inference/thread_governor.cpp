#include "inference/thread_governor.h"

#include <algorithm>
#include <utility>

namespace isopro {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kFirstPause = 250 * kMillisecond;
constexpr std::int64_t kLongestPause = 20'000 * kMillisecond;
// Computing time that is judged as a whole, of one step or of several. A client that sends its next
// request, a thread that is woken on the wrong core: that is over in 20 ms, and half the threads
// for the time of a pause cost far more than it does.
constexpr std::int64_t kEvidence = 100 * kMillisecond;
// Work already done in the step beyond which repeating it costs more than finishing it.
constexpr std::int64_t kLatestAbandon = 400 * kMillisecond;
constexpr std::int64_t kCheckInterval = 5 * kMillisecond;
// Share of the threads' wall time that was processor time. Undisturbed, ggml's spinning threads
// measure 0.97 to 1.0; with one of two cores taken they measure 0.5 to 0.75.
constexpr double kStarved = 0.80;
constexpr double kCalm = 0.93;

}  // namespace

ThreadGovernor::ThreadGovernor(int maxThreads, bool fixed, Clocks clocks)
    : maxThreads_(std::max(1, maxThreads)),
      fixed_(fixed),
      clocks_(clocks),
      threads_(std::max(1, maxThreads)),
      pause_(kFirstPause) {}

double ThreadGovernor::share(std::int64_t wall, std::int64_t cpu) const {
  return wall <= 0 ? 1.0 : static_cast<double>(cpu) / (static_cast<double>(wall) * threads_);
}

void ThreadGovernor::beginStep(bool held) {
  held_ = held;
  stepWall_ = lastCheck_ = clocks_.wall();
  stepCpu_ = clocks_.processor();
}

bool ThreadGovernor::stepIsStarved() {
  if (fixed_ || held_ || threads_ == 1) return false;
  const std::int64_t now = clocks_.wall();
  if (now - lastCheck_ < kCheckInterval) return false;
  lastCheck_ = now;
  const std::int64_t elapsed = now - stepWall_;
  return elapsed >= kEvidence && elapsed <= kLatestAbandon &&
         share(elapsed, clocks_.processor() - stepCpu_) < kStarved;
}

void ThreadGovernor::change(int threads, std::int64_t now) {
  threads_ = threads;
  calmSince_ = now;
  judgedWall_ = judgedCpu_ = 0;
}

void ThreadGovernor::stepDown(std::int64_t now) {
  // A count that failed soon after it was tried needs a longer pause; one that held for long starts
  // afresh.
  const bool failedAttempt = lastRise_ != 0 && now - lastRise_ < 4 * pause_;
  pause_ = failedAttempt ? std::min(2 * pause_, kLongestPause) : kFirstPause;
  change(std::max(1, threads_ / 2), now);
}

void ThreadGovernor::abandonStep() { stepDown(clocks_.wall()); }

void ThreadGovernor::endStep() {
  if (fixed_ || held_ || maxThreads_ == 1) return;
  const std::int64_t now = clocks_.wall();
  judgedWall_ += now - stepWall_;
  judgedCpu_ += clocks_.processor() - stepCpu_;
  if (judgedWall_ < kEvidence) return;
  const double judged = share(std::exchange(judgedWall_, 0), std::exchange(judgedCpu_, 0));
  if (threads_ > 1 && judged < kStarved) {
    stepDown(now);
  } else if (threads_ < maxThreads_ && judged < kCalm) {
    calmSince_ = now;
  } else if (threads_ < maxThreads_ && now - calmSince_ >= pause_) {
    lastRise_ = now;
    change(std::min(maxThreads_, threads_ * 2), now);
  }
}

}  // namespace isopro
