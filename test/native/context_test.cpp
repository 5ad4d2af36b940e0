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

}  // namespace

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
  for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_F32}) CHECK(!isopro::sameWithAnyThreads(1, 512, type));
#if defined(__x86_64__)
  CHECK(isopro::sameWithAnyThreads(1, 256, GGML_TYPE_F16));
  CHECK(isopro::sameWithAnyThreads(1, 4096, GGML_TYPE_Q8_0));
  CHECK(isopro::sameWithAnyThreads(2, 4096, GGML_TYPE_F16));
#endif
}
