#include "training/network.h"

#include <algorithm>
#include <map>
#include <optional>

#include "support/error.h"

namespace isopro::training {
namespace {

// Rows of prompts that are evaluated at once; one prompt may have more.
constexpr std::int64_t kPromptRows = 512;

void throwIfAborted(const std::atomic<bool>& abort) {
  if (abort.load(std::memory_order_relaxed))
    throw Error(ErrorCode::aborted, "training was cancelled");
}

bool trainsAll(const Layer& layer) { return layer.linear[kOutput].trainedWeight != nullptr; }

bool trains(const Layer& layer) {
  return std::any_of(std::begin(layer.linear), std::end(layer.linear), [](const Linear& linear) {
    return linear.lora != nullptr || linear.trainedWeight != nullptr;
  });
}

}  // namespace

Network::Network(ModelWeights& model, Engine& engine, std::size_t activationBytes)
    : model_(model), engine_(engine), activationBytes_(activationBytes), activations_(1) {}

void Network::releaseBuffers() {
  activations_ = std::vector<BlockActivations>(1);
  inputs_ = {};
  scratch_ = {};
  prompts_.clear();
}

std::int64_t Network::lowestTrained() const {
  for (std::int64_t i = 0; i < model_.hyper.layers; ++i) {
    if (trains(model_.layers[static_cast<std::size_t>(i)])) return i;
  }
  return model_.hyper.layers;
}

const Rotations& Network::rotations(std::int64_t positions) {
  if (positions > rotationPositions_) {
    rotations_ = makeRotations(model_.hyper, model_.ropeFactors, positions);
    rotationPositions_ = positions;
  }
  return rotations_;
}

std::size_t Network::activationBytes(std::int64_t rows, std::int64_t kept) const {
  const std::int64_t count = model_.hyper.layers - lowestTrained();
  const std::size_t each = BlockActivations::bytes(model_.hyper, rows);
  const std::size_t input = static_cast<std::size_t>(rows * model_.hyper.width) * sizeof(float);
  return static_cast<std::size_t>(kept + (kept < count ? 1 : 0)) * each +
         static_cast<std::size_t>(count - kept) * input;
}

std::int64_t Network::keptLayers(std::int64_t rows, std::size_t promptBytes) const {
  std::int64_t kept = model_.hyper.layers - lowestTrained();
  const std::size_t other = countedScratchBytes(rows) + promptBytes;
  while (kept > 0 && activationBytes(rows, kept) + other > activationBytes_) --kept;
  return kept;
}

// The buffers that a pass works in are no part of the memory for activations, up to those of an
// ordinary micro-batch.
std::size_t Network::countedScratchBytes(std::int64_t rows) const {
  constexpr std::int64_t kUncountedRows = 512;
  return BlockScratch::bytes(model_.hyper, std::max<std::int64_t>(0, rows - kUncountedRows));
}

// Layers [from, to) without a backward: nothing is kept of them.
void Network::forwardLayers(BlockContext& c, std::int64_t from, std::int64_t to, Buffer& x,
                            const std::atomic<bool>& abort) {
  for (std::int64_t i = from; i < to; ++i) {
    throwIfAborted(abort);
    activations_[0].input.swap(x);
    x.resize(activations_[0].input.size());
    blockForward(c, model_.layers[static_cast<std::size_t>(i)], i, activations_[0], x.data());
  }
}

Buffer Network::entering(const MicroBatch& batch) const {
  const std::int64_t d = model_.hyper.width;
  const float embeddingScale = model_.hyper.embeddingScale;
  Buffer rows(static_cast<std::size_t>(batch.rows() * d));
  for (std::int64_t row = 0; row < batch.rows(); ++row) {
    const auto [s, token] = batch.places[static_cast<std::size_t>(row)];
    const TrainSequence& sequence = *batch.sequences[s];
    float* to = rows.data() + row * d;
    if (sequence.boundary.empty()) {
      kernels::readRow(engine_.variant(), model_.embedding,
                       sequence.tokens[static_cast<std::size_t>(token)], 0, d, to);
      for (std::int64_t i = 0; i < d; ++i) to[i] *= embeddingScale;
    } else if (static_cast<std::size_t>((token + 1) * d) <= sequence.boundary.size) {
      ggml_fp16_to_fp32_row(sequence.boundary.data + token * d, to, d);
    }
  }
  return rows;
}

// Sequences start at the embedding or at the layer of their boundary; those that start at one layer
// are evaluated together, and share no row with others.
Buffer Network::hiddenBefore(const MicroBatch& batch, std::int64_t layer, bool adapter,
                             const std::atomic<bool>& abort) {
  const std::int64_t d = model_.hyper.width;
  Buffer x(static_cast<std::size_t>(batch.rows() * d));
  std::map<std::int64_t, std::vector<std::size_t>> groups;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    const TrainSequence& sequence = *batch.sequences[s];
    const std::int64_t at = sequence.boundary.empty() ? 0 : sequence.boundaryLayer;
    if (at > layer)
      throw Error(ErrorCode::adapterMismatch,
                  "the boundary was captured above the lowest trained layer");
    groups[at].push_back(s);
  }
  for (const auto& [start, members] : groups) {
    std::vector<const TrainSequence*> sequences;
    for (const std::size_t s : members) sequences.push_back(batch.sequences[s]);
    const MicroBatch part = pack(sequences, batch.shared, d);
    Buffer rows = entering(part);
    const PromptList prompts = promptsOf(part, abort);
    Pass pass{engine_, part.rows(), adapter};
    BlockContext context{pass,          model_.hyper, rotations(part.longest()),
                         part.segments, scratch_,     &prompts};
    forwardLayers(context, start, layer, rows, abort);
    for (std::size_t m = 0; m < members.size(); ++m) {
      for (std::size_t token = 0; token < part.rowOf[m].size(); ++token) {
        if (part.rowOf[m][token] < 0) continue;
        std::copy_n(rows.begin() + part.rowOf[m][token] * d, d,
                    x.begin() + batch.rowOf[members[m]][token] * d);
      }
    }
  }
  return x;
}

std::vector<SequenceResult> Network::evaluate(const MicroBatch& batch, const Objective& objective,
                                              bool adapter, const std::atomic<bool>& abort) {
  const std::int64_t lowest = lowestTrained();
  Buffer x = hiddenBefore(batch, lowest, adapter, abort);
  Pass pass{engine_, batch.rows(), adapter};
  const PromptList prompts = promptsOf(batch, abort);
  BlockContext context{pass,           model_.hyper, rotations(batch.longest()),
                       batch.segments, scratch_,     &prompts};
  forwardLayers(context, lowest, model_.hyper.layers, x, abort);
  std::vector<SequenceResult> results;
  headLoss(context, model_, batch, objective, 1, x.data(), results, nullptr);
  return results;
}

std::vector<SequenceResult> Network::differentiate(const MicroBatch& batch,
                                                   const Objective& objective, double scale,
                                                   std::uint64_t dropoutSeed,
                                                   const std::atomic<bool>& abort) {
  const std::int64_t lowest = lowestTrained(), layers = model_.hyper.layers;
  std::optional<Timed> timed(std::in_place, times_.forward);
  Buffer x = hiddenBefore(batch, lowest, true, abort);
  Pass pass{engine_, batch.rows(), true, true, dropoutSeed, batch.copies.data()};
  const PromptList prompts = promptsOf(batch, abort);
  BlockContext context{pass,           model_.hyper, rotations(batch.longest()),
                       batch.segments, scratch_,     &prompts};

  const std::int64_t firstKept = layers - keptLayers(batch.rows(), prompts_.bytes());
  activations_.resize(static_cast<std::size_t>(1 + layers - firstKept));
  inputs_.resize(static_cast<std::size_t>(firstKept - lowest));
  const auto layerAt = [&](std::int64_t i) -> Layer& {
    return model_.layers[static_cast<std::size_t>(i)];
  };
  for (std::int64_t i = lowest; i < layers; ++i) {
    throwIfAborted(abort);
    BlockActivations& act =
        activations_[i < firstKept ? 0 : static_cast<std::size_t>(1 + i - firstKept)];
    if (i < firstKept) inputs_[static_cast<std::size_t>(i - lowest)] = x;
    act.input.swap(x);
    x.resize(act.input.size());
    blockForward(context, layerAt(i), i, act, x.data());
  }

  timed.emplace(times_.head);
  std::vector<SequenceResult> results;
  Buffer gradient(x.size());
  headLoss(context, model_, batch, objective, scale, x.data(), results, gradient.data());

  timed.emplace(times_.backward);
  for (std::int64_t i = layers - 1; i >= lowest; --i) {
    throwIfAborted(abort);
    BlockActivations& act =
        activations_[i < firstKept ? 0 : static_cast<std::size_t>(1 + i - firstKept)];
    if (i < firstKept) {
      act.input.swap(inputs_[static_cast<std::size_t>(i - lowest)]);
      blockForward(context, layerAt(i), i, act, x.data());
    }
    blockBackward(context, layerAt(i), i, act, gradient.data(),
                  i > lowest || trainsAll(layerAt(i)));
  }
  embeddingBackward(batch, gradient);
  return results;
}

PromptList Network::promptsOf(const MicroBatch& batch, const std::atomic<bool>& abort) {
  PromptList list;
  std::size_t bytes = 0;
  for (const TrainSequence* sequence : batch.prompts) {
    list.push_back(prompts_.find(*sequence));
    if (list.back() == nullptr) bytes += PromptKeys::bytes(model_.hyper, sequence->adapterFrom);
  }
  if (bytes == 0) return list;
  // Rather kept than activations: to compute these again costs less.
  const std::size_t least = leastBytes(batch.rows());
  prompts_.makeRoom(bytes, activationBytes_ > least ? activationBytes_ - least : 0);
  const auto width = static_cast<std::size_t>(model_.hyper.width);
  std::vector<TrainSequence> prompts;
  std::vector<std::shared_ptr<PromptKeys>> keys;
  std::int64_t rows = 0;
  const auto evaluate = [&] {
    evaluatePrompts(prompts, keys, abort);
    for (const auto& prompt : keys) prompts_.add(prompt);
    prompts.clear(), keys.clear(), rows = 0;
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] != nullptr) continue;
    const TrainSequence& sequence = *batch.prompts[i];
    if (rows > 0 && rows + sequence.adapterFrom > kPromptRows) evaluate();
    rows += sequence.adapterFrom;
    TrainSequence& prompt = prompts.emplace_back();
    prompt.tokens.assign(sequence.tokens.begin(), sequence.tokens.begin() + sequence.adapterFrom);
    prompt.boundary = sequence.boundary;
    if (!prompt.boundary.empty())
      prompt.boundary.size = static_cast<std::size_t>(sequence.adapterFrom) * width;
    prompt.boundaryLayer = sequence.boundaryLayer;
    keys.push_back(std::make_shared<PromptKeys>(sequence, model_.hyper));
    list[i] = keys.back();
  }
  if (!keys.empty()) evaluate();
  return list;
}

// Forward only, by the base model, and no further than the last layer's keys and values.
void Network::evaluatePrompts(const std::vector<TrainSequence>& prompts,
                              const std::vector<std::shared_ptr<PromptKeys>>& keys,
                              const std::atomic<bool>& abort) {
  std::map<std::int64_t, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < prompts.size(); ++i) groups[keys[i]->firstLayer].push_back(i);
  const std::int64_t layers = model_.hyper.layers, width = model_.hyper.keyWidth();
  for (const auto& [start, members] : groups) {
    std::vector<const TrainSequence*> sequences;
    for (const std::size_t i : members) sequences.push_back(&prompts[i]);
    const MicroBatch part = pack(sequences, true, model_.hyper.width);
    Pass pass{engine_, part.rows(), false};
    BlockContext context{pass, model_.hyper, rotations(part.longest()), part.segments, scratch_};
    BlockActivations& act = activations_[0];
    Buffer x = entering(part);
    for (std::int64_t i = start; i < layers; ++i) {
      throwIfAborted(abort);
      act.input.swap(x);
      x.resize(act.input.size());
      blockForward(context, model_.layers[static_cast<std::size_t>(i)], i, act,
                   i + 1 < layers ? x.data() : nullptr);
      for (std::size_t m = 0; m < members.size(); ++m) {
        PromptKeys& prompt = *keys[members[m]];
        const auto at = static_cast<std::size_t>(i - start);
        for (std::size_t token = 0; token < part.rowOf[m].size(); ++token) {
          const std::int64_t from = part.rowOf[m][token] * width,
                             to = static_cast<std::int64_t>(token) * width;
          std::copy_n(act.k.begin() + from, width, prompt.k[at].begin() + to);
          std::copy_n(act.v.begin() + from, width, prompt.v[at].begin() + to);
        }
      }
    }
  }
}

// Where all weights are trained; a tied head shares its parameter with the embedding.
void Network::embeddingBackward(const MicroBatch& batch, const Buffer& gradient) {
  Parameter* trained =
      model_.tied ? model_.head.trainedWeight.get() : model_.trainedEmbedding.get();
  if (trained == nullptr) return;
  const std::int64_t d = model_.hyper.width;
  const float scale = model_.hyper.embeddingScale;
  const float* from = gradient.data();
  for (const auto& [sequence, token] : batch.places) {
    float* to = trained->gradient.data() +
                batch.sequences[sequence]->tokens[static_cast<std::size_t>(token)] * d;
    for (std::int64_t i = 0; i < d; ++i) to[i] += scale * from[i];
    from += d;
  }
}

}  // namespace isopro::training
