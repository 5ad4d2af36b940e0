// The sampler against a slow reference in double precision that makes the whole distribution: which tokens are drawn,
// how often, and the log-probabilities that are reported.
#include <algorithm>
#include <cmath>
#include <memory>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "check.h"
#include "inference/sampler.h"
#include "support/error.h"
#include "support/random.h"

namespace {

using isopro::Grammar;
using isopro::Sampled;
using isopro::Sampler;
using isopro::SamplingSettings;
using isopro::Vocabulary;

// Letters, pairs and triples of them, digits, and one token that ends the text.
std::shared_ptr<const Vocabulary> smallVocabulary() {
  std::vector<std::string> pieces;
  for (const char* piece : {"a", "b", "c", "d", "e", "f", "ab", "ba", "abc", "bad", "cab", "de", "ef", "fed", "0", "1", "2", "12", "a1", "", ""}) pieces.push_back(piece);
  return std::make_shared<const Vocabulary>(pieces, std::vector<std::int32_t>{19});
}

// The probabilities after every transformation in the documented order, each over what the one before it left.
std::vector<double> reference(const std::vector<float>& logits, const SamplingSettings& settings, const std::vector<std::int32_t>& prompt,
                              const std::vector<bool>& allowed) {
  std::vector<double> x(logits.begin(), logits.end());
  const std::size_t window = std::min(prompt.size(), static_cast<std::size_t>(settings.repeatWindow));
  for (std::size_t token = 0; token < x.size(); ++token) {
    if (std::find(prompt.end() - static_cast<std::ptrdiff_t>(window), prompt.end(), static_cast<std::int32_t>(token)) == prompt.end()) continue;
    x[token] = x[token] > 0 ? x[token] / static_cast<double>(settings.repeatPenalty) : x[token] * static_cast<double>(settings.repeatPenalty);
  }
  std::vector<double> p(x.size(), 0.0);
  for (std::size_t token = 0; token < x.size(); ++token) {
    if (allowed[token]) p[token] = std::exp(x[token] / static_cast<double>(settings.temperature));
  }
  const auto renormalise = [&] {
    const double total = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& value : p) value /= total;
  };
  const auto ranked = [&] {
    std::vector<std::size_t> order(p.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
    return order;
  };
  renormalise();
  if (settings.topK > 0) {
    const auto order = ranked();
    for (std::size_t rank = static_cast<std::size_t>(settings.topK); rank < order.size(); ++rank) p[order[rank]] = 0;
    renormalise();
  }
  if (settings.topP < 1.0f) {
    double before = 0;
    for (const std::size_t token : ranked()) {
      const double own = p[token];
      if (before >= static_cast<double>(settings.topP)) p[token] = 0;
      before += own;
    }
    renormalise();
  }
  if (settings.minP > 0.0f) {
    const double least = static_cast<double>(settings.minP) * *std::max_element(p.begin(), p.end());
    for (double& value : p) value = value < least ? 0 : value;
    renormalise();
  }
  return p;
}

// Upper 99.999 % quantile by the Wilson-Hilferty approximation: of a few hundred tests one fails in a few hundred suites
// at most, and their seeds are fixed.
double quantile(int degrees) {
  const double d = degrees;
  return d * std::pow(1 - 2 / (9 * d) + 4.265 * std::sqrt(2 / (9 * d)), 3);
}

// Pearson's statistic, the cells that expect fewer than 8 draws pooled.
void checkFrequencies(const std::vector<int>& counts, const std::vector<double>& expected, int draws, const std::string& name) {
  double statistic = 0;
  double restExpected = 0;
  int restCount = 0;
  int cells = 0;
  for (std::size_t token = 0; token < expected.size(); ++token) {
    const double mean = expected[token] * draws;
    if (mean == 0) {
      check::report(counts[token] == 0, name.c_str(), static_cast<int>(token), "a token was drawn that has no probability");
    } else if (mean < 8) {
      restExpected += mean;
      restCount += counts[token];
    } else {
      statistic += (counts[token] - mean) * (counts[token] - mean) / mean;
      ++cells;
    }
  }
  if (restExpected >= 8) {
    statistic += (restCount - restExpected) * (restCount - restExpected) / restExpected;
    ++cells;
  }
  if (cells > 1) check::report(statistic < quantile(cells - 1), name.c_str(), cells - 1, "chi-square " + std::to_string(statistic));
}

// One combination, by the first token of many sequences.
void checkCombination(const SamplingSettings& settings, const Grammar* grammar, const std::vector<bool>& allowed, const std::vector<float>& logits, std::uint64_t firstSeed) {
  constexpr int draws = 20'000;
  const std::vector<std::int32_t> prompt = {5, 0, 0, 7, 12, 6};
  const std::vector<double> expected = reference(logits, settings, prompt, allowed);
  const std::string name = "temperature " + std::to_string(settings.temperature) + ", top-k " + std::to_string(settings.topK) + ", top-p " + std::to_string(settings.topP) +
                           ", min-p " + std::to_string(settings.minP) + ", penalty " + std::to_string(settings.repeatPenalty) + (grammar == nullptr ? "" : ", grammar");
  std::vector<int> counts(logits.size(), 0);
  double worst = 0;
  for (std::uint64_t seed = firstSeed; seed < firstSeed + draws; ++seed) {
    Sampler sampler(static_cast<int>(logits.size()), settings, seed, grammar, prompt);
    const Sampled drawn = sampler.next(logits.data());
    ++counts[static_cast<std::size_t>(drawn.token)];
    worst = std::max(worst, std::fabs(static_cast<double>(drawn.sampledLogProbability) - std::log(expected[static_cast<std::size_t>(drawn.token)])));
  }
  checkFrequencies(counts, expected, draws, name);
  check::report(worst < 2e-6, name.c_str(), 0, "a log-probability of the sampled distribution is off by " + std::to_string(worst));
}

TEST(sampler_every_combination_follows_the_exact_distribution) {
  const auto vocabulary = smallVocabulary();
  const auto size = static_cast<std::size_t>(vocabulary->size());
  const Grammar grammar(vocabulary, "root ::= ([a-e]+ | \"1\" [02])?");
  std::vector<bool> continues(size, false);
  for (const std::int32_t token : {0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 15, 17, 19}) continues[static_cast<std::size_t>(token)] = true;
  isopro::Random random(41);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = 2.5f * static_cast<float>(random.nextDouble() - 0.4);
  logits[3] = logits[8];  // a tie
  logits[13] = 1.8f;      // the most likely one, not in the grammar
  logits[7] = 1.6f;       // among the recent ones
  const bool full = check::full();
  std::uint64_t seed = 0;
  for (const float temperature : full ? std::vector<float>{1.0f, 0.6f, 1.7f} : std::vector<float>{1.0f, 0.6f}) {
    for (const int topK : full ? std::vector<int>{0, 6, 12} : std::vector<int>{0, 6}) {
      for (const float topP : full ? std::vector<float>{1.0f, 0.9f, 0.5f} : std::vector<float>{1.0f, 0.7f}) {
        for (const float minP : full ? std::vector<float>{0.0f, 0.05f, 0.3f} : std::vector<float>{0.0f, 0.2f}) {
          for (const float repeatPenalty : {1.0f, 1.5f}) {
            const SamplingSettings settings{temperature, topK, topP, minP, repeatPenalty, 4};
            checkCombination(settings, nullptr, std::vector<bool>(size, true), logits, seed += 20'000);
            checkCombination(settings, &grammar, continues, logits, seed += 20'000);
          }
        }
      }
    }
  }
}

}  // namespace
