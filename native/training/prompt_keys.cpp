#include "training/prompt_keys.h"

#include <algorithm>
#include <cstring>

namespace isopro::training {
namespace {

std::size_t promptLength(const TrainSequence& sequence) {
  return static_cast<std::size_t>(sequence.adapterFrom);
}

// Of the given rows, how many values are the prompt's.
std::size_t promptValues(const TrainSequence& sequence, std::size_t width) {
  return sequence.boundary.empty() ? 0 : promptLength(sequence) * width;
}

bool sameBoundary(const std::uint16_t* a, const std::uint16_t* b, std::size_t count) {
  return count == 0 || std::memcmp(a, b, count * sizeof(std::uint16_t)) == 0;
}

}  // namespace

PromptKeys::PromptKeys(const TrainSequence& sequence, const Hyperparameters& hyper)
    : tokens(sequence.tokens.begin(), sequence.tokens.begin() + sequence.adapterFrom),
      firstLayer(sequence.boundary.empty() ? 0 : sequence.boundaryLayer),
      boundary(
          sequence.boundary.data,
          sequence.boundary.data + promptValues(sequence, static_cast<std::size_t>(hyper.width))) {
  const auto layers = static_cast<std::size_t>(hyper.layers - firstLayer);
  const std::size_t size = tokens.size() * static_cast<std::size_t>(hyper.keyWidth());
  k.assign(layers, Buffer(size));
  v.assign(layers, Buffer(size));
}

bool PromptKeys::isOf(const TrainSequence& sequence) const {
  if (tokens.size() != promptLength(sequence) || boundary.empty() != sequence.boundary.empty() ||
      (!boundary.empty() && firstLayer != sequence.boundaryLayer))
    return false;
  return std::equal(tokens.begin(), tokens.end(), sequence.tokens.begin()) &&
         sameBoundary(boundary.data(), sequence.boundary.data, boundary.size());
}

std::size_t PromptKeys::bytes() const {
  return k.empty() ? 0 : 2 * k.size() * k.front().size() * sizeof(float);
}

std::size_t PromptKeys::bytes(const Hyperparameters& hyper, std::int64_t tokens) {
  return static_cast<std::size_t>(2 * hyper.layers * tokens * hyper.keyWidth()) * sizeof(float);
}

bool samePrompt(const TrainSequence& a, const TrainSequence& b, std::int64_t width) {
  if (a.adapterFrom != b.adapterFrom || a.boundary.empty() != b.boundary.empty() ||
      (!a.boundary.empty() && a.boundaryLayer != b.boundaryLayer))
    return false;
  return std::equal(a.tokens.begin(), a.tokens.begin() + a.adapterFrom, b.tokens.begin()) &&
         sameBoundary(a.boundary.data, b.boundary.data,
                      promptValues(a, static_cast<std::size_t>(width)));
}

Pasts pastsAt(const PromptList& prompts, std::int64_t layer) {
  Pasts pasts;
  for (const auto& prompt : prompts) {
    // A sequence enters at this layer or below it: so did its prompt.
    const auto at = static_cast<std::size_t>(layer - prompt->firstLayer);
    pasts.push_back({static_cast<std::int64_t>(prompt->tokens.size()), prompt->k[at].data(),
                     prompt->v[at].data()});
  }
  return pasts;
}

std::shared_ptr<const PromptKeys> PromptStore::find(const TrainSequence& sequence) {
  const auto found = std::find_if(held_.begin(), held_.end(),
                                  [&](const auto& prompt) { return prompt->isOf(sequence); });
  if (found == held_.end()) return nullptr;
  held_.splice(held_.end(), held_, found);
  return held_.back();
}

void PromptStore::add(std::shared_ptr<const PromptKeys> prompt) {
  bytes_ += prompt->bytes();
  held_.push_back(std::move(prompt));
}

void PromptStore::makeRoom(std::size_t bytes, std::size_t most) {
  while (bytes_ + bytes > most && !held_.empty()) {
    bytes_ -= held_.front()->bytes();
    held_.pop_front();
  }
}

}  // namespace isopro::training
