#include "inference/grammar_rules.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "inference/grammar_analysis.h"
#include "support/error.h"

namespace isopro {
namespace {

constexpr std::size_t longestText = 1u << 20;
constexpr int deepestNesting = 200;
constexpr std::uint64_t mostRepetitions = 10'000;
constexpr std::size_t mostSymbols = 200'000;  // after repetitions are written out

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  GrammarRules parse() {
    if (text_.size() > longestText)
      throw Error(ErrorCode::grammarInvalid, "the grammar has more than 2^20 bytes");
    skipSpace(true);
    while (!atEnd()) {
      parseRule();
      skipSpace(true);
    }
    finish();
    return std::move(result_);
  }

 private:
  using Symbols = std::vector<GrammarSymbol>;

  [[noreturn]] void failAt(std::size_t position, const std::string& what) const {
    const std::string_view before(text_.data(), std::min(position, text_.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t newline = before.rfind('\n');
    const std::size_t column =
        before.size() - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
    throw Error(ErrorCode::grammarInvalid, "line " + std::to_string(line) + ", column " +
                                               std::to_string(column) + ": " + what);
  }
  [[noreturn]] void fail(const std::string& what) const { failAt(position_, what); }

  bool atEnd() const { return position_ == text_.size(); }
  char peek() const { return atEnd() ? '\0' : text_[position_]; }
  bool take(char c) {
    if (atEnd() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  // Blanks and comments; the end of a line only where the rule may go on after it.
  void skipSpace(bool newlines) {
    for (;;) {
      const char c = peek();
      if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) {
        ++position_;
      } else if (c == '#') {
        while (!atEnd() && peek() != '\n' && peek() != '\r') ++position_;
      } else {
        return;
      }
    }
  }

  static bool isDigit(char c) { return c >= '0' && c <= '9'; }
  static bool isNameCharacter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || isDigit(c) || c == '-';
  }

  std::string name() {
    const std::size_t start = position_;
    while (isNameCharacter(peek())) ++position_;
    if (position_ == start) fail("expected the name of a rule");
    return text_.substr(start, position_ - start);
  }

  std::uint32_t newRule() {
    if (result_.rules.size() >= mostSymbols) fail("the grammar is too large");
    result_.rules.emplace_back();
    return static_cast<std::uint32_t>(result_.rules.size() - 1);
  }

  std::uint32_t ruleNamed(const std::string& name, std::size_t position) {
    const auto [found, isNew] = names_.try_emplace(name, Named{0, position, false});
    if (isNew) found->second.rule = newRule();
    return found->second.rule;
  }

  void addAlternative(std::uint32_t rule, const Symbols& sequence) {
    if (result_.symbols.size() + sequence.size() >= mostSymbols)
      fail("the grammar is too large, its repetitions written out");
    result_.rules[rule].push_back(static_cast<std::uint32_t>(result_.symbols.size()));
    result_.symbols.insert(result_.symbols.end(), sequence.begin(), sequence.end());
    result_.symbols.push_back({GrammarSymbol::End, 0});
  }

  void parseRule() {
    const std::size_t start = position_;
    const std::string name = this->name();
    const std::uint32_t rule = ruleNamed(name, start);
    if (names_.at(name).defined) failAt(start, "rule " + name + " is defined twice");
    names_.at(name).defined = true;
    skipSpace(false);
    if (!take(':') || !take(':') || !take('=')) fail("expected ::=");
    parseAlternatives(rule, 0);
    if (!atEnd() && peek() != '\n' && peek() != '\r') fail("expected the end of the rule");
  }

  void parseAlternatives(std::uint32_t rule, int depth) {
    do {
      skipSpace(true);
      addAlternative(rule, parseSequence(depth));
    } while (take('|'));
  }

  Symbols parseSequence(int depth) {
    Symbols sequence;
    Symbols item;  // the last item, to which a repetition applies
    bool repeatable = false;
    const auto flush = [&] {
      sequence.insert(sequence.end(), item.begin(), item.end());
      item.clear();
    };
    for (;; skipSpace(depth > 0)) {
      const char c = peek();
      if (c == '"' || c == '[' || c == '.' || c == '(' || isNameCharacter(c)) {
        flush();
        item = parseItem(depth);
        repeatable = !item.empty();
      } else if (c == '*' || c == '+' || c == '?' || c == '{') {
        if (!repeatable) fail("there is nothing to repeat");
        item = repeat(item, depth);
        repeatable = !item.empty();
      } else if (c == '<' || c == '!') {
        fail("token terminals are not supported");
      } else {
        flush();
        return sequence;
      }
      if (sequence.size() + item.size() > mostSymbols)
        fail("the grammar is too large, its repetitions written out");
    }
  }

  Symbols parseItem(int depth) {
    if (take('.')) return {set({{{0, lastCodePoint}}})};
    if (take('(')) {
      if (depth == deepestNesting)
        fail("parentheses are nested more than " + std::to_string(deepestNesting) + " deep");
      const std::uint32_t rule = newRule();
      parseAlternatives(rule, depth + 1);
      if (!take(')')) fail("expected )");
      return {{GrammarSymbol::Rule, rule}};
    }
    if (peek() == '"') return parseLiteral();
    if (peek() == '[') return {set(parseSet())};
    const std::size_t start = position_;
    return {{GrammarSymbol::Rule, ruleNamed(name(), start)}};
  }

  GrammarSymbol set(CharacterSet characters) {
    result_.sets.push_back(std::move(characters));
    return {GrammarSymbol::Set, static_cast<std::uint32_t>(result_.sets.size() - 1)};
  }

  Symbols parseLiteral() {
    const std::size_t start = position_++;
    Symbols sequence;
    while (!take('"')) {
      if (atEnd()) failAt(start, "the text has no closing quotation mark");
      const std::size_t at = position_;
      const std::uint32_t c = character();
      if (!CharacterSet{{{c, c}}}.hasCharacters()) failAt(at, "a surrogate is not a character");
      sequence.push_back(set({{{c, c}}}));
    }
    return sequence;
  }

  CharacterSet parseSet() {
    const std::size_t start = position_++;
    const bool negated = take('^');
    CharacterSet characters;
    while (!take(']')) {
      if (atEnd()) failAt(start, "the character set has no closing bracket");
      const std::size_t at = position_;
      const std::uint32_t low = character();
      std::uint32_t high = low;
      if (peek() == '-' && position_ + 1 < text_.size() && text_[position_ + 1] != ']') {
        ++position_;
        high = character();
        if (high < low) failAt(at, "the range ends before it begins");
      }
      characters.ranges.emplace_back(low, high);
    }
    if (!characters.ranges.empty()) characters = unionOf(std::move(characters.ranges), negated);
    if (!characters.hasCharacters()) failAt(start, "the character set is empty");
    return characters;
  }

  std::uint32_t character() {
    if (!take('\\')) return utf8();
    if (atEnd()) fail("the escape ends too early");
    const std::size_t at = position_ - 1;
    const char c = text_[position_++];
    switch (c) {
      case 'x':
        return hexadecimal(2);
      case 'u':
        return hexadecimal(4);
      case 'U':
        return hexadecimal(8);
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'n':
        return '\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
        return static_cast<std::uint32_t>(c);
      default:
        failAt(at, "unknown escape");
    }
  }

  std::uint32_t hexadecimal(int digits) {
    std::uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = peek();
      const int digit = isDigit(c)             ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) fail("expected " + std::to_string(digits) + " hexadecimal digits");
      value = value * 16 + static_cast<std::uint32_t>(digit);
      ++position_;
    }
    if (value > lastCodePoint) fail("there is no such code point");
    return value;
  }

  std::uint32_t utf8() {
    const auto first = static_cast<unsigned char>(text_[position_]);
    const int length = first < 0x80                    ? 1
                       : first >= 0xc2 && first < 0xe0 ? 2
                       : first >= 0xe0 && first < 0xf0 ? 3
                       : first >= 0xf0 && first < 0xf5 ? 4
                                                       : 0;
    if (first == 0 || length == 0 || text_.size() - position_ < static_cast<std::size_t>(length))
      fail("this is not UTF-8 text");
    std::uint32_t value = length == 1 ? first : first & (0x7fu >> length);
    for (int i = 1; i < length; ++i) {
      const auto next = static_cast<unsigned char>(text_[position_ + static_cast<std::size_t>(i)]);
      if ((next & 0xc0) != 0x80) fail("this is not UTF-8 text");
      value = (value << 6) | (next & 0x3f);
    }
    position_ += static_cast<std::size_t>(length);
    return value;
  }

  std::uint64_t number() {
    if (!isDigit(peek())) fail("expected a number");
    std::uint64_t value = 0;
    const std::size_t start = position_;
    for (; isDigit(peek()); ++position_) {
      value = value * 10 + static_cast<std::uint64_t>(peek() - '0');
      if (value > mostRepetitions)
        failAt(start, "more than " + std::to_string(mostRepetitions) + " repetitions");
    }
    return value;
  }

  // x* is R ::= x R | (nothing); x{2,4} is x x (x (x)?)?.
  Symbols repeat(const Symbols& item, int depth) {
    const std::size_t start = position_;
    std::uint64_t least = 0;
    std::uint64_t most = 1;
    bool endless = false;
    switch (text_[position_++]) {
      case '*':
        endless = true;
        break;
      case '+':
        least = 1;
        endless = true;
        break;
      case '?':
        break;
      default:  // {
        skipSpace(depth > 0);
        least = most = number();
        skipSpace(depth > 0);
        if (take(',')) {
          skipSpace(depth > 0);
          endless = !isDigit(peek());
          if (!endless) most = number();
          skipSpace(depth > 0);
        }
        if (!take('}')) fail("expected }");
        if (!endless && most < least)
          failAt(start, "the largest number of repetitions is below the smallest");
    }
    GrammarSymbol one = item.front();
    if (item.size() > 1) {
      one = {GrammarSymbol::Rule, newRule()};
      addAlternative(one.index, item);
    }
    Symbols repeated(static_cast<std::size_t>(least), one);
    if (endless) {
      const std::uint32_t rule = newRule();
      addAlternative(rule, {one, {GrammarSymbol::Rule, rule}});
      addAlternative(rule, {});
      repeated.push_back({GrammarSymbol::Rule, rule});
    } else if (most > least) {
      Symbols tail = {one};
      for (std::uint64_t i = least; i < most; ++i) {
        const std::uint32_t rule = newRule();
        addAlternative(rule, tail);
        addAlternative(rule, {});
        tail = {one, {GrammarSymbol::Rule, rule}};
      }
      repeated.push_back(
          {GrammarSymbol::Rule, static_cast<std::uint32_t>(result_.rules.size() - 1)});
    }
    return repeated;
  }

  void finish() {
    for (const auto& [name, named] : names_) {
      if (!named.defined) failAt(named.position, "rule " + name + " is not defined");
    }
    const auto root = names_.find("root");
    if (root == names_.end())
      throw Error(ErrorCode::grammarInvalid, "the grammar has no rule \"root\"");
    result_.root = root->second.rule;
    refuseUnproductive();
    refuseLeftRecursion();
    result_.kinds = {0};
    for (const CharacterSet& set : result_.sets) {
      for (const auto& [low, high] : set.ranges)
        result_.kinds.insert(result_.kinds.end(), {low, high + 1});
    }
    std::sort(result_.kinds.begin(), result_.kinds.end());
    result_.kinds.erase(std::unique(result_.kinds.begin(), result_.kinds.end()),
                        result_.kinds.end());
  }

  // A rule that no text completes, since each of its alternatives needs another one such: root ::=
  // root, or "a" root.
  void refuseUnproductive() const {
    const std::vector<bool> productive = productiveRules(result_);
    std::string unproductive;
    std::size_t position = 0;
    for (const auto& [name, named] : names_) {
      if (productive[named.rule]) continue;
      if (unproductive.empty()) position = named.position;
      unproductive += (unproductive.empty() ? "" : ", ") + name;
    }
    if (!unproductive.empty())
      failAt(position, "no text completes the rule " + unproductive +
                           ": each alternative leads back to a rule that none completes");
  }

  // Names a rule of the circle that the caller wrote.
  void refuseLeftRecursion() const {
    const std::vector<bool> circle = leftRecursiveRules(result_);
    if (circle.empty()) return;
    for (const auto& [name, named] : names_) {
      if (circle[named.rule]) failAt(named.position, "rule " + name + " is left-recursive");
    }
    throw Error(ErrorCode::grammarInvalid, "a group is left-recursive");
  }

  struct Named {
    std::uint32_t rule;
    std::size_t position;  // of its first mention
    bool defined;
  };

  const std::string& text_;
  std::size_t position_ = 0;
  std::map<std::string, Named> names_;
  GrammarRules result_;
};

}  // namespace

GrammarRules parseGrammar(const std::string& gbnf) { return Parser(gbnf).parse(); }

}  // namespace isopro
