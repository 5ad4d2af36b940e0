// GBNF (llama.cpp's grammars/README.md) parsed into flat rules that a matcher can walk without
// recursion. Text from a caller: whatever it holds, parsing ends soon, and what passes cannot make
// a matcher loop.
//
// Ours instead of llama.cpp's, because that recurses once per parenthesis, takes exponential time
// to look for left recursion, misses left recursion through rules that are empty at second hand,
// loops for {5,2}, and tries every way of reading a token through an ambiguous grammar.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/character_set.h"

namespace isopro {

struct GrammarSymbol {
  enum Kind : std::uint32_t { End, Rule, Set };
  Kind kind;
  std::uint32_t index;  // of the rule or of the set
};

// A rule is the starts of its alternatives within `symbols`, each alternative closed by End.
struct GrammarRules {
  std::vector<GrammarSymbol> symbols;
  std::vector<CharacterSet> sets;
  std::vector<std::vector<std::uint32_t>> rules;
  std::uint32_t root = 0;
  // Code points that no set tells apart are one kind; each kind begins at one of these, ascending
  // from 0.
  std::vector<std::uint32_t> kinds;
};

// Throws GRAMMAR_INVALID with line and column: syntax, undefined or repeated rules, no `root`,
// rules that no text completes, left recursion, sizes beyond any use. What passes has a way to go
// on, or an end, after every text that it allows. Token terminals (`<name>`, `<[id]>`) are not
// supported.
GrammarRules parseGrammar(const std::string& gbnf);

}  // namespace isopro
