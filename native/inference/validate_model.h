// Reads a model file before libllama does. libllama checks much by assertion, which ends the
// process; whatever passes here reaches none of them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/hyper_parameters.h"
#include "model/text_decoders.h"
#include "support/gguf.h"

namespace isopro {

// What one sequence takes of the cache.
struct CacheShape {
  std::vector<std::int64_t> headWidths;  // of keys and values; blocks of a quantised cache fit them
  std::int64_t valuesPerToken = 0;       // of keys and values, in all layers
  std::int64_t stateBytes = 0;           // whatever its length
};

// What the engine knows of a model from its file: hyper-parameters where its architecture has a
// validator, and the [input, output] sizes of its matrices, which an adapter must fit.
struct ModelInventory {
  std::string architecture;
  SequenceMemory memory = SequenceMemory::kCells;
  CacheShape cache;
  Hyperparameters hyper;  // of findArchitecture's alone
  // Longest text of the rope factors of shorter texts; 0: the file has no factors by length.
  // llama.cpp chooses between the factors by the room of a context, and a context's room is here
  // that of all its texts. So the factors of longer texts are never taken.
  std::int64_t shortContext = 0;
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
