#include "inference/character_set.h"

#include <algorithm>

namespace isopro {

bool CharacterSet::meets(std::uint32_t low, std::uint32_t high) const {
  const auto at =
      std::lower_bound(ranges.begin(), ranges.end(), low,
                       [](const auto& range, std::uint32_t value) { return range.second < value; });
  return at != ranges.end() && at->first <= high;
}

CharacterSet unionOf(CharacterSet::Ranges ranges, bool negated) {
  std::sort(ranges.begin(), ranges.end());
  CharacterSet made;
  std::uint32_t next = 0;  // after the ranges so far
  for (const auto& [low, high] : ranges) {
    if (negated && low > next) made.ranges.emplace_back(next, low - 1);
    if (!negated && high >= next) made.ranges.emplace_back(std::max(low, next), high);
    next = std::max(next, high + 1);
  }
  if (negated && next <= lastCodePoint) made.ranges.emplace_back(next, lastCodePoint);
  return made;
}

}  // namespace isopro
