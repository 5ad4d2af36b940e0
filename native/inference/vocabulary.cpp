#include "inference/vocabulary.h"

#include <algorithm>

namespace isopro {

Vocabulary::Vocabulary(std::vector<std::string> pieces, std::vector<std::int32_t> ends)
    : pieces_(std::move(pieces)), ends_(std::move(ends)) {
  std::sort(ends_.begin(), ends_.end());
  for (std::int32_t token = 0; token < size(); ++token) {
    if (!piece(token).empty() && !isEnd(token)) sorted_.push_back(token);
  }
  std::sort(sorted_.begin(), sorted_.end(), [this](std::int32_t a, std::int32_t b) {
    const int order = piece(a).compare(piece(b));
    return order < 0 || (order == 0 && a < b);
  });

  std::vector<std::uint32_t> open;  // nodes from the beginning to the last token's end
  const auto closeTo = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back())
      nodes_[open.back()].next = static_cast<std::uint32_t>(nodes_.size());
  };
  std::string before;
  for (std::uint32_t at = 0; at < sorted_.size(); ++at) {
    const std::string& bytes = piece(sorted_[at]);
    const auto shared = static_cast<std::size_t>(
        std::mismatch(before.begin(), before.end(), bytes.begin(), bytes.end()).first -
        before.begin());
    closeTo(shared);
    for (std::size_t depth = shared; depth < bytes.size(); ++depth) {
      open.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back(
          {0, at, static_cast<std::uint32_t>(depth), static_cast<unsigned char>(bytes[depth])});
    }
    deepest_ = std::max(deepest_, static_cast<int>(bytes.size()));
    before = bytes;
  }
  closeTo(0);
  nodes_.push_back({0, static_cast<std::uint32_t>(sorted_.size()), 0, 0});
}

bool Vocabulary::isEnd(std::int32_t token) const {
  return std::binary_search(ends_.begin(), ends_.end(), token);
}

}  // namespace isopro
