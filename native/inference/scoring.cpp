#include "inference/scoring.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "inference/row_adapters.h"
#include "support/error.h"

namespace isopro {
namespace {

constexpr llama_seq_id kTrunk = 0;
constexpr llama_seq_id kFirstLeaf = 1;
constexpr int kMostLeaves = kMaxSequences - 2;  // beside the trunk and the rows that pad

class Scorer {
 public:
  Scorer(Context& context, ThreadPool& pool, const std::vector<Token>& trunk, int alternatives,
         const std::atomic<bool>& cancelled, std::vector<TokenScores>& results)
      : context_(context),
        pool_(pool),
        trunk_(trunk),
        alternatives_(alternatives),
        cancelled_(cancelled),
        results_(results),
        activated_(context, pool),
        activation_(activated_.activationIn(trunk)),
        // In the calls in which generate evaluates a prompt.
        trunkRows_(CallPlan::of(context.model().usesGpu(), 1).promptRows) {}

  // Makes room for the first `length` tokens of the trunk, and for the trees beside as much of it
  // as they need.
  void prepare(size_t length, const std::vector<TokenTree>& trees) {
    int cells = static_cast<int>(length) + 1, leaves = 0;
    for (const TokenTree& tree : trees) {
      const auto own = static_cast<int>(tree.leaves.size());
      cells = std::max(cells, tree.trunk() + static_cast<int>(tree.rows.size()) + own);
      leaves = std::max(leaves, own);
    }
    padding_ = kFirstLeaf + leaves;
    context_.prepare({cells + kRowGroup, leaves + 2, kInvariantRows});
  }

  // Evaluates the trunk up to a length; `targets` follow its last token.
  void growTrunk(size_t length, std::vector<TreeTarget> targets = {}) {
    const Timed timed(trunkCost_.time);
    for (; evaluated_ < length; ++evaluated_) {
      if (batch_.size() == trunkRows_) decode();
      const bool last = evaluated_ + 1 == length;
      add({trunk_[evaluated_], static_cast<int>(evaluated_), 0, 0,
           last ? std::move(targets) : std::vector<TreeTarget>{}},
          kTrunk);
      ++trunkCost_.tokens;
    }
    decode();
  }

  void score(const TokenTree& tree, bool stepwise) {
    growTrunk(static_cast<size_t>(tree.trunk()));
    const Timed timed(branchesCost_.time);
    const auto leaves = static_cast<int>(tree.leaves.size());
    for (int leaf = 0; leaf < leaves; ++leaf) {
      const int length = tree.leaves[static_cast<size_t>(leaf)];
      if (length > 0) context_.copySequence(kTrunk, kFirstLeaf + leaf, length);
    }
    for (const TreeRow& row : tree.rows) {
      add(row, kFirstLeaf);
      if (stepwise) {
        decode();
      } else if (batch_.size() == kInvariantRows) {
        decodeGroups();
      }
    }
    decodeGroups();
    for (int leaf = 0; leaf < leaves; ++leaf) context_.removeSequence(kFirstLeaf + leaf);
    branchesCost_.tokens += static_cast<int>(tree.rows.size());
  }

  // A text of a model that evaluates each by itself, in the calls of generate: its beginning as
  // a prompt, then a call a token. Scores the tokens of the branch.
  void scoreAlone(const Branch& branch, std::size_t index) {
    if (branch.tokens.empty()) return;
    context_.removeSequence(kTrunk);
    evaluated_ = 0;
    const auto targets = [&](std::size_t token) {
      std::vector<TreeTarget> asked;
      const auto from = static_cast<std::size_t>(branch.from);
      if (token >= from) asked.push_back({branch.tokens[token], index, token - from});
      return asked;
    };
    growTrunk(static_cast<size_t>(branch.at), targets(0));
    const Timed timed(branchesCost_.time);
    for (std::size_t i = 1; i < branch.tokens.size(); ++i) {
      add({branch.tokens[i - 1], branch.at + static_cast<int>(i) - 1, 0, 0, targets(i)}, kTrunk);
      decode();
      ++branchesCost_.tokens;
    }
  }

  void prepareAlone(const std::vector<Branch>& branches) {
    std::size_t cells = 1;
    for (const Branch& branch : branches)
      cells = std::max(cells, static_cast<std::size_t>(branch.at) + branch.tokens.size());
    context_.prepare({static_cast<int>(cells), 1, 1});
  }

  const Evaluated& trunkCost() const { return trunkCost_; }
  const Evaluated& branchesCost() const { return branchesCost_; }

 private:
  void add(TreeRow row, llama_seq_id first) {
    acts_.push_back(row.position >= activation_);
    batch_.add(row.token, row.position, first + row.firstLeaf, !row.targets.empty(),
               row.lastLeaf - row.firstLeaf + 1);
    if (!row.targets.empty()) scored_.push_back({batch_.size() - 1, std::move(row.targets)});
  }

  void decodeGroups() {
    if (batch_.empty()) return;
    batch_.pad(padding_);
    batch_.padOutputs();
    decode();
  }

  void decode() {
    if (batch_.empty()) return;
    activated_.clear();
    acts_.resize(static_cast<size_t>(batch_.size()));  // rows that pad have no adapter
    for (int row = 0; row < batch_.size(); ++row)
      activated_.add(acts_[static_cast<size_t>(row)], batch_.output(row));
    activated_.decode(batch_, cancelled_);
    std::vector<const float*> logits;
    logits.reserve(scored_.size());
    for (const ScoredRow& row : scored_) logits.push_back(context_.logits(row.row));
    pool_.forEach(static_cast<int>(scored_.size()), context_.governor().threads(), [&](int i) {
      read(logits[static_cast<size_t>(i)], scored_[static_cast<size_t>(i)].targets);
    });
    batch_.clear();
    scored_.clear();
    acts_.clear();
  }

  void read(const float* logits, const std::vector<TreeTarget>& targets) {
    const int vocabulary = context_.model().vocabularySize();
    const float top = maximum(logits, vocabulary).value;
    const double total = sumOfExponentials(logits, vocabulary, top, 1.0f);
    for (const TreeTarget& target : targets) {
      const double value = logProbability(logits, target.token, top, total);
      if (!std::isfinite(value))
        throw Error(ErrorCode::numericFailure, "the model's logits are not finite");
      TokenScores& scores = results_[target.branch];
      scores.logProbabilities[target.index] = static_cast<float>(value);
      if (alternatives_ < 0) continue;
      scores.ranks[target.index] = rankOf(logits, vocabulary, target.token);
      scores.top[target.index] = mostLikely(logits, vocabulary, alternatives_, top, total);
    }
  }

  struct ScoredRow {
    int row;  // in the batch
    std::vector<TreeTarget> targets;
  };

  Context& context_;
  ThreadPool& pool_;
  const std::vector<Token>& trunk_;
  const int alternatives_;
  const std::atomic<bool>& cancelled_;
  std::vector<TokenScores>& results_;
  ActivatedRows activated_;
  const int activation_;
  std::vector<bool> acts_;  // on the batch's rows, but those that pad
  const int trunkRows_;
  llama_seq_id padding_ = 0;
  size_t evaluated_ = 0;  // of the trunk
  DecodeBatch batch_;
  std::vector<ScoredRow> scored_;
  Evaluated trunkCost_;
  Evaluated branchesCost_;
};

void checkLength(size_t tokens, const std::string& what, int limit) {
  if (tokens <= static_cast<size_t>(limit)) return;
  throw Error(ErrorCode::contextOverflow, what + " have " + std::to_string(tokens) +
                                              " tokens, more than the context of " +
                                              std::to_string(limit));
}

TokenScores emptyScores(size_t asked, int alternatives) {
  const size_t told = alternatives < 0 ? 0 : asked;
  return {std::vector<float>(asked), std::vector<std::int32_t>(told),
          std::vector<std::vector<TokenChance>>(told)};
}

}  // namespace

std::vector<TokenScores> scoreContinuations(Context& context, ThreadPool& pool,
                                            const std::vector<Token>& prefix,
                                            const std::vector<std::vector<Token>>& continuations,
                                            int cellBudget, bool stepwise, int alternatives,
                                            const std::atomic<bool>& cancelled) {
  const Model& model = context.model();
  if (prefix.empty())
    throw Error(ErrorCode::invalidArgument, "the prefix has no tokens; begin with the BOS token");
  model.checkTokens(prefix, "prefix");
  const int limit = std::min(cellBudget, model.trainedContext());
  std::vector<TokenScores> results;
  std::vector<Branch> branches;
  std::vector<TreeTarget> first;
  for (size_t i = 0; i < continuations.size(); ++i) {
    const std::vector<Token>& tokens = continuations[i];
    model.checkTokens(tokens, ("continuation " + std::to_string(i)).c_str());
    checkLength(prefix.size() + tokens.size(), "prefix and continuation " + std::to_string(i),
                limit);
    results.push_back(emptyScores(tokens.size(), alternatives));
    branches.push_back({static_cast<int>(prefix.size()), tokens, 0});
    if (!tokens.empty()) first.push_back({tokens.front(), i, 0});
  }
  if (model.evaluatesAlone()) {
    Scorer scorer(context, pool, prefix, alternatives, cancelled, results);
    scorer.prepareAlone(branches);
    for (std::size_t i = 0; i < branches.size(); ++i) scorer.scoreAlone(branches[i], i);
    return results;
  }
  // One row a call has the values that it has alone only with nothing of others before it.
  const std::vector<TokenTree> trees = treesOf(branches, {cellBudget, stepwise ? 1 : kMostLeaves});
  Scorer scorer(context, pool, prefix, alternatives, cancelled, results);
  scorer.prepare(prefix.size(), trees);
  scorer.growTrunk(prefix.size(), std::move(first));
  for (const TokenTree& tree : trees) scorer.score(tree, stepwise);
  return results;
}

BranchScores scoreBranches(Context& context, ThreadPool& pool, const std::vector<Token>& trunk,
                           const std::vector<Branch>& branches, int cellBudget,
                           const std::atomic<bool>& cancelled) {
  const Model& model = context.model();
  context.refuseActivated("branches of a text");
  model.checkTokens(trunk, "trunk");
  const int limit = std::min(cellBudget, model.trainedContext());
  BranchScores result;
  std::vector<Branch> cut;
  std::set<int> places;
  for (size_t i = 0; i < branches.size(); ++i) {
    const auto& [at, tokens, from] = branches[i];
    const std::string name = "branch " + std::to_string(i);
    if (at < 1 || static_cast<size_t>(at) > trunk.size() || from < 0 ||
        static_cast<size_t>(from) > tokens.size()) {
      throw Error(ErrorCode::invalidArgument,
                  name + " does not begin on the trunk, or not where its tokens are asked for");
    }
    model.checkTokens(tokens, name.c_str());
    checkLength(static_cast<size_t>(at) + tokens.size(), name + " and the tokens before it", limit);
    if (model.evaluatesAlone()) {
      cut.push_back(branches[i]);
      result.scores.push_back(emptyScores(tokens.size() - static_cast<size_t>(from), -1));
      continue;
    }
    const int begin = (at - 1) / kRowGroup * kRowGroup;
    std::vector<Token> all(trunk.begin() + begin, trunk.begin() + at);
    all.insert(all.end(), tokens.begin(), tokens.end());
    cut.push_back({begin, std::move(all), at - begin + from});
    if (places.insert(at).second) result.repeatedTokens += at - begin;
    result.scores.push_back(emptyScores(tokens.size() - static_cast<size_t>(from), -1));
  }
  Scorer scorer(context, pool, trunk, -1, cancelled, result.scores);
  if (model.evaluatesAlone()) {
    scorer.prepareAlone(cut);
    for (std::size_t i = 0; i < cut.size(); ++i) scorer.scoreAlone(cut[i], i);
  } else {
    const std::vector<TokenTree> trees = treesOf(cut, {cellBudget, kMostLeaves});
    scorer.prepare(0, trees);
    for (const TokenTree& tree : trees) scorer.score(tree, false);
  }
  result.trunk = scorer.trunkCost();
  result.branches = scorer.branchesCost();
  return result;
}

}  // namespace isopro
