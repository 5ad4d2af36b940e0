#include "inference/frame.h"

#include <algorithm>

namespace isopro {
namespace {

constexpr std::size_t kFollowing = 8;

}  // namespace

int mostShared(std::size_t tokens, int group) {
  const auto groups = static_cast<int>(tokens) / group;
  return std::max(0, groups - 1) * group;
}

int commonBeginning(const std::vector<const std::vector<Token>*>& prompts, std::size_t first,
                    int group) {
  const std::vector<Token>& one = *prompts[first];
  std::vector<int> common;
  for (std::size_t i = first + 1; i < prompts.size() && common.size() < kFollowing; ++i) {
    const std::vector<Token>& other = *prompts[i];
    const auto length = static_cast<std::ptrdiff_t>(std::min(one.size(), other.size()));
    const auto end = std::mismatch(one.begin(), one.begin() + length, other.begin()).first;
    common.push_back(std::min({static_cast<int>(end - one.begin()), mostShared(one.size(), group),
                               mostShared(other.size(), group)}));
  }
  if (common.empty()) return 0;
  const auto middle = common.begin() + static_cast<std::ptrdiff_t>(common.size() / 2);
  std::nth_element(common.begin(), middle, common.end());
  return *middle / group * group;
}

int Frame::sharedWith(const std::vector<Token>& prompt, int group) const {
  const auto length = static_cast<int>(tokens.size());
  if (length > mostShared(prompt.size(), group)) return 0;
  return std::equal(tokens.begin(), tokens.end(), prompt.begin()) ? length : 0;
}

}  // namespace isopro
