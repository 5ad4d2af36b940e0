// Draws the next token of one sequence from a row of logits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inference/grammar_matcher.h"
#include "inference/model.h"
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
  Token token;
  float logProbability;  // of the model's own distribution: temperature 1, no penalty, no truncation, no grammar
};

// A GBNF grammar with the texts of the vocabulary; outlives the samplers that follow it. Throws GRAMMAR_INVALID.
class Grammar {
 public:
  Grammar(const Model& model, const std::string& gbnf);
  const GrammarRules& rules() const { return rules_; }
  // Bytes that the token adds to a text: none for control tokens.
  const std::string& piece(Token token) const { return pieces_[static_cast<size_t>(token)]; }

 private:
  GrammarRules rules_;
  std::vector<std::string> pieces_;
};

// Order of the transformations: repeat penalty, grammar, temperature, top-k, top-p, min-p (the order of Hugging Face's
// generate and of vLLM). Holds the generator and the grammar state of its sequence.
class Sampler {
 public:
  Sampler(const Model& model, const SamplingSettings& settings, std::uint64_t seed, const Grammar* grammar,
          const std::vector<Token>& prompt);

  // Draws from logits [vocabulary] and advances. Throws NUMERIC_FAILURE where the row is not finite.
  Sampled next(const float* logits);

 private:
  struct Candidate {
    float logit;
    Token token;
  };

  // Both work in place on a row [vocabulary].
  void penalise(std::vector<float>& row) const;
  void maskByGrammar(std::vector<float>& row);
  bool grammarAllows(Token token);
  Token choose(const float* logits);
  Token draw(const float* logits, float top);
  std::vector<Candidate> truncate(const float* logits, float top, double total) const;

  const Model& model_;
  SamplingSettings settings_;
  Random random_;
  const Grammar* grammar_;  // or nullptr
  std::optional<GrammarMatcher> matcher_;
  std::vector<Token> recent_;   // ring buffer of the last repeatWindow tokens
  size_t recentNext_ = 0;
};

}  // namespace isopro
