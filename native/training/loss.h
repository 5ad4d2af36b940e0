// The output head and the two objectives. Only rows whose next token is labelled reach the head, a
// few at a time, so that the whole loss never takes more than 40 MB.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/block.h"
#include "training/packing.h"

namespace isopro::training {

struct Objective {
  // Weighted negative log-likelihood:   w * -log p(y)
  // Clipped policy gradient (Schulman et al. 2017), log-probabilities at the rollout's temperature:
  //   w * (-min(r A, clip(r, 1 - clipLow, 1 + clipHigh) A) + klCoefficient * k3),  r = p / p_old,
  //   k3 = p_ref / p - log(p_ref / p) - 1 (Schulman 2020, an unbiased estimate of KL(p || p_ref)
  //   that is never negative)
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
RowLoss rowLoss(const Objective& objective, const TrainSequence& sequence, std::int64_t token,
                double logprob);

// hidden [T, width]: output of the last block. `scale` multiplies the gradient (1 / tokens of the
// step). Where dHidden is not null it receives the gradient [T, width] and trained weights of head
// and last norm theirs.
void headLoss(BlockContext& context, ModelWeights& model, const MicroBatch& batch,
              const Objective& objective, double scale, const float* hidden,
              std::vector<SequenceResult>& results, float* dHidden);

}  // namespace isopro::training
