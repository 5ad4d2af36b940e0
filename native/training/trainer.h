// The trainer: LoRA factors (or all weights) on a frozen model, steps, and edits in flight.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/random.h"
#include "training/adamw.h"
#include "training/network.h"
#include "training/statistics.h"

namespace isopro::training {

struct AdapterModule;  // adapter_file.h

// One trained linear map.
struct Target {
  std::int64_t layer;
  int module;  // Module
  std::int64_t rank;
  float scale;
  float dropout;
};

// Of the operands of products with the model's weights: `bf16` rounds weights and activations
// (kernels/bf16_product.h). Sums, factors, their gradients and moments are f32 in both.
enum class Precision { f32, bf16 };
// Whether this processor multiplies so.
bool available(Precision precision);

struct TrainerOptions {
  std::vector<Target> targets;  // empty with allWeights
  bool allWeights = false;      // every weight of an F32 model instead of LoRA factors
  OptimiserOptions optimiser;
  std::uint64_t seed = 0;
  int threads = 1;
  Precision precision = Precision::f32;
  // Activations, gradients and moments together; at least kLeastActivationBytes go to activations.
  // A micro-batch that does not fit with nothing kept but the inputs of its blocks is
  // INVALID_ARGUMENT.
  std::size_t memoryBytes = 600'000'000;
  // Of a micro-batch, shared ones counted once. Where longer ones cost less because more is shared,
  // and the memory holds them, it is a power of two times as many.
  std::int64_t microBatchTokens = 512;
  // Sequences of a micro-batch that begin alike share the rows of that beginning. With dropout they
  // share its draw too.
  bool sharePrefixes = true;
  // The adapter acts from the first of these tokens on, at their last occurrence before the first
  // label (activated LoRA, Greenewald et al. 2025, arXiv 2504.12397); empty: on all tokens.
  std::vector<std::int32_t> invocationTokens;
};

// How the sequences of a step become micro-batches, in their order.
struct Division {
  std::vector<std::int64_t>
      counts;              // sequences of each, which add up to all; empty: packed by tokens
  std::int64_t least = 1;  // packed into no fewer, as long as there are sequences
};

struct Evaluation {
  double loss = 0;          // per labelled token
  std::int64_t tokens = 0;  // labelled
  std::vector<SequenceResult> sequences;
};

struct TrainerInformation {
  std::int64_t layers, width, vocabulary, contextLength, lowestTrained, parameters;
  std::int64_t
      keptLayers;  // whose activations are kept in a full micro-batch; the others are recomputed
  std::size_t modelBytes;
  std::string architecture;
};

// What the calls so far have cost.
struct TrainerTimes {
  PassTimes passes;
  StageTime boundaries, evaluation, optimiser;
};

// Not thread-safe: one call at a time. Every call that throws leaves parameters, moments and
// counters as they were.
class Trainer {
 public:
  // Throws what loadWeights throws; INVALID_ARGUMENT for a target that the model does not have and
  // a precision that the processor does not.
  Trainer(const std::string& modelPath, const TrainerOptions& options);
  // On a model already in memory (tests).
  Trainer(std::unique_ptr<ModelWeights> model, const TrainerOptions& options);

  // Gradients of all sequences, micro-batch by micro-batch; one update.
  StepStatistics step(const std::vector<TrainSequence>& sequences, const Objective& objective,
                      const std::atomic<bool>& abort, const Division& division = {});
  // Advantages that are not given count as 0.
  Evaluation evaluate(const std::vector<TrainSequence>& sequences, const Objective& objective,
                      bool adapter, const std::atomic<bool>& abort);
  // Gradient without update, left in the parameters (the judge's live diagnostic, tests).
  StepStatistics differentiate(const std::vector<TrainSequence>& sequences,
                               const Objective& objective, const std::atomic<bool>& abort,
                               const Division& division = {});
  // Output of the layers below the lowest trained one, f16, [tokens, width] for each sequence.
  std::vector<std::vector<std::uint16_t>> captureBoundary(
      const std::vector<TrainSequence>& sequences, const std::atomic<bool>& abort);

  // Edits between steps (../shared/reference/env_rl.md, section 7.4). All but recycleDirections
  // keep the function.
  void raiseRank(const std::string& module, std::int64_t rank);
  void addTarget(const Target& target);
  void recycleDirections(const std::string& module, const std::vector<std::int64_t>& directions);
  void rebalance(const std::string& module, double factor);       // A *= factor, B /= factor
  void rescale(const std::string& module, double factor);         // s *= factor, B /= factor
  void setLearningRate(const std::string& module, float factor);  // multiplies the module's rate
  OptimiserOptions& optimiser() { return options_.optimiser; }

  // Parameters, moments, counters and generator as bytes; loadState takes them back exactly
  // (ADAPTER_MISMATCH where the targets' shapes differ in width, ADAPTER_CORRUPT where the bytes
  // are not a state).
  std::vector<std::uint8_t> state();
  void loadState(const std::vector<std::uint8_t>& bytes);

  // Factors in the place of the present ones, with fresh moments; steps count on. Throws what fit
  // throws (adapter_file.h).
  void setAdapter(std::vector<AdapterModule> modules);

  // Gives the pages of the mapped file back until the next call reads them again.
  void releaseWeights() const;
  // Frees what a step keeps for the next one, which allocates it anew.
  void releaseBuffers() { network_->releaseBuffers(); }

  ModelWeights& model() { return *model_; }
  Lora& lora(const std::string& module);
  std::vector<Lora*> loras();
  std::vector<Parameter*> parameters();
  TrainerInformation information();
  const std::vector<std::int32_t>& invocationTokens() const { return options_.invocationTokens; }
  std::int64_t steps() const { return step_; }
  TrainerTimes times() const;
  Engine& engine() { return engine_; }

 private:
  std::unique_ptr<Lora> loraFor(const Target& target);
  void attach(const Target& target);
  void trainAllWeights();
  void drawDirection(Lora& lora, std::int64_t direction);
  // The sequences with their adapterFrom. INVALID_ARGUMENT where one has no invocation tokens.
  std::vector<TrainSequence> activated(const std::vector<TrainSequence>& sequences) const;
  // A step needs what its objective is made of; a measurement does without advantages.
  void check(const std::vector<TrainSequence>& sequences, const Objective& objective,
             bool step) const;
  std::vector<MicroBatch> microBatches(const std::vector<TrainSequence>& sequences,
                                       const std::vector<std::int64_t>& counts) const;
  std::vector<std::int64_t> cheapestDivision(const std::vector<TrainSequence>& sequences,
                                             std::int64_t least, bool backward) const;
  std::size_t optimiserBytes();
  void shareMemory();
  void checkMemory(const MicroBatch& batch);
  void update(StepStatistics& statistics);

  TrainerOptions options_;
  Engine engine_;
  std::unique_ptr<ModelWeights> model_;
  std::unique_ptr<Network> network_;
  Random random_;
  std::int64_t step_ = 0;
  TrainerTimes times_;  // without `passes`, which are the network's
};

}  // namespace isopro::training
