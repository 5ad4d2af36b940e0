// LoRA adapters as GGUF, in the form that llama.cpp loads, and merged weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/trainer.h"

namespace isopro::training {

// The adapter as GGUF bytes: pairs `<tensor>.weight.lora_a` [rank, in] and `.lora_b` [out, rank] in F32. llama.cpp
// multiplies by alpha / rank with one alpha a file: where the modules' s * rank agree it is written as alpha, otherwise
// s is multiplied into B and alpha is 0, which llama.cpp reads as a scale of 1.
std::vector<std::uint8_t> encodeAdapter(Trainer& trainer);

// One factor pair of a file, B as the trainer stores it.
struct AdapterModule {
  Target target;
  std::vector<float> a;  // [rank, in]
  std::vector<float> b;  // [rank, out]
};
// Throws ADAPTER_CORRUPT where the file is not an adapter, ADAPTER_MISMATCH where it does not fit the model.
std::vector<AdapterModule> decodeAdapter(const std::string& path, const Model& model);

}  // namespace isopro::training
