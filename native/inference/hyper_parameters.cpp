#include "inference/hyper_parameters.h"

#include <cmath>
#include <limits>
#include <sstream>

namespace isopro {
namespace {

// Sizes beyond these belong to no model; they keep every product that llama.cpp forms in 32 bits from wrapping.
constexpr std::int64_t mostLayers = 512;  // LLAMA_MAX_LAYERS
constexpr std::int64_t mostContext = std::int64_t{1} << 27;
constexpr std::int64_t mostWidth = std::int64_t{1} << 20;
constexpr std::int64_t mostHeads = std::int64_t{1} << 12;
constexpr std::int64_t mostHeadDimension = std::int64_t{1} << 12;
constexpr std::int64_t mostWindow = std::int64_t{1} << 20;

std::string shown(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

// Reads `architecture.key` entries.
class Reader {
 public:
  Reader(const GgufFile& file, Architecture architecture) : file_(file), prefix_(std::string(isopro::name(architecture)) + ".") {}

  std::string key(const std::string& suffix) const { return prefix_ + suffix; }

  bool has(const std::string& suffix) const { return file_.find(key(suffix)) != nullptr; }

  std::int64_t integer(const std::string& suffix, std::int64_t low, std::int64_t high) const {
    const auto value = file_.integer(key(suffix));
    if (!value) file_.fail("metadata \"" + key(suffix) + "\" is missing");
    return within(suffix, *value, low, high);
  }

  std::int64_t integerOr(const std::string& suffix, std::int64_t low, std::int64_t high, std::int64_t absent) const {
    const auto value = file_.integer(key(suffix));
    return value ? within(suffix, *value, low, high) : absent;
  }

  double real(const std::string& suffix, double low, double high) const {
    const auto value = file_.real(key(suffix));
    if (!value) file_.fail("metadata \"" + key(suffix) + "\" is missing");
    return within(suffix, *value, low, high);
  }

  double realOr(const std::string& suffix, double low, double high, double absent) const {
    const auto value = file_.real(key(suffix));
    return value ? within(suffix, *value, low, high) : absent;
  }

 private:
  std::int64_t within(const std::string& suffix, std::uint64_t value, std::int64_t low, std::int64_t high) const {
    if (value < static_cast<std::uint64_t>(low) || value > static_cast<std::uint64_t>(high)) {
      file_.fail("metadata \"" + key(suffix) + "\" is " + std::to_string(value) + ", outside " + std::to_string(low) + " to " + std::to_string(high));
    }
    return static_cast<std::int64_t>(value);
  }

  double within(const std::string& suffix, double value, double low, double high) const {
    if (!(value >= low && value <= high)) {  // NaN fails too
      file_.fail("metadata \"" + key(suffix) + "\" is " + shown(value) + ", outside " + shown(low) + " to " + shown(high));
    }
    return value;
  }

  const GgufFile& file_;
  std::string prefix_;
};

Architecture readArchitecture(const GgufFile& file) {
  const auto type = file.text("general.type");
  if (type && *type == "adapter") file.fail("MODEL_UNSUPPORTED", "this is a LoRA adapter, not a model");
  const auto architecture = file.text("general.architecture");
  if (!architecture) file.fail("metadata \"general.architecture\" is missing");
  for (const Architecture known : {Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3, Architecture::Gemma2}) {
    if (*architecture == name(known)) return known;
  }
  file.fail("ARCH_UNSUPPORTED", "architecture " + quoted(*architecture) + " is not supported");
}

// Features of llama.cpp that these architectures' files can switch on, but that neither the engine nor the trainer has.
void refuseVariants(const GgufFile& file, const Reader& read) {
  for (const char* suffix : {"expert_count", "expert_used_count", "expert_group_count", "expert_group_used_count"}) {
    if (read.integerOr(suffix, 0, std::numeric_limits<std::int64_t>::max(), 0) != 0) file.fail("MODEL_UNSUPPORTED", "mixtures of experts are not supported");
  }
  if (read.integerOr("nextn_predict_layers", 0, mostLayers, 0) != 0) file.fail("MODEL_UNSUPPORTED", "layers that predict several tokens are not supported");
  if (read.integerOr("pooling_type", 0, std::numeric_limits<std::int64_t>::max(), 0) != 0) file.fail("MODEL_UNSUPPORTED", "this is an embedding model");
  if (!file.boolean(read.key("attention.causal")).value_or(true)) file.fail("MODEL_UNSUPPORTED", "attention is not causal");
  if (read.has("classifier.output_labels")) file.fail("MODEL_UNSUPPORTED", "this is a classifier");
  if (read.has("embedding_length_out")) file.fail("MODEL_UNSUPPORTED", "this is an embedding model");
  for (const char* suffix : {"attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa", "rope.freq_base_swa"}) {
    if (read.has(suffix)) file.fail("MODEL_UNSUPPORTED", "metadata \"" + read.key(suffix) + "\": sliding-window layers of another shape are not supported");
  }
  if (file.integer("split.count").value_or(1) > 1) file.fail("MODEL_UNSUPPORTED", "this is one part of a split model: merge the parts with llama-gguf-split --merge");
}

void checkRope(const GgufFile& file, const Reader& read) {
  const auto scaling = file.text(read.key("rope.scaling.type"));
  if (scaling && *scaling != "none" && *scaling != "linear" && *scaling != "yarn") {
    file.fail("MODEL_UNSUPPORTED", "rope scaling " + quoted(*scaling) + " is not supported");
  }
  // 0 stands for no scaling.
  for (const char* suffix : {"rope.scaling.factor", "rope.scale_linear"}) read.realOr(suffix, 0, 1e6, 0);
  for (const char* suffix : {"rope.scaling.attn_factor", "rope.scaling.alpha", "rope.scaling.yarn_log_multiplier", "rope.scaling.yarn_ext_factor",
                             "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"}) {
    read.realOr(suffix, -1e6, 1e6, 0);
  }
  read.integerOr("rope.scaling.original_context_length", 1, mostContext, 1);
  file.boolean(read.key("rope.scaling.finetuned"));
}

}  // namespace

const char* name(Architecture architecture) {
  switch (architecture) {
    case Architecture::Llama: return "llama";
    case Architecture::Qwen2: return "qwen2";
    case Architecture::Qwen3: return "qwen3";
    case Architecture::Gemma2: return "gemma2";
  }
  return "";
}

HyperParameters readHyperParameters(const GgufFile& file) {
  HyperParameters h{};
  h.architecture = readArchitecture(file);
  const Reader read(file, h.architecture);
  refuseVariants(file, read);

  h.layers = read.integer("block_count", 1, mostLayers);
  h.contextLength = read.integer("context_length", 1, mostContext);
  h.embedding = read.integer("embedding_length", 1, mostWidth);
  h.feedForward = read.integer("feed_forward_length", 1, mostWidth);
  h.heads = read.integer("attention.head_count", 1, mostHeads);
  h.keyValueHeads = read.integerOr("attention.head_count_kv", 1, mostHeads, h.heads);
  if (h.heads % h.keyValueHeads != 0) {
    file.fail(std::to_string(h.heads) + " attention heads cannot share " + std::to_string(h.keyValueHeads) + " key-value heads");
  }
  h.headDimension = read.integerOr("attention.key_length", 1, mostHeadDimension, h.embedding / h.heads);
  if (read.integerOr("attention.value_length", 1, mostHeadDimension, h.embedding / h.heads) != h.headDimension) {
    file.fail("MODEL_UNSUPPORTED", "keys and values of different sizes are not supported");
  }
  if (h.headDimension < 2 || h.headDimension % 2 != 0) file.fail("heads of " + std::to_string(h.headDimension) + " dimensions cannot be rotated");
  if (h.architecture == Architecture::Qwen2 && h.queryWidth() != h.embedding) {
    file.fail(std::to_string(h.heads) + " heads of " + std::to_string(h.headDimension) + " dimensions do not make an embedding of " + std::to_string(h.embedding));
  }
  if (read.integerOr("rope.dimension_count", 0, mostWidth, h.headDimension) != h.headDimension) {
    file.fail("MODEL_UNSUPPORTED", "only a part of each head is rotated");
  }

  h.normEpsilon = read.real("attention.layer_norm_rms_epsilon", 0, 1);
  h.ropeBase = read.realOr("rope.freq_base", 1.5, 1e15, 10'000);
  checkRope(file, read);
  if (h.architecture == Architecture::Gemma2) {
    for (const char* suffix : {"attn_logit_softcapping", "final_logit_softcapping"}) read.realOr(suffix, 1e-3, 1e6, 1);
    read.integerOr("attention.sliding_window", 1, mostWindow, 1);
    if (read.integerOr("attention.sliding_window_pattern", 0, mostLayers, 2) != 2) {
      file.fail("MODEL_UNSUPPORTED", "sliding windows other than in every second layer are not supported");
    }
  }
  return h;
}

}  // namespace isopro
