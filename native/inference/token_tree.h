// Texts that go on from one text, as a tree: what several have in common at their beginning is one
// row, which all of them see.
#pragma once

#include <cstddef>
#include <vector>

#include "inference/model.h"

namespace isopro {

// A text that goes on after the first `at` tokens of the trunk; the tokens from `from` on are asked
// for.
struct Branch {
  int at = 0;
  std::vector<Token> tokens;
  int from = 0;
};

// The log-probability that a row gives: of a token that follows it.
struct TreeTarget {
  Token token;
  std::size_t branch;
  std::size_t index;  // among the branch's tokens that are asked for
};

// A token to evaluate. It is of all leaves that go through it, whose numbers follow each other.
struct TreeRow {
  Token token;
  int position;
  int firstLeaf, lastLeaf;
  std::vector<TreeTarget> targets;
};

// Some of the branches. Rows come in an order in which each stands behind all that it sees, and a
// text's rows in the text's order; leaves are told apart from the first row on that they do not
// share.
struct TokenTree {
  std::vector<int> leaves;  // of each: how many tokens of the trunk stand before it
  std::vector<TreeRow> rows;

  // Tokens of the trunk that have to be evaluated before the rows.
  int trunk() const { return leaves.empty() ? 0 : leaves.back(); }
};

// What may be alive at once.
struct TreeLimits {
  int cells;  // of the trunk and of rows
  int leaves;
};

// All branches, in as few trees as the limits ask for, those early on the trunk first. The last
// token of a branch is no row: nothing follows it. A first token that is asked for is no target
// either, since what gives it is a row of the trunk. A branch alone has to fit.
std::vector<TokenTree> treesOf(const std::vector<Branch>& branches, TreeLimits limits);

}  // namespace isopro
