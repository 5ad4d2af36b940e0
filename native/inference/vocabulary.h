// What the tokens of a model add to a text, as a list and as a tree of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace isopro {

class Vocabulary {
 public:
  // `pieces`: the bytes of each token, none for control tokens. `ends`: the tokens that end a text.
  Vocabulary(std::vector<std::string> pieces, std::vector<std::int32_t> ends);

  int size() const { return static_cast<int>(pieces_.size()); }
  const std::string& piece(std::int32_t token) const {
    return pieces_[static_cast<std::size_t>(token)];
  }
  const std::vector<std::int32_t>& ends() const { return ends_; }
  bool isEnd(std::int32_t token) const;
  int deepest() const { return deepest_; }  // bytes of the longest piece

  // Visits the tokens by their bytes, each common beginning once. descend(depth, byte) says whether
  // to follow the byte that stands `depth` bytes from the beginning; found(token) is called where a
  // token's bytes have all been followed.
  template <typename Descend, typename Found>
  void walk(Descend descend, Found found) const {
    for (std::size_t i = 0; i + 1 < nodes_.size();) {
      const TrieNode& node = nodes_[i];
      if (!descend(static_cast<int>(node.depth), node.byte)) {
        i = node.next;
        continue;
      }
      for (std::size_t at = node.tokens; at < nodes_[i + 1].tokens; ++at) found(sorted_[at]);
      ++i;
    }
  }

 private:
  // In the order of a walk; the last one closes the list.
  struct TrieNode {
    std::uint32_t next;    // node after everything that begins like this one
    std::uint32_t tokens;  // first one in sorted_ that ends here
    std::uint32_t depth;   // bytes before this one
    unsigned char byte;
  };

  std::vector<std::string> pieces_;
  std::vector<std::int32_t> ends_;    // ascending
  std::vector<std::int32_t> sorted_;  // tokens that have bytes, by their bytes
  std::vector<TrieNode> nodes_;
  int deepest_ = 0;
};

}  // namespace isopro
