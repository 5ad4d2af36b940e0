#include "inference/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "inference/logit_math.h"
#include "support/error.h"

namespace isopro {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

// Rows [vocabulary] that last for one draw. One set a thread, which stays in its cache, instead of one a sequence: 64 of
// those would be 39 MB of traffic a step.
struct Scratch {
  std::vector<float> adjusted;  // penalised or masked copy of the row
  std::vector<float> weights;   // exp of the tempered row
  std::vector<double> blockSums;
};

thread_local Scratch scratch;

}  // namespace

Grammar::Grammar(const Model& model, const std::string& gbnf) : rules_(parseGrammar(gbnf)) {
  pieces_.reserve(static_cast<size_t>(model.vocabularySize()));
  for (Token token = 0; token < model.vocabularySize(); ++token) pieces_.push_back(model.piece(token, false));
}

Sampler::Sampler(const Model& model, const SamplingSettings& settings, std::uint64_t seed, const Grammar* grammar,
                 const std::vector<Token>& prompt)
    : model_(model), settings_(settings), random_(seed), grammar_(grammar) {
  if (grammar != nullptr) matcher_.emplace(grammar->rules());
  if (settings_.repeatPenalty != 1.0f && settings_.repeatWindow > 0) {
    const size_t window = static_cast<size_t>(settings_.repeatWindow);
    recent_.assign(prompt.end() - static_cast<std::ptrdiff_t>(std::min(window, prompt.size())), prompt.end());
  }
}

Sampled Sampler::next(const float* logits) {
  const int count = model_.vocabularySize();
  const Maximum top = maximum(logits, count);
  const double total = sumOfExponentials(logits, count, top.value, 1.0f);
  if (!std::isfinite(top.value) || !std::isfinite(total)) {
    throw Error("NUMERIC_FAILURE", "the model's logits are not finite");
  }

  const Token token = choose(logits);
  if (grammar_ != nullptr && !llama_vocab_is_eog(model_.vocab(), token)) matcher_->accept(grammar_->piece(token));
  if (settings_.repeatPenalty != 1.0f && settings_.repeatWindow > 0) {
    if (recent_.size() < static_cast<size_t>(settings_.repeatWindow)) {
      recent_.push_back(token);
    } else {
      recent_[recentNext_] = token;
      recentNext_ = (recentNext_ + 1) % recent_.size();
    }
  }
  return {token, static_cast<float>(static_cast<double>(logits[token]) - top.value - std::log(total))};
}

Token Sampler::choose(const float* logits) {
  const float* row = logits;
  if (!recent_.empty()) {
    scratch.adjusted.assign(logits, logits + model_.vocabularySize());
    penalise(scratch.adjusted);
    row = scratch.adjusted.data();
  }
  const auto pick = [&]() -> Token {
    const Maximum top = maximum(row, model_.vocabularySize());
    return settings_.temperature == 0.0f ? top.index : draw(row, top.value);
  };
  const Token token = pick();
  if (grammar_ == nullptr || grammarAllows(token)) return token;
  // Masking the whole vocabulary walks the grammar for every token; it is done only when the first draw is refused,
  // which leaves the conditional distribution unchanged.
  if (row == logits) scratch.adjusted.assign(logits, logits + model_.vocabularySize());
  row = scratch.adjusted.data();
  maskByGrammar(scratch.adjusted);
  return pick();
}

void Sampler::penalise(std::vector<float>& row) const {
  std::vector<Token> distinct(recent_);
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const Token token : distinct) {
    float& logit = row[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / settings_.repeatPenalty : logit * settings_.repeatPenalty;
  }
}

bool Sampler::grammarAllows(Token token) {
  if (llama_vocab_is_eog(model_.vocab(), token)) return matcher_->mayEnd();
  const std::string& piece = grammar_->piece(token);
  return !piece.empty() && matcher_->allows(piece);
}

void Sampler::maskByGrammar(std::vector<float>& row) {
  bool any = false;
  for (size_t i = 0; i < row.size(); ++i) {
    if (grammarAllows(static_cast<Token>(i))) {
      any = true;
    } else {
      row[i] = kExcluded;
    }
  }
  if (!any) throw Error("GRAMMAR_INVALID", "no token of the vocabulary continues the text that the grammar has accepted");
}

Token Sampler::draw(const float* logits, float top) {
  const int count = model_.vocabularySize();
  const float inverse = 1.0f / settings_.temperature;
  const bool whole = settings_.topK <= 0 && settings_.topP >= 1.0f && settings_.minP <= 0.0f;
  if (!whole) {
    const double total = settings_.topP < 1.0f ? sumOfExponentials(logits, count, top, inverse) : 0.0;
    const std::vector<Candidate> kept = truncate(logits, top, total);
    double sum = 0;
    for (const Candidate& candidate : kept) sum += std::exp(static_cast<double>(candidate.logit - top) * inverse);
    double target = random_.nextDouble() * sum;
    for (const Candidate& candidate : kept) {
      target -= std::exp(static_cast<double>(candidate.logit - top) * inverse);
      if (target < 0) return candidate.token;
    }
    return kept.back().token;
  }

  std::vector<float>& weights = scratch.weights;
  std::vector<double>& blockSums = scratch.blockSums;
  weights.resize(static_cast<size_t>(count));
  blockSums.resize(static_cast<size_t>((count + kWeightBlock - 1) / kWeightBlock));
  exponentials(logits, count, top, inverse, weights.data(), blockSums.data());
  double target = random_.nextDouble() * std::accumulate(blockSums.begin(), blockSums.end(), 0.0);
  size_t block = 0;
  while (block + 1 < blockSums.size() && target >= blockSums[block]) target -= blockSums[block++];
  Token last = -1;
  const int begin = static_cast<int>(block) * kWeightBlock;
  for (int i = begin; i < std::min(count, begin + kWeightBlock); ++i) {
    const float weight = weights[static_cast<size_t>(i)];
    if (weight == 0) continue;
    last = i;
    target -= weight;
    if (target < 0) break;
  }
  return last >= 0 ? last : maximum(logits, count).index;
}

// The tokens that top-k, top-p and min-p leave, most likely first, ties by id. `total` is the sum of exponentials over
// the row at this temperature (needed for top-p alone; with top-k the mass is taken over the k kept ones).
std::vector<Sampler::Candidate> Sampler::truncate(const float* logits, float top, double total) const {
  const int count = model_.vocabularySize();
  const float inverse = 1.0f / settings_.temperature;
  const auto moreLikely = [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  };
  // exp((logit - top) / T) >= minP  <=>  logit >= top + T ln(minP)
  const float floor = settings_.minP > 0.0f ? top + settings_.temperature * std::log(settings_.minP) : kExcluded;

  std::vector<Candidate> kept;
  const auto gather = [&](float threshold) {
    kept.clear();
    for (int i = 0; i < count; ++i) {
      if (logits[i] >= threshold && logits[i] != kExcluded) kept.push_back({logits[i], i});
    }
  };

  const size_t topK = settings_.topK > 0 ? std::min(static_cast<size_t>(settings_.topK), static_cast<size_t>(count)) : 0;
  // Candidates far below the maximum are rarely needed: look near it first and widen until enough are found.
  for (float reach = 8.0f * settings_.temperature;; reach *= 4.0f) {
    const bool everything = reach > 1e4f;
    const float threshold = everything ? kExcluded : std::max(floor, top - reach);
    gather(threshold);
    const bool complete = everything || threshold <= floor;
    if (topK > 0) {
      if (kept.size() < topK && !complete) continue;
      if (kept.size() > topK) {
        std::nth_element(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(topK) - 1, kept.end(), moreLikely);
        kept.resize(topK);
      }
    }
    if (settings_.topP < 1.0f) {
      double mass = 0;
      for (const Candidate& candidate : kept) mass += std::exp(static_cast<double>(candidate.logit - top) * inverse);
      const double whole = topK > 0 ? mass : total;
      if (topK == 0 && mass < settings_.topP * whole && !complete) continue;
      std::sort(kept.begin(), kept.end(), moreLikely);
      double reached = 0;
      size_t keep = 0;
      while (keep < kept.size() && reached < settings_.topP * whole) {
        reached += std::exp(static_cast<double>(kept[keep++].logit - top) * inverse);
      }
      kept.resize(std::max<size_t>(1, keep));
    } else {
      if (topK == 0 && !complete) continue;
      std::sort(kept.begin(), kept.end(), moreLikely);
    }
    break;
  }
  while (kept.size() > 1 && kept.back().logit < floor) kept.pop_back();
  return kept;
}

}  // namespace isopro
