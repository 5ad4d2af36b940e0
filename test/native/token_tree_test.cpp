// Branches as rows: whoever reads the rows one by one, as llama.cpp does, has seen before each
// target just what the branch says.
#include <set>

#include "check.h"
#include "inference/token_tree.h"
#include "support/random.h"

using namespace isopro;

namespace {

int below(Random& random, int count) { return static_cast<int>(random.nextDouble() * count); }

// Of few tokens, so that many begin alike; some are there twice, some ask for nothing.
std::vector<Branch> drawn(Random& random) {
  std::vector<Branch> branches;
  const int count = 1 + below(random, 40), places = 1 + below(random, 3);
  for (int i = 0; i < count; ++i) {
    Branch branch;
    branch.at = 3 * below(random, places);
    const int length = below(random, 7);
    for (int t = 0; t < length; ++t) branch.tokens.push_back(below(random, 2));
    branch.from = below(random, length + 1);
    branches.push_back(branch);
    if (below(random, 8) == 0)
      branches.push_back(branches[static_cast<std::size_t>(below(random, i + 1))]);
  }
  return branches;
}

// The rows of a leaf up to and with row `last`.
std::vector<Token> seen(const TokenTree& tree, int leaf, std::size_t last) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i <= last; ++i) {
    const TreeRow& row = tree.rows[i];
    if (leaf < row.firstLeaf || leaf > row.lastLeaf) continue;
    CHECK(row.position ==
          tree.leaves[static_cast<std::size_t>(leaf)] + static_cast<int>(tokens.size()));
    tokens.push_back(row.token);
  }
  return tokens;
}

void checkTrees(const std::vector<Branch>& branches, TreeLimits limits) {
  std::set<std::pair<std::size_t, std::size_t>> found;
  for (const TokenTree& tree : treesOf(branches, limits)) {
    CHECK(!tree.rows.empty());
    CHECK(static_cast<int>(tree.leaves.size()) <= limits.leaves);
    CHECK(tree.trunk() + static_cast<int>(tree.rows.size()) <= limits.cells);
    std::set<std::pair<int, std::vector<Token>>> paths;
    for (std::size_t i = 0; i < tree.rows.size(); ++i) {
      const TreeRow& row = tree.rows[i];
      const int at = tree.leaves[static_cast<std::size_t>(row.firstLeaf)];
      const std::vector<Token> path = seen(tree, row.firstLeaf, i);
      CHECK(paths.insert({at, path}).second);  // nothing is evaluated twice
      for (int leaf = row.firstLeaf; leaf <= row.lastLeaf; ++leaf)
        CHECK(seen(tree, leaf, i) == path);
      for (const TreeTarget& target : row.targets) {
        const Branch& branch = branches[target.branch];
        const std::size_t place = target.index + static_cast<std::size_t>(branch.from);
        CHECK(found.insert({target.branch, place}).second);
        CHECK(branch.at == at && branch.tokens[place] == target.token);
        CHECK(path ==
              std::vector<Token>(branch.tokens.begin(),
                                 branch.tokens.begin() + static_cast<std::ptrdiff_t>(place)));
      }
    }
  }
  for (std::size_t b = 0; b < branches.size(); ++b) {
    const auto first = std::max<std::size_t>(1, static_cast<std::size_t>(branches[b].from));
    for (std::size_t place = first; place < branches[b].tokens.size(); ++place)
      CHECK(found.count({b, place}) == 1);
  }
}

}  // namespace

TEST(a_tree_has_every_target_behind_the_tokens_of_its_branch) {
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    const std::vector<Branch> branches = drawn(random);
    for (const TreeLimits limits :
         {TreeLimits{1000, 254}, TreeLimits{14, 254}, TreeLimits{1000, 3}, TreeLimits{1000, 1}}) {
      checkTrees(branches, limits);
    }
  }
}

TEST(a_tree_evaluates_what_branches_share_once) {
  const std::vector<Branch> branches = {
      {4, {1, 2, 3, 7}, 3}, {4, {1, 2, 3, 8, 9}, 3}, {4, {1, 2, 5, 7}, 3}, {4, {1, 2, 3, 6}, 3}};
  const std::vector<TokenTree> trees = treesOf(branches, {100, 100});
  CHECK(trees.size() == 1);
  CHECK(trees[0].rows.size() == 5);  // 1 2 3 8 and 5
  CHECK(trees[0].leaves == std::vector<int>({4, 4}));
  CHECK(treesOf({{4, {1}, 0}, {4, {}, 0}, {4, {1, 2}, 2}}, {100, 100}).empty());
}
