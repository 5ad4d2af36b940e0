#include "inference/validate_decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "inference/model_trial.h"
#include "inference/rope_factors.h"
#include "inference/validate_vocabulary.h"
#include "model/metadata_reader.h"
#include "model/text_decoders.h"

namespace isopro {
namespace {

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kTriedCells = 256;  // of the context of a trial
constexpr std::int64_t kStateHeadValues = 64;
constexpr std::int64_t kStateValue = 4;  // bytes: llama.cpp keeps states in f32

// Nothing that the architecture reads may be a number that is none.
void checkNumbers(const GgufFile& file, const std::string& prefix) {
  for (const GgufEntry& entry : file.metadata()) {
    if (entry.key.substr(0, prefix.size()) != prefix) continue;
    const GgufValue& value = entry.value;
    if (value.type == GgufType::Float32 && value.isArray) {
      const auto numbers = file.floats(entry.key);
      for (const float one : *numbers) {
        if (!std::isfinite(one))
          file.fail("a value of metadata " + inQuotes(entry.key) + " is not a number");
      }
    } else if (!value.isArray &&
               (value.type == GgufType::Float32 || value.type == GgufType::Float64) &&
               !std::isfinite(*file.real(entry.key))) {
      file.fail("metadata " + inQuotes(entry.key) + " is not a number");
    }
  }
}

void checkExperts(const GgufFile& file, const MetadataReader& read, std::int64_t layers) {
  const std::int64_t experts = read.integerOr("expert_count", 0, kMostExperts, 0);
  const auto used = read.ofLayers("expert_used_count", layers, kMostExperts, {0});
  const std::int64_t most = *std::max_element(used.begin(), used.end());
  if (most > experts || (experts > 0 && most == 0))
    file.fail("each token uses " + std::to_string(most) + " of " + std::to_string(experts) +
              " experts");
  const std::int64_t groups = read.integerOr("expert_group_count", 0, kMostExperts, 0);
  const std::int64_t usedGroups = read.integerOr("expert_group_used_count", 0, kMostExperts, 0);
  if (groups > 1 &&
      (groups >= experts || experts % groups != 0 || usedGroups == 0 || usedGroups >= groups))
    file.fail(std::to_string(experts) + " experts in " + std::to_string(groups) +
              " groups, of which each token uses " + std::to_string(usedGroups));
}

void checkRotation(const GgufFile& file, const MetadataReader& read) {
  read.integerOr("rope.dimension_count", 0, kMostWidth, 0);
  read.integerOr("rope.dimension_count_swa", 0, kMostWidth, 0);
  read.integerOr("rope.scaling.original_context_length", 0, kMostContext, 0);
  const auto scaling = file.text(read.key("rope.scaling.type"));
  const std::array<std::string_view, 4> known = {"none", "linear", "yarn", "longrope"};
  if (scaling && std::find(known.begin(), known.end(), *scaling) == known.end())
    file.fail(ErrorCode::modelUnsupported,
              "rope scaling " + inQuotes(*scaling) + " is not supported");
}

// Layers that keep a state of the text, by what the files of hybrid architectures say.
std::int64_t stateLayers(const MetadataReader& read, std::int64_t layers,
                         const std::vector<std::int64_t>& keyHeads) {
  const std::int64_t interval = read.integerOr("full_attention_interval", 1, kMostLayers, 0);
  if (interval > 0) return layers - layers / interval;
  const auto without = std::count(keyHeads.begin(), keyHeads.end(), 0);
  return without == 0 ? layers : without;
}

// Bytes that one layer keeps of a sequence, whatever its length (llama_hparams::n_embd_r and
// n_embd_s).
std::int64_t layerStateBytes(const MetadataReader& read, std::int64_t width, std::int64_t heads) {
  const std::int64_t kernel = read.integerOr("ssm.conv_kernel", 0, kMostWidth, 0);
  const std::int64_t inner = read.integerOr("ssm.inner_size", 0, kMostWidth, 0);
  const std::int64_t state = read.integerOr("ssm.state_size", 0, kMostWidth, 0);
  const std::int64_t groups = read.integerOr("ssm.group_count", 0, kMostWidth, 0);
  const std::int64_t shifts = read.integerOr("token_shift_count", 0, 16, 2);
  if (const auto head = read.integerOr("wkv.head_size", 0, kMostHeadWidth, 0))
    return kStateValue * (shifts * width + width * head);
  if (const auto cached = read.integerOr("shortconv.l_cache", 0, kMostWidth, 0))
    return kStateValue * width * (cached - 1);
  if (const auto head = read.integerOr("kda.head_dim", 0, kMostHeadWidth, 0))
    return kStateValue * heads * head * (3 * (kernel > 0 ? kernel - 1 : 3) + head);
  return kStateValue *
         ((std::max<std::int64_t>(kernel, 1) - 1) * (inner + 2 * groups * state) + state * inner);
}

// What the cache takes; where a file's layers differ in ways that only its architecture knows, the
// most that they can take.
CacheShape readCache(const GgufFile& file, const MetadataReader& read, SequenceMemory memory,
                     std::int64_t layers, std::int64_t width) {
  const auto count = static_cast<std::size_t>(layers);
  const auto heads = read.ofLayers("attention.head_count", layers, kMostHeads,
                                   std::vector<std::int64_t>(count, 0));
  const auto keyHeads = read.ofLayers("attention.head_count_kv", layers, kMostHeads, heads);
  for (std::size_t i = 0; i < count; ++i) {
    if (keyHeads[i] > 0 && heads[i] > 0 && heads[i] % keyHeads[i] != 0)
      file.fail(std::to_string(heads[i]) + " attention heads cannot share " +
                std::to_string(keyHeads[i]) + " key-value heads");
  }
  const std::int64_t shared = heads.front() == 0 ? 0 : width / heads.front();
  CacheShape cache;
  std::int64_t keys = 0, values = 0;
  const auto widest = [&](const char* suffix, std::int64_t absent, std::int64_t& most) {
    const std::int64_t one = read.integerOr(suffix, 1, kMostHeadWidth, absent);
    if (one > 0) cache.headWidths.push_back(one);
    most = std::max(most, one);
  };
  widest("attention.key_length", shared, keys);
  widest("attention.value_length", shared, values);
  widest("attention.key_length_swa", 0, keys);
  widest("attention.value_length_swa", 0, values);
  read.integerOr("attention.key_length_mla", 1, kMostHeadWidth, 1);
  read.integerOr("attention.value_length_mla", 1, kMostHeadWidth, 1);
  const std::int64_t withState =
      memory == SequenceMemory::kCells ? 0 : stateLayers(read, layers, keyHeads);
  if (withState > 0) cache.stateBytes = withState * layerStateBytes(read, width, heads.front());
  if (memory == SequenceMemory::kState) return cache;
  const std::int64_t reused =
      std::min(layers, read.integerOr("attention.shared_kv_layers", 0, kMostLayers, 0));
  const bool alternates = read.has("full_attention_interval");
  const std::int64_t attending = alternates ? layers - withState : layers - reused;
  for (std::int64_t i = 0; i < attending; ++i)
    cache.valuesPerToken += keyHeads[static_cast<std::size_t>(i)] * (keys + values);
  return cache;
}

// ggml's kernels for RWKV take the values of a head four vectors at a time, whatever the width.
void checkHeadOfState(const GgufFile& file, const MetadataReader& read, std::int64_t width) {
  const std::int64_t head = read.integerOr("wkv.head_size", 1, kMostHeadWidth, 0);
  if (head % kStateHeadValues != 0 || (head > 0 && width % head != 0))
    file.fail(ErrorCode::modelUnsupported, "heads of " + std::to_string(head) +
                                               " values, of a state of " + std::to_string(width) +
                                               ", are not a multiple of " +
                                               std::to_string(kStateHeadValues));
}

void checkTensors(const GgufFile& file, std::int64_t vocabulary) {
  const GgufTensor* embedding = file.findTensor("token_embd.weight");
  if (embedding == nullptr) file.fail("tensor token_embd.weight is missing");
  if (embedding->dimensions[1] != vocabulary)
    file.fail("tensor token_embd.weight has " + std::to_string(embedding->dimensions[1]) +
              " rows for " + std::to_string(vocabulary) + " tokens");
  for (const GgufTensor& tensor : file.tensors()) {
    // A table that some mixtures of experts look tokens up in.
    const bool isTable =
        tensor.type == GGML_TYPE_I32 && tensor.name.find("tid2eid") != std::string_view::npos;
    if (!isTable && (tensor.rank == 1 ? tensor.type != GGML_TYPE_F32 : !isWeightType(tensor.type)))
      file.fail(ErrorCode::modelUnsupported,
                "tensor " + inQuotes(tensor.name) + " has the type " + ggml_type_name(tensor.type));
  }
}

}  // namespace

bool isOtherDecoder(const GgufFile& file) {
  const std::string_view architecture = architectureOf(file);
  if (findArchitecture(architecture) != nullptr) return false;
  if (findTextDecoder(architecture) != nullptr) return true;
  const char* reason = reasonAgainst(architecture);
  file.fail(ErrorCode::archUnsupported, "architecture " + inQuotes(architecture) +
                                            " is not supported" +
                                            (reason == nullptr ? "" : std::string(": ") + reason));
}

ModelInventory validateDecoder(const GgufFile& file) {
  const std::string architecture(architectureOf(file));
  const MetadataReader read(file, architecture);
  refuseOtherKinds(file, read);
  checkNumbers(file, read.key(""));
  const std::int64_t layers = read.integer("block_count", 1, kMostLayers);
  const std::int64_t context = read.integer("context_length", 1, kMostContext);
  const std::int64_t width = read.integer("embedding_length", 1, kMostWidth);
  read.ofLayers("feed_forward_length", layers, kMostWidth, {});
  read.integerOr("nextn_predict_layers", 0, layers, 0);
  read.integerOr("attention.sliding_window", 0, kAny, 0);
  checkExperts(file, read, layers);
  checkRotation(file, read);
  checkHeadOfState(file, read, width);

  ModelInventory inventory;
  inventory.architecture = architecture;
  inventory.memory = findTextDecoder(architecture)->memory;
  inventory.cache = readCache(file, read, inventory.memory, layers, width);
  if (hasFactorsByLength(file))
    inventory.shortContext = std::min(
        context, read.integerOr("rope.scaling.original_context_length", 1, kMostContext, context));
  if (std::max(inventory.cache.stateBytes, 2 * kTriedCells * inventory.cache.valuesPerToken) >
      kTrialBytes)
    file.fail(ErrorCode::modelUnsupported,
              "one sequence takes more than " + std::to_string(kTrialBytes / 1'000'000'000) +
                  " GB of memory: a state of " + std::to_string(inventory.cache.stateBytes) +
                  " bytes, and " + std::to_string(inventory.cache.valuesPerToken) +
                  " keys and values for each token");
  checkTensors(file, static_cast<std::int64_t>(validateVocabulary(file, Tokenizers::kAll)));
  checkRopeFactors(file);
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.rank == 2)
      inventory.matrices.emplace(
          std::string(tensor.name),
          std::array<std::int64_t, 2>{tensor.dimensions[0], tensor.dimensions[1]});
  }
  return inventory;
}

}  // namespace isopro
