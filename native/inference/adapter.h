// A LoRA adapter in GGUF, loaded onto a base model.
#pragma once

#include <memory>
#include <string>

#include "inference/low_rank_pairs.h"
#include "inference/model.h"

namespace isopro {

class Adapter {
 public:
  // Validates the file against the base, then loads it; `withPairs`: also as plain numbers, which
  // take as much memory as f32. Throws ADAPTER_CORRUPT, ADAPTER_MISMATCH, MODEL_NOT_FOUND.
  static std::shared_ptr<Adapter> load(std::shared_ptr<Model> model, const std::string& path,
                                       bool withPairs);

  llama_adapter_lora* handle() const { return adapter_.get(); }
  const Model* model() const { return model_.get(); }
  // Empty where they were not asked for, or rows with this adapter need llama.cpp's own graph.
  const LowRankPairs& pairs() const { return pairs_; }

 private:
  struct AdapterDeleter {
    void operator()(llama_adapter_lora* adapter) const {
      freeLlama([&] { llama_adapter_lora_free(adapter); });
    }
  };

  std::shared_ptr<Model> model_;  // outlives the adapter
  std::unique_ptr<llama_adapter_lora, AdapterDeleter> adapter_;
  LowRankPairs pairs_;
};

}  // namespace isopro
