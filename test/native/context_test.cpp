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
