// The whole pass over a packed batch: embedding or boundary, blocks, head, and back down to the
// lowest trained layer.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "support/stage_time.h"
#include "training/loss.h"

namespace isopro::training {

// Of the passes so far. `forward` is that of a differentiated batch, up to the output head.
struct PassTimes {
  StageTime forward, head, backward;
};

class Network {
 public:
  // `activationBytes`: activations are kept for as many of the upper layers as fit, the others are
  // recomputed from their block's input.
  Network(ModelWeights& model, Engine& engine, std::size_t activationBytes);

  // First layer with something to train (`layers` where nothing is); below it nothing is
  // differentiated.
  std::int64_t lowestTrained() const;

  // Loss, log-probabilities and entropy without gradient. adapter false: of the base model.
  std::vector<SequenceResult> evaluate(const MicroBatch& batch, const Objective& objective,
                                       bool adapter, const std::atomic<bool>& abort);
  // The same, and adds the gradient, times `scale`, to every parameter's.
  std::vector<SequenceResult> differentiate(const MicroBatch& batch, const Objective& objective,
                                            double scale, std::uint64_t dropoutSeed,
                                            const std::atomic<bool>& abort);
  // Input of `layer`, [rows, width]. adapter false: of the base model.
  Buffer hiddenBefore(const MicroBatch& batch, std::int64_t layer, bool adapter,
                      const std::atomic<bool>& abort);

  const PassTimes& times() const { return times_; }
  void setActivationBytes(std::size_t bytes) { activationBytes_ = bytes; }
  std::size_t activationBytes() const { return activationBytes_; }
  // Of a micro-batch of so many rows, where those of `kept` layers are kept.
  std::size_t activationBytes(std::int64_t rows, std::int64_t kept) const;
  // `promptBytes`: of the memory, what keys and values of prompts take.
  std::int64_t keptLayers(std::int64_t rows, std::size_t promptBytes = 0) const;
  // Frees what passes leave for the next one, which allocates it anew.
  void releaseBuffers();
  // Whether the memory holds a micro-batch of so many rows with everything recomputed, what of its
  // working buffers is counted, and the keys and values of its prompts.
  bool fits(std::int64_t rows, std::int64_t promptTokens = 0) const {
    return leastBytes(rows) + PromptKeys::bytes(model_.hyper, promptTokens) <= activationBytes_;
  }

 private:
  std::size_t countedScratchBytes(std::int64_t rows) const;
  std::size_t leastBytes(std::int64_t rows) const {
    return activationBytes(rows, 0) + countedScratchBytes(rows);
  }
  void forwardLayers(BlockContext& context, std::int64_t from, std::int64_t to, Buffer& x,
                     const std::atomic<bool>& abort);
  // The keys and values that the batch's segments continue; evaluates those that are not held.
  PromptList promptsOf(const MicroBatch& batch, const std::atomic<bool>& abort);
  void evaluatePrompts(const std::vector<TrainSequence>& prompts,
                       const std::vector<std::shared_ptr<PromptKeys>>& keys,
                       const std::atomic<bool>& abort);
  // What the rows of a batch enter the network with, where all sequences enter at one layer.
  Buffer entering(const MicroBatch& batch) const;
  void embeddingBackward(const MicroBatch& batch, const Buffer& gradient);
  const Rotations& rotations(std::int64_t positions);

  ModelWeights& model_;
  Engine& engine_;
  std::size_t activationBytes_;
  PromptStore prompts_;
  Rotations rotations_;
  std::int64_t rotationPositions_ = 0;
  BlockScratch scratch_;
  PassTimes times_;
  std::vector<BlockActivations> activations_;  // [0]: of a layer that is not kept
  std::vector<Buffer> inputs_;                 // of the layers that are not kept
};

}  // namespace isopro::training
