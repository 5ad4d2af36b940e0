#include "inference/token_tree.h"

#include <algorithm>
#include <numeric>

namespace isopro {
namespace {

// Branches that begin alike stand beside each other, the shorter first.
std::vector<std::size_t> sorted(const std::vector<Branch>& branches) {
  std::vector<std::size_t> order(branches.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const Branch &one = branches[a], &other = branches[b];
    return one.at != other.at ? one.at < other.at : one.tokens < other.tokens;
  });
  return order;
}

std::size_t rowsOf(const Branch& branch) {
  const bool asked = static_cast<std::size_t>(branch.from) < branch.tokens.size();
  return asked ? branch.tokens.size() - 1 : 0;
}

// Adds branches in their sorted order.
class Builder {
 public:
  Builder(const std::vector<Branch>& branches, TreeLimits limits)
      : branches_(branches), limits_(limits) {}

  void add(std::size_t index) {
    const Branch& branch = branches_[index];
    const std::size_t length = rowsOf(branch);
    if (length == 0) return;
    std::size_t common = sharedWithLast(branch, length);
    bool ownLeaf = common < std::min(path_.size(), length);
    if (trees_.empty() || !fits(branch, length - common, ownLeaf)) {
      trees_.emplace_back();
      common = 0;
      ownLeaf = true;
    }
    TokenTree& tree = trees_.back();
    if (ownLeaf) {
      tree.leaves.push_back(branch.at);
      path_.resize(common);
    }
    const int leaf = static_cast<int>(tree.leaves.size()) - 1;
    for (std::size_t i = 0; i < common; ++i) tree.rows[path_[i]].lastLeaf = leaf;
    for (std::size_t i = common; i < length; ++i) {
      path_.push_back(tree.rows.size());
      tree.rows.push_back({branch.tokens[i], branch.at + static_cast<int>(i), leaf, leaf, {}});
    }
    const auto from = static_cast<std::size_t>(branch.from);
    for (std::size_t i = std::max<std::size_t>(1, from); i < branch.tokens.size(); ++i) {
      tree.rows[path_[i - 1]].targets.push_back({branch.tokens[i], index, i - from});
    }
  }

  std::vector<TokenTree> trees() { return std::move(trees_); }

 private:
  std::size_t sharedWithLast(const Branch& branch, std::size_t length) const {
    if (trees_.empty() || trees_.back().leaves.back() != branch.at) return 0;
    const std::vector<TreeRow>& rows = trees_.back().rows;
    const std::size_t most = std::min(length, path_.size());
    std::size_t common = 0;
    while (common < most && rows[path_[common]].token == branch.tokens[common]) ++common;
    return common;
  }

  bool fits(const Branch& branch, std::size_t rows, bool ownLeaf) const {
    const TokenTree& tree = trees_.back();
    return static_cast<std::size_t>(branch.at) + tree.rows.size() + rows <=
               static_cast<std::size_t>(limits_.cells) &&
           static_cast<int>(tree.leaves.size()) + (ownLeaf ? 1 : 0) <= limits_.leaves;
  }

  const std::vector<Branch>& branches_;
  const TreeLimits limits_;
  std::vector<TokenTree> trees_;
  std::vector<std::size_t>
      path_;  // rows of the last leaf of the last tree, from its first to its last
};

}  // namespace

std::vector<TokenTree> treesOf(const std::vector<Branch>& branches, TreeLimits limits) {
  Builder builder(branches, limits);
  for (const std::size_t index : sorted(branches)) builder.add(index);
  return builder.trees();
}

}  // namespace isopro
