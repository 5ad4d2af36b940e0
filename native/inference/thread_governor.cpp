#include "inference/thread_governor.h"

#include <algorithm>

#include "support/cpu.h"

namespace isopro {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kFirstPause = 250 * kMillisecond;
constexpr std::int64_t kLongestPause = 20'000 * kMillisecond;
// A step shorter than this says nothing: one interrupt would look like contention.
constexpr std::int64_t kShortestEvidence = 15 * kMillisecond;
// Work already done in the step beyond which repeating it costs more than finishing it.
constexpr std::int64_t kLatestAbandon = 400 * kMillisecond;
constexpr std::int64_t kCheckInterval = 5 * kMillisecond;
// Share of the threads' wall time that was processor time. Undisturbed, ggml's spinning threads measure 0.97 to 1.0;
// with one of two cores taken they measure 0.5 to 0.75.
constexpr double kStarved = 0.80;
constexpr double kCalm = 0.93;

}  // namespace

ThreadGovernor::ThreadGovernor(int maxThreads, bool fixed)
    : maxThreads_(std::max(1, maxThreads)), fixed_(fixed), threads_(std::max(1, maxThreads)), pause_(kFirstPause) {}

double ThreadGovernor::utilisation(std::int64_t wallNow) const {
  const double wall = static_cast<double>(wallNow - stepWall_);
  return wall <= 0 ? 1.0 : static_cast<double>(processCpuNanoseconds() - stepCpu_) / (wall * threads_);
}

void ThreadGovernor::beginStep(bool held) {
  held_ = held;
  stepWall_ = lastCheck_ = wallNanoseconds();
  stepCpu_ = processCpuNanoseconds();
}

bool ThreadGovernor::stepIsStarved() {
  if (fixed_ || held_ || threads_ == 1) return false;
  const std::int64_t now = wallNanoseconds();
  if (now - lastCheck_ < kCheckInterval) return false;
  lastCheck_ = now;
  const std::int64_t elapsed = now - stepWall_;
  return elapsed >= kShortestEvidence && elapsed <= kLatestAbandon && utilisation(now) < kStarved;
}

void ThreadGovernor::stepDown(std::int64_t now) {
  // A count that failed soon after it was tried needs a longer pause; one that held for long starts afresh.
  const bool failedAttempt = lastRise_ != 0 && now - lastRise_ < 4 * pause_;
  pause_ = failedAttempt ? std::min(2 * pause_, kLongestPause) : kFirstPause;
  threads_ = std::max(1, threads_ / 2);
  calmSince_ = now;
}

void ThreadGovernor::abandonStep() { stepDown(wallNanoseconds()); }

void ThreadGovernor::endStep() {
  if (fixed_ || held_ || maxThreads_ == 1) return;
  const std::int64_t now = wallNanoseconds();
  const double share = utilisation(now);
  const bool evidence = now - stepWall_ >= kShortestEvidence;
  if (threads_ > 1 && evidence && share < kStarved) {
    stepDown(now);
    return;
  }
  if (threads_ == maxThreads_) return;
  if (share < kCalm) {
    calmSince_ = now;
  } else if (now - calmSince_ >= pause_) {
    threads_ = std::min(maxThreads_, threads_ * 2);
    lastRise_ = calmSince_ = now;
  }
}

}  // namespace isopro
