// Keys and values of what stands before an adapter acts: the base model's, which no step changes.
// They are evaluated once and held as long as there is room.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "training/attention.h"
#include "training/buffer.h"
#include "training/sequence.h"

namespace isopro::training {

// Of the tokens before a sequence's adapterFrom.
struct PromptKeys {
  std::vector<std::int32_t> tokens;
  std::int64_t firstLayer = 0;          // of those that are evaluated
  std::vector<std::uint16_t> boundary;  // what entered it, where that was given
  std::vector<Buffer> k, v;             // [layers - firstLayer][tokens, keyWidth]

  // Nothing is evaluated yet.
  PromptKeys(const TrainSequence& sequence, const Hyperparameters& hyper);

  bool isOf(const TrainSequence& sequence) const;
  std::size_t bytes() const;
  // Of so many tokens of any prompts, where all layers are evaluated.
  static std::size_t bytes(const Hyperparameters& hyper, std::int64_t tokens);
};
using PromptList = std::vector<std::shared_ptr<const PromptKeys>>;

// What the segments of a batch continue, in one layer.
Pasts pastsAt(const PromptList& prompts, std::int64_t layer);

// Whether two sequences have the same tokens before the adapter acts, and the same given rows.
bool samePrompt(const TrainSequence& a, const TrainSequence& b, std::int64_t width);

// Those that were used last, as many as there is room for.
class PromptStore {
 public:
  // Null where it is not held. It counts as used now.
  std::shared_ptr<const PromptKeys> find(const TrainSequence& sequence);
  void add(std::shared_ptr<const PromptKeys> prompt);
  // Lets go of what was used longest ago until `bytes` more have room. What a batch still refers to
  // stays in memory until it is done.
  void makeRoom(std::size_t bytes, std::size_t most);
  void clear() { held_.clear(), bytes_ = 0; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
  std::list<std::shared_ptr<const PromptKeys>> held_;  // used longest ago first
};

}  // namespace isopro::training
