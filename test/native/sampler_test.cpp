// The sampler against a slow reference in double precision that makes the whole distribution: which
// tokens are drawn, how often, and the log-probabilities that are reported.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
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
  for (const char* piece : {"a",  "b",  "c",   "d", "e", "f", "ab", "ba", "abc", "bad", "cab",
                            "de", "ef", "fed", "0", "1", "2", "12", "a1", "",    ""})
    pieces.push_back(piece);
  return std::make_shared<const Vocabulary>(pieces, std::vector<std::int32_t>{19});
}

// The probabilities after every transformation in the documented order, each over what the one
// before it left.
std::vector<double> reference(const std::vector<float>& logits, const SamplingSettings& settings,
                              const std::vector<std::int32_t>& prompt,
                              const std::vector<bool>& allowed,
                              const std::vector<std::int32_t>& sampled = {}) {
  std::vector<double> x(logits.begin(), logits.end());
  for (const auto& [token, bias] : settings.logitBias)
    x[static_cast<std::size_t>(token)] += static_cast<double>(bias);
  const std::size_t window =
      std::min(prompt.size(), static_cast<std::size_t>(settings.repeatWindow));
  for (std::size_t token = 0; token < x.size(); ++token) {
    if (std::find(prompt.end() - static_cast<std::ptrdiff_t>(window), prompt.end(),
                  static_cast<std::int32_t>(token)) == prompt.end())
      continue;
    x[token] = x[token] > 0 ? x[token] / static_cast<double>(settings.repeatPenalty)
                            : x[token] * static_cast<double>(settings.repeatPenalty);
  }
  for (std::size_t token = 0; token < x.size(); ++token) {
    const auto times = static_cast<double>(
        std::count(sampled.begin(), sampled.end(), static_cast<std::int32_t>(token)));
    x[token] -= times * static_cast<double>(settings.frequencyPenalty) +
                (times > 0 ? static_cast<double>(settings.presencePenalty) : 0);
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
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
    return order;
  };
  renormalise();
  if (settings.topK > 0) {
    const auto order = ranked();
    for (std::size_t rank = static_cast<std::size_t>(settings.topK); rank < order.size(); ++rank)
      p[order[rank]] = 0;
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

// Upper 99.999 % quantile by the Wilson-Hilferty approximation: of a few hundred tests one fails in
// a few hundred suites at most, and their seeds are fixed.
double quantile(int degrees) {
  const double d = degrees;
  return d * std::pow(1 - 2 / (9 * d) + 4.265 * std::sqrt(2 / (9 * d)), 3);
}

// Pearson's statistic, the cells that expect fewer than 8 draws pooled.
void checkFrequencies(const std::vector<int>& counts, const std::vector<double>& expected,
                      int draws, const std::string& name) {
  double statistic = 0;
  double restExpected = 0;
  int restCount = 0;
  int cells = 0;
  for (std::size_t token = 0; token < expected.size(); ++token) {
    const double mean = expected[token] * draws;
    if (mean == 0) {
      check::report(counts[token] == 0, name.c_str(), static_cast<int>(token),
                    "a token was drawn that has no probability");
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
  if (cells > 1)
    check::report(statistic < quantile(cells - 1), name.c_str(), cells - 1,
                  "chi-square " + std::to_string(statistic));
}

// One combination, by the first token of many sequences.
void checkCombination(const SamplingSettings& settings, const Grammar* grammar,
                      const std::vector<bool>& allowed, const std::vector<float>& logits,
                      std::uint64_t firstSeed) {
  constexpr int draws = 20'000;
  const std::vector<std::int32_t> prompt = {5, 0, 0, 7, 12, 6};
  const std::vector<double> expected = reference(logits, settings, prompt, allowed);
  const std::string name =
      "temperature " + std::to_string(settings.temperature) + ", top-k " +
      std::to_string(settings.topK) + ", top-p " + std::to_string(settings.topP) + ", min-p " +
      std::to_string(settings.minP) + ", penalty " + std::to_string(settings.repeatPenalty) +
      (grammar == nullptr ? "" : ", grammar");
  std::vector<int> counts(logits.size(), 0);
  double worst = 0;
  for (std::uint64_t seed = firstSeed; seed < firstSeed + draws; ++seed) {
    Sampler sampler(static_cast<int>(logits.size()), settings, seed, grammar, prompt);
    const Sampled drawn = sampler.next(logits.data());
    ++counts[static_cast<std::size_t>(drawn.token)];
    worst = std::max(worst, std::fabs(static_cast<double>(drawn.sampledLogProbability) -
                                      std::log(expected[static_cast<std::size_t>(drawn.token)])));
  }
  checkFrequencies(counts, expected, draws, name);
  check::report(worst < 2e-6, name.c_str(), 0,
                "a log-probability of the sampled distribution is off by " + std::to_string(worst));
}

TEST(sampler_every_combination_follows_the_exact_distribution) {
  const auto vocabulary = smallVocabulary();
  const auto size = static_cast<std::size_t>(vocabulary->size());
  const Grammar grammar(vocabulary, "root ::= ([a-e]+ | \"1\" [02])?");
  std::vector<bool> continues(size, false);
  for (const std::int32_t token : {0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 15, 17, 19})
    continues[static_cast<std::size_t>(token)] = true;
  isopro::Random random(41);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = 2.5f * static_cast<float>(random.nextDouble() - 0.4);
  logits[3] = logits[8];  // a tie
  logits[13] = 1.8f;      // the most likely one, not in the grammar
  logits[7] = 1.6f;       // among the recent ones
  const bool full = check::full();
  std::uint64_t seed = 0;
  for (const float temperature :
       full ? std::vector<float>{1.0f, 0.6f, 1.7f} : std::vector<float>{1.0f, 0.6f}) {
    for (const int topK : full ? std::vector<int>{0, 6, 12} : std::vector<int>{0, 6}) {
      for (const float topP :
           full ? std::vector<float>{1.0f, 0.9f, 0.5f} : std::vector<float>{1.0f, 0.8f}) {
        for (const float minP :
             full ? std::vector<float>{0.0f, 0.05f, 0.3f} : std::vector<float>{0.0f, 0.35f}) {
          for (const float repeatPenalty : {1.0f, 1.5f}) {
            const SamplingSettings settings{temperature, topK, topP, minP, repeatPenalty, 4};
            checkCombination(settings, nullptr, std::vector<bool>(size, true), logits,
                             seed += 20'000);
            checkCombination(settings, &grammar, continues, logits, seed += 20'000);
          }
        }
      }
    }
  }
}

// The penalty's window moves on, and so does the grammar.
TEST(sampler_log_probabilities_hold_along_a_sequence) {
  const auto vocabulary = smallVocabulary();
  const auto size = static_cast<std::size_t>(vocabulary->size());
  const Grammar grammar(vocabulary, "root ::= ([a-f]{2,3} [0-2]){4}");
  SamplingSettings settings{0.9f, 12, 0.95f, 0.02f, 1.3f, 5};
  isopro::Random random(42);
  int tokens = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    settings.repeatWindow = static_cast<int>(seed % 8);
    std::vector<std::int32_t> history = {1, 2};
    isopro::GrammarMatcher matcher = grammar.start();
    Sampler sampler(static_cast<int>(size), settings, seed, &grammar, history);
    for (std::int32_t token = -1; token != 19; ++tokens) {
      std::vector<float> logits(size);
      for (float& logit : logits) logit = 4.0f * static_cast<float>(random.nextDouble() - 0.5);
      std::vector<bool> allowed(size);
      for (std::size_t i = 0; i < size; ++i)
        allowed[i] = grammar.allows(matcher, static_cast<std::int32_t>(i));
      const std::vector<double> expected = reference(logits, settings, history, allowed);
      const std::vector<double> own =
          reference(logits, SamplingSettings{}, {}, std::vector<bool>(size, true));
      const Sampled drawn = sampler.next(logits.data());
      token = drawn.token;
      CHECK_NEAR(static_cast<double>(drawn.sampledLogProbability),
                 std::log(expected[static_cast<std::size_t>(token)]), 2e-6);
      CHECK_NEAR(static_cast<double>(drawn.logProbability),
                 std::log(own[static_cast<std::size_t>(token)]), 2e-6);
      history.push_back(token);
      grammar.accept(matcher, token);
    }
  }
  CHECK(tokens > 1000);
}

// Sampled tokens count for presence and frequency, those of the prompt do not.
TEST(sampler_bias_and_penalties_hold_along_a_sequence) {
  constexpr std::size_t size = 12;
  isopro::Random random(43);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SamplingSettings settings{0.8f, 0, 1.0f, 0.0f, seed % 2 == 0 ? 1.0f : 1.2f, 4};
    settings.presencePenalty = static_cast<float>(seed % 3) - 1.0f;
    settings.frequencyPenalty = static_cast<float>(seed % 5) * 0.5f - 1.0f;
    settings.logitBias = {{3, 1.5f}, {7, -2.0f}};
    settings.topLogProbabilities = 5;
    std::vector<std::int32_t> history = {2, 2, 9};
    std::vector<std::int32_t> drawnBefore;
    Sampler sampler(static_cast<int>(size), settings, seed, nullptr, history, {3, {11, 4}});
    for (int step = 0; step < 10; ++step) {
      std::vector<float> logits(size);
      for (float& logit : logits) logit = 4.0f * static_cast<float>(random.nextDouble() - 0.5);
      logits[5] = logits[6];
      std::vector<bool> allowed(size, true);
      if (step < 3) allowed[11] = allowed[4] = false;
      const std::vector<double> expected =
          reference(logits, settings, history, allowed, drawnBefore);
      std::vector<double> own =
          reference(logits, SamplingSettings{}, {}, std::vector<bool>(size, true));
      const Sampled drawn = sampler.next(logits.data());
      CHECK_NEAR(static_cast<double>(drawn.sampledLogProbability),
                 std::log(expected[static_cast<std::size_t>(drawn.token)]), 2e-6);
      CHECK_NEAR(static_cast<double>(drawn.logProbability),
                 std::log(own[static_cast<std::size_t>(drawn.token)]), 2e-6);
      CHECK(drawn.top.size() == 5);
      for (const isopro::TokenChance& chance : drawn.top) {
        const auto best = std::max_element(own.begin(), own.end());
        CHECK(chance.token == best - own.begin());
        CHECK_NEAR(static_cast<double>(chance.logProbability), std::log(*best), 2e-6);
        *best = -1;
      }
      history.push_back(drawn.token);
      drawnBefore.push_back(drawn.token);
    }
  }
}

TEST(sampler_ends_a_whole_document_whatever_is_held_back) {
  const auto vocabulary = smallVocabulary();
  const Grammar grammar(vocabulary, "root ::= \"a\"");
  const std::vector<float> logits(static_cast<std::size_t>(vocabulary->size()), 1.0f);
  for (const float temperature : {0.0f, 1.0f}) {
    Sampler sampler(vocabulary->size(), {temperature}, 1, &grammar, {}, {5, {19}});
    CHECK(sampler.next(logits.data()).token == 0);
    CHECK(sampler.next(logits.data()).token == 19);
  }
}

TEST(sampler_extreme_settings) {
  const std::vector<float> logits = {-1.0f, 2.0f, 2.0f, 1.0f, -3.0f};
  const auto drawn = [&](const SamplingSettings& settings, const std::vector<float>& row) {
    return Sampler(5, settings, 7, nullptr, {1, 2}).next(row.data());
  };
  for (const float least : {0.0f, 1e-45f, 1e-30f}) {
    const Sampled greedy = drawn({least}, {-1.0f, 2.0f, 1.0f, 1.0f, -3.0f});
    CHECK(greedy.token == 1);
    CHECK(greedy.sampledLogProbability == 0);
    CHECK(drawn({least, 3, 0.5f, 0.1f}, {-1.0f, 2.0f, 1.0f, 1.0f, -3.0f}).token == 1);
  }
  CHECK(drawn({1.0f, 1}, logits).token == 1);
  CHECK(drawn({1.0f, 0, 1e-6f}, logits).token == 1);
  CHECK_NEAR(static_cast<double>(drawn({1.0f, 0, 1.0f, 1.0f}, logits).sampledLogProbability),
             std::log(0.5), 1e-6);
  for (const float penalty : {1e-39f, 1.2e-38f, 1e-20f}) {
    for (const float temperature : {0.0f, 1e-30f, 1.0f, 1000.0f})
      CHECK(drawn({temperature, 0, 1.0f, 0.0f, penalty}, {1.0f, 30.0f, -0.5f, 1.0f, 0.0f}).token ==
            1);
  }
  CHECK_THROWS(drawn({}, {1.0f, std::nanf(""), 2.0f, 1.0f, 0.0f}), "NUMERIC_FAILURE");
}

}  // namespace
