// Batched sampling with continuous batching: what following prompts have in common is evaluated
// once, and each prompt once; each of their samples has a copy of their keys and values, sequences
// join and leave the running batch at every step. Of a model that evaluates each sample by itself
// (Model::evaluatesAlone) one lives at a time, and its prompt is evaluated for it alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "inference/context.h"
#include "inference/reply.h"
#include "inference/sampler.h"
#include "support/stage_time.h"
#include "support/thread_pool.h"

namespace isopro {

struct RolloutPrompt {
  std::vector<Token> tokens;
  std::vector<std::uint64_t> seeds;  // one a sample
};

struct RolloutRequest {
  std::vector<RolloutPrompt> prompts;
  SamplingSettings sampling;
  ReplyLimits limits;
  std::string grammar;  // GBNF; empty: none
  int boundary = -1;    // capture the residual stream entering this layer; -1: no
  int cellBudget =
      0;  // tokens of KV cache over all live sequences, each as long as the longest can be
  int maxSequences = kMaxSequences;
};

struct Rollout : Reply {
  int prompt = 0;
  int sample = 0;
  std::uint64_t seed = 0;
  // f16 bits [prompt tokens + sampled tokens - 1, d_model]: the last sampled token is never
  // evaluated.
  std::vector<std::uint16_t> boundary;
};

struct RolloutProgress {
  int finished = 0;
  int total = 0;
  std::int64_t promptTokens = 0;  // evaluated
  std::int64_t sampledTokens = 0;
  int live = 0;
  int threads = 0;
  StageTime prefill, decode, draw;
};

struct RolloutEvents {
  std::function<void(Rollout&&)> finished;
  std::function<void(const RolloutProgress&)> progress;  // after every decode step
};

// Finished rollouts arrive in the order in which they finish. When cancelled, the live ones are
// delivered as aborted and ABORTED is thrown. Throws INVALID_ARGUMENT, CONTEXT_OVERFLOW,
// GRAMMAR_INVALID, NUMERIC_FAILURE, OUT_OF_MEMORY.
//
// Which rows share a decode call depends on the request alone: samples start in order as soon as
// another has ended, whatever the clock says.
void generateRollouts(Context& context, ThreadPool& pool, const RolloutRequest& request,
                      const RolloutEvents& events, const std::atomic<bool>& cancelled);

}  // namespace isopro
