// The frozen model: what a GGUF says of its shape, and its matrices where they lie in the mapped
// file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/hyper_parameters.h"
#include "support/gguf.h"
#include "training/linear.h"

namespace isopro::training {

// A norm's weight [width]; `trained` replaces `weight` where all weights are trained.
struct Norm {
  std::vector<float> weight;
  std::unique_ptr<Parameter> trained;

  const float* values() const { return trained ? trained->value.data() : weight.data(); }
  float* gradient() const { return trained ? trained->gradient.data() : nullptr; }
  explicit operator bool() const { return !weight.empty(); }
};

// The seven linear maps of a block, in the order of Module.
enum Module { kQuery, kKey, kValue, kOutput, kGate, kUp, kDown, kModules };
const char* moduleTensor(int module);  // "attn_q" ... as in GGUF
int moduleNamed(
    const std::string& name);  // "q", "k", "v", "o", "gate", "up", "down"; -1 where unknown
std::string moduleName(std::int64_t layer, int module);  // "blk.3.attn_k"

struct Layer {
  Linear linear[kModules];
  Norm attentionNorm, feedForwardNorm;
  Norm queryNorm, keyNorm;                      // where the architecture has headNorms
  Norm attentionPostNorm, feedForwardPostNorm;  // where it has postNorms
};

struct ModelWeights {
  Hyperparameters hyper;
  Matrix embedding;  // [vocabulary, width]
  Linear head;       // [vocabulary, width]; the embedding where the file has none
  bool tied = false;
  std::unique_ptr<Parameter> trainedEmbedding;
  Norm outputNorm;
  std::vector<float> ropeFactors;  // [headWidth / 2] or empty
  std::vector<Layer> layers;
  std::shared_ptr<const GgufFile> file;  // the matrices point into its mapping

  std::size_t frozenBytes = 0;
};

// Maps the file read-only. Throws MODEL_NOT_FOUND, MODEL_CORRUPT, ARCH_UNSUPPORTED,
// MODEL_UNSUPPORTED, NUMERIC_FAILURE.
std::unique_ptr<ModelWeights> loadWeights(const std::string& path);

}  // namespace isopro::training
