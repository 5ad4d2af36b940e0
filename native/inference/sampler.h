// Draws the next token of one sequence from a row of logits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "inference/grammar.h"
#include "inference/logit_math.h"
#include "support/random.h"

namespace isopro {

struct SamplingSettings {
  float temperature = 1.0f;       // 0: the most likely token, lowest id on a tie
  int topK = 0;                   // 0: off
  float topP = 1.0f;              // 1: off
  float minP = 0.0f;              // 0: off
  float repeatPenalty = 1.0f;     // 1: off; logits of recent tokens are divided (positive) or
                                  // multiplied (negative) by it
  int repeatWindow = 64;          // how many of the last tokens, prompt included, count as recent
  float presencePenalty = 0.0f;   // taken from the logit of every token that was sampled before
  float frequencyPenalty = 0.0f;  // and this for each time that it was
  std::vector<std::pair<std::int32_t, float>> logitBias =
      {};                       // added to the logits of these tokens, each named once
  int topLogProbabilities = 0;  // most likely tokens that each sampled one is told with
};

// Tokens that are not drawn before so many were.
struct HeldBack {
  int tokens = 0;
  std::vector<std::int32_t> ends = {};
};

struct Sampled {
  std::int32_t token;
  float logProbability;  // of the model's own distribution: temperature 1, no penalty, no grammar,
                         // no truncation
  float sampledLogProbability;   // of the distribution that the token was drawn from, after all of
                                 // those; 0 at temperature 0
  std::vector<TokenChance> top;  // settings.topLogProbabilities of the model's own distribution
};

// Order of the transformations: bias, repeat penalty, frequency and presence penalties, grammar and
// what is held back, temperature, top-k, top-p, min-p (the order of vLLM, and of Hugging Face's
// generate in what that has); each renormalises what the one before it left. Holds the generator
// and the grammar state of its sequence. A grammar whose document is whole ends a reply whatever is
// held back.
class Sampler {
 public:
  // `grammar`, if any, must outlive it.
  Sampler(int vocabularySize, const SamplingSettings& settings, std::uint64_t seed,
          const Grammar* grammar, const std::vector<std::int32_t>& prompt, HeldBack heldBack = {});

  // Draws from logits [vocabulary] and advances. Throws NUMERIC_FAILURE where the row is not
  // finite.
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
  bool adjusts() const;
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
  const HeldBack heldBack_;
  int sampled_ = 0;
  std::map<std::int32_t, int> counts_;  // of sampled tokens, where a penalty goes by them
};

}  // namespace isopro
