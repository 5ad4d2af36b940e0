// How the rows of a request are cut into calls of llama_decode.
#include <numeric>
#include <vector>

#include "check.h"
#include "inference/context.h"

using isopro::CallPlan;

namespace {

std::vector<int> sampledCalls(const CallPlan& plan, int live) {
  std::vector<int> calls;
  for (; live > 0; live -= calls.back()) calls.push_back(plan.sampledRows(live));
  return calls;
}

// A machine whose time the test makes.
std::int64_t wallNow = 0, processorNow = 0;
void pass(std::int64_t milliseconds, double processors) {
  wallNow += milliseconds * 1'000'000;
  processorNow += static_cast<std::int64_t>(static_cast<double>(milliseconds) * processors * 1e6);
}
isopro::ThreadGovernor governorOfTwo() {
  return {2, false, {[] { return wallNow; }, [] { return processorNow; }}};
}
// Whether a step was looked at as starved before its end.
bool step(isopro::ThreadGovernor& governor, std::int64_t milliseconds, double processors) {
  bool starved = false;
  governor.beginStep();
  for (std::int64_t i = 0; i < milliseconds; ++i) {
    pass(1, processors);
    starved = starved || governor.stepIsStarved();
  }
  governor.endStep();
  return starved;
}

}  // namespace

TEST(what_another_program_takes_for_a_moment_costs_no_thread) {
  isopro::ThreadGovernor governor = governorOfTwo();
  for (int round = 0; round < 20; ++round) {
    // A client's requests arrive while a prompt is evaluated, and it reads tokens while the next
    // are.
    governor.beginStep();
    for (int i = 0; i < 190; ++i) {
      pass(1, i < 30 ? 1.0 : 2.0);
      CHECK(!governor.stepIsStarved());
    }
    governor.endStep();
    for (int i = 0; i < 60; ++i) CHECK(!step(governor, 8, i % 5 == 0 ? 1.2 : 1.9));
    CHECK(governor.threads() == 2);
  }
}

TEST(a_core_that_another_process_keeps_costs_a_thread_until_it_is_free) {
  isopro::ThreadGovernor governor = governorOfTwo();
  CHECK(step(governor, 120, 1.3));  // would be given up
  isopro::ThreadGovernor slow = governorOfTwo();
  int steps = 0;
  for (; slow.threads() == 2 && steps < 100; ++steps) CHECK(!step(slow, 20, 1.3));
  CHECK(steps == 5);
  // One thread has its core, but for one short step of ten.
  for (steps = 0; slow.threads() == 1 && steps < 1000; ++steps)
    step(slow, 9, steps % 10 == 0 ? 0.7 : 1.0);
  CHECK(steps * 9 >= 250 && steps * 9 <= 400);
  // It fails at once: the next try comes after twice the time.
  for (steps = 0; slow.threads() == 2 && steps < 100; ++steps) step(slow, 20, 1.3);
  CHECK(steps == 5);
  for (steps = 0; slow.threads() == 1 && steps < 1000; ++steps) step(slow, 10, 1.0);
  CHECK(steps * 10 >= 500 && steps * 10 <= 700);
}

TEST(call_plan_on_a_gpu_cuts_at_the_physical_batch_alone) {
  for (const std::int64_t samples : {1, 2, 64}) {
    const CallPlan plan = CallPlan::of(true, samples);
    CHECK(!plan.batchInvariant);
    CHECK(plan.promptRows == isopro::kBatchTokens);
    CHECK((sampledCalls(plan, 250) == std::vector<int>{250}));
  }
}

TEST(call_plan_on_the_processor_keeps_to_calls_that_compute_rows_alike) {
  const CallPlan several = CallPlan::of(false, 2), one = CallPlan::of(false, 1);
  CHECK(several.batchInvariant);
  CHECK(!one.batchInvariant);
  CHECK(several.promptRows == isopro::kInvariantRows);
  CHECK(one.promptRows == isopro::kInvariantRows);
  for (int live = 1; live <= isopro::kMaxSequences; ++live) {
    const std::vector<int> calls = sampledCalls(several, live);
    CHECK(std::accumulate(calls.begin(), calls.end(), 0) == live);
    for (const int rows : calls) CHECK(rows > 0 && rows <= isopro::kInvariantRows);
  }
  CHECK((sampledCalls(several, 64) == std::vector<int>{36, 28}));
}

TEST(a_held_step_has_all_threads_and_changes_nothing) {
  isopro::ThreadGovernor governor(8, false);
  governor.abandonStep();
  CHECK(governor.threads() == 4);
  governor.beginStep(true);
  CHECK(governor.stepThreads() == 8);
  CHECK(!governor.stepIsStarved());
  governor.endStep();
  CHECK(governor.threads() == 4);
  governor.beginStep();
  CHECK(governor.stepThreads() == 4);
}

TEST(one_row_alone_to_many_cells_is_computed_by_as_many_threads_as_were_asked_for) {
  for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_F32})
    CHECK(!isopro::sameWithAnyThreads(1, 512, type, false));
#if defined(__x86_64__)
  CHECK(isopro::sameWithAnyThreads(1, 256, GGML_TYPE_F16, false));
  CHECK(isopro::sameWithAnyThreads(1, 4096, GGML_TYPE_Q8_0, false));
  CHECK(isopro::sameWithAnyThreads(2, 4096, GGML_TYPE_F16, false));
  CHECK(isopro::sameWithAnyThreads(1, 4096, GGML_TYPE_F16, true));
#endif
}
