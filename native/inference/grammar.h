// A GBNF grammar over a vocabulary: which tokens may come next.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "inference/grammar_matcher.h"
#include "inference/grammar_rules.h"
#include "inference/vocabulary.h"

namespace isopro {

// One bit a token.
using TokenSet = std::vector<std::uint64_t>;

// Shared by the sequences of a request, from any thread; outlives the matchers that follow it.
class Grammar {
 public:
  // Throws GRAMMAR_INVALID.
  Grammar(std::shared_ptr<const Vocabulary> vocabulary, const std::string& gbnf);

  GrammarMatcher start() const { return GrammarMatcher(rules_); }
  bool allows(GrammarMatcher& matcher, std::int32_t token) const;
  void accept(GrammarMatcher& matcher, std::int32_t token) const;

  // All tokens that the grammar allows next. The vocabulary is walked as a tree, once for each
  // place of the grammar that any of the sequences comes to, while memory for the answers lasts.
  // Throws GRAMMAR_INVALID where there is none.
  std::shared_ptr<const TokenSet> allowed(GrammarMatcher& matcher) const;

 private:
  std::shared_ptr<const TokenSet> walk(GrammarMatcher& matcher) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  GrammarRules rules_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::shared_ptr<const TokenSet>>
      known_;  // by GrammarMatcher::place
};

}  // namespace isopro
