// Follows a generated text through a grammar, as the set of all ways in which the rules can have
// led there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "inference/grammar_rules.h"
#include "inference/vocabulary.h"

namespace isopro {

// The sets are interned and the steps between them kept, so that testing a whole vocabulary walks
// each common beginning once. Copies are independent; a matcher belongs to one sequence. The rules
// must outlive it.
class GrammarMatcher {
 public:
  // Throws GRAMMAR_INVALID where even the first character can come about in more ways than can be
  // followed.
  explicit GrammarMatcher(const GrammarRules& rules);

  // Whether the grammar allows these bytes next; they may end within a UTF-8 sequence. Throws
  // GRAMMAR_INVALID where the grammar is too ambiguous to be followed.
  bool allows(std::string_view bytes);
  // Goes on by bytes that it allows; returns false, and stays, where it does not.
  bool accept(std::string_view bytes);
  // Whether the text may end here.
  bool mayEnd() const {
    return states_[static_cast<std::size_t>(now_.state)].complete && now_.missing == 0;
  }

  // A name of what may follow, the same in every matcher of these rules; empty where it would be
  // long.
  std::string place() const;

  // The tokens of the vocabulary whose bytes are allowed next. Throws GRAMMAR_INVALID as `allows`
  // does.
  void allowedTokens(const Vocabulary& vocabulary, const std::function<void(std::int32_t)>& found);

 private:
  // A symbol that is to be matched, and what is to be matched after its rule.
  struct StackNode {
    std::uint32_t position;  // in rules_.symbols
    std::int32_t parent;     // node; -1: nothing
  };
  struct State {
    std::vector<std::int32_t> nodes;  // each at a character set; ascending
    bool complete;
    std::vector<std::int32_t> next;  // states after the first kinds of code points, or `unknown`
  };
  // A state between code points, and the bytes of one that has begun.
  struct Place {
    std::int32_t state;
    std::uint32_t partial = 0;
    int missing = 0;  // bytes
  };

  std::int32_t node(std::uint32_t position, std::int32_t parent);
  std::int32_t closure(std::vector<StackNode> open);
  std::int32_t intern(std::vector<std::int32_t> nodes, bool complete);
  std::uint32_t kindOf(std::uint32_t codePoint) const;
  std::int32_t step(std::int32_t state, std::uint32_t codePoint);
  std::int32_t stepAnew(std::int32_t state, std::uint32_t codePoint);
  bool advance(Place& place, std::string_view bytes);
  bool canContinue(const Place& place) const;
  void limitMemory();
  void forgetOldStates();

  const GrammarRules* rules_;
  std::array<std::uint8_t, 128> asciiKinds_;  // at most as many as there are
  std::vector<StackNode> nodes_;
  std::unordered_map<std::uint64_t, std::int32_t> nodeIds_;
  std::vector<State> states_;
  std::unordered_map<std::string, std::int32_t>
      stateIds_;  // by the bytes of `nodes` and `complete`
  std::unordered_map<std::uint64_t, std::int32_t>
      steps_;                   // by state and kind of code point, where that is not in State::next
  std::size_t needed_ = 0;      // nodes that remained when old ones were last forgotten
  std::size_t expansions_ = 0;  // places looked at since the last call began
  Place now_{0};
};

}  // namespace isopro
