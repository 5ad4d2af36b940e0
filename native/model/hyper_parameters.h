// The hyper-parameters of the supported architectures, read from a GGUF file once for inference and
// training: as llama.cpp v0.5.0 reads them, and checked against everything that it asserts on or
// computes nonsense with.
#pragma once

#include <cstdint>
#include <string>

#include "support/gguf.h"

namespace isopro {

enum class Family { Llama, Qwen2, Qwen3, Gemma2 };
enum class Gate { swiglu, geglu };

// What distinguishes the supported architectures; one row each in hyper_parameters.cpp. All are
// pre-norm decoders with rotary positions, grouped-query attention and a gated feed-forward layer.
struct Architecture {
  Family family{};
  const char* name = "";          // general.architecture
  bool halfRotation = false;      // rope pairs (i, i + n/2) instead of (2i, 2i + 1)
  bool headNorms = false;         // RMSNorm of each head's q and k before rope
  bool postNorms = false;         // RMSNorm of what attention and feed-forward add to the residual
  bool scalesEmbedding = false;   // embedding times sqrt(width)
  bool alternatesWindow = false;  // every even layer attends within a sliding window
  Gate gate = Gate::swiglu;
};

// nullptr where it is not supported.
const Architecture* findArchitecture(std::string_view name);

// yarn turns each pair of a head by a mixture of the scaled angle and the plain one, and lengthens
// it.
enum class RopeScaling { none, linear, yarn };

struct Hyperparameters {
  Architecture architecture{};
  std::int64_t layers = 0;
  std::int64_t width = 0;  // d_model
  std::int64_t heads = 0;
  std::int64_t keyHeads = 0;   // heads of k and v; each serves heads / keyHeads heads of q
  std::int64_t headWidth = 0;  // of keys and of values; rotated whole
  std::int64_t feedForward = 0;
  std::int64_t vocabulary = 0;  // rows of the embedding
  std::int64_t contextLength = 0;
  std::int64_t window = 0;  // 0: none
  float normEpsilon = 0;
  float ropeBase = 10000;
  RopeScaling ropeScaling = RopeScaling::linear;
  float ropeScale = 1;      // multiplies the position
  float ropeMagnitude = 1;  // multiplies what was rotated
  float attentionScale = 0;
  float attentionCap = 0;  // 0: none
  float finalCap = 0;

  std::int64_t queryWidth() const { return heads * headWidth; }
  std::int64_t keyWidth() const { return keyHeads * headWidth; }
};

// Throws MODEL_CORRUPT, MODEL_UNSUPPORTED or ARCH_UNSUPPORTED.
Hyperparameters readHyperparameters(const GgufFile& file);

}  // namespace isopro
