#include "training/adapter_file.h"

#include <cmath>
#include <cstring>
#include <memory>

#include <gguf.h>

#include "support/error.h"
#include "support/gguf.h"

namespace isopro::training {
namespace {

// llama.cpp's scale of a module, as a double: alpha / rank.
float commonAlpha(const std::vector<Lora*>& loras) {
  const float alpha = loras.front()->scale * static_cast<float>(loras.front()->rank());
  for (const Lora* lora : loras) {
    if (alpha / static_cast<float>(lora->rank()) != lora->scale) return 0;
  }
  return alpha;
}

}  // namespace

std::vector<std::uint8_t> encodeAdapter(Trainer& trainer) {
  const std::vector<Lora*> loras = trainer.loras();
  if (loras.empty()) throw Error("INVALID_ARGUMENT", "there is no adapter: all weights are trained");
  const float alpha = commonAlpha(loras);
  std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf(gguf_init_empty(), gguf_free);
  std::unique_ptr<ggml_context, decltype(&ggml_free)> shapes(
      ggml_init({loras.size() * 2 * ggml_tensor_overhead() + 1024, nullptr, true}), ggml_free);
  gguf_set_val_str(gguf.get(), "general.type", "adapter");
  gguf_set_val_str(gguf.get(), "general.architecture", trainer.model().hyper.architecture.name);
  gguf_set_val_str(gguf.get(), "adapter.type", "lora");
  gguf_set_val_f32(gguf.get(), "adapter.lora.alpha", alpha);
  const auto add = [&](const std::string& name, std::int64_t columns, std::int64_t rows) {
    ggml_tensor* tensor = ggml_new_tensor_2d(shapes.get(), GGML_TYPE_F32, columns, rows);
    ggml_set_name(tensor, name.c_str());
    gguf_add_tensor(gguf.get(), tensor);
  };
  for (const Lora* lora : loras) {
    add(lora->module + ".weight.lora_a", lora->a.columns, lora->rank());
    add(lora->module + ".weight.lora_b", lora->rank(), lora->b.columns);
  }
  const std::size_t header = gguf_get_meta_size(gguf.get());
  const auto count = gguf_get_n_tensors(gguf.get());
  const std::size_t end = gguf_get_tensor_offset(gguf.get(), count - 1) + gguf_get_tensor_size(gguf.get(), count - 1);
  const std::size_t alignment = gguf_get_alignment(gguf.get());
  std::vector<std::uint8_t> bytes(header + (end + alignment - 1) / alignment * alignment);
  gguf_get_meta_data(gguf.get(), bytes.data());
  for (std::size_t i = 0; i < loras.size(); ++i) {
    const Lora& lora = *loras[i];
    const auto at = [&](std::size_t tensor) { return bytes.data() + header + gguf_get_tensor_offset(gguf.get(), static_cast<std::int64_t>(tensor)); };
    std::memcpy(at(2 * i), lora.a.value.data(), lora.a.value.size() * sizeof(float));
    auto* b = reinterpret_cast<float*>(at(2 * i + 1));  // [out, rank]
    const std::int64_t rank = lora.rank(), out = lora.b.columns;
    const float scale = alpha == 0 ? lora.scale : 1.0f;
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t j = 0; j < rank; ++j) b[o * rank + j] = scale * lora.b.value[static_cast<std::size_t>(j * out + o)];
    }
  }
  return bytes;
}

std::vector<AdapterModule> decodeAdapter(const std::string& path, const Model& model) {
  const GgufFile file = GgufFile::open(path, "ADAPTER_CORRUPT");
  if (file.text("general.type").value_or("") != "adapter" || file.text("adapter.type").value_or("") != "lora") {
    throw Error("ADAPTER_CORRUPT", path + " is not a LoRA adapter");
  }
  if (file.text("general.architecture").value_or("") != model.hyper.architecture.name) {
    throw Error("ADAPTER_MISMATCH", path + " adapts a model of another architecture");
  }
  const auto alpha = static_cast<float>(file.real("adapter.lora.alpha").value_or(0));
  if (!std::isfinite(alpha)) throw Error("ADAPTER_CORRUPT", path + " has an alpha that is not finite");
  std::size_t used = 0;
  std::vector<AdapterModule> modules;
  for (std::int64_t layer = 0; layer < model.hyper.layers; ++layer) {
    for (int m = 0; m < kModules; ++m) {
      const std::string name = moduleName(layer, m) + ".weight";
      const GgufTensor* a = file.findTensor(name + ".lora_a");
      const GgufTensor* b = file.findTensor(name + ".lora_b");
      if (a == nullptr && b == nullptr) continue;
      if (a == nullptr || b == nullptr) throw Error("ADAPTER_CORRUPT", path + " has only one factor of " + name);
      const Linear& linear = model.layers[static_cast<std::size_t>(layer)].linear[m];
      const std::int64_t rank = a->dimensions[1], in = linear.inputs(), out = linear.outputs();
      if (a->elements() != rank * in || a->dimensions[0] != in || b->elements() != rank * out || b->dimensions[0] != rank) {
        throw Error("ADAPTER_MISMATCH", path + " has other shapes for " + name);
      }
      if (!kernels::readable(a->type) || !kernels::readable(b->type) || in % ggml_blck_size(a->type) != 0 || rank % ggml_blck_size(b->type) != 0) {
        throw Error("ADAPTER_CORRUPT", path + " holds " + name + " in a type that cannot be read");
      }
      AdapterModule module;
      module.target = {layer, m, rank, alpha == 0 ? 1.0f : alpha / static_cast<float>(rank), 0};
      module.a.resize(static_cast<std::size_t>(rank * in));
      module.b.resize(static_cast<std::size_t>(rank * out));
      const auto rows = [&](const GgufTensor& t, float* to) {
        const std::int64_t columns = t.dimensions[0];
        const Matrix matrix{file.data(t), t.type, t.dimensions[1], columns, ggml_row_size(t.type, columns)};
        for (std::int64_t row = 0; row < matrix.rows; ++row) kernels::readRow(kernels::kernels(), matrix, row, 0, columns, to + row * columns);
      };
      rows(*a, module.a.data());
      std::vector<float> transposed(module.b.size());
      rows(*b, transposed.data());
      for (std::int64_t o = 0; o < out; ++o) {
        for (std::int64_t j = 0; j < rank; ++j) module.b[static_cast<std::size_t>(j * out + o)] = transposed[static_cast<std::size_t>(o * rank + j)];
      }
      for (const auto* values : {&module.a, &module.b}) {
        for (const float value : *values) {
          if (!std::isfinite(value)) throw Error("NUMERIC_FAILURE", path + " holds a value of " + name + " that is not finite");
        }
      }
      used += 2;
      modules.push_back(std::move(module));
    }
  }
  if (used != file.tensors().size()) throw Error("ADAPTER_MISMATCH", path + " adapts tensors that this model does not have or that cannot be trained");
  if (modules.empty()) throw Error("ADAPTER_CORRUPT", path + " adapts nothing");
  return modules;
}

}  // namespace isopro::training
