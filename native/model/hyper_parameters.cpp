#include "model/hyper_parameters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "model/metadata_reader.h"
#include "model/text_decoders.h"

namespace isopro {
namespace {

constexpr std::array<Architecture, 12> kArchitectures = {{
    // family, name, halfRotation, headNorms, preNorms, postNorms, windowPeriod, gate, fused,
    // experts
    {Family::Llama, "llama", false, HeadNorms::none, true, false, 0, Gate::swiglu},
    {Family::Qwen2, "qwen2", true, HeadNorms::none, true, false, 0, Gate::swiglu},
    {Family::Qwen3, "qwen3", true, HeadNorms::each, true, false, 0, Gate::swiglu},
    {Family::Gemma2, "gemma2", true, HeadNorms::none, true, true, 2, Gate::geglu},
    {Family::SmolLm3, "smollm3", false, HeadNorms::none, true, false, 0, Gate::swiglu},
    {Family::Granite, "granite", false, HeadNorms::none, true, false, 0, Gate::swiglu},
    {Family::Mistral3, "mistral3", false, HeadNorms::none, true, false, 0, Gate::swiglu},
    {Family::Olmo2, "olmo2", true, HeadNorms::whole, false, true, 4, Gate::swiglu},
    {Family::Gemma3, "gemma3", true, HeadNorms::each, true, true, 6, Gate::geglu},
    {Family::Phi3, "phi3", true, HeadNorms::none, true, false, 0, Gate::swiglu, true},
    {Family::Qwen3Moe, "qwen3moe", true, HeadNorms::each, true, false, 0, Gate::swiglu, false,
     true},
    {Family::GptOss, "gpt-oss", true, HeadNorms::none, true, false, 2, Gate::swigluLimited, false,
     true},
}};

constexpr std::int64_t kMostWindow = std::int64_t{1} << 20;

Architecture readArchitecture(const GgufFile& file) {
  const std::string_view architecture = architectureOf(file);
  if (const Architecture* known = findArchitecture(architecture)) return *known;
  const bool generates = findTextDecoder(architecture) != nullptr;
  file.fail(ErrorCode::archUnsupported,
            "architecture " + inQuotes(architecture) +
                (generates ? " can be run, but not trained" : " is not supported"));
}

// Features of llama.cpp that these architectures' files can switch on, but that neither the engine
// nor the trainer has.
void refuseVariants(const GgufFile& file, const MetadataReader& read, const Hyperparameters& h) {
  for (const char* suffix :
       {"expert_count", "expert_used_count", "expert_group_count", "expert_group_used_count"}) {
    const bool counted = std::string_view(suffix).find("group") == std::string_view::npos;
    if (counted && h.architecture.experts) continue;
    if (read.integerOr(suffix, 0, std::numeric_limits<std::int64_t>::max(), 0) != 0)
      file.fail(ErrorCode::modelUnsupported, counted ? "mixtures of experts are not supported"
                                                     : "groups of experts are not supported");
  }
  if (read.integerOr("nextn_predict_layers", 0, kMostLayers, 0) != 0)
    file.fail(ErrorCode::modelUnsupported, "layers that predict several tokens are not supported");
  refuseOtherKinds(file, read);
  if (read.has("deepstack_mapping"))
    file.fail(ErrorCode::modelUnsupported, "vision models are not supported");
  for (const char* suffix :
       {"attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"}) {
    if (read.has(suffix))
      file.fail(ErrorCode::modelUnsupported,
                "metadata \"" + read.key(suffix) +
                    "\": sliding-window layers of another shape are not supported");
  }
}

// llama.cpp v0.5.0 lengthens what yarn rotated by this, with `multiplier` where the file has one;
// the kernel then lengthens it by 1 + 0.1 log(factor).
float yarnMagnitude(float scale, float multiplier) {
  const float factor = 1.0f / scale;
  const auto length = [factor](float times) {
    return factor <= 1.0f ? 1.0f : 0.1f * times * std::log(factor) + 1.0f;
  };
  const float wanted = multiplier == 0 ? length(1) : length(1) / length(multiplier);
  return wanted / (1.0f + 0.1f * std::log(factor));
}

// As llama.cpp: a file that names no type of scaling scales linearly, by what factor it has.
void readRope(const GgufFile& file, const MetadataReader& read, Hyperparameters& h) {
  Rope& rope = h.rope;
  rope.base = static_cast<float>(read.realOr("rope.freq_base", 1.5, 1e15, 10'000));
  const auto scaling = file.text(read.key("rope.scaling.type")).value_or("linear");
  if (scaling == "none")
    h.ropeScaling = RopeScaling::none;
  else if (scaling == "linear")
    h.ropeScaling = RopeScaling::linear;
  else if (scaling == "yarn")
    h.ropeScaling = RopeScaling::yarn;
  else if (scaling == "longrope" && h.architecture.family == Family::Phi3)
    h.ropeScaling = RopeScaling::longrope;
  else
    file.fail(ErrorCode::modelUnsupported,
              "rope scaling " + inQuotes(scaling) + " is not supported");
  // 0 stands for no scaling.
  const double older = read.realOr("rope.scale_linear", 0, 1e6, 0);
  const auto factor = static_cast<float>(read.realOr("rope.scaling.factor", 0, 1e6, older));
  if (h.ropeScaling != RopeScaling::none && factor != 0) rope.scale = 1.0f / factor;
  const auto magnitude = static_cast<float>(read.realOr("rope.scaling.attn_factor", -1e6, 1e6, 1));
  for (const char* suffix :
       {"rope.scaling.alpha", "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor"}) {
    read.realOr(suffix, -1e6, 1e6, 0);
  }
  const double multiplier = read.realOr("rope.scaling.yarn_log_multiplier", -1e6, 1e6, 0);
  const double fast = read.realOr("rope.scaling.yarn_beta_fast", -1e6, 1e6, 32);
  const double slow = read.realOr("rope.scaling.yarn_beta_slow", -1e6, 1e6, 1);
  rope.originalContext =
      read.integerOr("rope.scaling.original_context_length", 1, kMostContext, h.contextLength);
  const bool finetuned = file.boolean(read.key("rope.scaling.finetuned")).value_or(true);
  // llama.cpp reads these of this architecture alone.
  const bool mistral = h.architecture.family == Family::Mistral3;
  if (h.ropeScaling == RopeScaling::yarn) {
    rope.mixture = 1;
    if (mistral)
      rope.fastTurns = static_cast<float>(fast), rope.slowTurns = static_cast<float>(slow);
    rope.magnitude = yarnMagnitude(rope.scale, mistral ? static_cast<float>(multiplier) : 0);
  }
  rope.magnitude *= magnitude;
  if (!(std::fabs(rope.magnitude) <= 1e6f) || !(rope.fastTurns > 0 && rope.slowTurns > 0))
    file.fail("its yarn scaling has no finite angles");

  h.windowRope = rope;
  const double windowBase = read.realOr("rope.freq_base_swa", 1.5, 1e15, 0);
  switch (h.architecture.family) {
    case Family::SmolLm3:
      h.plainPeriod = 4;
      break;
    case Family::Granite:
      if (!finetuned) h.plainPeriod = 1;
      break;
    case Family::Gemma3:
      h.windowRope.base = 10'000;
      h.windowRope.scale = 1;
      break;
    case Family::Olmo2:
      h.windowRope = Rope{rope.base};
      break;
    default:
      break;
  }
  if (windowBase != 0) h.windowRope.base = static_cast<float>(windowBase);
}

// Of every layer: whether it has a window; where the file lists them, as this architecture has
// them.
void readWindow(const GgufFile& file, const MetadataReader& read, Hyperparameters& h) {
  const char* const pattern = "attention.sliding_window_pattern";
  const std::int64_t period = h.architecture.windowPeriod;
  if (period == 0) return;
  const Family family = h.architecture.family;
  if (family == Family::GptOss)
    h.window = read.integer("attention.sliding_window", 1, kMostWindow);
  else if (family == Family::Gemma2)
    h.window = read.integerOr("attention.sliding_window", 1, kMostWindow, 4096);
  else
    h.window = read.integerOr("attention.sliding_window", 0, kMostWindow, 0);
  if (h.window == 0) return;
  const GgufValue* listed = file.find(read.key(pattern));
  bool usual = true;
  if (listed != nullptr && listed->isArray) {
    usual = listed->type == GgufType::Bool && listed->count == static_cast<std::uint64_t>(h.layers);
    for (std::int64_t layer = 0; usual && layer < h.layers; ++layer)
      usual = (listed->bytes[layer] != 0) == h.hasWindow(layer);
  } else {
    usual = read.integerOr(pattern, 0, kMostLayers, period) == period;
  }
  if (!usual) {
    file.fail(ErrorCode::modelUnsupported, "of " + std::to_string(period) +
                                               " layers, all but the last must have a sliding "
                                               "window");
  }
}

void readAttention(const GgufFile& file, const MetadataReader& read, Hyperparameters& h) {
  h.heads = read.integer("attention.head_count", 1, kMostHeads);
  h.keyHeads = read.integerOr("attention.head_count_kv", 1, kMostHeads, h.heads);
  if (h.heads % h.keyHeads != 0) {
    file.fail(std::to_string(h.heads) + " attention heads cannot share " +
              std::to_string(h.keyHeads) + " key-value heads");
  }
  h.headWidth = read.integerOr("attention.key_length", 1, kMostHeadWidth, h.width / h.heads);
  if (read.integerOr("attention.value_length", 1, kMostHeadWidth, h.width / h.heads) !=
      h.headWidth) {
    file.fail(ErrorCode::modelUnsupported, "keys and values of different sizes are not supported");
  }
  if (h.headWidth < 2 || h.headWidth % 2 != 0)
    file.fail("heads of " + std::to_string(h.headWidth) + " dimensions cannot be rotated");
  const Family family = h.architecture.family;
  if ((family == Family::Qwen2 || family == Family::Olmo2 || family == Family::Phi3) &&
      h.queryWidth() != h.width) {
    file.fail(std::to_string(h.heads) + " heads of " + std::to_string(h.headWidth) +
              " dimensions do not make an embedding of " + std::to_string(h.width));
  }
  h.rotatedWidth = read.integerOr("rope.dimension_count", 0, kMostWidth, h.headWidth);
  if (h.rotatedWidth != h.headWidth && family != Family::Phi3)
    file.fail(ErrorCode::modelUnsupported, "only a part of each head is rotated");
  if (h.rotatedWidth < 2 || h.rotatedWidth % 2 != 0 || h.rotatedWidth > h.headWidth) {
    file.fail("of heads of " + std::to_string(h.headWidth) + " dimensions, " +
              std::to_string(h.rotatedWidth) + " cannot be rotated");
  }
  h.attentionScale = 1.0f / std::sqrt(static_cast<float>(h.headWidth));
  readWindow(file, read, h);
}

void readFeedForward(const MetadataReader& read, Hyperparameters& h) {
  if (!h.architecture.experts) {
    h.feedForward = read.integer("feed_forward_length", 1, kMostWidth);
    return;
  }
  h.experts = read.integer("expert_count", 1, kMostExperts);
  h.expertsUsed = read.integer("expert_used_count", 1, h.experts);
  // llama.cpp divides the width of all that a token uses where a qwen3moe names no other.
  if (h.architecture.family == Family::GptOss || read.has("expert_feed_forward_length")) {
    h.feedForward = read.integer("expert_feed_forward_length", 1, kMostWidth);
  } else {
    h.feedForward = read.integer("feed_forward_length", h.expertsUsed, kMostWidth) / h.expertsUsed;
  }
}

// Factors and caps that some architectures have.
void readFactors(const GgufFile& file, const MetadataReader& read, Hyperparameters& h) {
  const auto real = [&](const char* suffix, double low, double high, double absent) {
    return static_cast<float>(read.realOr(suffix, low, high, absent));
  };
  const Family family = h.architecture.family;
  if (family == Family::Gemma2 || family == Family::Gemma3) {
    // The 27B models alone scale by their width per head (Gemma Team 2024, table 1, and the
    // published configurations).
    if (h.layers == (family == Family::Gemma2 ? 46 : 62))
      h.attentionScale = 1.0f / std::sqrt(static_cast<float>(h.width / h.heads));
    h.embeddingScale = std::sqrt(static_cast<float>(h.width));
  }
  if (family == Family::Gemma2) {
    h.attentionCap = real("attn_logit_softcapping", 1e-3, 1e6, 50);
    h.finalCap = real("final_logit_softcapping", 1e-3, 1e6, 30);
  }
  if (family == Family::Gemma3) {
    // 0 stands for no cap.
    h.finalCap = real("final_logit_softcapping", 0, 1e6, 0);
    if (h.finalCap != 0 && h.finalCap < 1e-3f)
      file.fail("metadata \"" + read.key("final_logit_softcapping") + "\" is too small");
  }
  if (family == Family::Granite) {
    // 0 stands for 1, or for the usual scale of scores; llama.cpp divides by the last.
    const auto or1 = [](float value) { return value == 0 ? 1.0f : value; };
    h.embeddingScale = or1(real("embedding_scale", -1e6, 1e6, 0));
    h.residualScale = or1(real("residual_scale", -1e6, 1e6, 0));
    const float scale = real("attention.scale", -1e6, 1e6, 0);
    if (scale != 0) h.attentionScale = scale;
    h.logitScale = 1.0f / static_cast<float>(read.real("logit_scale", 1e-6, 1e6));
  }
  if (family == Family::Mistral3) {
    h.temperatureScale = real("attention.temperature_scale", -1e6, 1e6, 0);
    h.temperatureLength = h.rope.originalContext;
  }
}

}  // namespace

const char* feedForwardNormTensor(const Architecture& architecture) {
  return architecture.family == Family::GptOss ? "post_attention_norm.weight" : "ffn_norm.weight";
}

const char* ropeFactorsTensor(const Architecture& architecture) {
  return architecture.family == Family::Phi3 ? "rope_factors_short.weight" : "rope_freqs.weight";
}

const Architecture* findArchitecture(std::string_view name) {
  for (const Architecture& row : kArchitectures) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

Hyperparameters readHyperparameters(const GgufFile& file) {
  Hyperparameters h;
  h.architecture = readArchitecture(file);
  const MetadataReader read(file, h.architecture.name);
  refuseVariants(file, read, h);

  h.layers = read.integer("block_count", 1, kMostLayers);
  h.contextLength = read.integer("context_length", 1, kMostContext);
  h.width = read.integer("embedding_length", 1, kMostWidth);
  readFeedForward(read, h);
  readAttention(file, read, h);
  h.normEpsilon = static_cast<float>(read.real("attention.layer_norm_rms_epsilon", 0, 1));
  readRope(file, read, h);
  readFactors(file, read, h);
  // Of rope factors by length only those of shorter texts are used: see ModelInventory.
  if (h.architecture.family == Family::Phi3 &&
      (file.findTensor("rope_factors_short.weight") != nullptr ||
       file.findTensor("rope_factors_long.weight") != nullptr))
    h.contextLength = std::min(h.contextLength, h.rope.originalContext);
  const GgufTensor* embedding = file.findTensor("token_embd.weight");
  if (embedding == nullptr) file.fail("tensor token_embd.weight is missing");
  h.vocabulary = embedding->dimensions[1];
  return h;
}

}  // namespace isopro
