#include "training/model_weights.h"

#include <cmath>

#include "support/error.h"
#include "support/gguf.h"

namespace isopro::training {
namespace {

constexpr const char* kModuleTensors[kModules] = {"attn_q",   "attn_k", "attn_v",   "attn_output",
                                                  "ffn_gate", "ffn_up", "ffn_down", "attn_qkv"};
constexpr const char* kModuleNames[kModules] = {"q", "k", "v", "o", "gate", "up", "down", "qkv"};

[[noreturn]] void unsupported(const std::string& what) {
  throw Error(ErrorCode::modelUnsupported, "the trainer cannot read " + what);
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

// [columns, rows] values, one row after the other.
std::vector<float> table(const GgufFile& file, const std::string& name, std::int64_t columns,
                         std::int64_t rows) {
  const Matrix whole = matrix(file, name, rows, columns);
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    kernels::readRow(kernels::kernels(), whole, row, 0, columns,
                     values.data() + static_cast<std::size_t>(row * columns));
  }
  return values;
}

// The matrices [rows, columns] that a tensor holds one after the other.
std::vector<Matrix> matrices(const GgufFile& file, const std::string& name, std::int64_t count,
                             std::int64_t rows, std::int64_t columns) {
  const Matrix whole = matrix(file, name, count * rows, columns);
  std::vector<Matrix> each;
  for (std::int64_t i = 0; i < count; ++i) {
    Matrix one = whole;
    one.data = static_cast<const std::uint8_t*>(whole.data) +
               static_cast<std::size_t>(i * rows) * whole.rowBytes;
    one.rows = rows;
    each.push_back(one);
  }
  return each;
}

Experts readExperts(const GgufFile& file, const Hyperparameters& h, const std::string& prefix) {
  const std::int64_t d = h.width, f = h.feedForward, count = h.experts;
  Experts experts;
  experts.router = matrix(file, prefix + "ffn_gate_inp.weight", count, d);
  experts.gate = matrices(file, prefix + "ffn_gate_exps.weight", count, f, d);
  experts.up = matrices(file, prefix + "ffn_up_exps.weight", count, f, d);
  experts.down = matrices(file, prefix + "ffn_down_exps.weight", count, d, f);
  if (h.architecture.family != Family::GptOss) return experts;
  experts.routerBias = vector(file, prefix + "ffn_gate_inp.bias", count);
  experts.gateBias = table(file, prefix + "ffn_gate_exps.bias", f, count);
  experts.upBias = table(file, prefix + "ffn_up_exps.bias", f, count);
  experts.downBias = table(file, prefix + "ffn_down_exps.bias", d, count);
  return experts;
}

Layer readLayer(const GgufFile& file, const Hyperparameters& h, std::int64_t index) {
  const std::string prefix = "blk." + std::to_string(index) + ".";
  const bool fused = h.architecture.fused;
  const std::int64_t queries = h.queryWidth(), keys = h.keyWidth(), f = h.feedForward;
  const std::int64_t outputs[kModules] = {
      queries, keys, keys, h.width, f, fused ? 2 * f : f, h.width, queries + 2 * keys};
  const std::int64_t inputs[kModules] = {h.width, h.width, h.width, queries,
                                         h.width, h.width, f,       h.width};
  Layer layer;
  for (int m = 0; m < kModules; ++m) {
    if (!hasModule(h.architecture, m)) continue;
    const std::string name = prefix + kModuleTensors[m];
    layer.linear[m].weight = matrix(file, name + ".weight", outputs[m], inputs[m]);
    layer.linear[m].bias = vector(file, name + ".bias", outputs[m], true);
  }
  if (h.architecture.experts) layer.experts = readExperts(file, h, prefix);
  if (h.architecture.family == Family::GptOss)
    layer.sinks = vector(file, prefix + "attn_sinks.weight", h.heads);
  const auto norm = [&](const char* name, std::int64_t width) {
    return Norm{vector(file, prefix + name, width), nullptr};
  };
  if (h.architecture.preNorms) {
    layer.attentionNorm = norm("attn_norm.weight", h.width);
    layer.feedForwardNorm = norm(feedForwardNormTensor(h.architecture), h.width);
  }
  if (h.architecture.headNorms != HeadNorms::none) {
    layer.queryNorm = norm("attn_q_norm.weight", h.headNormWidth(h.heads));
    layer.keyNorm = norm("attn_k_norm.weight", h.headNormWidth(h.keyHeads));
  }
  if (h.architecture.postNorms) {
    layer.attentionPostNorm = norm("post_attention_norm.weight", h.width);
    layer.feedForwardPostNorm = norm("post_ffw_norm.weight", h.width);
  }
  return layer;
}

}  // namespace

bool hasModule(const Architecture& architecture, int module) {
  if (architecture.experts && (module == kGate || module == kUp || module == kDown)) return false;
  const bool split = module == kQuery || module == kKey || module == kValue || module == kGate;
  return module == kFused ? architecture.fused : !(split && architecture.fused);
}

const char* moduleTensor(int module) { return kModuleTensors[module]; }

int moduleNamed(const std::string& name) {
  for (int m = 0; m < kModules; ++m) {
    if (name == kModuleNames[m]) return m;
  }
  return -1;
}

std::string absentModule(const Architecture& architecture, int module) {
  const std::string has = std::string("a ") + architecture.name + " model ";
  if (!architecture.fused || module == kFused)
    return has + "has no matrix " + kModuleTensors[module] + " that can be trained";
  if (module == kGate) return has + "has gate and up in one matrix: train both or neither";
  return has + "has q, k and v in one matrix: train all three or none of them";
}

std::string moduleName(std::int64_t layer, int module) {
  return "blk." + std::to_string(layer) + "." + kModuleTensors[module];
}

std::unique_ptr<ModelWeights> loadWeights(const std::string& path) {
  auto file = std::make_shared<const GgufFile>(GgufFile::open(path));
  auto model = std::make_unique<ModelWeights>();
  Hyperparameters& h = model->hyper = readHyperparameters(*file);
  model->embedding = matrix(*file, "token_embd.weight", h.vocabulary, h.width);
  model->tied = file->findTensor("output.weight") == nullptr;
  model->head.weight =
      model->tied ? model->embedding : matrix(*file, "output.weight", h.vocabulary, h.width);
  model->head.bias = vector(*file, "output.bias", h.vocabulary, true);
  model->outputNorm = {vector(*file, "output_norm.weight", h.width), nullptr};
  model->ropeFactors = vector(*file, ropeFactorsTensor(h.architecture), h.rotatedWidth / 2, true);
  for (std::int64_t i = 0; i < h.layers; ++i) model->layers.push_back(readLayer(*file, h, i));
  model->frozenBytes = file->size();
  model->file = file;
  return model;
}

}  // namespace isopro::training
