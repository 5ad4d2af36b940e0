// The passes over one row of logits [vocabulary] that sampling and scoring are made of. Each sums in a fixed order:
// 16 partial sums, then their tree, so that a row gives the same result every time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isopro {

struct Maximum {
  float value;
  int index;  // the lowest index that has it
};

// NaN anywhere gives {NaN, -1}.
Maximum maximum(const float* logits, int count);

// sum of exp((logits[i] - maximum) * inverseTemperature); relative error below 1e-6.
double sumOfExponentials(const float* logits, int count, float maximum, float inverseTemperature);

// weights[i] = exp((logits[i] - maximum) * inverseTemperature).
void exponentials(const float* logits, int count, float maximum, float inverseTemperature, float* weights);

// log softmax(logits)[token] at temperature 1.
double logProbability(const float* logits, int count, int token);

}  // namespace isopro
