#include "inference/inspection.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "inference/llama_reading.h"
#include "inference/own_attention.h"

namespace isopro {
namespace {

std::string shown(const GgufFile& file, const GgufEntry& entry) {
  const auto& [key, value] = entry;
  if (value.isArray)
    return std::string("array of ") + name(value.type) + ", " + std::to_string(value.count);
  std::ostringstream text;
  switch (value.type) {
    case GgufType::Text:
      text << *file.text(key);
      break;
    case GgufType::Bool:
      text << (*file.boolean(key) ? "true" : "false");
      break;
    case GgufType::Float32:
    case GgufType::Float64:
      text << *file.real(key);
      break;
    default:
      text << GgufFile::integerText(value);
      break;
  }
  return text.str();
}

std::string textOr(const GgufFile& file, const char* key, const char* absent) {
  const GgufValue* value = file.find(key);
  return value == nullptr || value->isArray || value->type != GgufType::Text
             ? absent
             : std::string(*file.text(key));
}

}  // namespace

Inspection inspect(const std::string& path, bool byLlama) {
  const GgufFile file = GgufFile::open(path);
  Inspection result;
  result.version = file.version();
  result.bytes = file.size();
  result.kind = textOr(file, "general.type", "model");
  result.architecture = textOr(file, "general.architecture", "");
  result.modelName = textOr(file, "general.name", "");
  if (const GgufValue* tokens = file.find("tokenizer.ggml.tokens");
      tokens != nullptr && tokens->isArray)
    result.vocabularySize = tokens->count;
  for (const GgufEntry& entry : file.metadata())
    result.metadata.emplace_back(entry.key, shown(file, entry));

  std::map<std::string, TensorTypeCount> types;
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string type = ggml_type_name(tensor.type);
    const auto elements = static_cast<std::uint64_t>(tensor.elements());
    TensorTypeCount& count = types[type];
    count.type = type;
    ++count.tensors;
    count.parameters += elements;
    count.bytes += tensor.bytes;
    if (tensor.dimensions[1] > 1 && !count.multiplier && result.kind != "adapter")
      count.multiplier = OwnProducts::multiplierOf(file, tensor.type);
    result.parameters += elements;
    result.tensors.push_back({std::string(tensor.name),
                              type,
                              {tensor.dimensions.begin(), tensor.dimensions.begin() + tensor.rank},
                              tensor.bytes});
  }
  for (auto& [ignored, count] : types) result.types.push_back(std::move(count));
  std::stable_sort(result.types.begin(), result.types.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });

  if (result.kind != "adapter") {
    try {
      const ModelInventory inventory = validateModel(file);
      const bool isOwn = OwnProducts::kIsAutomatic &&
                         OwnProducts::reasonAgainst(file, false) == nullptr &&
                         OwnAttention::reads(inventory.hyper);
      result.kvType = isOwn ? "f16" : textOr(file, "isopro.kv_cache_type", "f16");
      result.cache = inventory.cache;
      result.evaluatesAlone = inventory.memory != SequenceMemory::kCells;
      if (byLlama) result.warnings = readWithoutWeights(path);
    } catch (const Error& error) {
      result.problem = Problem{error.code(), error.what()};
    }
  }
  return result;
}

}  // namespace isopro
