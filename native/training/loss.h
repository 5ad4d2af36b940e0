// The output head and the two objectives. Only rows whose next token is labelled reach the head, a few at a time, so
// that the whole loss never takes more than 40 MB.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/block.h"

namespace isopro::training {

// Values that the caller keeps alive during the call: a boundary is megabytes a sequence.
struct HalfRows {
  const std::uint16_t* data = nullptr;
  std::size_t size = 0;

  bool empty() const { return size == 0; }
};

// One sequence of a batch. Token t is a target where labelled[t] is 1 (never t = 0); it is predicted at t - 1.
struct TrainSequence {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint8_t> labelled;  // [tokens]
  float weight = 1;
  std::vector<float> advantages;         // [tokens], policy gradient only; empty: 0
  std::vector<float> oldLogprobs;        // [tokens], empty: those of this very pass (the ratio is exactly 1)
  std::vector<float> referenceLogprobs;  // [tokens], of the base model; needed where klCoefficient is not 0
  // What enters `boundaryLayer`, [tokens, width] or [tokens - 1, width] in f16; empty where it has to be computed.
  HalfRows boundary;
  std::int64_t boundaryLayer = -1;

  std::int64_t labels() const;
};

struct Objective {
  // Weighted negative log-likelihood:   w * -log p(y)
  // Clipped policy gradient (Schulman et al. 2017), log-probabilities at the rollout's temperature:
  //   w * (-min(r A, clip(r, 1 - clipLow, 1 + clipHigh) A) + klCoefficient * k3),  r = p / p_old,
  //   k3 = p_ref / p - log(p_ref / p) - 1 (Schulman 2020, an unbiased estimate of KL(p || p_ref) that is never negative)
  bool policy = false;
  float temperature = 1;
  float clipLow = 0.2f;
  float clipHigh = 0.2f;
  float klCoefficient = 0;
};

struct SequenceResult {
  double loss = 0;     // sum over its labelled tokens, before division by the number of tokens
  double entropy = 0;  // mean over its labelled tokens, nats
  double clippedTokens = 0;
  std::vector<float> logprobs;  // [tokens]; 0 where not labelled
};

// What one row of logits contributes.
struct RowLoss {
  double loss;
  double slope;  // d loss / d log p
  bool clipped;
};
RowLoss rowLoss(const Objective& objective, const TrainSequence& sequence, std::int64_t token, double logprob);

// hidden [T, width]: output of the last block. `scale` multiplies the gradient (1 / tokens of the step).
// Where dHidden is not null it receives the gradient [T, width] and trained weights of head and last norm theirs.
void headLoss(BlockContext& context, ModelWeights& model, const std::vector<const TrainSequence*>& batch, const Objective& objective,
              double scale, const float* hidden, std::vector<SequenceResult>& results, float* dHidden);

}  // namespace isopro::training
