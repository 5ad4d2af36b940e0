// The frozen model: what a GGUF says of its shape, and its matrices where they lie in the mapped
// file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/hyper_parameters.h"
#include "support/gguf.h"
#include "training/experts.h"

namespace isopro::training {

// A norm's weight [width]; `trained` replaces `weight` where all weights are trained.
struct Norm {
  std::vector<float> weight;
  std::unique_ptr<Parameter> trained;

  const float* values() const { return trained ? trained->value.data() : weight.data(); }
  float* gradient() const { return trained ? trained->gradient.data() : nullptr; }
  explicit operator bool() const { return !weight.empty(); }
};

// The linear maps of a block, in the order of Module. Where the architecture is fused, kFused is q,
// k and v one after the other and kUp gate and up; with experts there are none of feed-forward.
enum Module { kQuery, kKey, kValue, kOutput, kGate, kUp, kDown, kFused, kModules };
bool hasModule(const Architecture& architecture, int module);
const char* moduleTensor(int module);  // "attn_q" ... as in GGUF
int moduleNamed(
    const std::string& name);  // "q", "k", "v", "o", "gate", "up", "down", "qkv"; -1 where unknown
std::string moduleName(std::int64_t layer, int module);  // "blk.3.attn_k"

struct Layer {
  Linear linear[kModules];
  Experts experts;           // where the architecture has them
  std::vector<float> sinks;  // of each head a score that takes its share and gives nothing
  Norm attentionNorm, feedForwardNorm;          // where the architecture has preNorms
  Norm queryNorm, keyNorm;                      // where it has headNorms
  Norm attentionPostNorm, feedForwardPostNorm;  // where it has postNorms
};

struct ModelWeights {
  Hyperparameters hyper;
  Matrix embedding;  // [vocabulary, width]
  Linear head;       // [vocabulary, width]; the embedding where the file has none
  bool tied = false;
  std::unique_ptr<Parameter> trainedEmbedding;
  Norm outputNorm;
  std::vector<float> ropeFactors;  // [rotatedWidth / 2] or empty
  std::vector<Layer> layers;
  std::shared_ptr<const GgufFile> file;  // the matrices point into its mapping

  std::size_t frozenBytes = 0;
};

// Why the architecture has no such map of its own, and what is there instead.
std::string absentModule(const Architecture& architecture, int module);

// Maps the file read-only. Throws MODEL_NOT_FOUND, MODEL_CORRUPT, ARCH_UNSUPPORTED,
// MODEL_UNSUPPORTED, NUMERIC_FAILURE.
std::unique_ptr<ModelWeights> loadWeights(const std::string& path);

}  // namespace isopro::training
