#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace isopro {

constexpr std::uint32_t lastCodePoint = 0x10ffff;

struct CharacterSet {
  using Ranges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

  Ranges ranges;  // code points, both ends included; ascending, apart

  bool contains(std::uint32_t codePoint) const { return meets(codePoint, codePoint); }
  // Whether some code point of [low, high] is in the set.
  bool meets(std::uint32_t low, std::uint32_t high) const;
  // Surrogates are code points that no UTF-8 text contains.
  bool hasCharacters() const { return meets(0, 0xd7ff) || meets(0xe000, lastCodePoint); }
};

// The union of ranges in any order, or what lies between them.
CharacterSet unionOf(CharacterSet::Ranges ranges, bool negated);

}  // namespace isopro
