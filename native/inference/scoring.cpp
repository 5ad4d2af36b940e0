#include "inference/scoring.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "inference/logit_math.h"
#include "support/error.h"

namespace isopro {
namespace {

struct ScoredRow {
  int row;       // in the batch
  Token target;  // the token whose log-probability the row gives
  TokenScores* scores;
  size_t index;  // of the target among them
};

class Scorer {
 public:
  Scorer(Context& context, ThreadPool& pool, int alternatives, const std::atomic<bool>& cancelled)
      : context_(context), pool_(pool), alternatives_(alternatives), cancelled_(cancelled) {}

  void add(Token token, int position, llama_seq_id sequence, const std::vector<ScoredRow>& targets, int most = kInvariantRows) {
    if (batch_.size() == most) flush();
    const int row = batch_.size();
    batch_.add(token, position, sequence, !targets.empty());
    for (ScoredRow target : targets) {
      target.row = row;
      rows_.push_back(target);
    }
  }

  void flush(std::optional<llama_seq_id> padding = std::nullopt) {
    if (batch_.empty()) return;
    if (padding) batch_.pad(*padding);
    context_.decode(batch_, cancelled_);
    const int vocabulary = context_.model().vocabularySize();
    std::vector<const float*> logits;
    logits.reserve(rows_.size());
    for (const ScoredRow& row : rows_) logits.push_back(context_.logits(row.row));
    pool_.forEach(static_cast<int>(rows_.size()), context_.governor().threads(), [&](int i) {
      const auto index = static_cast<size_t>(i);
      const ScoredRow& row = rows_[index];
      const double value = logProbability(logits[index], vocabulary, row.target);
      if (!std::isfinite(value)) throw Error("NUMERIC_FAILURE", "the model's logits are not finite");
      row.scores->logProbabilities[row.index] = static_cast<float>(value);
      if (alternatives_ < 0) return;
      const float top = maximum(logits[index], vocabulary).value;
      row.scores->ranks[row.index] = rankOf(logits[index], vocabulary, row.target);
      row.scores->top[row.index] =
          mostLikely(logits[index], vocabulary, alternatives_, top, sumOfExponentials(logits[index], vocabulary, top, 1.0f));
    });
    batch_.clear();
    rows_.clear();
  }

 private:
  Context& context_;
  ThreadPool& pool_;
  const int alternatives_;
  const std::atomic<bool>& cancelled_;
  DecodeBatch batch_;
  std::vector<ScoredRow> rows_;
};

}  // namespace

std::vector<TokenScores> scoreContinuations(Context& context, ThreadPool& pool, const std::vector<Token>& prefix,
                                            const std::vector<std::vector<Token>>& continuations, int cellBudget, bool stepwise,
                                            int alternatives, const std::atomic<bool>& cancelled) {
  const Model& model = context.model();
  if (prefix.empty()) throw Error("INVALID_ARGUMENT", "the prefix has no tokens; begin with the BOS token");
  model.checkTokens(prefix, "prefix");
  const int limit = std::min(cellBudget, model.trainedContext());
  std::vector<TokenScores> results;
  for (size_t i = 0; i < continuations.size(); ++i) {
    model.checkTokens(continuations[i], ("continuation " + std::to_string(i)).c_str());
    const size_t length = prefix.size() + continuations[i].size();
    if (length > static_cast<size_t>(limit)) {
      throw Error("CONTEXT_OVERFLOW", "prefix and continuation " + std::to_string(i) + " have " + std::to_string(length) +
                                          " tokens, more than the context of " + std::to_string(limit));
    }
    const size_t told = alternatives < 0 ? 0 : continuations[i].size();
    results.push_back({std::vector<float>(continuations[i].size()), std::vector<std::int32_t>(told), {}});
    results.back().top.resize(told);
  }

  std::int64_t cells = static_cast<std::int64_t>(prefix.size());
  for (const auto& continuation : continuations) cells += static_cast<std::int64_t>(continuation.size());
  const int sequences = static_cast<int>(std::min<size_t>(kMaxSequences - 1, continuations.size() + 1));
  const llama_seq_id padding = sequences;
  context.prepare({static_cast<int>(std::min<std::int64_t>(cells, cellBudget)) + kRowGroup, sequences + 1, kInvariantRows});

  Scorer scorer(context, pool, alternatives, cancelled);
  std::vector<ScoredRow> first;
  for (size_t i = 0; i < continuations.size(); ++i) {
    if (!continuations[i].empty()) first.push_back({0, continuations[i].front(), &results[i], 0});
  }
  // The prefix in the calls in which generate evaluates a prompt.
  const int most = CallPlan::of(model.usesGpu(), 1).promptRows;
  for (size_t i = 0; i < prefix.size(); ++i) {
    scorer.add(prefix[i], static_cast<int>(i), 0, i + 1 == prefix.size() ? first : std::vector<ScoredRow>{}, most);
  }
  scorer.flush();

  int free = cellBudget - static_cast<int>(prefix.size());
  llama_seq_id next = 1;
  const auto clear = [&] {
    scorer.flush(padding);
    for (llama_seq_id id = 1; id < next; ++id) context.removeSequence(id);
    next = 1;
    free = cellBudget - static_cast<int>(prefix.size());
  };
  for (size_t i = 0; i < continuations.size(); ++i) {
    const auto& continuation = continuations[i];
    if (continuation.size() < 2) continue;
    if (next >= sequences || static_cast<int>(continuation.size()) > free) clear();
    const llama_seq_id id = next++;
    free -= static_cast<int>(continuation.size());
    context.copySequence(0, id);
    for (size_t j = 0; j + 1 < continuation.size(); ++j) {
      scorer.add(continuation[j], static_cast<int>(prefix.size() + j), id, {{0, continuation[j + 1], &results[i], j + 1}});
      if (stepwise) scorer.flush();
    }
  }
  scorer.flush(padding);
  return results;
}

}  // namespace isopro
