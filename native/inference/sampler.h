// Draws the next token of one sequence from a row of logits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "inference/grammar.h"
#include "support/random.h"

namespace isopro {

struct SamplingSettings {
  float temperature = 1.0f;    // 0: the most likely token, lowest id on a tie
  int topK = 0;                // 0: off
  float topP = 1.0f;           // 1: off
  float minP = 0.0f;           // 0: off
  float repeatPenalty = 1.0f;  // 1: off; logits of recent tokens are divided (positive) or multiplied (negative) by it
  int repeatWindow = 64;       // how many of the last tokens, prompt included, count as recent
};

struct Sampled {
  std::int32_t token;
  float logProbability;         // of the model's own distribution: temperature 1, no penalty, no grammar, no truncation
  float sampledLogProbability;  // of the distribution that the token was drawn from, after all of those; 0 at temperature 0
};

// Order of the transformations: repeat penalty, grammar, temperature, top-k, top-p, min-p (the order of Hugging Face's
// generate and of vLLM); each renormalises what the one before it left. Holds the generator and the grammar state of its
// sequence.
class Sampler {
 public:
  // `grammar`, if any, must outlive it.
  Sampler(int vocabularySize, const SamplingSettings& settings, std::uint64_t seed, const Grammar* grammar,
          const std::vector<std::int32_t>& prompt);

  // Draws from logits [vocabulary] and advances. Throws NUMERIC_FAILURE where the row is not finite.
  Sampled next(const float* logits);

 private:
  struct Candidate {
    float logit;
    std::int32_t token;
  };
  struct Drawn {
    std::int32_t token;
    double logProbability;
  };

  Drawn choose(const float* logits);
  void penalise(std::vector<float>& row) const;
  void remember(std::int32_t token);
  Drawn draw(const float* logits, float top);
  Drawn drawTruncated(const float* logits, float top);
  std::vector<Candidate> truncate(const float* logits, float top) const;

  const int vocabularySize_;
  const SamplingSettings settings_;
  const float inverse_;  // of the temperature
  Random random_;
  const Grammar* grammar_;  // or nullptr
  std::optional<GrammarMatcher> matcher_;
  std::vector<std::int32_t> recent_;  // ring buffer of the last repeatWindow tokens
  size_t recentNext_ = 0;
};

}  // namespace isopro
