#include "inference/grammar_analysis.h"

#include <algorithm>

namespace isopro {
namespace {

// The rules that derive some text, or, not counting characters, those that derive the empty one.
std::vector<bool> derivingRules(const GrammarRules& rules, bool withCharacters) {
  std::vector<bool> deriving(rules.rules.size(), false);
  // A rule comes in when, in one of its alternatives, the last symbol that is not in does; each
  // pass costs the whole grammar, hence a work list over the places where a rule occurs.
  std::vector<std::vector<std::uint32_t>> occursIn(rules.rules.size());  // alternatives, by number
  std::vector<std::uint32_t> owner;
  std::vector<std::uint32_t> waitsFor;
  std::vector<std::uint32_t> ready;
  for (std::uint32_t rule = 0; rule < rules.rules.size(); ++rule) {
    for (const std::uint32_t start : rules.rules[rule]) {
      const auto alternative = static_cast<std::uint32_t>(owner.size());
      owner.push_back(rule);
      waitsFor.push_back(0);
      for (std::uint32_t at = start; rules.symbols[at].kind != GrammarSymbol::End; ++at) {
        const bool isRule = rules.symbols[at].kind == GrammarSymbol::Rule;
        if (isRule || !withCharacters) ++waitsFor.back();
        if (isRule) occursIn[rules.symbols[at].index].push_back(alternative);
      }
      if (waitsFor.back() == 0) ready.push_back(alternative);
    }
  }
  while (!ready.empty()) {
    const std::uint32_t rule = owner[ready.back()];
    ready.pop_back();
    if (deriving[rule]) continue;
    deriving[rule] = true;
    for (const std::uint32_t alternative : occursIn[rule]) {
      if (--waitsFor[alternative] == 0) ready.push_back(alternative);
    }
  }
  return deriving;
}

}  // namespace

std::vector<bool> productiveRules(const GrammarRules& rules) { return derivingRules(rules, true); }

std::vector<bool> leftRecursiveRules(const GrammarRules& rules) {
  const std::vector<bool> nullable = derivingRules(rules, false);
  const std::size_t count = rules.rules.size();
  struct Edge {
    std::uint32_t to;
    bool followed;
  };
  std::vector<std::vector<Edge>> edges(count);
  for (std::uint32_t rule = 0; rule < count; ++rule) {
    for (std::uint32_t at : rules.rules[rule]) {
      for (; rules.symbols[at].kind == GrammarSymbol::Rule; ++at) {
        const std::uint32_t to = rules.symbols[at].index;
        edges[rule].push_back({to, rules.symbols[at + 1].kind != GrammarSymbol::End});
        if (!nullable[to]) break;
      }
    }
  }
  // Strongly connected components (Tarjan 1972), without recursion.
  constexpr std::uint32_t none = 0xffffffff;
  std::vector<std::uint32_t> order(count, none), low(count, 0), component(count, none), path, stack;
  std::vector<std::size_t> next(count, 0);
  std::uint32_t visited = 0;
  std::uint32_t components = 0;
  for (std::uint32_t start = 0; start < count; ++start) {
    if (order[start] != none) continue;
    path.push_back(start);
    while (!path.empty()) {
      const std::uint32_t rule = path.back();
      if (next[rule] == 0) {
        order[rule] = low[rule] = visited++;
        stack.push_back(rule);
      }
      if (next[rule] < edges[rule].size()) {
        const std::uint32_t to = edges[rule][next[rule]++].to;
        if (order[to] == none) {
          path.push_back(to);
        } else if (component[to] == none) {
          low[rule] = std::min(low[rule], order[to]);
        }
        continue;
      }
      next[rule] = edges[rule].size() + 1;
      if (low[rule] == order[rule]) {
        std::uint32_t member;
        do {
          member = stack.back();
          stack.pop_back();
          component[member] = components;
        } while (member != rule);
        ++components;
      }
      path.pop_back();
      if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[rule]);
    }
  }
  for (std::uint32_t rule = 0; rule < count; ++rule) {
    for (const Edge& edge : edges[rule]) {
      if (!edge.followed || component[rule] != component[edge.to]) continue;
      std::vector<bool> circle(count);
      for (std::uint32_t other = 0; other < count; ++other)
        circle[other] = component[other] == component[rule];
      return circle;
    }
  }
  return {};
}

}  // namespace isopro
