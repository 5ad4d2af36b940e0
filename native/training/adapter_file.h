// LoRA adapters as factors, and as GGUF in the form that llama.cpp loads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/trainer.h"

namespace isopro::training {

// One adapted matrix. B lies as the trainer keeps it.
struct AdapterModule {
  std::string name;  // "blk.3.attn_k"
  std::int64_t rank = 0, in = 0, out = 0;
  float scale = 1;
  std::vector<float> a;  // [rank, in]
  std::vector<float> b;  // [rank, out]
};

struct AdapterFile {
  std::string architecture;
  std::string name;                            // general.name, "" where absent
  std::string baseName;                        // general.base_model.0.name
  std::string baseSha256;                      // isopro.base_model.sha256
  std::vector<std::int32_t> invocationTokens;  // empty: it acts on all tokens
  std::vector<AdapterModule> modules;
};

// Copies of the trainer's factors. INVALID_ARGUMENT where all weights are trained.
std::vector<AdapterModule> factorsOf(Trainer& trainer);

// What the modules adapt of the model. ADAPTER_MISMATCH where a matrix is absent, has another
// shape, or occurs twice.
std::vector<Target> fit(const std::vector<AdapterModule>& modules, const ModelWeights& model);

// Pairs `<name>.weight.lora_a` [rank, in] and `.lora_b` [out, rank] in F32. llama.cpp multiplies by
// alpha / rank with one alpha a file: where the modules' s * rank agree it is written as alpha,
// otherwise s is multiplied into B and alpha is 0, which llama.cpp reads as a scale of 1.
std::vector<std::uint8_t> encodeAdapter(const AdapterFile& adapter);
std::vector<std::uint8_t> encodeAdapter(Trainer& trainer, const std::string& baseSha256 = "");

// ADAPTER_CORRUPT where the file is no adapter of block matrices, NUMERIC_FAILURE where a value is
// not finite.
AdapterFile readAdapter(const std::string& path);

}  // namespace isopro::training
