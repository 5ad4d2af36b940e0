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
  integer("rope.dimension_count", h.headWidth);
  real("attention.layer_norm_rms_epsilon", h.normEpsilon), real("rope.freq_base", h.ropeBase);
  if (h.ropeScale != 1) {
    gguf_set_val_str(gguf.get(), (prefix + "rope.scaling.type").c_str(), "linear");
    real("rope.scaling.factor", 1 / h.ropeScale);
  }
  if (h.window > 0) {
    integer("attention.sliding_window", h.window);
    real("attn_logit_softcapping", h.attentionCap), real("final_logit_softcapping", h.finalCap);
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
  addVector("rope_freqs.weight", model.ropeFactors);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    const std::string block = "blk." + std::to_string(i) + ".";
    for (int m = 0; m < kModules; ++m) {
      addMatrix(block + moduleTensor(m) + ".weight", layer.linear[m].weight);
      addVector(block + moduleTensor(m) + ".bias", layer.linear[m].bias);
    }
    addVector(block + "attn_norm.weight", layer.attentionNorm.weight),
        addVector(block + "ffn_norm.weight", layer.feedForwardNorm.weight);
    addVector(block + "attn_q_norm.weight", layer.queryNorm.weight),
        addVector(block + "attn_k_norm.weight", layer.keyNorm.weight);
    addVector(block + "post_attention_norm.weight", layer.attentionPostNorm.weight),
        addVector(block + "post_ffw_norm.weight", layer.feedForwardPostNorm.weight);
  }
  gguf_write_to_file(gguf.get(), path.c_str(), false);
}

}  // namespace isopro::testing
