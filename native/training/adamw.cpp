#include "training/adamw.h"

#include <algorithm>
#include <cmath>

namespace isopro::training {

float learningRateAt(const OptimiserOptions& o, std::int64_t step) {
  if (step <= o.warmupSteps)
    return o.learningRate * static_cast<float>(step) / static_cast<float>(o.warmupSteps);
  if (o.schedule == Schedule::constant || o.totalSteps <= o.warmupSteps) return o.learningRate;
  const double progress = std::min(1.0, static_cast<double>(step - o.warmupSteps) /
                                            static_cast<double>(o.totalSteps - o.warmupSteps));
  const double remaining = o.schedule == Schedule::linear
                               ? 1 - progress
                               : (1 + std::cos(progress * 3.14159265358979323846)) / 2;
  return static_cast<float>(o.learningRate * (o.finalFactor + (1 - o.finalFactor) * remaining));
}

void adamwStep(const OptimiserOptions& o, float learningRate, float gradientScale, Parameter& p) {
  const float rate = learningRate * p.learningRateFactor;
  const float decay = p.decays ? 1 - rate * o.weightDecay : 1.0f;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const auto step = static_cast<double>(++p.steps[static_cast<std::size_t>(row)]);
    // update = rate * (m / c1) / (sqrt(v / c2) + epsilon)
    const auto correction1 =
        static_cast<float>(rate / (1 - std::pow(static_cast<double>(o.beta1), step)));
    const auto correction2 =
        static_cast<float>(1 / std::sqrt(1 - std::pow(static_cast<double>(o.beta2), step)));
    const auto begin = static_cast<std::size_t>(row * p.columns),
               end = begin + static_cast<std::size_t>(p.columns);
    for (std::size_t i = begin; i < end; ++i) {
      const float g = p.gradient[i] * gradientScale;
      p.firstMoment[i] = o.beta1 * p.firstMoment[i] + (1 - o.beta1) * g;
      p.secondMoment[i] = o.beta2 * p.secondMoment[i] + (1 - o.beta2) * g * g;
      p.value[i] =
          decay * p.value[i] -
          correction1 * p.firstMoment[i] / (std::sqrt(p.secondMoment[i]) * correction2 + o.epsilon);
    }
  }
}

}  // namespace isopro::training
