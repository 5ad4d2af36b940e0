#include "training/model_weights.h"

#include <cmath>

#include "support/error.h"
#include "support/gguf.h"

namespace isopro::training {
namespace {

constexpr const char* kModuleTensors[kModules] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                                  "ffn_gate", "ffn_up", "ffn_down"};
constexpr const char* kModuleNames[kModules] = {"q", "k", "v", "o", "gate", "up", "down"};

[[noreturn]] void unsupported(const std::string& what) {
  throw Error(ErrorCode::modelUnsupported, "the trainer cannot read " + what);
}

// What inference runs and the trainer has no backward for.
void refuseUntrainable(const Hyperparameters& h) {
  if (h.ropeScaling == RopeScaling::yarn)
    throw Error(ErrorCode::modelUnsupported,
                "a model with rope scaling of type yarn cannot be trained");
  if (h.ropeMagnitude != 1)
    throw Error(ErrorCode::modelUnsupported,
                "a model with a rope attention factor cannot be trained");
}

Matrix matrix(const GgufFile& file, const std::string& name, std::int64_t rows,
              std::int64_t columns) {
  const GgufTensor* tensor = file.findTensor(name);
  if (tensor == nullptr) throw Error(ErrorCode::modelCorrupt, "tensor " + name + " is missing");
  if (tensor->dimensions[0] != columns || tensor->elements() != rows * columns) {
    throw Error(ErrorCode::modelCorrupt,
                "tensor " + name + " has another shape than the metadata says");
  }
  if (!kernels::readable(tensor->type))
    unsupported("tensor " + name + " of type " + ggml_type_name(tensor->type));
  return {file.data(*tensor), tensor->type, rows, columns, ggml_row_size(tensor->type, columns)};
}

// A norm or bias as f32; empty where `optional` and absent.
std::vector<float> vector(const GgufFile& file, const std::string& name, std::int64_t width,
                          bool optional = false) {
  if (optional && file.findTensor(name) == nullptr) return {};
  const Matrix row = matrix(file, name, 1, width);
  std::vector<float> values(static_cast<std::size_t>(width));
  kernels::readRow(kernels::kernels(), row, 0, 0, width, values.data());
  for (const float value : values) {
    if (!std::isfinite(value))
      throw Error(ErrorCode::numericFailure,
                  "tensor " + name + " holds a value that is not finite");
  }
  return values;
}

Layer readLayer(const GgufFile& file, const Hyperparameters& h, std::int64_t index) {
  const std::string prefix = "blk." + std::to_string(index) + ".";
  const std::int64_t queries = h.queryWidth(), keys = h.keyWidth();
  const std::int64_t outputs[kModules] = {queries,       keys,          keys,   h.width,
                                          h.feedForward, h.feedForward, h.width};
  const std::int64_t inputs[kModules] = {h.width, h.width, h.width,      queries,
                                         h.width, h.width, h.feedForward};
  Layer layer;
  for (int m = 0; m < kModules; ++m) {
    const std::string name = prefix + kModuleTensors[m];
    layer.linear[m].weight = matrix(file, name + ".weight", outputs[m], inputs[m]);
    layer.linear[m].bias = vector(file, name + ".bias", outputs[m], true);
  }
  const auto norm = [&](const char* name, std::int64_t width) {
    return Norm{vector(file, prefix + name, width), nullptr};
  };
  layer.attentionNorm = norm("attn_norm.weight", h.width);
  layer.feedForwardNorm = norm("ffn_norm.weight", h.width);
  if (h.architecture.headNorms) {
    layer.queryNorm = norm("attn_q_norm.weight", h.headWidth);
    layer.keyNorm = norm("attn_k_norm.weight", h.headWidth);
  }
  if (h.architecture.postNorms) {
    layer.attentionPostNorm = norm("post_attention_norm.weight", h.width);
    layer.feedForwardPostNorm = norm("post_ffw_norm.weight", h.width);
  }
  return layer;
}

}  // namespace

const char* moduleTensor(int module) { return kModuleTensors[module]; }

int moduleNamed(const std::string& name) {
  for (int m = 0; m < kModules; ++m) {
    if (name == kModuleNames[m]) return m;
  }
  return -1;
}

std::string moduleName(std::int64_t layer, int module) {
  return "blk." + std::to_string(layer) + "." + kModuleTensors[module];
}

std::unique_ptr<ModelWeights> loadWeights(const std::string& path) {
  auto file = std::make_shared<const GgufFile>(GgufFile::open(path));
  auto model = std::make_unique<ModelWeights>();
  Hyperparameters& h = model->hyper = readHyperparameters(*file);
  refuseUntrainable(h);
  model->embedding = matrix(*file, "token_embd.weight", h.vocabulary, h.width);
  model->tied = file->findTensor("output.weight") == nullptr;
  model->head.weight =
      model->tied ? model->embedding : matrix(*file, "output.weight", h.vocabulary, h.width);
  model->head.bias = vector(*file, "output.bias", h.vocabulary, true);
  model->outputNorm = {vector(*file, "output_norm.weight", h.width), nullptr};
  model->ropeFactors = vector(*file, "rope_freqs.weight", h.headWidth / 2, true);
  for (std::int64_t i = 0; i < h.layers; ++i) model->layers.push_back(readLayer(*file, h, i));
  model->frozenBytes = file->size();
  model->file = file;
  return model;
}

}  // namespace isopro::training
