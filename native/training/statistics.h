// What a step did, measured before clipping and beside the update. Formulas: docs/training.md,
// "Step statistics".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/linear.h"

namespace isopro::training {

struct ModuleStatistics {
  std::string module;
  double pairGradNorm = 0;  // sqrt(||gA||^2 + ||gB||^2)
  double updateRatio = 0;   // s ||delta(BA)|| / ||W||
  double dormantFraction = 0;
  double rankUse =
      0;  // exp(entropy of the normalised singular values of BA) / rank; 0 while BA = 0
  std::vector<std::int64_t>
      dormantDirections;  // whose mean contribution is at most 2.5 % of the module's mean
};

struct StepStatistics {
  std::int64_t step = 0;
  double learningRate = 0;
  std::int64_t tokens = 0;  // labelled
  double loss = 0;          // per labelled token
  double gradNorm = 0;      // over all parameters, before clipping
  bool clipped = false;
  bool applied = false;     // false where something was not finite
  double clipFraction = 0;  // labelled tokens whose ratio was clipped (policy gradient)
  double klToReference =
      0;  // mean k3 over the labelled tokens, where reference log-probabilities were given
  double oldPolicyGap = 0;  // mean |log p - oldLogprob| over the tokens that came with one
  std::vector<std::string> nonFinite;
  std::vector<double> microBatchNorms;  // of each micro-batch's mean gradient
  std::vector<std::int64_t> microBatchTokens;
  std::vector<ModuleStatistics> modules;
};

bool allFinite(const std::vector<float>& values);
double squaredNorm(const std::vector<float>& values);
// ||W||_F of a stored matrix; not finite where an element is not.
double frobeniusNorm(Engine& engine, const Matrix& w);
// s ||delta(BA)|| / ||W||: from A, B now and next, by r x r Gram matrices in f64 (no cancellation,
// no out x in matrix).
double updateRatio(const Lora& lora, const std::vector<float>& nextA,
                   const std::vector<float>& nextB);
double rankUse(const Parameter& a, const Parameter& b);
// Ascending; none while BA = 0.
std::vector<std::int64_t> dormantDirections(const Lora& lora);

}  // namespace isopro::training
