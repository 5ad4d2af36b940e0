// A model of the tests as a GGUF.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gguf.h>

#include "reference_model.h"

namespace isopro::testing {

// Puts into a file's metadata, `prefix` being its architecture's, what a test wants there.
using Metadata = std::function<void(gguf_context* gguf, const std::string& prefix)>;

// The model as a GGUF without vocabulary, so that llama.cpp takes token ids only.
inline void writeModel(const ModelWeights& model, const std::string& path,
                       const Metadata& metadata = nullptr) {
  const Hyperparameters& h = model.hyper;
  std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf(gguf_init_empty(), gguf_free);
  std::unique_ptr<ggml_context, decltype(&ggml_free)> context(
      ggml_init({std::size_t{64} << 20, nullptr, false}), ggml_free);
  const std::string name = h.architecture.name, prefix = name + ".";
  const auto integer = [&](const char* key, std::int64_t value) {
    gguf_set_val_u32(gguf.get(), (prefix + key).c_str(), static_cast<std::uint32_t>(value));
  };
  const auto real = [&](const char* key, float value) {
    gguf_set_val_f32(gguf.get(), (prefix + key).c_str(), value);
  };
  gguf_set_val_str(gguf.get(), "general.architecture", name.c_str());
  gguf_set_val_str(gguf.get(), "tokenizer.ggml.model", "no_vocab");
  integer("block_count", h.layers), integer("context_length", h.contextLength),
      integer("embedding_length", h.width);
  integer("feed_forward_length", h.feedForward), integer("attention.head_count", h.heads),
      integer("attention.head_count_kv", h.keyHeads);
  integer("attention.key_length", h.headWidth), integer("attention.value_length", h.headWidth),
      integer("vocab_size", h.vocabulary);
  integer("rope.dimension_count", h.rotatedWidth);
  if (h.architecture.experts) {
    integer("expert_count", h.experts), integer("expert_used_count", h.expertsUsed);
    integer("expert_feed_forward_length", h.feedForward);
  }
  real("attention.layer_norm_rms_epsilon", h.normEpsilon), real("rope.freq_base", h.rope.base);
  if (h.rope.scale != 1) {
    gguf_set_val_str(gguf.get(), (prefix + "rope.scaling.type").c_str(),
                     h.rope.mixture == 0 ? "linear" : "yarn");
    real("rope.scaling.factor", 1 / h.rope.scale);
  }
  if (h.architecture.family == Family::Phi3 && !model.ropeFactors.empty())
    gguf_set_val_str(gguf.get(), (prefix + "rope.scaling.type").c_str(), "longrope");
  if (h.rope.magnitude != 1) real("rope.scaling.attn_factor", h.rope.magnitude);
  if (h.rope.originalContext > 0)
    integer("rope.scaling.original_context_length", h.rope.originalContext);
  if (h.rope.mixture != 0) {
    real("rope.scaling.yarn_beta_fast", h.rope.fastTurns);
    real("rope.scaling.yarn_beta_slow", h.rope.slowTurns);
  }
  if (h.window > 0) integer("attention.sliding_window", h.window);
  if (h.attentionCap > 0) real("attn_logit_softcapping", h.attentionCap);
  if (h.finalCap > 0) real("final_logit_softcapping", h.finalCap);
  if (h.temperatureScale != 0) real("attention.temperature_scale", h.temperatureScale);
  if (h.architecture.family == Family::Granite) {
    real("embedding_scale", h.embeddingScale), real("residual_scale", h.residualScale);
    real("attention.scale", h.attentionScale), real("logit_scale", 1 / h.logitScale);
  }
  if (metadata) metadata(gguf.get(), prefix);
  const auto add = [&](const std::string& tensorName, ggml_type type, std::int64_t columns,
                       std::int64_t rows, const void* data) {
    ggml_tensor* tensor = rows == 1 ? ggml_new_tensor_1d(context.get(), type, columns)
                                    : ggml_new_tensor_2d(context.get(), type, columns, rows);
    ggml_set_name(tensor, tensorName.c_str());
    std::memcpy(tensor->data, data, ggml_nbytes(tensor));
    gguf_add_tensor(gguf.get(), tensor);
  };
  const auto addMatrix = [&](const std::string& tensorName, const Matrix& m) {
    add(tensorName, m.type, m.columns, m.rows, m.data);
  };
  const auto addVector = [&](const std::string& tensorName, const std::vector<float>& v) {
    if (!v.empty())
      add(tensorName, GGML_TYPE_F32, static_cast<std::int64_t>(v.size()), 1, v.data());
  };
  addMatrix("token_embd.weight", model.embedding);
  if (!model.tied) addMatrix("output.weight", model.head.weight);
  addVector("output_norm.weight", model.outputNorm.weight);
  addVector(ropeFactorsTensor(h.architecture), model.ropeFactors);
  const auto addStack = [&](const std::string& tensorName, const std::vector<Matrix>& each) {
    const Matrix& m = each.front();
    ggml_tensor* tensor = ggml_new_tensor_3d(context.get(), m.type, m.columns, m.rows,
                                             static_cast<std::int64_t>(each.size()));
    ggml_set_name(tensor, tensorName.c_str());
    std::memcpy(tensor->data, m.data, ggml_nbytes(tensor));
    gguf_add_tensor(gguf.get(), tensor);
  };
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    const std::string block = "blk." + std::to_string(i) + ".";
    for (int m = 0; m < kModules; ++m) {
      if (!layer.linear[m]) continue;
      addMatrix(block + moduleTensor(m) + ".weight", layer.linear[m].weight);
      addVector(block + moduleTensor(m) + ".bias", layer.linear[m].bias);
    }
    addVector(block + "attn_norm.weight", layer.attentionNorm.weight),
        addVector(block + feedForwardNormTensor(h.architecture), layer.feedForwardNorm.weight);
    addVector(block + "attn_sinks.weight", layer.sinks);
    if (layer.experts) {
      const Experts& experts = layer.experts;
      addMatrix(block + "ffn_gate_inp.weight", experts.router);
      addStack(block + "ffn_gate_exps.weight", experts.gate);
      addStack(block + "ffn_up_exps.weight", experts.up);
      addStack(block + "ffn_down_exps.weight", experts.down);
      addVector(block + "ffn_gate_inp.bias", experts.routerBias);
      const auto addTable = [&](const char* name, const Buffer& values, std::int64_t columns) {
        if (!values.empty()) add(block + name, GGML_TYPE_F32, columns, h.experts, values.data());
      };
      addTable("ffn_gate_exps.bias", experts.gateBias, h.feedForward);
      addTable("ffn_up_exps.bias", experts.upBias, h.feedForward);
      addTable("ffn_down_exps.bias", experts.downBias, h.width);
    }
    addVector(block + "attn_q_norm.weight", layer.queryNorm.weight),
        addVector(block + "attn_k_norm.weight", layer.keyNorm.weight);
    addVector(block + "post_attention_norm.weight", layer.attentionPostNorm.weight),
        addVector(block + "post_ffw_norm.weight", layer.feedForwardPostNorm.weight);
  }
  gguf_write_to_file(gguf.get(), path.c_str(), false);
}

}  // namespace isopro::testing
