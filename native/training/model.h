// The frozen model: what a GGUF says of its shape, and its matrices where they lie in the mapped file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/gguf.h"
#include "training/linear.h"

namespace isopro::training {

enum class Gate { swiglu, geglu };

// What distinguishes the supported architectures; one row each in model.cpp. All are pre-norm decoders with rotary
// positions, grouped-query attention and a gated feed-forward layer.
struct Architecture {
  const char* name;       // general.architecture
  bool halfRotation;      // rope pairs (i, i + n/2) instead of (2i, 2i + 1)
  bool headNorms;         // RMSNorm of each head's q and k before rope
  bool postNorms;         // RMSNorm of what attention and feed-forward add to the residual
  bool scalesEmbedding;   // embedding times sqrt(width)
  bool alternatesWindow;  // every even layer attends within a sliding window
  Gate gate;
};

struct Hyperparameters {
  Architecture architecture{};
  std::int64_t layers = 0;
  std::int64_t width = 0;        // d_model
  std::int64_t heads = 0;
  std::int64_t keyHeads = 0;     // heads of k and v; each serves heads / keyHeads heads of q
  std::int64_t headWidth = 0;
  std::int64_t feedForward = 0;
  std::int64_t vocabulary = 0;
  std::int64_t contextLength = 0;
  std::int64_t ropeWidth = 0;    // leading dimensions of a head that rotate
  std::int64_t window = 0;       // 0: none
  float normEpsilon = 0;
  float ropeBase = 10000;
  float ropeScale = 1;           // multiplies the position
  float attentionScale = 0;
  float attentionCap = 0;        // 0: none
  float finalCap = 0;
};

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
const char* moduleTensor(int module);     // "attn_q" ... as in GGUF
int moduleNamed(const std::string& name); // "q", "k", "v", "o", "gate", "up", "down"; -1 where unknown
std::string moduleName(std::int64_t layer, int module);  // "blk.3.attn_k"

struct Layer {
  Linear linear[kModules];
  Norm attentionNorm, feedForwardNorm;
  Norm queryNorm, keyNorm;                  // where the architecture has headNorms
  Norm attentionPostNorm, feedForwardPostNorm;  // where it has postNorms
};

struct Model {
  Hyperparameters hyper;
  Matrix embedding;                // [vocabulary, width]
  Linear head;                     // [vocabulary, width]; the embedding where the file has none
  bool tied = false;
  std::unique_ptr<Parameter> trainedEmbedding;
  Norm outputNorm;
  std::vector<float> ropeFactors;  // [ropeWidth / 2] or empty
  std::vector<Layer> layers;
  std::shared_ptr<const GgufFile> file;  // the matrices point into its mapping

  std::size_t frozenBytes = 0;
};

// Maps the file read-only. Throws MODEL_NOT_FOUND, MODEL_CORRUPT, ARCH_UNSUPPORTED, MODEL_UNSUPPORTED, NUMERIC_FAILURE.
std::unique_ptr<Model> loadModel(const std::string& path);

const Architecture* findArchitecture(const std::string& name);

}  // namespace isopro::training
