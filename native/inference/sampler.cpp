#include "inference/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "inference/elementary.h"
#include "inference/logit_math.h"
#include "support/error.h"

namespace isopro {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

// Rows [vocabulary] that last for one draw. One set a thread, which stays in its cache, instead of
// one a sequence: 64 of those would be 39 MB of traffic a step.
struct DrawScratch {
  std::vector<float> adjusted;  // penalised or masked copy of the row
  std::vector<float> weights;   // exp of the tempered row
  std::vector<double> blockSums;
};

thread_local DrawScratch scratch;

// Leaves the tokens of the set.
void mask(std::vector<float>& row, const TokenSet& allowed) {
  for (size_t word = 0; word < allowed.size(); ++word) {
    const std::uint64_t bits = allowed[word];
    if (bits == ~std::uint64_t{0}) continue;
    const size_t begin = word * 64;
    for (size_t i = begin; i < std::min(row.size(), begin + 64); ++i)
      row[i] = (bits >> (i - begin) & 1) != 0 ? row[i] : kExcluded;
  }
}

}  // namespace

Sampler::Sampler(int vocabularySize, const SamplingSettings& settings, std::uint64_t seed,
                 const Grammar* grammar, const std::vector<std::int32_t>& prompt, HeldBack heldBack)
    : vocabularySize_(vocabularySize),
      settings_(settings),
      // Finite, so that the most likely token keeps weight 1 at the least temperature.
      inverse_(std::min(1.0f / settings.temperature, std::numeric_limits<float>::max())),
      random_(seed),
      grammar_(grammar),
      heldBack_(std::move(heldBack)) {
  if (grammar != nullptr) matcher_.emplace(grammar->start());
  if (settings_.repeatPenalty != 1.0f && settings_.repeatWindow > 0) {
    const size_t window = static_cast<size_t>(settings_.repeatWindow);
    recent_.assign(prompt.end() - static_cast<std::ptrdiff_t>(std::min(window, prompt.size())),
                   prompt.end());
  }
}

Sampled Sampler::next(const float* logits) {
  const Maximum top = maximum(logits, vocabularySize_);
  const double total = sumOfExponentials(logits, vocabularySize_, top.value, 1.0f);
  if (!std::isfinite(top.value) || !std::isfinite(total)) {
    throw Error(ErrorCode::numericFailure, "the model's logits are not finite");
  }
  const Drawn drawn = choose(logits);
  if (grammar_ != nullptr) grammar_->accept(*matcher_, drawn.token);
  remember(drawn.token);
  return {drawn.token,
          static_cast<float>(static_cast<double>(logits[drawn.token]) - top.value -
                             naturalLogarithm(total)),
          static_cast<float>(drawn.logProbability),
          mostLikely(logits, vocabularySize_, settings_.topLogProbabilities, top.value, total)};
}

void Sampler::remember(std::int32_t token) {
  ++sampled_;
  if (settings_.presencePenalty != 0.0f || settings_.frequencyPenalty != 0.0f) ++counts_[token];
  if (settings_.repeatPenalty == 1.0f || settings_.repeatWindow <= 0) return;
  if (recent_.size() < static_cast<size_t>(settings_.repeatWindow)) {
    recent_.push_back(token);
  } else {
    recent_[recentNext_] = token;
    recentNext_ = (recentNext_ + 1) % recent_.size();
  }
}

Sampler::Drawn Sampler::choose(const float* logits) {
  const float* row = logits;
  const auto adjust = [&]() -> std::vector<float>& {
    if (row == logits) scratch.adjusted.assign(logits, logits + vocabularySize_);
    row = scratch.adjusted.data();
    return scratch.adjusted;
  };
  if (adjusts()) penalise(adjust());
  const bool holding = sampled_ < heldBack_.tokens && !heldBack_.ends.empty();
  std::vector<float> heldBack;  // what the ends' logits would be
  if (holding) {
    std::vector<float>& adjusted = adjust();
    for (const std::int32_t end : heldBack_.ends)
      heldBack.push_back(std::exchange(adjusted[static_cast<size_t>(end)], kExcluded));
  }
  Maximum top = maximum(row, vocabularySize_);
  const bool greedy = settings_.temperature == 0.0f;
  // The most likely token of all, where the grammar allows it, is the most likely one that it
  // allows.
  if (grammar_ != nullptr &&
      !(greedy && std::isfinite(top.value) && grammar_->allows(*matcher_, top.index))) {
    const auto allowed = grammar_->allowed(*matcher_);
    mask(adjust(), *allowed);
    top = maximum(row, vocabularySize_);
    if (holding && !std::isfinite(top.value)) {
      for (size_t i = 0; i < heldBack.size(); ++i)
        scratch.adjusted[static_cast<size_t>(heldBack_.ends[i])] = heldBack[i];
      mask(scratch.adjusted, *allowed);
      top = maximum(row, vocabularySize_);
    }
  }
  if (!std::isfinite(top.value))
    throw Error(ErrorCode::numericFailure, "no token that may come next has a finite logit");
  if (greedy) return {top.index, 0.0};
  const bool whole = settings_.topK <= 0 && settings_.topP >= 1.0f && settings_.minP <= 0.0f;
  return whole ? draw(row, top.value) : drawTruncated(row, top.value);
}

bool Sampler::adjusts() const {
  return !recent_.empty() || !counts_.empty() || !settings_.logitBias.empty();
}

void Sampler::penalise(std::vector<float>& row) const {
  for (const auto& [token, bias] : settings_.logitBias) row[static_cast<size_t>(token)] += bias;
  std::vector<std::int32_t> distinct(recent_);
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const std::int32_t token : distinct) {
    float& logit = row[static_cast<size_t>(token)];
    // Finite with the least penalty, too.
    logit = logit > 0 ? std::min(logit / settings_.repeatPenalty, std::numeric_limits<float>::max())
                      : logit * settings_.repeatPenalty;
  }
  for (const auto& [token, count] : counts_) {
    row[static_cast<size_t>(token)] -=
        settings_.frequencyPenalty * static_cast<float>(count) + settings_.presencePenalty;
  }
}

Sampler::Drawn Sampler::draw(const float* logits, float top) {
  std::vector<float>& weights = scratch.weights;
  std::vector<double>& blockSums = scratch.blockSums;
  weights.resize(static_cast<size_t>(vocabularySize_));
  blockSums.resize(static_cast<size_t>((vocabularySize_ + kWeightBlock - 1) / kWeightBlock));
  exponentials(logits, vocabularySize_, top, inverse_, weights.data(), blockSums.data());
  const double total = std::accumulate(blockSums.begin(), blockSums.end(), 0.0);
  double target = random_.nextDouble() * total;
  size_t block = 0;
  while (block + 1 < blockSums.size() && target >= blockSums[block]) target -= blockSums[block++];
  std::int32_t last = -1;
  const int begin = static_cast<int>(block) * kWeightBlock;
  for (int i = begin; i < std::min(vocabularySize_, begin + kWeightBlock); ++i) {
    const float weight = weights[static_cast<size_t>(i)];
    if (weight == 0) continue;
    last = i;
    target -= weight;
    if (target < 0) break;
  }
  if (last < 0) last = maximum(logits, vocabularySize_).index;
  return {last, (static_cast<double>(logits[last]) - top) * inverse_ - naturalLogarithm(total)};
}

Sampler::Drawn Sampler::drawTruncated(const float* logits, float top) {
  const std::vector<Candidate> kept = truncate(logits, top);
  const auto weight = [&](const Candidate& candidate) {
    return naturalExponential((static_cast<double>(candidate.logit) - top) * inverse_);
  };
  double total = 0;
  for (const Candidate& candidate : kept) total += weight(candidate);
  double target = random_.nextDouble() * total;
  size_t at = 0;
  while (at + 1 < kept.size() && (target -= weight(kept[at])) >= 0) ++at;
  return {kept[at].token,
          (static_cast<double>(kept[at].logit) - top) * inverse_ - naturalLogarithm(total)};
}

// The tokens that top-k, then top-p over their mass, then min-p leave: most likely first, ties by
// id.
std::vector<Sampler::Candidate> Sampler::truncate(const float* logits, float top) const {
  const auto moreLikely = [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  };
  const auto weight = [&](const Candidate& candidate) {
    return naturalExponential((static_cast<double>(candidate.logit) - top) * inverse_);
  };
  const auto count = static_cast<size_t>(vocabularySize_);
  const size_t topK =
      settings_.topK > 0 ? std::min(static_cast<size_t>(settings_.topK), count) : count;
  const bool limited = topK < count;
  const bool nucleus = settings_.topP < 1.0f;
  const double whole =
      nucleus && !limited ? sumOfExponentials(logits, vocabularySize_, top, inverse_) : 0.0;
  // exp((logit - top) / T) >= minP  <=>  logit >= top + T ln(minP)
  const float floor =
      settings_.minP > 0.0f
          ? top + settings_.temperature * static_cast<float>(naturalLogarithm(settings_.minP))
          : kExcluded;
  // What min-p is going to take need not be gathered, unless it has a share in the mass of the top
  // k.
  const float lowest = limited && nucleus ? kExcluded : floor;

  std::vector<Candidate> kept;
  // Candidates far below the maximum are rarely needed: look near it first and widen until enough
  // are found.
  for (float reach = 8.0f * settings_.temperature;; reach *= 4.0f) {
    const float threshold = reach > 1e4f ? lowest : std::max(lowest, top - reach);
    kept.clear();
    for (int i = 0; i < vocabularySize_; ++i) {
      if (logits[i] >= threshold && logits[i] != kExcluded) kept.push_back({logits[i], i});
    }
    if (threshold == lowest) break;
    if (limited ? kept.size() >= topK
                : nucleus && std::accumulate(kept.begin(), kept.end(), 0.0,
                                             [&](double sum, const Candidate& candidate) {
                                               return sum + weight(candidate);
                                             }) >= settings_.topP * whole)
      break;
  }
  if (kept.size() > topK) {
    std::nth_element(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(topK) - 1, kept.end(),
                     moreLikely);
    kept.resize(topK);
  }
  std::sort(kept.begin(), kept.end(), moreLikely);
  if (nucleus) {
    double mass = whole;
    if (limited) {
      for (const Candidate& candidate : kept) mass += weight(candidate);
    }
    double reached = 0;
    size_t keep = 0;
    while (keep < kept.size() && reached < settings_.topP * mass) reached += weight(kept[keep++]);
    kept.resize(std::max<size_t>(1, keep));
  }
  while (kept.size() > 1 && kept.back().logit < floor) kept.pop_back();
  return kept;
}

}  // namespace isopro
