// Draws the next token of one sequence from a row of logits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

// A parsed GBNF grammar; samplers clone its start state. Throws GRAMMAR_INVALID.
class Grammar {
 public:
  Grammar(const Model& model, const std::string& gbnf);
  llama_sampler* handle() const { return sampler_.get(); }

  struct Deleter {
    void operator()(llama_sampler* sampler) const { llama_sampler_free(sampler); }
  };

 private:
  std::unique_ptr<llama_sampler, Deleter> sampler_;
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

  void penalise();
  void maskByGrammar();
  bool grammarAccepts(Token token) const;
  Token choose(const float* logits);
  Token draw(const float* logits, float top);
  std::vector<Candidate> truncate(const float* logits, float top, double total) const;

  const Model& model_;
  SamplingSettings settings_;
  Random random_;
  std::unique_ptr<llama_sampler, Grammar::Deleter> grammar_;
  std::vector<Token> recent_;   // ring buffer of the last repeatWindow tokens
  size_t recentNext_ = 0;
  std::vector<float> adjusted_;  // penalised or masked copy of the row
  std::vector<float> weights_;      // exp of the tempered row
  std::vector<double> blockSums_;
  std::vector<llama_token_data> masked_;
};

}  // namespace isopro
