// A LoRA adapter in GGUF, loaded onto a base model.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "inference/low_rank_pairs.h"
#include "inference/model.h"

namespace isopro {

class Adapter {
 public:
  // Validates the file against the base, then loads it; `withPairs`: also as plain numbers, which
  // take as much memory as f32, and which an activated one always has. Throws ADAPTER_CORRUPT,
  // ADAPTER_MISMATCH, MODEL_NOT_FOUND, MODEL_UNSUPPORTED for an activated one that cannot be
  // applied row by row.
  static std::shared_ptr<Adapter> load(std::shared_ptr<Model> model, const std::string& path,
                                       bool withPairs);

  llama_adapter_lora* handle() const { return adapter_.get(); }
  const Model* model() const { return model_.get(); }
  // Empty where they were not asked for, or rows with this adapter need llama.cpp's own graph.
  const LowRankPairs& pairs() const { return pairs_; }
  // Whether it acts on a part of a text alone (model/invocation.h).
  bool activated() const { return !invocationTokens_.empty(); }
  // The first token that it acts on; kNever where the prompt does not activate it.
  int activationIn(const std::vector<Token>& prompt) const;
  static constexpr int kNever = std::numeric_limits<int>::max();

 private:
  struct AdapterDeleter {
    void operator()(llama_adapter_lora* adapter) const {
      freeLlama([&] { llama_adapter_lora_free(adapter); });
    }
  };

  std::shared_ptr<Model> model_;  // outlives the adapter
  std::unique_ptr<llama_adapter_lora, AdapterDeleter> adapter_;
  LowRankPairs pairs_;
  std::vector<Token> invocationTokens_;
};

// What keys and values depend on beside the tokens.
struct AppliedAdapter {
  std::shared_ptr<Adapter> adapter;  // null: the bare base
  float scale = 1.0f;

  bool operator==(const AppliedAdapter& other) const {
    return adapter == other.adapter && (adapter == nullptr || scale == other.scale);
  }
  bool activated() const { return adapter != nullptr && adapter->activated(); }
};

}  // namespace isopro
