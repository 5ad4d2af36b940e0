// Exact log-probabilities of given continuations.
#pragma once

#include <atomic>
#include <vector>

#include "inference/context.h"
#include "inference/logit_math.h"
#include "inference/token_tree.h"
#include "support/stage_time.h"
#include "support/thread_pool.h"

namespace isopro {

// Of the tokens of one continuation, each after all before it.
struct TokenScores {
  std::vector<float> logProbabilities;
  // Where alternatives are asked for.
  std::vector<std::int32_t> ranks;            // 1: the most likely
  std::vector<std::vector<TokenChance>> top;  // the most likely ones, as many as were asked for
};

// log p(token | prefix, earlier tokens) at temperature 1 for every token of every continuation; the
// prefix is evaluated once, and what continuations have in common at their beginning too. The same
// bits as generate's: of a request for one sample where `stepwise`, which takes a call a token,
// else of a request for several. They do not depend on what other continuations there are. Throws
// INVALID_ARGUMENT (empty prefix, ids out of range), CONTEXT_OVERFLOW, NUMERIC_FAILURE, ABORTED.
// `alternatives`: how many of the likeliest tokens are told beside each; -1: none, and no ranks.
std::vector<TokenScores> scoreContinuations(Context& context, ThreadPool& pool,
                                            const std::vector<Token>& prefix,
                                            const std::vector<std::vector<Token>>& continuations,
                                            int cellBudget, bool stepwise, int alternatives,
                                            const std::atomic<bool>& cancelled);

// Rows of llama_decode and what they cost.
struct Evaluated {
  int tokens = 0;
  StageTime time;
};

struct BranchScores {
  std::vector<TokenScores> scores;  // of each branch's tokens from `from` on
  Evaluated trunk;
  Evaluated branches;      // with the softmax of their rows
  int repeatedTokens = 0;  // of the trunk, among the branches'
};

// As scoreContinuations, of branches anywhere on a trunk, which is evaluated once as far as a
// branch needs it. The last one to kRowGroup tokens before a branch are evaluated with it, so that
// every row is computed in a group wherever the branches stand: bit for bit what scoreContinuations
// says of trunk[0, cut) followed by trunk[cut, at) and the branch, cut being the last multiple of
// kRowGroup below `at`. Of a model that evaluates each sample by itself: of trunk[0, at) followed
// by the branch, each from its first token on.
BranchScores scoreBranches(Context& context, ThreadPool& pool, const std::vector<Token>& trunk,
                           const std::vector<Branch>& branches, int cellBudget,
                           const std::atomic<bool>& cancelled);

}  // namespace isopro
