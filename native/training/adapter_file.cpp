#include "training/adapter_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

#include <ggml.h>
#include <gguf.h>

#include "model/invocation.h"
#include "support/error.h"
#include "support/gguf.h"

namespace isopro::training {
namespace {

constexpr const char* kBaseSha256 = "isopro.base_model.sha256";
constexpr const char* kBaseName = "general.base_model.0.name";

// llama.cpp's alpha where every module's scale is alpha / rank, else 0.
float commonAlpha(const std::vector<AdapterModule>& modules) {
  const float alpha = modules.front().scale * static_cast<float>(modules.front().rank);
  for (const AdapterModule& module : modules) {
    if (alpha / static_cast<float>(module.rank) != module.scale) return 0;
  }
  return alpha;
}

// [rows, columns] to [columns, rows].
std::vector<float> transposed(const std::vector<float>& values, std::int64_t rows,
                              std::int64_t columns) {
  std::vector<float> result(values.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c)
      result[static_cast<std::size_t>(c * rows + r)] =
          values[static_cast<std::size_t>(r * columns + c)];
  }
  return result;
}

std::vector<float> valuesOf(const GgufFile& file, const GgufTensor& tensor) {
  const std::int64_t columns = tensor.dimensions[0], rows = tensor.dimensions[1];
  if (tensor.rank > 2 || !kernels::readable(tensor.type))
    file.fail("factor " + inQuotes(tensor.name) + " is no matrix of numbers");
  const Matrix matrix{file.data(tensor), tensor.type, rows, columns,
                      ggml_row_size(tensor.type, columns)};
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row)
    kernels::readRow(kernels::kernels(), matrix, row, 0, columns, values.data() + row * columns);
  for (const float value : values) {
    if (!std::isfinite(value))
      file.fail(ErrorCode::numericFailure,
                "factor " + inQuotes(tensor.name) + " holds a value that is not finite");
  }
  return values;
}

}  // namespace

std::vector<AdapterModule> factorsOf(Trainer& trainer) {
  std::vector<AdapterModule> modules;
  for (const Lora* lora : trainer.loras()) {
    modules.push_back({lora->module, lora->rank(), lora->a.columns, lora->b.columns, lora->scale,
                       lora->a.value, lora->b.value});
  }
  if (modules.empty())
    throw Error(ErrorCode::invalidArgument, "there is no adapter: all weights are trained");
  return modules;
}

std::vector<Target> fit(const std::vector<AdapterModule>& modules, const ModelWeights& model) {
  if (modules.empty()) throw Error(ErrorCode::adapterCorrupt, "the adapter adapts nothing");
  std::vector<Target> targets;
  std::set<std::string> seen;
  for (const AdapterModule& module : modules) {
    const Linear* linear = nullptr;
    for (std::int64_t layer = 0; layer < model.hyper.layers && linear == nullptr; ++layer) {
      for (int m = 0; m < kModules; ++m) {
        if (module.name != moduleName(layer, m) || !hasModule(model.hyper.architecture, m))
          continue;
        linear = &model.layers[static_cast<std::size_t>(layer)].linear[m];
        targets.push_back({layer, m, module.rank, module.scale, 0});
      }
    }
    if (linear == nullptr)
      throw Error(ErrorCode::adapterMismatch,
                  "the adapter changes " + inQuotes(module.name) +
                      ", which this model does not have or which cannot be trained");
    if (!seen.insert(module.name).second)
      throw Error(ErrorCode::adapterCorrupt, "the adapter changes " + module.name + " twice");
    if (module.in != linear->inputs() || module.out != linear->outputs()) {
      throw Error(ErrorCode::adapterMismatch,
                  "the adapter's " + module.name + " is " + std::to_string(module.out) + " x " +
                      std::to_string(module.in) + ", the model's " +
                      std::to_string(linear->outputs()) + " x " + std::to_string(linear->inputs()));
    }
    const auto size = [&](std::int64_t width) {
      return static_cast<std::size_t>(module.rank * width);
    };
    if (module.rank < 1 || module.rank > std::min(module.in, module.out) ||
        module.a.size() != size(module.in) || module.b.size() != size(module.out)) {
      throw Error(ErrorCode::adapterCorrupt,
                  "the adapter's factors of " + module.name + " have an impossible rank");
    }
  }
  return targets;
}

std::vector<std::uint8_t> encodeAdapter(Trainer& trainer, const std::string& baseSha256) {
  return encodeAdapter({trainer.model().hyper.architecture.name, "", "", baseSha256,
                        trainer.invocationTokens(), factorsOf(trainer)});
}

std::vector<std::uint8_t> encodeAdapter(const AdapterFile& adapter) {
  const std::vector<AdapterModule>& modules = adapter.modules;
  const float alpha = commonAlpha(modules);
  std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf(gguf_init_empty(), gguf_free);
  std::unique_ptr<ggml_context, decltype(&ggml_free)> shapes(
      ggml_init({modules.size() * 2 * ggml_tensor_overhead() + 1024, nullptr, true}), ggml_free);
  gguf_set_val_str(gguf.get(), "general.type", "adapter");
  gguf_set_val_str(gguf.get(), "general.architecture", adapter.architecture.c_str());
  gguf_set_val_str(gguf.get(), "adapter.type", "lora");
  gguf_set_val_f32(gguf.get(), "adapter.lora.alpha", alpha);
  if (!adapter.baseSha256.empty())
    gguf_set_val_str(gguf.get(), kBaseSha256, adapter.baseSha256.c_str());
  if (!adapter.invocationTokens.empty()) {
    gguf_set_arr_data(gguf.get(), kInvocationTokensKey, GGUF_TYPE_UINT32,
                      adapter.invocationTokens.data(), adapter.invocationTokens.size());
  }
  const auto add = [&](const std::string& name, std::int64_t columns, std::int64_t rows) {
    ggml_tensor* tensor = ggml_new_tensor_2d(shapes.get(), GGML_TYPE_F32, columns, rows);
    ggml_set_name(tensor, name.c_str());
    gguf_add_tensor(gguf.get(), tensor);
  };
  for (const AdapterModule& module : modules) {
    add(module.name + ".weight.lora_a", module.in, module.rank);
    add(module.name + ".weight.lora_b", module.rank, module.out);
  }
  const std::size_t header = gguf_get_meta_size(gguf.get());
  const auto count = gguf_get_n_tensors(gguf.get());
  const std::size_t end =
      gguf_get_tensor_offset(gguf.get(), count - 1) + gguf_get_tensor_size(gguf.get(), count - 1);
  const std::size_t alignment = gguf_get_alignment(gguf.get());
  std::vector<std::uint8_t> bytes(header + (end + alignment - 1) / alignment * alignment);
  gguf_get_meta_data(gguf.get(), bytes.data());
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const AdapterModule& module = modules[i];
    const auto at = [&](std::size_t tensor) {
      return bytes.data() + header +
             gguf_get_tensor_offset(gguf.get(), static_cast<std::int64_t>(tensor));
    };
    std::memcpy(at(2 * i), module.a.data(), module.a.size() * sizeof(float));
    std::vector<float> b = transposed(module.b, module.rank, module.out);
    if (alpha == 0) {
      for (float& value : b) value *= module.scale;
    }
    std::memcpy(at(2 * i + 1), b.data(), b.size() * sizeof(float));
  }
  return bytes;
}

AdapterFile readAdapter(const std::string& path) {
  constexpr std::string_view first = ".weight.lora_a", second = ".weight.lora_b";
  const GgufFile file = GgufFile::open(path, ErrorCode::adapterCorrupt);
  const auto text = [&](const char* key) { return std::string(file.text(key).value_or("")); };
  if (file.text("general.type").value_or("") == "model")
    file.fail(ErrorCode::adapterMismatch, "this is a whole model, not an adapter");
  if (text("general.type") != "adapter" || text("adapter.type") != "lora")
    file.fail("this is not a LoRA adapter");
  const auto alpha = static_cast<float>(file.real("adapter.lora.alpha").value_or(0));
  if (!std::isfinite(alpha)) file.fail("its alpha is not finite");
  AdapterFile adapter{text("general.architecture"),
                      text("general.name"),
                      text(kBaseName),
                      text(kBaseSha256),
                      readInvocationTokens(file),
                      {}};
  for (const GgufTensor& a : file.tensors()) {
    if (a.name.size() <= first.size() || a.name.substr(a.name.size() - first.size()) != first)
      continue;
    AdapterModule module;
    module.name = a.name.substr(0, a.name.size() - first.size());
    const GgufTensor* b = file.findTensor(module.name + std::string(second));
    if (b == nullptr) file.fail("it has only one factor of " + inQuotes(module.name));
    module.in = a.dimensions[0], module.rank = a.dimensions[1], module.out = b->dimensions[1];
    if (module.rank > std::min(module.in, module.out))
      file.fail("the rank of " + inQuotes(module.name) + " exceeds its width");
    if (b->dimensions[0] != module.rank)
      file.fail("the factors of " + inQuotes(module.name) + " differ in rank");
    module.scale = alpha == 0 ? 1.0f : alpha / static_cast<float>(module.rank);
    module.a = valuesOf(file, a);
    module.b = transposed(valuesOf(file, *b), module.out, module.rank);
    adapter.modules.push_back(std::move(module));
  }
  if (adapter.modules.empty()) file.fail("it adapts nothing");
  if (adapter.modules.size() * 2 != file.tensors().size())
    file.fail(ErrorCode::adapterMismatch, "it changes more than matrices of blocks");
  return adapter;
}

}  // namespace isopro::training
