// The passes over a row of logits against double precision.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "check.h"
#include "inference/logit_math.h"
#include "support/random.h"

namespace {

std::vector<float> row(int count, float spread, std::uint64_t seed) {
  isopro::Random random(seed);
  std::vector<float> logits(static_cast<size_t>(count));
  for (float& logit : logits) logit = spread * static_cast<float>(random.nextDouble() - 0.5);
  return logits;
}

}  // namespace

TEST(sums_of_exponentials_match_double_precision) {
  for (const int count : {1, 2, 15, 16, 17, 255, 256, 257, 5000, 151936}) {
    for (const float spread : {0.1f, 10.0f, 400.0f}) {
      const std::vector<float> logits = row(count, spread, 7);
      const isopro::Maximum top = isopro::maximum(logits.data(), count);
      for (const float inverse : {1.0f, 1.25f, 0.5f}) {
        double expected = 0;
        for (const float logit : logits)
          expected += std::exp(static_cast<double>((logit - top.value) * inverse));
        const double actual = isopro::sumOfExponentials(logits.data(), count, top.value, inverse);
        CHECK_NEAR(actual / expected, 1.0, 1e-6);
      }
    }
  }
}

TEST(the_maximum_is_the_lowest_index_and_nan_is_seen_anywhere) {
  for (const int count : {1, 16, 33, 1000}) {
    for (int at = 0; at < count; at += 7) {
      std::vector<float> logits(static_cast<size_t>(count), -1.0f);
      for (int i = at; i < count; i += 5) logits[static_cast<size_t>(i)] = 3.0f;
      const isopro::Maximum top = isopro::maximum(logits.data(), count);
      CHECK(top.index == at && top.value == 3.0f);
      logits[static_cast<size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
      const isopro::Maximum rest = isopro::maximum(logits.data(), count);
      CHECK(std::isnan(isopro::sumOfExponentials(logits.data(), count, rest.value, 1.0f)));
    }
  }
}

double logProbability(const std::vector<float>& logits, int token) {
  const int count = static_cast<int>(logits.size());
  const isopro::Maximum top = isopro::maximum(logits.data(), count);
  return isopro::logProbability(logits.data(), token, top.value,
                                isopro::sumOfExponentials(logits.data(), count, top.value, 1.0f));
}

TEST(log_probabilities_of_a_row_sum_to_one) {
  const std::vector<float> logits = row(3000, 30.0f, 3);
  double total = 0;
  for (int token = 0; token < 3000; ++token) total += std::exp(logProbability(logits, token));
  CHECK_NEAR(total, 1.0, 1e-6);
}

TEST(weights_and_their_block_sums_match_the_sum) {
  for (const int count : {1, 255, 256, 257, 151936}) {
    const std::vector<float> logits = row(count, 25.0f, 5);
    const isopro::Maximum top = isopro::maximum(logits.data(), count);
    std::vector<float> weights(logits.size());
    std::vector<double> blocks((logits.size() + isopro::kWeightBlock - 1) / isopro::kWeightBlock);
    isopro::exponentials(logits.data(), count, top.value, 1.25f, weights.data(), blocks.data());
    double total = 0;
    double sum = 0;
    for (const double block : blocks) total += block;
    for (const float weight : weights) sum += weight;
    CHECK_NEAR(total / isopro::sumOfExponentials(logits.data(), count, top.value, 1.25f), 1.0,
               1e-7);
    CHECK_NEAR(total / sum, 1.0, 1e-6);
  }
}

TEST(the_same_row_gives_the_same_bits) {
  const std::vector<float> logits = row(151936, 20.0f, 11);
  const std::vector<float> moved(logits);  // another address and alignment
  CHECK(logProbability(logits, 5) == logProbability(moved, 5));
}
