#include "training/loss.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/error.h"

namespace isopro::training {
namespace {

// Of logits, their hidden rows and the gradient of those: 64 rows of a vocabulary of 151,936, two
// whole panels.
constexpr std::int64_t kBytes = 39'960'000;

struct LabelledToken {
  std::int64_t row;  // in the batch
  std::size_t sequence;
  std::int64_t token;  // position of the target within its sequence
};

// A row is there as often as sequences have a target after it.
std::vector<LabelledToken> labelledTokens(const MicroBatch& batch) {
  std::vector<LabelledToken> targets;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    const std::vector<std::uint8_t>& labelled = batch.sequences[s]->labelled;
    for (std::size_t t = 1; t < labelled.size(); ++t) {
      if (labelled[t]) targets.push_back({batch.rowOf[s][t - 1], s, static_cast<std::int64_t>(t)});
    }
  }
  return targets;
}

}  // namespace

RowLoss rowLoss(const Objective& objective, const TrainSequence& sequence, std::int64_t token,
                double logprob) {
  const double weight = sequence.weight;
  if (!objective.policy) return {-weight * logprob, -weight, false};
  const auto t = static_cast<std::size_t>(token);
  const double advantage =
      sequence.advantages.empty() ? 0.0 : static_cast<double>(sequence.advantages[t]);
  const double ratio = sequence.oldLogprobs.empty()
                           ? 1.0
                           : std::exp(logprob - static_cast<double>(sequence.oldLogprobs[t]));
  const double bounded = std::clamp(ratio, 1.0 - objective.clipLow, 1.0 + objective.clipHigh);
  // The minimum takes the clipped term, whose gradient is zero, where the ratio has already moved
  // too far.
  const bool clipped = bounded * advantage < ratio * advantage;
  double loss = -std::min(ratio * advantage, bounded * advantage);
  double slope = clipped ? 0.0 : -ratio * advantage;
  if (objective.klCoefficient != 0) {
    const double gap = static_cast<double>(sequence.referenceLogprobs[t]) - logprob;
    loss += objective.klCoefficient * (std::expm1(gap) - gap);
    slope -= objective.klCoefficient * std::expm1(gap);
  }
  return {weight * loss, weight * slope, clipped};
}

void headLoss(BlockContext& c, ModelWeights& model, const MicroBatch& batch,
              const Objective& objective, double scale, const float* hidden,
              std::vector<SequenceResult>& results, float* dHidden) {
  Engine& engine = c.pass.engine;
  const auto& variant = engine.variant();
  const std::int64_t d = c.hyper.width, V = c.hyper.vocabulary;
  const float inverseTemperature = 1.0f / (objective.policy ? objective.temperature : 1.0f);
  const float cap = c.hyper.finalCap;
  const bool scaled = c.hyper.logitScale != 1;
  const std::vector<LabelledToken> targets = labelledTokens(batch);

  const std::vector<const TrainSequence*>& sequences = batch.sequences;
  results.assign(sequences.size(), {});
  for (std::size_t s = 0; s < sequences.size(); ++s)
    results[s].logprobs.resize(sequences[s]->tokens.size());
  if (dHidden != nullptr) std::fill(dHidden, dHidden + c.pass.tokens * d, 0.0f);

  // Logits of so many rows at a time, with a row of scratch a thread where they are capped.
  const std::int64_t scratch = cap > 0 ? engine.pool().threads() * V : 0;
  const std::int64_t most = std::max<std::int64_t>(
      1, (kBytes / static_cast<std::int64_t>(sizeof(float)) - scratch) / (V + 2 * d));
  Buffer normed, dNormed, logits;
  std::vector<float> inverseRms;
  std::vector<RowLoss> losses;
  std::vector<double> entropies;
  Pass rowPass{engine, 0, c.pass.adapter, c.pass.training, c.pass.dropoutSeed};
  for (std::size_t first = 0; first < targets.size(); first += static_cast<std::size_t>(most)) {
    const std::int64_t n = std::min(most, static_cast<std::int64_t>(targets.size() - first));
    const LabelledToken* const some = targets.data() + first;
    rowPass.tokens = n;
    normed.resize(static_cast<std::size_t>(n * d));
    logits.resize(static_cast<std::size_t>(n * V));
    inverseRms.resize(static_cast<std::size_t>(n));
    losses.resize(static_cast<std::size_t>(n));
    entropies.resize(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      inverseRms[static_cast<std::size_t>(i)] =
          variant.normForward(hidden + some[i].row * d, model.outputNorm.values(),
                              normed.data() + i * d, d, c.hyper.normEpsilon);
    }
    linearForward(rowPass, model.head, normed.data(), logits.data());

    // Each row of logits becomes the gradient of the loss with respect to it.
    engine.pool().parallelFor(n, [&](std::int64_t begin, std::int64_t end) {
      Buffer capped;
      for (std::int64_t i = begin; i < end; ++i) {
        float* row = logits.data() + i * V;
        if (scaled) {
          for (std::int64_t v = 0; v < V; ++v) row[v] *= c.hyper.logitScale;
        }
        if (cap > 0) {
          variant.softCapForward(row, cap, V);
          capped.assign(row, row + V);
        }
        const TrainSequence& sequence = *sequences[some[i].sequence];
        const std::int32_t token = sequence.tokens[static_cast<std::size_t>(some[i].token)];
        const double logit =
            static_cast<double>(row[token]) * static_cast<double>(inverseTemperature);
        const float shift = variant.largest(row, V) * inverseTemperature;
        float moment;
        const double sum =
            static_cast<double>(variant.exponentials(row, inverseTemperature, shift, V, &moment));
        // z = logit / temperature - shift, p = exp(z) / sum: entropy = log(sum) - sum(p z).
        entropies[static_cast<std::size_t>(i)] = std::log(sum) - static_cast<double>(moment) / sum;
        const double logprob = logit - static_cast<double>(shift) - std::log(sum);
        results[some[i].sequence].logprobs[static_cast<std::size_t>(some[i].token)] =
            static_cast<float>(logprob);
        const RowLoss loss = rowLoss(objective, sequence, some[i].token,
                                     static_cast<double>(static_cast<float>(logprob)));
        losses[static_cast<std::size_t>(i)] = loss;
        if (dHidden == nullptr) continue;
        // d log p / d z = onehot - p
        const auto slope = static_cast<float>(loss.slope * scale) * inverseTemperature;
        const auto factor = static_cast<float>(static_cast<double>(-slope) / sum);
        for (std::int64_t v = 0; v < V; ++v) row[v] *= factor;
        row[token] += slope;
        if (cap > 0) variant.softCapBackward(capped.data(), cap, row, V);
        if (scaled) {
          for (std::int64_t v = 0; v < V; ++v) row[v] *= c.hyper.logitScale;
        }
      }
    });
    for (std::int64_t i = 0; i < n; ++i) {
      SequenceResult& result = results[some[i].sequence];
      result.loss += losses[static_cast<std::size_t>(i)].loss;
      result.clippedTokens += losses[static_cast<std::size_t>(i)].clipped ? 1 : 0;
      result.entropy += entropies[static_cast<std::size_t>(i)];
    }
    if (dHidden == nullptr) continue;
    dNormed.resize(normed.size());
    linearBackward(rowPass, model.head, normed.data(), logits.data(), dNormed.data(), false);
    for (std::int64_t i = 0; i < n; ++i) {
      variant.normBackward(hidden + some[i].row * d, model.outputNorm.values(),
                           inverseRms[static_cast<std::size_t>(i)], dNormed.data() + i * d,
                           dHidden + some[i].row * d, model.outputNorm.gradient(), d);
    }
  }
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    results[s].entropy /= static_cast<double>(std::max<std::int64_t>(1, sequences[s]->labels()));
  }
}

}  // namespace isopro::training
