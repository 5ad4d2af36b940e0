#include "model/hyper_parameters.h"

#include <array>
#include <cmath>
#include <limits>
#include <sstream>

#include "model/text_decoders.h"

namespace isopro {
namespace {

constexpr std::array<Architecture, 4> kArchitectures = {{
    // family, name, halfRotation, headNorms, postNorms, scalesEmbedding, alternatesWindow, gate
    {Family::Llama, "llama", false, false, false, false, false, Gate::swiglu},
    {Family::Qwen2, "qwen2", true, false, false, false, false, Gate::swiglu},
    {Family::Qwen3, "qwen3", true, true, false, false, false, Gate::swiglu},
    {Family::Gemma2, "gemma2", true, false, true, true, true, Gate::geglu},
}};

// Sizes beyond these belong to no model; they keep every product that llama.cpp forms in 32 bits
// from wrapping.
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
class MetadataReader {
 public:
  MetadataReader(const GgufFile& file, const Architecture& architecture)
      : file_(file), prefix_(std::string(architecture.name) + ".") {}

  std::string key(const std::string& suffix) const { return prefix_ + suffix; }

  bool has(const std::string& suffix) const { return file_.find(key(suffix)) != nullptr; }

  std::int64_t integer(const std::string& suffix, std::int64_t low, std::int64_t high) const {
    const auto value = file_.integer(key(suffix));
    if (!value) file_.fail("metadata \"" + key(suffix) + "\" is missing");
    return within(suffix, *value, low, high);
  }

  std::int64_t integerOr(const std::string& suffix, std::int64_t low, std::int64_t high,
                         std::int64_t absent) const {
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
  std::int64_t within(const std::string& suffix, std::uint64_t value, std::int64_t low,
                      std::int64_t high) const {
    if (value < static_cast<std::uint64_t>(low) || value > static_cast<std::uint64_t>(high)) {
      file_.fail("metadata \"" + key(suffix) + "\" is " + std::to_string(value) + ", outside " +
                 std::to_string(low) + " to " + std::to_string(high));
    }
    return static_cast<std::int64_t>(value);
  }

  double within(const std::string& suffix, double value, double low, double high) const {
    if (!(value >= low && value <= high)) {  // NaN fails too
      file_.fail("metadata \"" + key(suffix) + "\" is " + shown(value) + ", outside " + shown(low) +
                 " to " + shown(high));
    }
    return value;
  }

  const GgufFile& file_;
  std::string prefix_;
};

Architecture readArchitecture(const GgufFile& file) {
  const auto type = file.text("general.type");
  if (type && *type == "adapter")
    file.fail(ErrorCode::modelUnsupported, "this is a LoRA adapter, not a model");
  const auto architecture = file.text("general.architecture");
  if (!architecture) file.fail("metadata \"general.architecture\" is missing");
  if (const Architecture* known = findArchitecture(*architecture)) return *known;
  const bool generates = findTextDecoder(*architecture) != nullptr;
  file.fail(ErrorCode::archUnsupported,
            "architecture " + inQuotes(*architecture) +
                (generates ? " can be run, but not trained" : " is not supported"));
}

// Features of llama.cpp that these architectures' files can switch on, but that neither the engine
// nor the trainer has.
void refuseVariants(const GgufFile& file, const MetadataReader& read) {
  for (const char* suffix :
       {"expert_count", "expert_used_count", "expert_group_count", "expert_group_used_count"}) {
    if (read.integerOr(suffix, 0, std::numeric_limits<std::int64_t>::max(), 0) != 0)
      file.fail(ErrorCode::modelUnsupported, "mixtures of experts are not supported");
  }
  if (read.integerOr("nextn_predict_layers", 0, mostLayers, 0) != 0)
    file.fail(ErrorCode::modelUnsupported, "layers that predict several tokens are not supported");
  if (read.integerOr("pooling_type", 0, std::numeric_limits<std::int64_t>::max(), 0) != 0)
    file.fail(ErrorCode::modelUnsupported, "this is an embedding model");
  if (!file.boolean(read.key("attention.causal")).value_or(true))
    file.fail(ErrorCode::modelUnsupported, "attention is not causal");
  if (read.has("classifier.output_labels"))
    file.fail(ErrorCode::modelUnsupported, "this is a classifier");
  if (read.has("embedding_length_out"))
    file.fail(ErrorCode::modelUnsupported, "this is an embedding model");
  for (const char* suffix : {"attention.key_length_swa", "attention.value_length_swa",
                             "rope.dimension_count_swa", "rope.freq_base_swa"}) {
    if (read.has(suffix))
      file.fail(ErrorCode::modelUnsupported,
                "metadata \"" + read.key(suffix) +
                    "\": sliding-window layers of another shape are not supported");
  }
  if (file.integer("split.count").value_or(1) > 1)
    file.fail(ErrorCode::modelUnsupported,
              "this is one part of a split model: merge the parts with llama-gguf-split --merge");
}

// As llama.cpp: a file that names no type of scaling scales linearly, by what factor it has.
void readRope(const GgufFile& file, const MetadataReader& read, Hyperparameters& h) {
  h.ropeBase = static_cast<float>(read.realOr("rope.freq_base", 1.5, 1e15, 10'000));
  const auto scaling = file.text(read.key("rope.scaling.type")).value_or("linear");
  if (scaling == "none")
    h.ropeScaling = RopeScaling::none;
  else if (scaling == "linear")
    h.ropeScaling = RopeScaling::linear;
  else if (scaling == "yarn")
    h.ropeScaling = RopeScaling::yarn;
  else
    file.fail(ErrorCode::modelUnsupported,
              "rope scaling " + inQuotes(scaling) + " is not supported");
  // 0 stands for no scaling.
  const double older = read.realOr("rope.scale_linear", 0, 1e6, 0);
  const auto factor = static_cast<float>(read.realOr("rope.scaling.factor", 0, 1e6, older));
  if (h.ropeScaling != RopeScaling::none && factor != 0) h.ropeScale = 1.0f / factor;
  h.ropeMagnitude = static_cast<float>(read.realOr("rope.scaling.attn_factor", -1e6, 1e6, 1));
  for (const char* suffix : {"rope.scaling.alpha", "rope.scaling.yarn_log_multiplier",
                             "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor",
                             "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"}) {
    read.realOr(suffix, -1e6, 1e6, 0);
  }
  read.integerOr("rope.scaling.original_context_length", 1, mostContext, 1);
  file.boolean(read.key("rope.scaling.finetuned"));
}

void readAttention(const GgufFile& file, const MetadataReader& read, Hyperparameters& h) {
  h.heads = read.integer("attention.head_count", 1, mostHeads);
  h.keyHeads = read.integerOr("attention.head_count_kv", 1, mostHeads, h.heads);
  if (h.heads % h.keyHeads != 0) {
    file.fail(std::to_string(h.heads) + " attention heads cannot share " +
              std::to_string(h.keyHeads) + " key-value heads");
  }
  h.headWidth = read.integerOr("attention.key_length", 1, mostHeadDimension, h.width / h.heads);
  if (read.integerOr("attention.value_length", 1, mostHeadDimension, h.width / h.heads) !=
      h.headWidth) {
    file.fail(ErrorCode::modelUnsupported, "keys and values of different sizes are not supported");
  }
  if (h.headWidth < 2 || h.headWidth % 2 != 0)
    file.fail("heads of " + std::to_string(h.headWidth) + " dimensions cannot be rotated");
  if (h.architecture.family == Family::Qwen2 && h.queryWidth() != h.width) {
    file.fail(std::to_string(h.heads) + " heads of " + std::to_string(h.headWidth) +
              " dimensions do not make an embedding of " + std::to_string(h.width));
  }
  if (read.integerOr("rope.dimension_count", 0, mostWidth, h.headWidth) != h.headWidth) {
    file.fail(ErrorCode::modelUnsupported, "only a part of each head is rotated");
  }
  h.attentionScale = 1.0f / std::sqrt(static_cast<float>(h.headWidth));
  if (h.architecture.family != Family::Gemma2) return;
  // The 27B model alone scales by its width per head (Gemma Team 2024, table 1 and the published
  // configuration).
  if (h.layers == 46) h.attentionScale = 1.0f / std::sqrt(static_cast<float>(h.width / h.heads));
  h.attentionCap = static_cast<float>(read.realOr("attn_logit_softcapping", 1e-3, 1e6, 50));
  h.finalCap = static_cast<float>(read.realOr("final_logit_softcapping", 1e-3, 1e6, 30));
  h.window = read.integerOr("attention.sliding_window", 1, mostWindow, 4096);
  if (read.integerOr("attention.sliding_window_pattern", 0, mostLayers, 2) != 2) {
    file.fail(ErrorCode::modelUnsupported,
              "sliding windows other than in every second layer are not supported");
  }
}

}  // namespace

const Architecture* findArchitecture(std::string_view name) {
  for (const Architecture& row : kArchitectures) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

Hyperparameters readHyperparameters(const GgufFile& file) {
  Hyperparameters h;
  h.architecture = readArchitecture(file);
  const MetadataReader read(file, h.architecture);
  refuseVariants(file, read);

  h.layers = read.integer("block_count", 1, mostLayers);
  h.contextLength = read.integer("context_length", 1, mostContext);
  h.width = read.integer("embedding_length", 1, mostWidth);
  h.feedForward = read.integer("feed_forward_length", 1, mostWidth);
  readAttention(file, read, h);
  h.normEpsilon = static_cast<float>(read.real("attention.layer_norm_rms_epsilon", 0, 1));
  readRope(file, read, h);
  const GgufTensor* embedding = file.findTensor("token_embd.weight");
  if (embedding == nullptr) file.fail("tensor token_embd.weight is missing");
  h.vocabulary = embedding->dimensions[1];
  return h;
}

}  // namespace isopro
