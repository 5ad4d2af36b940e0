// The passes over one row of logits [vocabulary] that sampling and scoring are made of. Each sums
// in a fixed order: 16 partial sums, then their tree, so that a row gives the same result every
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace isopro {

struct Maximum {
  float value;
  int index;  // the lowest index that has it
};

// A NaN is passed over, and {-inf, count} returned where nothing else is there; it shows in the
// sums below.
Maximum maximum(const float* logits, int count);

// sum of exp((logits[i] - maximum) * inverseTemperature); relative error below 1e-6. NaN where a
// logit is NaN.
double sumOfExponentials(const float* logits, int count, float maximum, float inverseTemperature);

// Elements that one entry of blockSums covers.
constexpr int kWeightBlock = 256;

// weights[i] = exp((logits[i] - maximum) * inverseTemperature), and their sums by block: the two
// levels in which a draw walks the cumulative distribution. blockSums has room for ceil(count /
// kWeightBlock) values.
void exponentials(const float* logits, int count, float maximum, float inverseTemperature,
                  float* weights, double* blockSums);

struct TokenChance {
  std::int32_t token;
  float logProbability;  // at temperature 1
};

// The `most` most likely tokens, most likely first, ties by id; `total` is the sum of exponentials
// at temperature 1.
std::vector<TokenChance> mostLikely(const float* logits, int count, int most, float maximum,
                                    double total);

// How many tokens are at least as likely as this one, itself included: 1 for the most likely.
int rankOf(const float* logits, int count, int token);

// log softmax(logits)[token] at temperature 1; `total` is the sum of exponentials there.
double logProbability(const float* logits, int token, float maximum, double total);

}  // namespace isopro
