// AdamW (Loshchilov and Hutter 2019) in f32 with one step counter a row, and the learning-rate
// schedule.
#pragma once

#include <cstdint>

#include "training/parameter.h"

namespace isopro::training {

enum class Schedule { constant, linear, cosine };

struct OptimiserOptions {
  float learningRate = 1e-4f;
  float factorB = 1;  // LoRA+ (Hayou et al. 2024): learning rate of B over that of A
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weightDecay = 0;
  float maxNorm = 1;  // of the gradient over all parameters; 0: not clipped
  Schedule schedule = Schedule::constant;
  std::int64_t warmupSteps = 0;
  std::int64_t totalSteps = 0;  // where the schedule ends; constant ignores it
  float finalFactor = 0;        // of the learning rate at totalSteps and after
};

// Learning rate of step 1, 2, ...
float learningRateAt(const OptimiserOptions& options, std::int64_t step);
// One update with the gradient times `gradientScale`.
void adamwStep(const OptimiserOptions& options, float learningRate, float gradientScale,
               Parameter& parameter);

}  // namespace isopro::training
