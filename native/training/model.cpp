#include "training/model.h"

#include <array>
#include <cmath>
#include <optional>

#include "support/error.h"
#include "support/gguf.h"

namespace isopro::training {
namespace {

constexpr std::array<Architecture, 4> kArchitectures = {{
    // name, halfRotation, headNorms, postNorms, scalesEmbedding, alternatesWindow, gate
    {"llama", false, false, false, false, false, Gate::swiglu},
    {"qwen2", true, false, false, false, false, Gate::swiglu},
    {"qwen3", true, true, false, false, false, Gate::swiglu},
    {"gemma2", true, false, true, true, true, Gate::geglu},
}};

constexpr const char* kModuleTensors[kModules] = {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"};
constexpr const char* kModuleNames[kModules] = {"q", "k", "v", "o", "gate", "up", "down"};

[[noreturn]] void unsupported(const std::string& what) { throw Error("MODEL_UNSUPPORTED", "the trainer cannot read " + what); }

std::int64_t integer(const GgufFile& file, const std::string& key, std::optional<std::int64_t> absent = {}) {
  const auto value = file.integer(key);
  if (!value && !absent) throw Error("MODEL_CORRUPT", "metadata " + key + " is missing");
  if (value && *value > (std::uint64_t{1} << 31)) throw Error("MODEL_CORRUPT", "metadata " + key + " is impossibly large");
  return value ? static_cast<std::int64_t>(*value) : *absent;
}

float real(const GgufFile& file, const std::string& key, std::optional<double> absent = {}) {
  const auto value = file.real(key);
  if (!value && !absent) throw Error("MODEL_CORRUPT", "metadata " + key + " is missing");
  return static_cast<float>(value ? *value : *absent);
}

Hyperparameters readHyperparameters(const GgufFile& file) {
  const std::string name(file.text("general.architecture").value_or(""));
  const Architecture* architecture = findArchitecture(name);
  if (architecture == nullptr) throw Error("ARCH_UNSUPPORTED", "architecture \"" + name + "\" cannot be trained");
  Hyperparameters h;
  h.architecture = *architecture;
  const std::string prefix = name + ".";
  h.layers = integer(file, prefix + "block_count");
  h.width = integer(file, prefix + "embedding_length");
  h.heads = integer(file, prefix + "attention.head_count");
  h.keyHeads = integer(file, prefix + "attention.head_count_kv", h.heads);
  h.feedForward = integer(file, prefix + "feed_forward_length");
  h.contextLength = integer(file, prefix + "context_length");
  h.normEpsilon = real(file, prefix + "attention.layer_norm_rms_epsilon");
  if (h.layers < 1 || h.width < 1 || h.heads < 1 || h.keyHeads < 1 || h.heads % h.keyHeads != 0 || h.feedForward < 1) {
    throw Error("MODEL_CORRUPT", "the model's shape in its metadata is impossible");
  }
  h.headWidth = integer(file, prefix + "attention.key_length", h.width / h.heads);
  if (integer(file, prefix + "attention.value_length", h.headWidth) != h.headWidth) unsupported("values of another width than keys");
  h.ropeWidth = integer(file, prefix + "rope.dimension_count", h.headWidth);
  if (h.ropeWidth < 2 || h.ropeWidth % 2 != 0 || h.ropeWidth > h.headWidth) throw Error("MODEL_CORRUPT", "rope.dimension_count is impossible");
  h.ropeBase = real(file, prefix + "rope.freq_base", 10000.0f);
  const std::string scaling(file.text(prefix + "rope.scaling.type").value_or("none"));
  const float factor = real(file, prefix + "rope.scaling.factor", real(file, prefix + "rope.scale_linear", 0.0f));
  if (scaling != "none" && scaling != "linear") unsupported("rope scaling of type " + scaling);
  if (real(file, prefix + "rope.scaling.attn_factor", 1.0f) != 1.0f) unsupported("a rope attention factor");
  if (scaling == "linear" && factor != 0.0f) h.ropeScale = 1.0f / factor;
  if (integer(file, prefix + "expert_count", 0) != 0) unsupported("a mixture of experts");

  h.attentionScale = 1.0f / std::sqrt(static_cast<float>(h.headWidth));
  if (name == "gemma2") {
    // The 27B model alone scales by its width per head (Gemma Team 2024, table 1 and the published configuration).
    if (h.layers == 46) h.attentionScale = 1.0f / std::sqrt(static_cast<float>(h.width / h.heads));
    h.attentionCap = real(file, prefix + "attn_logit_softcapping", 50.0f);
    h.finalCap = real(file, prefix + "final_logit_softcapping", 30.0f);
    h.window = integer(file, prefix + "attention.sliding_window", 4096);
  }
  return h;
}

Matrix matrix(const GgufFile& file, const std::string& name, std::int64_t rows, std::int64_t columns) {
  const GgufTensor* tensor = file.findTensor(name);
  if (tensor == nullptr) throw Error("MODEL_CORRUPT", "tensor " + name + " is missing");
  if (tensor->dimensions[0] != columns || tensor->elements() != rows * columns) {
    throw Error("MODEL_CORRUPT", "tensor " + name + " has another shape than the metadata says");
  }
  if (!kernels::readable(tensor->type)) unsupported("tensor " + name + " of type " + ggml_type_name(tensor->type));
  return {file.data(*tensor), tensor->type, rows, columns, ggml_row_size(tensor->type, columns)};
}

// A norm or bias as f32; empty where `optional` and absent.
std::vector<float> vector(const GgufFile& file, const std::string& name, std::int64_t width, bool optional = false) {
  if (optional && file.findTensor(name) == nullptr) return {};
  const Matrix row = matrix(file, name, 1, width);
  std::vector<float> values(static_cast<std::size_t>(width));
  kernels::readRow(kernels::kernels(), row, 0, 0, width, values.data());
  for (const float value : values) {
    if (!std::isfinite(value)) throw Error("NUMERIC_FAILURE", "tensor " + name + " holds a value that is not finite");
  }
  return values;
}

Layer readLayer(const GgufFile& file, const Hyperparameters& h, std::int64_t index) {
  const std::string prefix = "blk." + std::to_string(index) + ".";
  const std::int64_t queries = h.heads * h.headWidth, keys = h.keyHeads * h.headWidth;
  const std::int64_t outputs[kModules] = {queries, keys, keys, h.width, h.feedForward, h.feedForward, h.width};
  const std::int64_t inputs[kModules] = {h.width, h.width, h.width, queries, h.width, h.width, h.feedForward};
  Layer layer;
  for (int m = 0; m < kModules; ++m) {
    const std::string name = prefix + kModuleTensors[m];
    layer.linear[m].weight = matrix(file, name + ".weight", outputs[m], inputs[m]);
    layer.linear[m].bias = vector(file, name + ".bias", outputs[m], true);
  }
  const auto norm = [&](const char* name, std::int64_t width) { return Norm{vector(file, prefix + name, width), nullptr}; };
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

const Architecture* findArchitecture(const std::string& name) {
  for (const Architecture& row : kArchitectures) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

const char* moduleTensor(int module) { return kModuleTensors[module]; }

int moduleNamed(const std::string& name) {
  for (int m = 0; m < kModules; ++m) {
    if (name == kModuleNames[m]) return m;
  }
  return -1;
}

std::string moduleName(std::int64_t layer, int module) { return "blk." + std::to_string(layer) + "." + kModuleTensors[module]; }

std::unique_ptr<Model> loadModel(const std::string& path) {
  auto file = std::make_shared<const GgufFile>(GgufFile::open(path));
  auto model = std::make_unique<Model>();
  Hyperparameters& h = model->hyper = readHyperparameters(*file);
  const GgufTensor* embedding = file->findTensor("token_embd.weight");
  if (embedding == nullptr) throw Error("MODEL_CORRUPT", "tensor token_embd.weight is missing");
  h.vocabulary = embedding->dimensions[1];
  model->embedding = matrix(*file, "token_embd.weight", h.vocabulary, h.width);
  model->tied = file->findTensor("output.weight") == nullptr;
  model->head.weight = model->tied ? model->embedding : matrix(*file, "output.weight", h.vocabulary, h.width);
  model->head.bias = vector(*file, "output.bias", h.vocabulary, true);
  model->outputNorm = {vector(*file, "output_norm.weight", h.width), nullptr};
  model->ropeFactors = vector(*file, "rope_freqs.weight", h.ropeWidth / 2, true);
  for (std::int64_t i = 0; i < h.layers; ++i) model->layers.push_back(readLayer(*file, h, i));
  model->frozenBytes = file->size();
  model->file = file;
  return model;
}

}  // namespace isopro::training
