// The GBNF parser and matcher: languages against std::regex and hand-written recognisers, errors
// with their place, and grammars that are meant to explode.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored \
    "-Wmaybe-uninitialized"  // GCC 12 suspects its own std::regex when the sanitisers are on
#endif

#include <chrono>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "check.h"
#include "inference/grammar.h"
#include "inference/grammar_matcher.h"
#include "inference/grammar_rules.h"
#include "inference/sampler.h"
#include "support/error.h"
#include "support/random.h"

namespace {

using isopro::ErrorCode;
using isopro::GrammarMatcher;
using isopro::GrammarRules;
using isopro::parseGrammar;

// Whether the whole text is in the language, read in pieces of `width` bytes.
bool matches(const GrammarRules& rules, const std::string& text, std::size_t width = 1) {
  GrammarMatcher matcher(rules);
  for (std::size_t at = 0; at < text.size(); at += width) {
    const std::string piece = text.substr(at, width);
    const bool allowed = matcher.allows(piece);
    if (allowed != matcher.accept(piece)) return false;
    if (!allowed) return false;
  }
  return matcher.mayEnd();
}

bool inLanguage(const std::string& gbnf, const std::string& text) {
  return matches(parseGrammar(gbnf), text);
}

std::string randomText(isopro::Random& random, const std::string& alphabet, std::size_t longest) {
  std::string text;
  for (auto length = random.nextUint64() % (longest + 1); length > 0; --length)
    text += alphabet[random.nextUint64() % alphabet.size()];
  return text;
}

TEST(grammar_languages_agree_with_regular_expressions) {
  const struct {
    const char* gbnf;
    const char* regex;
    const char* alphabet;
  } cases[] = {
      {"root ::= [a-c]+ \"-\" [0-9]{2,4} \"!\"?", "[a-c]+-[0-9]{2,4}!?", "abc-019!"},
      {"root ::= (\"ab\" | \"a\" | \"b\"*){1,3} [^a]", "(ab|a|b*){1,3}[^a]", "abc"},
      {"root ::= \"ab\"* (\"c\"? \"d\"){2} tail\ntail ::= \"\" | \"x\" tail", "(ab)*(c?d){2}x*",
       "abcdx"},
      {"root ::= (\"a\"?)* \"b\" | \"c\"{0} \"d\"{2,}", "(a?)*b|d{2,}", "abcd"},
      {"root ::= item{3,5} # comment\n\nitem ::= [ab] |\n \"c\" [^\\x41-\\u005A]",
       "([ab]|c[^A-Z]){3,5}", "abcZ"},
  };
  isopro::Random random(5);
  for (const auto& one : cases) {
    const GrammarRules rules = parseGrammar(one.gbnf);
    const std::regex expected(one.regex);
    int members = 0;
    for (int i = 0; i < 20'000; ++i) {
      const std::string text = randomText(random, one.alphabet, 8);
      const bool member = std::regex_match(text, expected);
      members += member;
      CHECK(matches(rules, text, 1 + static_cast<std::size_t>(i % 3)) == member);
    }
    CHECK(members > 20);
  }
}

TEST(grammar_recursion_agrees_with_a_recogniser) {
  const GrammarRules rules = parseGrammar("root ::= (\"(\" root \")\" | \"[\" root \"]\")*");
  const auto balanced = [](const std::string& text) {
    std::string open;
    for (const char c : text) {
      if (c == '(' || c == '[')
        open += c;
      else if (open.empty() || (open.back() == '(') != (c == ')'))
        return false;
      else
        open.pop_back();
    }
    return open.empty();
  };
  isopro::Random random(6);
  int members = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = randomText(random, "()[]", 8);
    members += balanced(text);
    CHECK(matches(rules, text) == balanced(text));
  }
  CHECK(members > 100);
  const std::string deep(5000, '(');
  GrammarMatcher matcher(rules);
  CHECK(matcher.accept(deep));
  CHECK(!matcher.mayEnd());
  CHECK(matcher.accept(std::string(5000, ')')));
  CHECK(matcher.mayEnd());
  CHECK(!matcher.allows(")"));
}

TEST(grammar_prefixes_within_a_character_are_judged_by_what_may_follow) {
  const GrammarRules rules = parseGrammar("root ::= [ä-ü] \"☃\" [^\\u0000-\\U0000FFFF]");
  GrammarMatcher matcher(rules);
  CHECK(!matcher.allows("\xc2"));  // U+0080 to U+00BF
  CHECK(matcher.accept("\xc3"));   // U+00C0 to U+00FF
  CHECK(!matcher.allows("\x9f"));  // ß
  CHECK(matcher.accept("\xa4"));   // ä
  CHECK(matcher.accept("\xe2\x98"));
  CHECK(!matcher.allows("\x84"));
  CHECK(matcher.accept("\x83"));
  CHECK(!matcher.allows("\xef"));  // within the plane that is excluded
  CHECK(matcher.accept("\xf0\x9f"));
  CHECK(matcher.accept("\x98\x80"));  // 😀
  CHECK(matcher.mayEnd());
  const GrammarRules any = parseGrammar("root ::= .*");
  for (const char* malformed : {"\x80", "\xc0\x80", "\xe0\x80", "\xed\xa0", "\xf0\x80", "\xf4\x90",
                                "\xf5", "\xff", "a\xc3z"}) {
    CHECK(!GrammarMatcher(any).allows(malformed));
  }
  for (const char* begun : {"\xe0", "\xe0\xa0", "\xed", "\xed\x9f", "\xf0", "\xf4\x8f",
                            "\xf4\x8f\xbf\xbf", "ok\xe2\x98"}) {
    CHECK(GrammarMatcher(any).allows(begun));
  }
}

TEST(grammar_state_survives_forgetting) {
  // Enough different states that the matcher drops its memory several times, in the midst of open
  // brackets.
  const GrammarRules rules = parseGrammar("root ::= (\"(\" root \")\" | [a-z])*");
  GrammarMatcher matcher(rules);
  isopro::Random random(7);
  int depth = 0;
  for (int i = 0; i < 300'000; ++i) {
    const bool open = depth == 0 || random.nextUint64() % 100 < 90;
    CHECK(matcher.accept(open ? "(" : ")"));
    depth += open ? 1 : -1;
  }
  CHECK(!matcher.mayEnd());
  CHECK(matcher.accept(std::string(static_cast<std::size_t>(depth), ')')));
  CHECK(matcher.mayEnd());
  CHECK(!matcher.allows(")"));
}

TEST(grammar_errors_name_their_place) {
  const struct {
    const char* gbnf;
    const char* message;
  } cases[] = {
      {"root = \"a\"", "line 1, column 6: expected ::="},
      {"root ::= a\na ::= \"x\" )", "line 2, column 11: expected the end of the rule"},
      {"root ::= missing", "line 1, column 10: rule missing is not defined"},
      {"other ::= \"a\"", "no rule \"root\""},
      {"", "no rule \"root\""},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: rule root is defined twice"},
      {"root ::= \"open", "no closing quotation mark"},
      {"root ::= [open", "no closing bracket"},
      {"root ::= []", "character set is empty"},
      {"root ::= [z-a]", "ends before it begins"},
      {"root ::= \"\\q\"", "unknown escape"},
      {"root ::= \"\\xZ\"", "expected 2 hexadecimal digits"},
      {"root ::= \"\\U00110000\"", "no such code point"},
      {"root ::= *", "nothing to repeat"},
      {"root ::= \"a\"{5,2}", "below the smallest"},
      {"root ::= \"a\"{99999999999999999999}", "repetitions"},
      {"root ::= (\"a\"", "expected )"},
      {"root ::= <think>", "token terminals"},
      {"root ::= [^\\x00-\\U0010FFFF]", "character set is empty"},
      {"root ::= [\\uD800-\\uDFFF]", "character set is empty"},
      {"root ::= \"a\\uD83D\"", "line 1, column 12: a surrogate"},
      {"root ::= root", "line 1, column 1: no text completes the rule root:"},
      {"root ::= (root)", "no text completes the rule root:"},
      {"root ::= \"\" root", "no text completes the rule root:"},
      {"root ::= \"a\" root", "no text completes the rule root:"},
      {"root ::= \"x\" | a\na ::= a", "line 1, column 16: no text completes the rule a:"},
      {"root ::= \"x\"\na ::= b\nb ::= (a | b){1,2} \"y\"",
       "line 2, column 1: no text completes the rule a, b:"},
      {"root ::= root \"a\" | \"b\"", "rule root is left-recursive"},
      {"root ::= a\na ::= b\nb ::= a \"x\" | \"y\"", "left-recursive"},
      {"root ::= e root \"z\" | \"x\"\ne ::= f\nf ::= \"\" | \"y\"", "rule root is left-recursive"},
  };
  for (const auto& one : cases) CHECK_SAYS(parseGrammar(one.gbnf), "GRAMMAR_INVALID", one.message);
  CHECK_SAYS(parseGrammar(std::string("root ::= \"a\0b\"", 14)), "GRAMMAR_INVALID", "not UTF-8");
  CHECK_SAYS(parseGrammar("root ::= \"\xff\""), "GRAMMAR_INVALID", "not UTF-8");
}

TEST(grammar_explosions_end_soon) {
  const auto chain = [](int length, const char* body) {
    std::string gbnf = "root ::= r0\n";
    for (int i = 0; i < length; ++i) {
      std::string line(body);
      for (std::size_t at; (at = line.find('N')) != std::string::npos;)
        line.replace(at, 1, "r" + std::to_string(i + 1));
      gbnf += "r" + std::to_string(i) + " ::= " + line + "\n";
    }
    return gbnf + "r" + std::to_string(length) + " ::= \"a\"";
  };
  const std::string parentheses(100'000, '(');
  const std::vector<std::string> hostile = {
      "root ::= " + parentheses,
      "root ::= " + parentheses + "\"a\"" + std::string(100'000, ')'),
      chain(60, "N? N?"),
      chain(60, "N | N"),
      chain(20'000, "N"),
      "root ::= (((((\"a\"{100}){100}){100}){100}){100}){100}",
      "root ::= . root \"b\" | . root \"c\" | .",
      "root ::= (. | .)*",
      "root ::= (. | . . | . . .)* \"!\"",
      "root ::= ([a-z ]* [a-z ]*)* \"!\"",
      "root ::= (((\"a\"?)*)*)*",
      "root ::= \"" + std::string(100'000, 'a') + "\"{10000}",
      "root ::= root | \"a\"",
  };
  for (const std::string& gbnf : hostile) {
    const auto start = std::chrono::steady_clock::now();
    try {
      const GrammarRules rules = parseGrammar(gbnf);
      GrammarMatcher matcher(rules);
      matcher.allows(std::string(200, 'a') + "?");
      matcher.accept(std::string(200, 'a'));
    } catch (const isopro::Error& error) {
      CHECK(error.code() == ErrorCode::grammarInvalid);
    }
    CHECK(std::chrono::steady_clock::now() - start <
          std::chrono::seconds(10));  // some run for longer than the universe if done naively
  }
  CHECK(inLanguage("root ::= (((\"a\"?)*)*)*", "aaa"));
  CHECK(inLanguage("root ::= root | \"a\"", "a"));
  CHECK(inLanguage(chain(10, "N? N?"), "a"));
}

// Bytes, then words of a few common letters with and without a blank before them, numbers,
// punctuation and Chinese: the lengths and the shared beginnings of a byte-level BPE vocabulary.
std::shared_ptr<const isopro::Vocabulary> largeVocabulary(int size) {
  isopro::Random random(static_cast<std::uint64_t>(size));
  std::set<std::string> pieces;
  const std::string letters = "eeeeettttaaaooiinnsshhrrddllcumwfgypbvk";
  const std::string marks = "{}[]\":,.;()<>=+-*/_#!?\n\t\\";
  for (int byte = 0; byte < 256; ++byte) pieces.insert(std::string(1, static_cast<char>(byte)));
  while (pieces.size() < static_cast<std::size_t>(size - 1)) {
    std::string piece;
    const auto kind = random.nextUint64() % 20;
    const auto length = 2 + random.nextUint64() % 4 + random.nextUint64() % 5;
    if (kind < 14) {
      if (random.nextUint64() % 2 == 0) piece += ' ';
      for (auto i = length; i > 0; --i) piece += letters[random.nextUint64() % letters.size()];
    } else if (kind < 17) {
      for (auto i = 1 + length / 3; i > 0; --i) piece += marks[random.nextUint64() % marks.size()];
    } else {
      for (auto i = 1 + length / 4; i > 0; --i) {
        const auto c = 0x4e00 + random.nextUint64() % 0x3000;
        piece += {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3f)),
                  static_cast<char>(0x80 | (c & 0x3f))};
      }
    }
    pieces.insert(piece);
  }
  std::vector<std::string> list(pieces.begin(), pieces.end());
  list.push_back("");
  return std::make_shared<const isopro::Vocabulary>(std::move(list),
                                                    std::vector<std::int32_t>{size - 1});
}

const char* const kJson =
    "root ::= object\nobject ::= \"{\" ws (pair (\",\" ws pair)*)? \"}\"\npair ::= string \":\" ws "
    "value\n"
    "value ::= object | \"[\" ws (value (\",\" ws value)*)? \"]\" | string | number | \"true\" | "
    "\"false\" | \"null\"\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1F] | \"\\\\\" [\"\\\\/bfnrt])* \"\\\"\"\nnumber ::= "
    "\"-\"? [0-9]{1,15} (\".\" "
    "[0-9]{1,15})?\nws ::= [ \\n]{0,8}";

TEST(grammar_over_large_vocabularies) {
  using Clock = std::chrono::steady_clock;
  const auto milliseconds = [](Clock::duration time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  for (const int size : {49'152, 151'936}) {
    const auto vocabulary = largeVocabulary(size);
    const isopro::Grammar grammar(vocabulary, kJson);
    // The tokens of one walk are those that are allowed one by one, and every sequence that comes
    // to a place has them.
    double longest = 0;
    for (const char* text : {"", "{\"a", "{\"a\": ", "{\"a\": 12", "{\"a\": [[\"\xe4\xbd"}) {
      GrammarMatcher matcher = grammar.start();
      GrammarMatcher another = grammar.start();
      CHECK(matcher.accept(text) && another.accept(text));
      const auto start = Clock::now();
      const auto set = grammar.allowed(matcher);
      const double walk = milliseconds(Clock::now() - start);
      longest = std::max(longest, walk);
      CHECK(grammar.allowed(another) == set);
      const auto before = Clock::now();
      int members = 0;
      for (std::int32_t token = 0; token < size; ++token) {
        const bool allowed = grammar.allows(another, token);
        members += allowed;
        CHECK(((*set)[static_cast<std::size_t>(token) / 64] >> (token % 64) & 1) ==
              (allowed ? 1u : 0u));
      }
      std::printf("%d tokens, after %-12s %6d allowed: %6.2f ms by the tree, %6.2f ms one by one\n",
                  size, text, members, walk, milliseconds(Clock::now() - before));
    }
    CHECK(longest < 1000);

    // A whole document and its cost a token, beside a sampler without a grammar.
    isopro::Random random(3);
    std::vector<float> logits(static_cast<std::size_t>(size));
    for (float& logit : logits) logit = 6.0f * static_cast<float>(random.nextDouble());
    const isopro::SamplingSettings settings;
    for (const isopro::Grammar* followed :
         {static_cast<const isopro::Grammar*>(nullptr), &grammar}) {
      int tokens = 0;
      const auto start = Clock::now();
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        isopro::Sampler sampler(size, settings, seed, followed, {});
        for (int i = 0; i < 100; ++i, ++tokens) {
          if (sampler.next(logits.data()).token == size - 1) break;
        }
      }
      std::printf("%d tokens, %s: %.3f ms a sampled token over %d\n", size,
                  followed == nullptr ? "no grammar" : "JSON",
                  milliseconds(Clock::now() - start) / tokens, tokens);
    }
  }
}

}  // namespace
