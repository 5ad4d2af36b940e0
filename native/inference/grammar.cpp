#include "inference/grammar.h"

#include <utility>

#include "support/error.h"

namespace isopro {
namespace {

constexpr std::size_t mostKnownBytes = 32u << 20;

}  // namespace

Grammar::Grammar(std::shared_ptr<const Vocabulary> vocabulary, const std::string& gbnf)
    : vocabulary_(std::move(vocabulary)), rules_(parseGrammar(gbnf)) {}

bool Grammar::allows(GrammarMatcher& matcher, std::int32_t token) const {
  if (vocabulary_->isEnd(token)) return matcher.mayEnd();
  const std::string& piece = vocabulary_->piece(token);
  return !piece.empty() && matcher.allows(piece);
}

void Grammar::accept(GrammarMatcher& matcher, std::int32_t token) const {
  if (!vocabulary_->isEnd(token)) matcher.accept(vocabulary_->piece(token));
}

std::shared_ptr<const TokenSet> Grammar::allowed(GrammarMatcher& matcher) const {
  const std::string place = matcher.place();
  if (place.empty()) return walk(matcher);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = known_.find(place); found != known_.end()) return found->second;
  }
  std::shared_ptr<const TokenSet> set = walk(matcher);
  const std::size_t bytes = set->size() * sizeof(TokenSet::value_type) + place.size();
  const std::lock_guard<std::mutex> lock(mutex_);
  if ((known_.size() + 1) * bytes > mostKnownBytes) known_.clear();
  known_[place] = set;
  return set;
}

std::shared_ptr<const TokenSet> Grammar::walk(GrammarMatcher& matcher) const {
  auto set =
      std::make_shared<TokenSet>((static_cast<std::size_t>(vocabulary_->size()) + 63) / 64, 0);
  bool any = false;
  const auto add = [&](std::int32_t token) {
    (*set)[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
    any = true;
  };
  matcher.allowedTokens(*vocabulary_, add);
  if (matcher.mayEnd()) {
    for (const std::int32_t token : vocabulary_->ends()) add(token);
  }
  if (!any)
    throw Error(ErrorCode::grammarInvalid,
                "no token of the vocabulary continues the text that the grammar has accepted");
  return set;
}

}  // namespace isopro
