// The hyper-parameters of the supported architectures, read from a GGUF file once for inference and
// training: as llama.cpp v0.5.0 reads them, and checked against everything that it asserts on or
// computes nonsense with.
#pragma once

#include <cstdint>
#include <string>

#include "support/gguf.h"

namespace isopro {

enum class Family {
  Llama,
  Qwen2,
  Qwen3,
  Gemma2,
  SmolLm3,
  Granite,
  Mistral3,
  Olmo2,
  Gemma3,
  Phi3,
  Qwen3Moe,
  GptOss
};
// The last is gpt-oss's: both halves are limited, and 1 is added to `up`.
enum class Gate { swiglu, geglu, swigluLimited };
// RMSNorm of q and k before rope: of each head, or of all heads of a token together.
enum class HeadNorms { none, each, whole };

// What distinguishes the supported architectures; one row each in hyper_parameters.cpp. All are
// decoders with rotary positions, grouped-query attention and a gated feed-forward layer.
struct Architecture {
  Family family{};
  const char* name = "";      // general.architecture
  bool halfRotation = false;  // rope pairs (i, i + n/2) instead of (2i, 2i + 1)
  HeadNorms headNorms{};
  bool preNorms = true;           // RMSNorm of what attention and feed-forward read
  bool postNorms = false;         // RMSNorm of what they add to the residual
  std::int64_t windowPeriod = 0;  // every such layer sees the whole text, the others, where the
                                  // file has one, a sliding window; 0: no windows
  Gate gate = Gate::swiglu;
  bool fused = false;    // q, k and v are one matrix, and gate and up another
  bool experts = false;  // feed-forward layers are mixtures of experts
};

// The norm that feed-forward reads, of which gpt-oss has another name.
const char* feedForwardNormTensor(const Architecture& architecture);
// The factors of the angles of a file that has them.
const char* ropeFactorsTensor(const Architecture& architecture);

// nullptr where it is not supported.
const Architecture* findArchitecture(std::string_view name);

// yarn turns each pair of a head by a mixture of the scaled angle and the plain one, and lengthens
// it.
// longrope divides the angles by factors of its own.
enum class RopeScaling { none, linear, yarn, longrope };

// The angles of a layer's rotation.
struct Rope {
  float base = 10000;
  float scale = 1;      // multiplies the position
  float magnitude = 1;  // multiplies what was rotated
  // yarn: share of the plain angle in the fastest pairs, and between which numbers of turns in
  // `originalContext` tokens it falls to 0.
  float mixture = 0;
  float fastTurns = 32, slowTurns = 1;
  std::int64_t originalContext = 0;
};

struct Hyperparameters {
  Architecture architecture{};
  std::int64_t layers = 0;
  std::int64_t width = 0;  // d_model
  std::int64_t heads = 0;
  std::int64_t keyHeads = 0;      // heads of k and v; each serves heads / keyHeads heads of q
  std::int64_t headWidth = 0;     // of keys and of values
  std::int64_t rotatedWidth = 0;  // of each head, its first values
  std::int64_t feedForward = 0;   // of an expert, where there are any
  std::int64_t experts = 0;
  std::int64_t expertsUsed = 0;  // by a token
  std::int64_t vocabulary = 0;   // rows of the embedding
  std::int64_t contextLength = 0;
  std::int64_t window = 0;  // 0: none
  float normEpsilon = 0;
  RopeScaling ropeScaling = RopeScaling::linear;
  Rope rope;
  Rope windowRope;               // of the layers with a sliding window
  std::int64_t plainPeriod = 0;  // every such layer does not rotate; 0: all do
  float embeddingScale = 1;
  float residualScale = 1;  // of what attention and feed-forward add
  float logitScale = 1;
  float attentionScale = 0;
  float attentionCap = 0;  // 0: none
  float finalCap = 0;
  // q is longer by 1 + temperatureScale log(1 + floor(position / temperatureLength)); 0: never.
  float temperatureScale = 0;
  std::int64_t temperatureLength = 0;

  bool hasWindow(std::int64_t layer) const {
    return window > 0 && layer % architecture.windowPeriod != architecture.windowPeriod - 1;
  }
  bool rotates(std::int64_t layer) const {
    return plainPeriod == 0 || layer % plainPeriod != plainPeriod - 1;
  }
  std::int64_t queryWidth() const { return heads * headWidth; }
  std::int64_t keyWidth() const { return keyHeads * headWidth; }
  // Values of each row that a norm of q or k takes.
  std::int64_t headNormWidth(std::int64_t ofHeads) const {
    return architecture.headNorms == HeadNorms::each ? headWidth : ofHeads * headWidth;
  }
};

// Throws MODEL_CORRUPT, MODEL_UNSUPPORTED or ARCH_UNSUPPORTED.
Hyperparameters readHyperparameters(const GgufFile& file);

}  // namespace isopro
