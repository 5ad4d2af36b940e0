#include "inference/validate_model.h"

#include <vector>

#include "inference/rope_factors.h"
#include "inference/validate_decoder.h"
#include "inference/validate_vocabulary.h"

namespace isopro {
namespace {

constexpr std::uint64_t tensorAlignment = 32;  // ggml's CPU back end asserts it on mapped tensors

struct Expected {
  std::string name;
  std::int64_t columns;
  std::int64_t rows;  // 0: a vector
  bool required;
  std::int64_t matrices = 1;  // one after the other
  bool plain = false;         // F32
};

// Biases that a file of the family may have, after those of q, k and v.
bool mayHaveBiases(Family family) {
  return family == Family::Llama || family == Family::Granite || family == Family::Mistral3;
}

std::vector<Expected> expectedTensors(const Hyperparameters& h, std::int64_t vocabulary) {
  const Family family = h.architecture.family;
  std::vector<Expected> list = {
      {"token_embd.weight", h.width, vocabulary, true},
      {"output_norm.weight", h.width, 0, true},
  };
  if (family != Family::Gemma2)
    list.push_back({"output.weight", h.width, vocabulary,
                    family == Family::Olmo2 || family == Family::GptOss});
  if (mayHaveBiases(family) || family == Family::Phi3)
    list.push_back({ropeFactorsTensor(h.architecture), h.rotatedWidth / 2, 0, false});
  if (family == Family::Phi3)
    list.push_back({"rope_factors_long.weight", h.rotatedWidth / 2, 0, false});
  for (std::int64_t layer = 0; layer < h.layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    const auto add = [&](const char* name, std::int64_t columns, std::int64_t rows,
                         bool required = true) {
      list.push_back({block + name, columns, rows, required});
    };
    const bool fused = h.architecture.fused, experts = h.architecture.experts;
    if (h.architecture.preNorms) {
      add("attn_norm.weight", h.width, 0);
      add(feedForwardNormTensor(h.architecture), h.width, 0);
    }
    if (fused) {
      add("attn_qkv.weight", h.width, h.queryWidth() + 2 * h.keyWidth());
    } else {
      add("attn_q.weight", h.width, h.queryWidth());
      add("attn_k.weight", h.width, h.keyWidth());
      add("attn_v.weight", h.width, h.keyWidth());
      add("attn_q.bias", h.queryWidth(), 0, false);
      add("attn_k.bias", h.keyWidth(), 0, false);
      add("attn_v.bias", h.keyWidth(), 0, false);
    }
    add("attn_output.weight", h.queryWidth(), h.width);
    if (experts) {
      add("ffn_gate_inp.weight", h.width, h.experts);
      const auto addAll = [&](const char* name, std::int64_t columns, std::int64_t rows) {
        list.push_back({block + name + ".weight", columns, rows, true, h.experts});
        if (family == Family::GptOss)
          list.push_back({block + name + ".bias", rows, h.experts, true, 1, true});
      };
      addAll("ffn_gate_exps", h.width, h.feedForward);
      addAll("ffn_up_exps", h.width, h.feedForward);
      addAll("ffn_down_exps", h.feedForward, h.width);
    } else {
      if (!fused) add("ffn_gate.weight", h.width, h.feedForward);
      add("ffn_up.weight", h.width, (fused ? 2 : 1) * h.feedForward);
      add("ffn_down.weight", h.feedForward, h.width);
    }
    if (family == Family::GptOss) {
      add("attn_output.bias", h.width, 0);
      add("attn_sinks.weight", h.heads, 0);
      add("ffn_gate_inp.bias", h.experts, 0);
    }
    if (mayHaveBiases(family)) {
      add("attn_output.bias", h.width, 0, false);
      add("ffn_gate.bias", h.feedForward, 0, false);
      add("ffn_up.bias", h.feedForward, 0, false);
      add("ffn_down.bias", h.width, 0, false);
    }
    if (h.architecture.headNorms != HeadNorms::none) {
      add("attn_q_norm.weight", h.headNormWidth(h.heads), 0);
      add("attn_k_norm.weight", h.headNormWidth(h.keyHeads), 0);
    }
    if (h.architecture.postNorms) {
      add("post_attention_norm.weight", h.width, 0);
      add("post_ffw_norm.weight", h.width, 0);
    }
  }
  if (family == Family::Qwen2) list.push_back({"output.bias", vocabulary, 0, false});
  return list;
}

std::string shapeOf(const Expected& expected) {
  std::string shape = "[" + std::to_string(expected.columns);
  if (expected.rows != 0) shape += ", " + std::to_string(expected.rows);
  if (expected.matrices != 1) shape += ", " + std::to_string(expected.matrices);
  return shape + "]";
}

void checkTensor(const GgufFile& file, const Expected& expected, const GgufTensor& tensor) {
  const auto& d = tensor.dimensions;
  const std::int64_t rows = expected.rows == 0 ? 1 : expected.rows;
  if (d[0] != expected.columns || d[1] != rows || d[2] != expected.matrices || d[3] != 1) {
    file.fail("tensor " + expected.name + " has the shape [" + std::to_string(d[0]) + ", " +
              std::to_string(d[1]) + ", " + std::to_string(d[2]) + ", " + std::to_string(d[3]) +
              "] instead of " + shapeOf(expected));
  }
  if (expected.rows == 0 || expected.plain ? tensor.type != GGML_TYPE_F32
                                           : !isWeightType(tensor.type)) {
    file.fail(ErrorCode::modelUnsupported,
              "tensor " + expected.name + " has the type " + ggml_type_name(tensor.type));
  }
}

void checkAlignment(const GgufFile& file) {
  if (file.alignment() % tensorAlignment == 0) return;
  file.fail(ErrorCode::modelUnsupported, "tensors are aligned to " +
                                             std::to_string(file.alignment()) +
                                             " bytes, which is not a multiple of 32");
}

}  // namespace

bool isWeightType(ggml_type type) {
  switch (type) {
    case GGML_TYPE_F32:
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
    case GGML_TYPE_Q4_0:
    case GGML_TYPE_Q4_1:
    case GGML_TYPE_Q5_0:
    case GGML_TYPE_Q5_1:
    case GGML_TYPE_Q8_0:
    case GGML_TYPE_Q2_K:
    case GGML_TYPE_Q3_K:
    case GGML_TYPE_Q4_K:
    case GGML_TYPE_Q5_K:
    case GGML_TYPE_Q6_K:
    case GGML_TYPE_IQ2_XXS:
    case GGML_TYPE_IQ2_XS:
    case GGML_TYPE_IQ2_S:
    case GGML_TYPE_IQ3_XXS:
    case GGML_TYPE_IQ3_S:
    case GGML_TYPE_IQ1_S:
    case GGML_TYPE_IQ1_M:
    case GGML_TYPE_IQ4_NL:
    case GGML_TYPE_IQ4_XS:
    case GGML_TYPE_TQ1_0:
    case GGML_TYPE_TQ2_0:
    case GGML_TYPE_MXFP4:
      return true;
    default:
      return false;
  }
}

ModelInventory validateModel(const GgufFile& file) {
  if (file.metadata().size() > kMostEntries)
    file.fail(std::to_string(file.metadata().size()) + " metadata entries");
  if (isOtherDecoder(file)) {
    checkAlignment(file);
    return validateDecoder(file);
  }
  const Hyperparameters h = readHyperparameters(file);
  const auto vocabulary =
      static_cast<std::int64_t>(validateVocabulary(file, Tokenizers::kGpt2AndLlama));
  checkAlignment(file);

  ModelInventory inventory;
  inventory.architecture = h.architecture.name;
  inventory.cache = {{h.headWidth}, 2 * h.layers * h.keyWidth(), 0};
  inventory.hyper = h;
  if (hasFactorsByLength(file)) inventory.shortContext = h.contextLength;
  std::size_t found = 0;
  for (const Expected& expected : expectedTensors(h, vocabulary)) {
    const GgufTensor* tensor = file.findTensor(expected.name);
    if (tensor == nullptr) {
      if (expected.required) file.fail("tensor " + expected.name + " is missing");
      continue;
    }
    checkTensor(file, expected, *tensor);
    ++found;
    if (expected.rows != 0 && expected.matrices == 1 && !expected.plain)
      inventory.matrices.emplace(expected.name,
                                 std::array<std::int64_t, 2>{expected.columns, expected.rows});
  }
  if (found != file.tensors().size()) {
    // Each expected name was counted once, hence some tensor has none of them.
    std::unordered_map<std::string_view, bool> known;
    const auto expected = expectedTensors(h, vocabulary);
    for (const auto& one : expected) known.emplace(one.name, true);
    for (const GgufTensor& tensor : file.tensors()) {
      if (known.count(tensor.name) == 0)
        file.fail(ErrorCode::modelUnsupported, "tensor " + inQuotes(tensor.name) +
                                                   " does not belong to a " +
                                                   std::string(h.architecture.name) + " model");
    }
  }
  checkRopeFactors(file);
  return inventory;
}

}  // namespace isopro
