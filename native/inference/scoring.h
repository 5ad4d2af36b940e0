// Exact log-probabilities of given continuations.
#pragma once

#include <atomic>
#include <vector>

#include "inference/context.h"
#include "support/thread_pool.h"

namespace isopro {

// log p(token | prefix, earlier tokens) at temperature 1 for every token of every continuation; the prefix is evaluated
// once. The same bits as generate's: of a request for one sample where `stepwise`, which takes a call a token, else of a
// request for several. Throws INVALID_ARGUMENT (empty prefix, ids out of range), CONTEXT_OVERFLOW, NUMERIC_FAILURE,
// ABORTED.
std::vector<std::vector<float>> scoreContinuations(Context& context, ThreadPool& pool, const std::vector<Token>& prefix,
                                                   const std::vector<std::vector<Token>>& continuations, int cellBudget, bool stepwise,
                                                   const std::atomic<bool>& cancelled);

}  // namespace isopro
