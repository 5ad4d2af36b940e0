// Exact log-probabilities of given continuations.
#pragma once

#include <atomic>
#include <vector>

#include "inference/context.h"
#include "inference/logit_math.h"
#include "support/thread_pool.h"

namespace isopro {

// Of the tokens of one continuation, each after all before it.
struct TokenScores {
  std::vector<float> logProbabilities;
  // Where alternatives are asked for.
  std::vector<std::int32_t> ranks;            // 1: the most likely
  std::vector<std::vector<TokenChance>> top;  // the most likely ones, as many as were asked for
};

// log p(token | prefix, earlier tokens) at temperature 1 for every token of every continuation; the prefix is evaluated
// once. The same bits as generate's: of a request for one sample where `stepwise`, which takes a call a token, else of a
// request for several. Throws INVALID_ARGUMENT (empty prefix, ids out of range), CONTEXT_OVERFLOW, NUMERIC_FAILURE,
// ABORTED. `alternatives`: how many of the likeliest tokens are told beside each; -1: none, and no ranks.
std::vector<TokenScores> scoreContinuations(Context& context, ThreadPool& pool, const std::vector<Token>& prefix,
                                            const std::vector<std::vector<Token>>& continuations, int cellBudget, bool stepwise,
                                            int alternatives, const std::atomic<bool>& cancelled);

}  // namespace isopro
