#include "inference/grammar_matcher.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "support/error.h"

namespace isopro {
namespace {

constexpr std::size_t mostWays = 4096;                    // nodes of one state
constexpr std::size_t mostExpansions = 200'000;           // places looked at on the way to it
constexpr std::size_t mostExpansionsAtOnce = 20'000'000;  // within one call: seconds
constexpr std::size_t mostNodes = 4'000'000;              // of about 60 bytes
constexpr std::size_t mostRemembered = 200'000;  // nodes, or steps, before old ones are forgotten
constexpr std::size_t mostStates = 20'000;       // of 0.5 KB
constexpr std::size_t mostKinds =
    128;  // of which a state remembers its steps itself: all of ASCII's
constexpr std::int32_t nowhere = -1;
constexpr std::int32_t unknown = -2;

std::uint64_t pairKey(std::uint32_t a, std::int32_t b) {
  return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint32_t>(b);
}

// RFC 3629: no longer sequence than needed, no surrogates, nothing above U+10FFFF. All three show
// in the second byte.
bool wellFormed(std::uint32_t lead, int missing, unsigned char second) {
  if (missing == 2 && lead == 0) return second >= 0xa0;
  if (missing == 2 && lead == 0xd) return second <= 0x9f;
  if (missing == 3 && lead == 0) return second >= 0x90;
  if (missing == 3 && lead == 4) return second <= 0x8f;
  return true;
}

[[noreturn]] void tooAmbiguous() {
  throw Error(
      ErrorCode::grammarInvalid,
      "the grammar is too ambiguous: the same text comes about in more ways than can be followed");
}

}  // namespace

GrammarMatcher::GrammarMatcher(const GrammarRules& rules) : rules_(&rules) {
  std::uint8_t kind = 0;
  for (std::uint32_t c = 0; c < asciiKinds_.size(); ++c) {
    if (kind + 1u < rules.kinds.size() && rules.kinds[kind + 1u] == c) ++kind;
    asciiKinds_[c] = kind;
  }
  std::vector<StackNode> open;
  for (const std::uint32_t start : rules.rules[rules.root]) open.push_back({start, nowhere});
  now_.state = closure(std::move(open));
}

std::int32_t GrammarMatcher::node(std::uint32_t position, std::int32_t parent) {
  const auto [found, isNew] =
      nodeIds_.try_emplace(pairKey(position, parent), static_cast<std::int32_t>(nodes_.size()));
  if (isNew) nodes_.push_back({position, parent});
  return found->second;
}

// Enters rules until every way stands before a character set or at the end; the state of those
// ways, or nowhere.
std::int32_t GrammarMatcher::closure(std::vector<StackNode> open) {
  std::vector<std::int32_t> nodes;
  bool complete = false;
  std::unordered_set<std::uint64_t> seen;
  while (!open.empty()) {
    const StackNode at = open.back();
    open.pop_back();
    if (!seen.insert(pairKey(at.position, at.parent)).second) continue;
    if (seen.size() > mostExpansions || ++expansions_ > mostExpansionsAtOnce) tooAmbiguous();
    const GrammarSymbol symbol = rules_->symbols[at.position];
    switch (symbol.kind) {
      case GrammarSymbol::End:
        if (at.parent == nowhere) {
          complete = true;
        } else {
          open.push_back(nodes_[static_cast<std::size_t>(at.parent)]);
        }
        break;
      case GrammarSymbol::Set:
        nodes.push_back(node(at.position, at.parent));
        break;
      case GrammarSymbol::Rule: {
        // Nothing is remembered of a rule that ends with this symbol: repetition does not deepen
        // the stack.
        const bool last = rules_->symbols[at.position + 1].kind == GrammarSymbol::End;
        const std::int32_t parent = last ? at.parent : node(at.position + 1, at.parent);
        for (const std::uint32_t start : rules_->rules[symbol.index])
          open.push_back({start, parent});
        break;
      }
    }
  }
  if (nodes.size() > mostWays || nodes_.size() > mostNodes) tooAmbiguous();
  if (nodes.empty() && !complete) return nowhere;
  return intern(std::move(nodes), complete);
}

std::int32_t GrammarMatcher::intern(std::vector<std::int32_t> nodes, bool complete) {
  std::sort(nodes.begin(), nodes.end());
  std::string key(reinterpret_cast<const char*>(nodes.data()), nodes.size() * sizeof(std::int32_t));
  key += complete ? '1' : '0';
  const auto [found, isNew] =
      stateIds_.try_emplace(std::move(key), static_cast<std::int32_t>(states_.size()));
  if (isNew) {
    states_.push_back(
        {std::move(nodes), complete,
         std::vector<std::int32_t>(std::min(mostKinds, rules_->kinds.size()), unknown)});
  }
  return found->second;
}

std::uint32_t GrammarMatcher::kindOf(std::uint32_t codePoint) const {
  if (codePoint < asciiKinds_.size()) return asciiKinds_[codePoint];
  return static_cast<std::uint32_t>(
      std::upper_bound(rules_->kinds.begin(), rules_->kinds.end(), codePoint) -
      rules_->kinds.begin() - 1);
}

std::int32_t GrammarMatcher::step(std::int32_t from, std::uint32_t codePoint) {
  const std::uint32_t kind = kindOf(codePoint);
  if (kind < mostKinds) {
    std::int32_t to = states_[static_cast<std::size_t>(from)].next[kind];
    if (to == unknown) {
      to = stepAnew(from, codePoint);
      states_[static_cast<std::size_t>(from)].next[kind] = to;
    }
    return to;
  }
  const std::uint64_t key = pairKey(kind, from);
  if (const auto found = steps_.find(key); found != steps_.end()) return found->second;
  const std::int32_t to = stepAnew(from, codePoint);
  steps_.emplace(key, to);
  return to;
}

std::int32_t GrammarMatcher::stepAnew(std::int32_t from, std::uint32_t codePoint) {
  std::vector<StackNode> open;
  for (const std::int32_t id : states_[static_cast<std::size_t>(from)].nodes) {
    const StackNode& at = nodes_[static_cast<std::size_t>(id)];
    if (rules_->sets[rules_->symbols[at.position].index].contains(codePoint))
      open.push_back({at.position + 1, at.parent});
  }
  return open.empty() ? nowhere : closure(std::move(open));
}

bool GrammarMatcher::advance(Place& place, std::string_view bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (place.missing > 0) {
      if ((byte & 0xc0) != 0x80 || !wellFormed(place.partial, place.missing, byte)) return false;
      place.partial = (place.partial << 6) | (byte & 0x3f);
      if (--place.missing > 0) continue;
    } else if (byte < 0x80) {
      place.partial = byte;
    } else {
      place.missing = byte >= 0xc2 && byte < 0xe0   ? 1
                      : byte >= 0xe0 && byte < 0xf0 ? 2
                      : byte >= 0xf0 && byte < 0xf5 ? 3
                                                    : 0;
      if (place.missing == 0) return false;
      place.partial = byte & (0x3fu >> place.missing);
      continue;
    }
    place.state = step(place.state, place.partial);
    if (place.state == nowhere) return false;
  }
  return place.missing == 0 || canContinue(place);
}

// Whether some completion of the begun UTF-8 sequence is a well-formed character that the grammar
// allows.
bool GrammarMatcher::canContinue(const Place& place) const {
  const int bits = 6 * place.missing;
  std::uint32_t low = place.partial << bits;
  std::uint32_t high = std::min<std::uint32_t>(low | ((1u << bits) - 1), 0x10ffff);
  if (low == 0)
    low = place.missing == 2 ? 0x800 : 0x10000;  // only the lead byte is here, and its bits are 0
  if (low == 0xd000 && place.missing == 2) high = 0xd7ff;
  const State& state = states_[static_cast<std::size_t>(place.state)];
  return std::any_of(state.nodes.begin(), state.nodes.end(), [&](std::int32_t id) {
    return rules_->sets[rules_->symbols[nodes_[static_cast<std::size_t>(id)].position].index].meets(
        low, high);
  });
}

bool GrammarMatcher::allows(std::string_view bytes) {
  expansions_ = 0;
  limitMemory();
  Place place = now_;
  return advance(place, bytes);
}

bool GrammarMatcher::accept(std::string_view bytes) {
  expansions_ = 0;
  limitMemory();
  Place place = now_;
  if (!advance(place, bytes)) return false;
  now_ = place;
  return true;
}

void GrammarMatcher::allowedTokens(const Vocabulary& vocabulary,
                                   const std::function<void(std::int32_t)>& found) {
  expansions_ = 0;
  std::vector<Place> places(static_cast<std::size_t>(vocabulary.deepest()) + 1,
                            now_);  // before each byte of a token
  const auto descend = [&](int depth, unsigned char byte) {
    if (depth == 0) {
      limitMemory();
      places[0] = now_;
    }
    Place& next = places[static_cast<std::size_t>(depth) + 1];
    next = places[static_cast<std::size_t>(depth)];
    const char text = static_cast<char>(byte);
    return advance(next, {&text, 1});
  };
  vocabulary.walk(descend, found);
  limitMemory();
}

std::string GrammarMatcher::place() const {
  constexpr std::size_t longest = 4096;
  const auto append = [](std::string& text, std::uint32_t value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::vector<std::string> ways;
  std::size_t length = 0;
  for (const std::int32_t id : states_[static_cast<std::size_t>(now_.state)].nodes) {
    std::string way;
    for (std::int32_t at = id; at != nowhere; at = nodes_[static_cast<std::size_t>(at)].parent) {
      append(way, nodes_[static_cast<std::size_t>(at)].position);
      if (length + way.size() > longest) return "";
    }
    append(way, static_cast<std::uint32_t>(nowhere));
    length += way.size();
    ways.push_back(std::move(way));
  }
  std::sort(ways.begin(), ways.end());
  std::string name;
  append(name, now_.missing > 0 ? now_.partial : 0);
  append(name, static_cast<std::uint32_t>(2 * now_.missing + (mayEnd() ? 1 : 0)));
  for (const std::string& way : ways) name += way;
  return name;
}

void GrammarMatcher::limitMemory() {
  if (nodes_.size() > 2 * needed_ + mostRemembered || steps_.size() > mostRemembered ||
      states_.size() > mostStates)
    forgetOldStates();
}

// Keeps the current state with the nodes that it needs.
void GrammarMatcher::forgetOldStates() {
  const State state = std::move(states_[static_cast<std::size_t>(now_.state)]);
  const std::vector<StackNode> nodes = std::move(nodes_);
  nodes_.clear();
  nodeIds_.clear();
  states_.clear();
  stateIds_.clear();
  steps_.clear();
  std::unordered_map<std::int32_t, std::int32_t> renamed{{nowhere, nowhere}};
  std::vector<std::int32_t> kept;
  for (const std::int32_t id : state.nodes) {
    std::vector<std::int32_t> chain;
    for (std::int32_t at = id; renamed.count(at) == 0;
         at = nodes[static_cast<std::size_t>(at)].parent)
      chain.push_back(at);
    for (; !chain.empty(); chain.pop_back()) {
      const StackNode& old = nodes[static_cast<std::size_t>(chain.back())];
      renamed[chain.back()] = node(old.position, renamed.at(old.parent));
    }
    kept.push_back(renamed.at(id));
  }
  now_.state = intern(std::move(kept), state.complete);
  needed_ = nodes_.size();
}

}  // namespace isopro
