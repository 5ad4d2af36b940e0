// The hyper-parameters of the four supported architectures, read from a GGUF file and checked against everything that
// llama.cpp v0.5.0 asserts on or computes nonsense with.
#pragma once

#include <cstdint>
#include <string>

#include "support/gguf.h"

namespace isopro {

enum class Architecture { Llama, Qwen2, Qwen3, Gemma2 };

const char* name(Architecture architecture);

struct HyperParameters {
  Architecture architecture;
  std::int64_t layers;
  std::int64_t contextLength;
  std::int64_t embedding;    // d_model
  std::int64_t feedForward;
  std::int64_t heads;
  std::int64_t keyValueHeads;
  std::int64_t headDimension;  // of keys and of values; rotated whole
  double normEpsilon;
  double ropeBase;

  std::int64_t queryWidth() const { return heads * headDimension; }
  std::int64_t keyWidth() const { return keyValueHeads * headDimension; }
};

// Throws MODEL_CORRUPT, MODEL_UNSUPPORTED or ARCH_UNSUPPORTED.
HyperParameters readHyperParameters(const GgufFile& file);

}  // namespace isopro
