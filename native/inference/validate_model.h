// Reads a model file before libllama does. libllama checks much by assertion, which ends the
// process; whatever passes here reaches none of them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "model/hyper_parameters.h"
#include "support/gguf.h"

namespace isopro {

// A model's hyper-parameters, and the [input, output] sizes of its matrices, which an adapter must
// fit.
struct ModelInventory {
  Hyperparameters hyper;
  std::unordered_map<std::string, std::array<std::int64_t, 2>> matrices;
};

// Hyper-parameters, tensors with their shapes and types, vocabulary.
// Throws MODEL_CORRUPT, MODEL_UNSUPPORTED or ARCH_UNSUPPORTED, naming what is wrong.
ModelInventory validateModel(const GgufFile& file);

// libllama compares each key of the metadata with every other.
constexpr std::size_t kMostEntries = 4096;

// Types that llama.cpp multiplies with and that can be dequantised.
bool isWeightType(ggml_type type);

}  // namespace isopro
