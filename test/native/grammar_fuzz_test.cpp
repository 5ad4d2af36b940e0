// Grammars that are generated, not written: what the parser accepts, what the matcher allows and
// where a text may end, against a recogniser that works on the generated tree itself.
// ISOPRO_FULL=1: a million grammars.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "inference/grammar.h"
#include "support/error.h"
#include "support/random.h"

namespace {

using isopro::ErrorCode;
using isopro::Grammar;
using isopro::GrammarMatcher;
using isopro::TokenSet;
using isopro::Vocabulary;
using Text = std::vector<std::uint32_t>;  // code points

const Text kAlphabet = {'a', 'b', 'c', '"', '\n', 0xe9, 0x2603, 0x1f600};
constexpr std::size_t kLongest = 9;  // characters of a text

std::string utf8(std::uint32_t c) {
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
  if (c < 0x10000)
    return {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3f)),
            static_cast<char>(0x80 | (c & 0x3f))};
  return {static_cast<char>(0xf0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3f)),
          static_cast<char>(0x80 | (c >> 6 & 0x3f)), static_cast<char>(0x80 | (c & 0x3f))};
}

std::string utf8(const Text& text) {
  std::string bytes;
  for (const std::uint32_t c : text) bytes += utf8(c);
  return bytes;
}

struct Expression {
  enum Kind { kSet, kSequence, kChoice, kRepeat, kReference } kind;
  std::vector<Expression> parts;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges;
  bool negated = false;
  int least = 0;
  int most = 0;  // -1: no end
  std::size_t rule = 0;

  bool contains(std::uint32_t c) const {
    return negated != std::any_of(ranges.begin(), ranges.end(), [c](const auto& range) {
             return range.first <= c && c <= range.second;
           });
  }
};

// A grammar as a tree, and as GBNF.
class Generator {
 public:
  explicit Generator(isopro::Random& random) : random_(random) {
    const std::size_t count = 1 + below(4);
    rules.resize(count);
    for (std::size_t rule = 0; rule < count; ++rule) {
      gbnf += name(rule) + (below(8) == 0 ? "  ::= " : " ::= ");
      rules[rule] = choice(deepest, rule);
      gbnf += below(8) == 0 ? " # a comment\n\n" : "\n";
    }
  }

  std::vector<Expression> rules;
  std::string gbnf;

 private:
  static constexpr int deepest = 3;  // groups within each other

  std::size_t below(std::size_t limit) {
    return static_cast<std::size_t>(random_.nextUint64() % limit);
  }
  static std::string name(std::size_t rule) {
    return rule == 0 ? "root" : std::string("r-") + static_cast<char>('0' + rule);
  }

  Expression choice(int depth, std::size_t rule) {
    Expression made{Expression::kChoice, {}, {}};
    const std::size_t alternatives = 1 + below(3);
    for (std::size_t i = 0; i < alternatives; ++i) {
      if (i > 0) gbnf += below(6) == 0 ? " |\n  " : " | ";
      made.parts.push_back(sequence(depth, rule));
    }
    return made;
  }

  Expression sequence(int depth, std::size_t rule) {
    Expression made{Expression::kSequence, {}, {}};
    const std::size_t items = below(8) == 0 ? 0 : 1 + below(3);
    // Outside of parentheses what follows nothing at all would be the next rule.
    if (items == 0 && (depth == deepest || below(2) == 0)) gbnf += "\"\"";
    for (std::size_t i = 0; i < items; ++i) {
      if (i > 0) gbnf += ' ';
      Expression one = item(depth, rule);
      made.parts.push_back(below(3) == 0 ? repeated(std::move(one)) : std::move(one));
    }
    return made;
  }

  Expression item(int depth, std::size_t rule) {
    const std::size_t kind = below(10);
    if (kind < 3 && depth > 0) {
      gbnf += '(';
      Expression made = choice(depth - 1, rule);
      gbnf += ')';
      return made;
    }
    if (kind == 3) {
      // Mostly a later rule, or each grammar would have a circle.
      const std::size_t to = below(3) == 0 || rule + 1 == rules.size()
                                 ? below(rules.size())
                                 : rule + 1 + below(rules.size() - rule - 1);
      gbnf += name(to);
      return {Expression::kReference, {}, {}, false, 0, 0, to};
    }
    if (kind == 4) {
      gbnf += '.';
      return {Expression::kSet, {}, {}, true};
    }
    if (kind < 8) return set();
    gbnf += '"';
    const std::size_t length = 1 + below(3);
    Expression made{Expression::kSequence, {}, {}};
    for (std::size_t i = 0; i < length; ++i) {
      const std::uint32_t c = kAlphabet[below(kAlphabet.size())];
      made.parts.push_back({Expression::kSet, {}, {{c, c}}});
      write(c);
    }
    gbnf += '"';
    if (length == 1) return made.parts.front();
    return made;
  }

  Expression set() {
    Expression made{Expression::kSet, {}, {}};
    made.negated = below(3) == 0;
    gbnf += made.negated ? "[^" : "[";
    for (std::size_t i = 1 + below(2); i > 0; --i) {
      std::uint32_t low = kAlphabet[below(kAlphabet.size())];
      std::uint32_t high = below(2) == 0 ? low : kAlphabet[below(kAlphabet.size())];
      if (high < low) std::swap(low, high);
      made.ranges.emplace_back(low, high);
      write(low);
      if (high != low) {
        gbnf += '-';
        write(high);
      }
    }
    gbnf += ']';
    return made;
  }

  void write(std::uint32_t c) {
    constexpr char digits[] = "0123456789ABCDEF";
    if (c == '"')
      gbnf += "\\\"";
    else if (c == '\n')
      gbnf += "\\n";
    else if (below(2) == 0)
      gbnf += utf8(c);
    else {
      gbnf += c < 0x80 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
      for (int shift = c < 0x80 ? 4 : c < 0x10000 ? 12 : 28; shift >= 0; shift -= 4)
        gbnf += digits[c >> shift & 15];
    }
  }

  Expression repeated(Expression one) {
    Expression made{Expression::kRepeat, {}, {}};
    made.parts.push_back(std::move(one));
    const auto number = [&] { return static_cast<int>(below(4)); };
    switch (below(6)) {
      case 0:
        gbnf += '*';
        made.most = -1;
        break;
      case 1:
        gbnf += '+';
        made.least = 1;
        made.most = -1;
        break;
      case 2:
        gbnf += '?';
        made.most = 1;
        break;
      case 3:
        made.least = made.most = number();
        gbnf += "{" + std::to_string(made.least) + "}";
        break;
      case 4:
        made.least = number();
        made.most = -1;
        gbnf += "{" + std::to_string(made.least) + ",}";
        break;
      default:
        made.least = number();
        made.most = made.least + number();
        gbnf += "{" + std::to_string(made.least) + ", " + std::to_string(made.most) + "}";
    }
    return made;
  }

  isopro::Random& random_;
};

// Which texts are in the language, by the least fixed point of "rule r derives characters i to j of
// the text": slow, without any state of a parser, and indifferent to ambiguity and left recursion.
class Recogniser {
 public:
  explicit Recogniser(const std::vector<Expression>& rules)
      : rules_(rules), productive_(rules.size(), false), nullable_(rules.size(), false) {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t rule = 0; rule < rules.size(); ++rule) {
        changed |= raise(productive_, rule, derives(rules[rule], productive_, true)) |
                   raise(nullable_, rule, derives(rules[rule], nullable_, false));
      }
    }
  }

  bool everyRuleEnds() const {
    return std::all_of(productive_.begin(), productive_.end(), [](bool it) { return it; });
  }

  // Whether a rule reaches itself before any character.
  bool hasLeftCycle() const {
    std::vector<std::vector<bool>> reaches(rules_.size(), std::vector<bool>(rules_.size(), false));
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) leftmost(rules_[rule], reaches[rule]);
    for (std::size_t through = 0; through < rules_.size(); ++through) {
      for (auto& row : reaches) {
        for (std::size_t to = 0; row[through] && to < rules_.size(); ++to)
          row[to] = row[to] || reaches[through][to];
      }
    }
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      if (reaches[rule][rule]) return true;
    }
    return false;
  }

  void read(const Text& text) {
    text_ = &text;
    ends_.assign(rules_.size(), std::vector<std::uint32_t>(text.size() + 1, 0));
    begins_.assign(rules_.size(), std::vector<bool>(text.size() + 1, false));
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
        for (std::size_t at = 0; at <= text.size(); ++at) {
          const std::uint32_t found = ends(rules_[rule], at);
          changed |= found != ends_[rule][at];
          ends_[rule][at] = found;
          changed |= raise(begins_[rule], at, begins(rules_[rule], at));
        }
      }
    }
  }
  bool member() const { return (ends_[0][0] >> text_->size() & 1) != 0; }
  bool prefix() const { return begins_[0][0]; }  // of a member, where every rule ends

 private:
  static bool raise(std::vector<bool>& values, std::size_t at, bool value) {
    const bool changed = value && !values[at];
    if (changed) values[at] = true;
    return changed;
  }

  bool derives(const Expression& e, const std::vector<bool>& known, bool withCharacters) const {
    const auto recurse = [&](const Expression& part) {
      return derives(part, known, withCharacters);
    };
    switch (e.kind) {
      case Expression::kSet:
        return withCharacters;
      case Expression::kReference:
        return known[e.rule];
      case Expression::kSequence:
        return std::all_of(e.parts.begin(), e.parts.end(), recurse);
      case Expression::kChoice:
        return std::any_of(e.parts.begin(), e.parts.end(), recurse);
      case Expression::kRepeat:
        return e.least == 0 || recurse(e.parts.front());
    }
    return false;
  }

  void leftmost(const Expression& e, std::vector<bool>& reached) const {
    if (e.kind == Expression::kReference) reached[e.rule] = true;
    for (const Expression& part : e.parts) {
      leftmost(part, reached);
      if (e.kind == Expression::kSequence && !derives(part, nullable_, false)) return;
    }
  }

  // The set of positions, as bits, up to which the expression can read from `at`.
  std::uint32_t ends(const Expression& e, std::size_t at) const {
    switch (e.kind) {
      case Expression::kSet:
        return at < text_->size() && e.contains((*text_)[at]) ? 2u << at : 0;
      case Expression::kReference:
        return ends_[e.rule][at];
      case Expression::kChoice: {
        std::uint32_t found = 0;
        for (const Expression& part : e.parts) found |= ends(part, at);
        return found;
      }
      case Expression::kSequence: {
        std::uint32_t from = 1u << at;
        for (const Expression& part : e.parts) from = after(part, from);
        return from;
      }
      case Expression::kRepeat: {
        std::uint32_t from = 1u << at;
        for (int i = 0; i < e.least; ++i) from = after(e.parts.front(), from);
        // As long as anything is added where there is no end: at most once a character.
        for (int i = e.least;
             e.most < 0 ? i <= e.least + static_cast<int>(text_->size()) : i < e.most; ++i)
          from |= after(e.parts.front(), from);
        return from;
      }
    }
    return 0;
  }

  std::uint32_t after(const Expression& e, std::uint32_t from) const {
    std::uint32_t found = 0;
    for (std::size_t at = 0; at <= text_->size(); ++at) {
      if ((from >> at & 1) != 0) found |= ends(e, at);
    }
    return found;
  }

  bool beginsFrom(const Expression& e, std::uint32_t from) const {
    for (std::size_t at = 0; at <= text_->size(); ++at) {
      if ((from >> at & 1) != 0 && begins(e, at)) return true;
    }
    return false;
  }

  // Whether the text from `at` to its end begins something that the expression derives.
  bool begins(const Expression& e, std::size_t at) const {
    switch (e.kind) {
      case Expression::kSet:
        return at == text_->size() || (at + 1 == text_->size() && e.contains((*text_)[at]));
      case Expression::kReference:
        return begins_[e.rule][at];
      case Expression::kChoice:
        return std::any_of(e.parts.begin(), e.parts.end(),
                           [&](const Expression& part) { return begins(part, at); });
      case Expression::kSequence: {
        std::uint32_t from = 1u << at;
        for (const Expression& part : e.parts) {
          if (beginsFrom(part, from)) return true;
          from = after(part, from);
        }
        return (from >> text_->size() & 1) != 0;
      }
      case Expression::kRepeat: {
        std::uint32_t from = 1u << at;
        const int most = e.most < 0 ? e.least + static_cast<int>(text_->size()) + 1 : e.most;
        for (int i = 0; i < most; ++i) {
          if (beginsFrom(e.parts.front(), from)) return true;
          from = after(e.parts.front(), from) | (i >= e.least ? from : 0);
        }
        return (from >> text_->size() & 1) != 0;
      }
    }
    return false;
  }

  const std::vector<Expression>& rules_;
  std::vector<bool> productive_;
  std::vector<bool> nullable_;
  const Text* text_ = nullptr;
  std::vector<std::vector<std::uint32_t>> ends_;  // [rule][position]: positions as bits
  std::vector<std::vector<bool>> begins_;
};

// Writes a text of the language, or gives up.
bool derive(const std::vector<Expression>& rules, const Expression& e, isopro::Random& random,
            int& budget, Text& text) {
  if (--budget < 0 || text.size() > kLongest) return false;
  switch (e.kind) {
    case Expression::kSet: {
      Text members;
      std::copy_if(kAlphabet.begin(), kAlphabet.end(), std::back_inserter(members),
                   [&](std::uint32_t c) { return e.contains(c); });
      text.push_back(members.empty() ? 'z' : members[random.nextUint64() % members.size()]);
      return true;
    }
    case Expression::kReference:
      return derive(rules, rules[e.rule], random, budget, text);
    case Expression::kChoice:
      return derive(rules, e.parts[random.nextUint64() % e.parts.size()], random, budget, text);
    case Expression::kSequence:
      return std::all_of(e.parts.begin(), e.parts.end(), [&](const Expression& part) {
        return derive(rules, part, random, budget, text);
      });
    case Expression::kRepeat: {
      const int extra = e.most < 0 ? 2 : e.most - e.least;
      const int count =
          e.least + static_cast<int>(random.nextUint64() % static_cast<std::uint64_t>(extra + 1));
      for (int i = 0; i < count; ++i) {
        if (!derive(rules, e.parts.front(), random, budget, text)) return false;
      }
      return true;
    }
  }
  return false;
}

Text randomText(const std::vector<Expression>& rules, isopro::Random& random) {
  const auto letter = [&] { return kAlphabet[random.nextUint64() % kAlphabet.size()]; };
  Text text;
  int budget = 60;
  if (random.nextUint64() % 4 == 0 || !derive(rules, rules[0], random, budget, text)) {
    if (text.empty() || random.nextUint64() % 2 == 0) {
      text.clear();
      for (auto length = random.nextUint64() % 5; length > 0; --length) text.push_back(letter());
    }
  }
  if (text.size() > kLongest) text.resize(kLongest);
  const auto at = static_cast<std::ptrdiff_t>(random.nextUint64() % (text.size() + 1));
  switch (random.nextUint64() % 8) {
    case 0:
      text.insert(text.begin() + at, letter());
      break;
    case 1:
      text.resize(static_cast<std::size_t>(at));
      break;
    case 2:
      if (static_cast<std::size_t>(at) < text.size()) text[static_cast<std::size_t>(at)] = letter();
      break;
    default:
      break;
  }
  if (text.size() > kLongest) text.resize(kLongest);
  return text;
}

// All letters, pairs of some, and pieces that end or begin within a character.
std::shared_ptr<const Vocabulary> vocabulary() {
  std::vector<std::string> pieces;
  for (const std::uint32_t c : kAlphabet) pieces.push_back(utf8(c));
  for (const char* piece : {"", "ab", "abc", "ba", "aa", "c\n", "\xc3", "\xa9", "\xe2", "\xe2\x98",
                            "\x98\x83", "\x83", "\xf0\x9f", "\x98\x80", "a\xc3", "z", "\xff", ""})
    pieces.push_back(piece);
  const auto last = static_cast<std::int32_t>(pieces.size()) - 1;
  return std::make_shared<const Vocabulary>(std::move(pieces), std::vector<std::int32_t>{last});
}

struct Counts {
  int accepted = 0;
  int endless = 0;
  int leftRecursive = 0;
  int ambiguous = 0;
  int texts = 0;
  int members = 0;
  int prefixes = 0;
};

class FuzzCase {
 public:
  FuzzCase(std::uint64_t seed, const std::shared_ptr<const Vocabulary>& vocabulary, Counts& counts)
      : seed_(seed),
        random_(seed),
        generated_(random_),
        recogniser_(generated_.rules),
        vocabulary_(vocabulary),
        counts_(counts) {}

  void run() {
    std::string refusal;
    std::unique_ptr<Grammar> grammar;
    try {
      grammar = std::make_unique<Grammar>(vocabulary_, generated_.gbnf);
    } catch (const isopro::Error& error) {
      refusal = error.what();
    }
    if (refusal.empty()) {
      ++counts_.accepted;
      expect(recogniser_.everyRuleEnds(), "a rule that no text completes was accepted");
      try {
        for (int i = 0; i < 3; ++i) compare(*grammar, randomText(generated_.rules, random_));
        compareTokens(*grammar);
      } catch (const isopro::Error& error) {
        ++counts_.ambiguous;
        expect(std::string(error.what()).find("too ambiguous") != std::string::npos, error.what());
      }
    } else if (refusal.find("no text completes") != std::string::npos) {
      ++counts_.endless;
      expect(!recogniser_.everyRuleEnds(), refusal);
    } else {
      ++counts_.leftRecursive;
      expect(refusal.find("left-recursive") != std::string::npos && recogniser_.hasLeftCycle(),
             refusal);
    }
    damage();
  }

 private:
  void expect(bool holds, const std::string& what) const {
    if (!holds)
      check::report(false, "grammar of seed", static_cast<int>(seed_),
                    what + "\n" + generated_.gbnf);
  }

  void compare(const Grammar& grammar, const Text& text) {
    recogniser_.read(text);
    ++counts_.texts;
    counts_.members += recogniser_.member();
    counts_.prefixes += recogniser_.prefix();
    const std::string bytes = utf8(text);
    GrammarMatcher matcher = grammar.start();
    bool follows = true;
    for (std::size_t at = 0, width; follows && at < bytes.size(); at += width) {
      width = std::min<std::size_t>(1 + random_.nextUint64() % 4, bytes.size() - at);
      const bool allowed = matcher.allows({bytes.data() + at, width});
      follows = matcher.accept({bytes.data() + at, width});
      expect(allowed == follows, "allows and accept differ in " + bytes);
    }
    expect(follows == recogniser_.prefix(),
           (follows ? "goes on after " : "refuses the beginning ") + bytes);
    expect((follows && matcher.mayEnd()) == recogniser_.member(),
           (follows && matcher.mayEnd() ? "takes " : "refuses ") + bytes);
  }

  // The set of allowed tokens, walked as a tree and remembered by place, against one token at a
  // time, along random tokens.
  void compareTokens(const Grammar& grammar) {
    GrammarMatcher matcher = grammar.start();
    for (int i = 0; i < 4; ++i) {
      std::vector<std::int32_t> allowed;
      for (std::int32_t token = 0; token < vocabulary_->size(); ++token) {
        if (grammar.allows(matcher, token)) allowed.push_back(token);
      }
      if (allowed.empty()) return;  // what follows is not in this vocabulary
      const auto set = grammar.allowed(matcher);
      TokenSet expected(set->size(), 0);
      for (const std::int32_t token : allowed)
        expected[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
      expect(*set == expected, "the walk finds other tokens");
      const std::int32_t next = allowed[random_.nextUint64() % allowed.size()];
      if (vocabulary_->isEnd(next)) return;
      grammar.accept(matcher, next);
    }
  }

  // Whatever text: a typed error or a matcher that works.
  void damage() {
    std::string text = generated_.gbnf;
    const std::string alphabet = "()[]{}|*+?.\"\\^-:=# \n,0r\xc3";
    for (auto edits = 1 + random_.nextUint64() % 3; edits > 0; --edits) {
      const std::size_t at = random_.nextUint64() % (text.size() + 1);
      text.replace(at, random_.nextUint64() % 3, 1,
                   alphabet[random_.nextUint64() % alphabet.size()]);
    }
    try {
      const Grammar grammar(vocabulary_, text);
      compareTokens(grammar);
    } catch (const isopro::Error& error) {
      expect(error.code() == ErrorCode::grammarInvalid, error.what());
    }
  }

  const std::uint64_t seed_;
  isopro::Random random_;
  const Generator generated_;
  Recogniser recogniser_;
  const std::shared_ptr<const Vocabulary>& vocabulary_;
  Counts& counts_;
};

TEST(grammar_generated_ones_agree_with_a_recogniser) {
#ifdef __SANITIZE_ADDRESS__
  const std::uint64_t most = 50'000;
#else
  const std::uint64_t most = 1'000'000;
#endif
  const std::uint64_t cases = check::full() ? most : 5'000;
  const auto tokens = vocabulary();
  Counts counts;
  for (std::uint64_t seed = 0; seed < cases; ++seed) FuzzCase(seed, tokens, counts).run();
  std::printf(
      "%d grammars accepted, %d without an end, %d left-recursive, %d too ambiguous; %d texts, %d "
      "of them members, %d prefixes\n",
      counts.accepted, counts.endless, counts.leftRecursive, counts.ambiguous, counts.texts,
      counts.members, counts.prefixes);
  const int all = static_cast<int>(cases);
  CHECK(counts.accepted > all / 2);
  CHECK(counts.endless > all / 50);
  CHECK(counts.leftRecursive > all / 50);
  CHECK(counts.ambiguous < all / 50);
  CHECK(counts.members > counts.texts / 4);
  CHECK(counts.texts - counts.prefixes > counts.texts / 10);
}

}  // namespace
