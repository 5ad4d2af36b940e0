// From sequences to gradients and measurements; update.cpp takes the gradients.
#include <algorithm>
#include <cmath>

#include "model/invocation.h"
#include "support/error.h"
#include "support/halves.h"
#include "training/trainer.h"

namespace isopro::training {
namespace {

std::int64_t labels(const std::vector<TrainSequence>& sequences) {
  std::int64_t count = 0;
  for (const TrainSequence& sequence : sequences) count += sequence.labels();
  return count;
}

}  // namespace

std::vector<TrainSequence> Trainer::activated(const std::vector<TrainSequence>& sequences) const {
  const std::vector<std::int32_t>& invocation = options_.invocationTokens;
  std::vector<TrainSequence> all = sequences;
  for (std::size_t s = 0; s < all.size(); ++s) {
    TrainSequence& sequence = all[s];
    const auto reply =
        std::find(sequence.labelled.begin(), sequence.labelled.end(), std::uint8_t{1}) -
        sequence.labelled.begin();
    const std::int64_t length =
        std::min<std::int64_t>(reply, static_cast<std::int64_t>(sequence.tokens.size()));
    sequence.adapterFrom = activationIn(sequence.tokens, length, invocation);
    if (!invocation.empty() && sequence.adapterFrom == length)
      invalid("sequence " + std::to_string(s) +
              " does not have the adapter's invocation tokens before its first label");
  }
  return all;
}

void Trainer::check(const std::vector<TrainSequence>& sequences, const Objective& objective,
                    bool step) const {
  if (sequences.empty()) invalid("the batch is empty");
  if (labels(sequences) == 0) invalid("no token of the batch is labelled");
  const Hyperparameters& h = model_->hyper;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const TrainSequence& sequence = sequences[s];
    const std::string which = "sequence " + std::to_string(s);
    const std::size_t count = sequence.tokens.size();
    if (count < 2) invalid(which + " has fewer than two tokens");
    if (static_cast<std::int64_t>(count) > h.contextLength) {
      throw Error(ErrorCode::contextOverflow, which + " has " + std::to_string(count) +
                                                  " tokens, the model's context " +
                                                  std::to_string(h.contextLength));
    }
    for (const std::int32_t token : sequence.tokens) {
      if (token < 0 || token >= h.vocabulary)
        invalid(which + " has token " + std::to_string(token) + " outside the vocabulary");
    }
    if (sequence.labelled.size() != count) invalid(which + " has a label mask of another length");
    if (sequence.labelled[0] != 0)
      invalid(which + " labels its first token, which nothing predicts");
    for (const std::uint8_t label : sequence.labelled) {
      if (label > 1) invalid(which + " has a label mask other than 0 and 1");
    }
    if (!std::isfinite(sequence.weight)) invalid(which + " has a weight that is not finite");
    const auto checkRow = [&](const std::vector<float>& row, const char* name, bool needed) {
      if (row.empty() && !needed) return;
      if (row.size() != count) invalid(which + " needs " + std::string(name) + " for each token");
      if (!allFinite(row)) invalid(which + " has " + name + " that are not finite");
    };
    checkRow(sequence.advantages, "advantages", objective.policy && step);
    checkRow(sequence.oldLogprobs, "old log-probabilities", false);
    checkRow(sequence.referenceLogprobs, "reference log-probabilities",
             objective.policy && objective.klCoefficient != 0);
    if (sequence.boundary.empty()) continue;
    // A generation has not evaluated its last token; nothing depends on that row.
    const auto width = static_cast<std::size_t>(h.width);
    if (sequence.boundary.size != count * width && sequence.boundary.size != (count - 1) * width) {
      invalid(which + " has a boundary of another size than tokens x width");
    }
    if (sequence.boundaryLayer < 0 || sequence.boundaryLayer > network_->lowestTrained()) {
      throw Error(ErrorCode::adapterMismatch, which + " has a boundary at layer " +
                                                  std::to_string(sequence.boundaryLayer) +
                                                  ", above the lowest trained layer " +
                                                  std::to_string(network_->lowestTrained()));
    }
  }
}

std::vector<MicroBatch> Trainer::microBatches(const std::vector<TrainSequence>& sequences,
                                              const std::vector<std::int64_t>& counts) const {
  std::vector<MicroBatch> batches;
  std::size_t next = 0;
  for (const std::int64_t count : counts) {
    if (count < 1 || static_cast<std::uint64_t>(count) > sequences.size() - next)
      invalid("micro-batches do not add up to the batch");
    Packer packer(options_.sharePrefixes, model_->hyper.width);
    for (std::int64_t i = 0; i < count; ++i) packer.add(sequences[next++]);
    batches.push_back(packer.packed());
  }
  if (next != sequences.size()) invalid("micro-batches do not add up to the batch");
  return batches;
}

// Longer micro-batches share more, but leave less memory for activations, and more has to be
// recomputed: the limit is doubled as long as the memory holds what comes of it, and the cheapest
// is taken, the shortest of equals.
std::vector<std::int64_t> Trainer::cheapestDivision(const std::vector<TrainSequence>& sequences,
                                                    std::int64_t least, bool backward) const {
  const auto total = static_cast<std::int64_t>(sequences.size());
  const std::int64_t layers = model_->hyper.layers - network_->lowestTrained();
  std::vector<std::int64_t> best;
  std::int64_t lowestCost = 0;
  for (std::int64_t limit = options_.microBatchTokens;; limit *= 2) {
    std::vector<std::int64_t> counts;
    std::int64_t cost = 0;
    bool fits = true;
    const auto close = [&](const Packer& packer) {
      counts.push_back(static_cast<std::int64_t>(packer.size()));
      fits = fits && network_->fits(packer.rows(), packer.promptTokens());
      // A layer's products: forward, gradient, and forward again where its activations are not
      // kept.
      cost += packer.rows() * (backward ? 3 * layers - network_->keptLayers(packer.rows()) : 1);
    };
    const auto divide = [&](const auto& ends) {
      counts.clear(), cost = 0, fits = true;
      Packer packer(options_.sharePrefixes, model_->hyper.width);
      for (const TrainSequence& sequence : sequences) {
        if (packer.size() > 0 && ends(packer, sequence)) {
          close(packer);
          packer = Packer(options_.sharePrefixes, model_->hyper.width);
        }
        packer.add(sequence);
      }
      close(packer);
    };
    divide([&](const Packer& packer, const TrainSequence& sequence) {
      const std::int64_t rows = packer.rows() + packer.rowsOf(sequence);
      const std::int64_t prompts = packer.promptTokensWith(sequence);
      return rows > limit || (prompts > 0 && !network_->fits(rows, prompts));
    });
    const auto found = static_cast<std::int64_t>(counts.size());
    // As even as can be.
    const std::int64_t parts = std::min(least, total);
    if (found < parts) {
      divide([&](const Packer& packer, const TrainSequence&) {
        const auto index = static_cast<std::int64_t>(counts.size());
        return static_cast<std::int64_t>(packer.size()) ==
               total / parts + (index < total % parts ? 1 : 0);
      });
    }
    if (best.empty() || (fits && cost < lowestCost)) best = counts, lowestCost = cost;
    if (!fits || !options_.sharePrefixes || found <= parts) return best;
  }
}

void Trainer::checkMemory(const MicroBatch& batch) {
  std::int64_t prompts = 0;
  for (const TrainSequence* sequence : batch.prompts) prompts += sequence->adapterFrom;
  if (prompts > 0 && !network_->fits(batch.rows(), prompts)) {
    invalid("memoryBytes of " + std::to_string(options_.memoryBytes) +
            " does not hold a micro-batch of " + std::to_string(batch.rows()) +
            " tokens and the keys and values of " + std::to_string(prompts) +
            " prompt tokens: give more memory, shorter prompts or fewer sequences");
  }
  const std::int64_t rows = batch.rows();
  const std::size_t needed = network_->activationBytes(rows, 0);
  if (needed <= network_->activationBytes()) return;
  const std::size_t count = batch.sequences.size();
  const std::string what =
      count == 1 ? "a sequence" : std::to_string(count) + " sequences in one micro-batch";
  invalid("memoryBytes of " + std::to_string(options_.memoryBytes) +
          " does not hold the activations of " + what + " of " + std::to_string(rows) +
          " tokens: it takes " + std::to_string(needed + optimiserBytes()) + ", or a " +
          (count == 1 ? "sequence" : "micro-batch") + " of at most " +
          std::to_string(static_cast<std::size_t>(rows) * network_->activationBytes() / needed) +
          " tokens, or fewer trained layers");
}

StepStatistics Trainer::differentiate(const std::vector<TrainSequence>& given,
                                      const Objective& objective, const std::atomic<bool>& abort,
                                      const Division& division) {
  const std::vector<TrainSequence> sequences = activated(given);
  check(sequences, objective, true);
  shareMemory();
  const std::vector<MicroBatch> batches = microBatches(
      sequences, division.counts.empty() ? cheapestDivision(sequences, division.least, true)
                                         : division.counts);
  for (const MicroBatch& batch : batches) checkMemory(batch);
  StepStatistics s;
  s.step = step_ + 1;
  s.tokens = labels(sequences);
  const double scale = 1.0 / static_cast<double>(s.tokens);
  const std::vector<Parameter*> all = parameters();
  for (Parameter* p : all) std::fill(p->gradient.begin(), p->gradient.end(), 0.0f);
  for (Lora* lora : loras()) {
    lora->activity.assign(static_cast<std::size_t>(lora->rank()), 0.0);
    lora->activityTokens = 0;
  }

  // With several micro-batches each one's own gradient is wanted too: it is summed apart and then
  // added.
  std::vector<std::vector<float>> sums(batches.size() > 1 ? all.size() : 0);
  double clipped = 0, gap = 0, kl = 0;
  std::int64_t gapTokens = 0, klTokens = 0;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const std::uint64_t dropoutSeed =
        SplitMix64(options_.seed ^ SplitMix64(static_cast<std::uint64_t>(step_) << 20 | b).next())
            .next();
    const auto results = network_->differentiate(batches[b], objective, scale, dropoutSeed, abort);
    std::int64_t tokens = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const TrainSequence& sequence = *batches[b].sequences[i];
      s.loss += results[i].loss;
      clipped += results[i].clippedTokens;
      tokens += sequence.labels();
      for (std::size_t t = 0; t < sequence.tokens.size(); ++t) {
        if (!sequence.labelled[t]) continue;
        const double logprob = static_cast<double>(results[i].logprobs[t]);
        if (!sequence.oldLogprobs.empty())
          gap += std::fabs(logprob - static_cast<double>(sequence.oldLogprobs[t])), ++gapTokens;
        if (sequence.referenceLogprobs.empty()) continue;
        const double d = static_cast<double>(sequence.referenceLogprobs[t]) - logprob;
        kl += std::expm1(d) - d, ++klTokens;
      }
    }
    double squared = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      squared += squaredNorm(all[i]->gradient);
      if (sums.empty()) continue;
      sums[i].resize(all[i]->gradient.size());
      for (std::size_t k = 0; k < sums[i].size(); ++k) sums[i][k] += all[i]->gradient[k];
      std::fill(all[i]->gradient.begin(), all[i]->gradient.end(), 0.0f);
    }
    s.microBatchNorms.push_back(tokens == 0 ? 0.0
                                            : std::sqrt(squared) * static_cast<double>(s.tokens) /
                                                  static_cast<double>(tokens));
    s.microBatchTokens.push_back(tokens);
  }
  for (std::size_t i = 0; i < sums.size(); ++i) all[i]->gradient.swap(sums[i]);

  s.loss *= scale;
  s.clipFraction = clipped * scale;
  s.oldPolicyGap = gapTokens == 0 ? 0.0 : gap / static_cast<double>(gapTokens);
  s.klToReference = klTokens == 0 ? 0.0 : kl / static_cast<double>(klTokens);
  if (!std::isfinite(s.loss)) s.nonFinite.push_back("loss");
  double squared = 0;
  for (const Parameter* p : all) {
    const double norm = squaredNorm(p->gradient);
    if (!std::isfinite(norm)) s.nonFinite.push_back(p->name);
    squared += norm;
  }
  s.gradNorm = std::sqrt(squared);
  for (Lora* lora : loras()) {
    ModuleStatistics m;
    m.module = lora->module;
    m.pairGradNorm = std::sqrt(squaredNorm(lora->a.gradient) + squaredNorm(lora->b.gradient));
    m.dormantDirections = dormantDirections(*lora);
    m.dormantFraction =
        static_cast<double>(m.dormantDirections.size()) / static_cast<double>(lora->rank());
    s.modules.push_back(std::move(m));
  }
  return s;
}

StepStatistics Trainer::step(const std::vector<TrainSequence>& sequences,
                             const Objective& objective, const std::atomic<bool>& abort,
                             const Division& division) {
  StepStatistics s = differentiate(sequences, objective, abort, division);
  s.learningRate = static_cast<double>(learningRateAt(options_.optimiser, step_ + 1));
  if (s.nonFinite.empty()) {
    const Timed timed(times_.optimiser);
    update(s);
    ++step_;
    s.applied = true;
  }
  return s;
}

Evaluation Trainer::evaluate(const std::vector<TrainSequence>& given, const Objective& objective,
                             bool adapter, const std::atomic<bool>& abort) {
  const Timed timed(times_.evaluation);
  const std::vector<TrainSequence> sequences = activated(given);
  check(sequences, objective, false);
  shareMemory();
  Evaluation evaluation;
  evaluation.tokens = labels(sequences);
  for (const MicroBatch& batch : microBatches(sequences, cheapestDivision(sequences, 1, false))) {
    for (SequenceResult& result : network_->evaluate(batch, objective, adapter, abort)) {
      evaluation.loss += result.loss / static_cast<double>(evaluation.tokens);
      evaluation.sequences.push_back(std::move(result));
    }
  }
  return evaluation;
}

std::vector<std::vector<std::uint16_t>> Trainer::captureBoundary(
    const std::vector<TrainSequence>& given, const std::atomic<bool>& abort) {
  const Timed timed(times_.boundaries);
  std::vector<TrainSequence> sequences = given;
  for (TrainSequence& sequence : sequences) sequence.adapterFrom = 0;  // rows of all tokens
  check(sequences, Objective{}, false);
  shareMemory();
  std::vector<std::vector<std::uint16_t>> boundaries;
  for (const MicroBatch& batch : microBatches(sequences, cheapestDivision(sequences, 1, false))) {
    const Buffer rows = network_->hiddenBefore(batch, network_->lowestTrained(), true, abort);
    const auto width = static_cast<std::size_t>(model_->hyper.width);
    for (const std::vector<std::int64_t>& rowOf : batch.rowOf) {
      std::vector<std::uint16_t> halves(rowOf.size() * width);
      for (std::size_t t = 0; t < rowOf.size(); ++t) {
        toHalves(rows.data() + rowOf[t] * model_->hyper.width, halves.data() + t * width,
                 model_->hyper.width, static_cast<int>(network_->lowestTrained()));
      }
      boundaries.push_back(std::move(halves));
    }
  }
  return boundaries;
}

}  // namespace isopro::training
