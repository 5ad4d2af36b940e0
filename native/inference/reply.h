// A reply that grows token by token: its text, and when it ends.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "inference/model.h"
#include "inference/sampler.h"

namespace isopro {

enum class Finish { kStop, kLength, kAborted };

struct Reply {
  std::vector<Token> tokens;  // exactly as sampled, the end-of-turn or stop token included
  std::vector<float> logProbabilities;  // one a token, untempered
  std::vector<float>
      sampledLogProbabilities;  // one a token, of the distribution that it was drawn from
  std::vector<std::vector<TokenChance>>
      top;           // one a token, as in Sampled; empty where none were asked for
  std::string text;  // without end-of-turn token and stop string; may end inside a UTF-8 character
  Finish finish = Finish::kStop;
  bool notActivated = false;  // the prompt lacks the adapter's invocation tokens: the base answered
};

struct ReplyLimits {
  int maxTokens = 256;
  std::vector<std::string> stopStrings;
  std::vector<Token> stopTokens;
  std::string stopBefore;  // from this text on, stop strings and stop tokens end nothing; empty:
                           // they hold everywhere
  bool ignoreEndOfSequence = false;
  int minTokens = 0;  // nothing ends the reply before, but a grammar

  // Throws INVALID_ARGUMENT.
  void check(const Model& model) const;
  // Whether a prompt and its reply have room in `cells` tokens of KV cache. Throws
  // INVALID_ARGUMENT, CONTEXT_OVERFLOW.
  void checkPrompt(const Model& model, const std::vector<Token>& prompt, const std::string& name,
                   int cells) const;

  // What a sampler is not to draw yet.
  HeldBack heldBack(const Model& model) const;

  // Adds a sampled token to a reply and says whether that was the last. `searched`: bytes of the
  // text in which no stop string ends.
  bool accept(const Model& model, const Sampled& sampled, Reply& reply, size_t& searched) const;

  // Bytes of an unfinished text that no later token changes: what may begin a stop string, and the
  // part of a UTF-8 character, wait.
  size_t settled(const std::string& text) const;

 private:
  bool cutAtStopString(std::string& text, size_t searched, size_t end) const;
  // Bytes of a text in which stops hold: up to stopBefore, or to what may turn out to begin it.
  size_t stoppable(const std::string& text) const;
};

// Whether the vocabulary has the tokens that a bias is for. Throws INVALID_ARGUMENT.
void checkBias(const Model& model, const SamplingSettings& sampling);

}  // namespace isopro
