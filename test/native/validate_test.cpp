// The validators of models, vocabularies and adapters: each thing that libllama asserts on is
// refused by name, and arbitrary damage is a typed error under the sanitisers.
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "check.h"
#include "gguf_bytes.h"
#include "inference/validate_adapter.h"
#include "inference/validate_model.h"
#include "support/error.h"
#include "support/random.h"

namespace {

using isopro::test::Bytes;

// A llama model of two layers with a SentencePiece vocabulary, as lists that a test changes.
struct Model {
  using Value = std::variant<std::uint32_t, float, bool, std::string, std::vector<std::string>,
                             std::vector<float>, std::vector<std::int32_t>>;
  struct Tensor {
    std::vector<std::uint64_t> dimensions;
    std::uint32_t type = GGML_TYPE_F32;
  };

  std::map<std::string, Value> entries;
  std::map<std::string, Tensor> tensors;

  explicit Model(const std::string& architecture = "llama") {
    std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
    const char digits[] = "0123456789ABCDEF";
    for (int byte = 0; byte < 256; ++byte)
      tokens.push_back(std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + ">");
    std::vector<std::int32_t> types(tokens.size(), 6);
    types[0] = 2;
    types[1] = types[2] = 3;
    entries = {
        {"general.architecture", architecture},
        {"tokenizer.ggml.model", std::string("llama")},
        {"tokenizer.ggml.tokens", tokens},
        {"tokenizer.ggml.token_type", types},
        {"tokenizer.ggml.scores", std::vector<float>(tokens.size(), 0.0f)},
        {"tokenizer.ggml.bos_token_id", 1u},
        {"tokenizer.ggml.eos_token_id", 2u},
    };
    const auto h = [&](const std::string& suffix, Value value) {
      entries[architecture + "." + suffix] = std::move(value);
    };
    h("block_count", 2u);
    h("context_length", 64u);
    h("embedding_length", 32u);
    h("feed_forward_length", 64u);
    h("attention.head_count", 4u);
    h("attention.head_count_kv", 2u);
    h("attention.layer_norm_rms_epsilon", 1e-6f);
    tensors["token_embd.weight"] = {{32, tokens.size()}};
    tensors["output_norm.weight"] = {{32}};
    for (const std::string block : {"blk.0.", "blk.1."}) {
      tensors[block + "attn_norm.weight"] = tensors[block + "ffn_norm.weight"] = {{32}};
      tensors[block + "attn_q.weight"] =
          tensors[block + "attn_output.weight"] = {{32, 32}, GGML_TYPE_Q8_0};
      tensors[block + "attn_k.weight"] =
          tensors[block + "attn_v.weight"] = {{32, 16}, GGML_TYPE_Q4_0};
      tensors[block + "ffn_gate.weight"] =
          tensors[block + "ffn_up.weight"] = {{32, 64}, GGML_TYPE_F16};
      tensors[block + "ffn_down.weight"] = {{64, 32}, GGML_TYPE_BF16};
      if (architecture == "qwen3" || architecture == "gemma3")
        tensors[block + "attn_q_norm.weight"] = tensors[block + "attn_k_norm.weight"] = {{8}};
      if (architecture == "gemma2" || architecture == "gemma3" || architecture == "olmo2")
        tensors[block + "post_attention_norm.weight"] =
            tensors[block + "post_ffw_norm.weight"] = {{32}};
      if (architecture == "olmo2") {
        tensors[block + "attn_q_norm.weight"] = {{32}};
        tensors[block + "attn_k_norm.weight"] = {{16}};
        tensors.erase(block + "attn_norm.weight"), tensors.erase(block + "ffn_norm.weight");
      }
    }
    if (architecture == "phi3") {
      for (const std::string block : {"blk.0.", "blk.1."}) {
        for (const char* part : {"attn_q", "attn_k", "attn_v", "ffn_gate"})
          tensors.erase(block + part + ".weight");
        tensors[block + "attn_qkv.weight"] = {{32, 64}, GGML_TYPE_Q8_0};
        tensors[block + "ffn_up.weight"] = {{32, 128}, GGML_TYPE_Q4_0};
      }
      tensors["rope_factors_short.weight"] = tensors["rope_factors_long.weight"] = {{3}};
      h("rope.dimension_count", 6u);
      h("rope.scaling.type", std::string("longrope"));
      h("rope.scaling.original_context_length", 48u);
    }
    if (architecture == "qwen3moe" || architecture == "gpt-oss") {
      for (const std::string block : {"blk.0.", "blk.1."}) {
        for (const char* part : {"ffn_gate", "ffn_up", "ffn_down"})
          tensors.erase(block + part + ".weight");
        tensors[block + "ffn_gate_inp.weight"] = {{32, 4}};
        tensors[block + "ffn_gate_exps.weight"] =
            tensors[block + "ffn_up_exps.weight"] = {{32, 64, 4}, GGML_TYPE_MXFP4};
        tensors[block + "ffn_down_exps.weight"] = {{64, 32, 4}, GGML_TYPE_MXFP4};
        if (architecture == "qwen3moe") {
          tensors[block + "attn_q_norm.weight"] = tensors[block + "attn_k_norm.weight"] = {{8}};
          continue;
        }
        tensors[block + "ffn_gate_exps.bias"] = tensors[block + "ffn_up_exps.bias"] = {{64, 4}};
        tensors[block + "ffn_down_exps.bias"] = {{32, 4}};
        tensors[block + "ffn_gate_inp.bias"] = tensors[block + "attn_sinks.weight"] = {{4}};
        tensors[block + "attn_output.bias"] = {{32}};
        tensors[block + "post_attention_norm.weight"] = {{32}};
        tensors.erase(block + "ffn_norm.weight");
      }
      h("expert_count", 4u);
      h("expert_used_count", 2u);
      h("expert_feed_forward_length", 64u);
      h("attention.sliding_window", 16u);
    }
    if (architecture == "olmo2" || architecture == "gpt-oss")
      tensors["output.weight"] = {{32, tokens.size()}, GGML_TYPE_Q8_0};
    if (architecture == "granite") h("logit_scale", 4.0f);
    if (architecture == "gemma3") h("attention.sliding_window", 16u);
  }

  Bytes encode() const {
    Bytes bytes;
    bytes.header(tensors.size(), entries.size());
    for (const auto& [key, value] : entries) {
      if (const auto* floats = std::get_if<std::vector<float>>(&value))
        bytes.entry(key, 6, *floats);
      else if (const auto* integers = std::get_if<std::vector<std::int32_t>>(&value))
        bytes.entry(key, 5, *integers);
      else if (const auto* texts = std::get_if<std::vector<std::string>>(&value))
        bytes.entry(key, *texts);
      else if (const auto* text = std::get_if<std::string>(&value))
        bytes.entry(key, *text);
      else if (const auto* real = std::get_if<float>(&value))
        bytes.entry(key, *real);
      else if (const auto* flag = std::get_if<bool>(&value))
        bytes.entry(key, *flag);
      else
        bytes.entry(key, std::get<std::uint32_t>(value));
    }
    std::uint64_t offset = 0;
    for (const auto& [name, tensor] : tensors) {
      bytes.tensor(name, tensor.dimensions, tensor.type, offset);
      std::uint64_t elements = 1;
      for (const auto dimension : tensor.dimensions) elements *= dimension;
      const auto type = static_cast<ggml_type>(tensor.type);
      offset +=
          (elements / static_cast<std::uint64_t>(ggml_blck_size(type)) * ggml_type_size(type) +
           31) /
          32 * 32;
    }
    bytes.pad(32);
    bytes.resize(bytes.size() + offset, 1);
    return bytes;
  }
};

void check(const Bytes& bytes) { isopro::validateModel(bytes.parse()); }

struct Refusal {
  std::string what;
  std::string code;
  std::string message;
  std::function<void(Model&)> change;
};

Refusal entryRefused(const std::string& key, Model::Value value, const std::string& code,
                     const std::string& message) {
  return {key, code, message, [key, value](Model& model) { model.entries[key] = value; }};
}

TEST(validate_models_of_all_architectures_pass) {
  for (const char* architecture : {"llama", "qwen2", "qwen3", "gemma2", "smollm3", "granite",
                                   "mistral3", "olmo2", "gemma3", "phi3", "qwen3moe", "gpt-oss"}) {
    const isopro::ModelInventory inventory =
        isopro::validateModel(Model(architecture).encode().parse());
    CHECK(std::string(inventory.hyper.architecture.name) == architecture);
    const std::string name = architecture;
    const bool head = name == "olmo2" || name == "gpt-oss";
    const bool experts = name == "qwen3moe" || name == "gpt-oss";
    // An adapter may change the router, and no expert.
    const std::size_t block = experts ? 5 : name == "phi3" ? 4 : 7;
    CHECK(inventory.matrices.size() == (head ? 2 : 1) + 2 * block);
    if (!experts)
      CHECK(
          (inventory.matrices.at("blk.1.ffn_down.weight") == std::array<std::int64_t, 2>{64, 32}));
    if (name == "phi3") CHECK(inventory.hyper.contextLength == 48);
  }
}

TEST(validate_names_what_libllama_would_assert_on) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Refusal> refusals = {
      entryRefused("general.architecture", std::string("bert"), "ARCH_UNSUPPORTED",
                   "\"bert\" is not supported: it is an encoder"),
      entryRefused("general.architecture", std::string("t5"), "ARCH_UNSUPPORTED", "has an encoder"),
      entryRefused("general.architecture", std::string("dream"), "ARCH_UNSUPPORTED", "diffusion"),
      entryRefused("general.architecture", std::string("clip"), "ARCH_UNSUPPORTED", "images"),
      entryRefused("general.architecture", std::string("nothing"), "ARCH_UNSUPPORTED",
                   "\"nothing\" is not supported"),
      entryRefused("general.architecture", 3u, "MODEL_CORRUPT", "is u32, not a text"),
      entryRefused("general.type", std::string("adapter"), "MODEL_UNSUPPORTED", "LoRA adapter"),
      entryRefused("general.alignment", 8u, "MODEL_", "align"),
      entryRefused("split.count", 2u, "MODEL_UNSUPPORTED", "split"),
      entryRefused("llama.block_count", 0u, "MODEL_CORRUPT", "outside 1 to 512"),
      entryRefused("llama.block_count", 513u, "MODEL_CORRUPT", "outside 1 to 512"),
      entryRefused("llama.block_count", 3u, "MODEL_CORRUPT", "blk.2.attn_norm.weight is missing"),
      entryRefused("llama.block_count", 1u, "MODEL_UNSUPPORTED",
                   "does not belong to a llama model"),
      entryRefused("llama.context_length", 0xffffffffu, "MODEL_CORRUPT", "context_length"),
      entryRefused("llama.attention.head_count", 0u, "MODEL_CORRUPT", "head_count"),
      entryRefused("llama.attention.head_count_kv", 0u, "MODEL_CORRUPT", "head_count_kv"),
      entryRefused("llama.attention.head_count_kv", 3u, "MODEL_CORRUPT", "cannot share 3"),
      entryRefused("llama.attention.key_length", 7u, "MODEL_", "key"),
      entryRefused("llama.attention.value_length", 4u, "MODEL_UNSUPPORTED", "different sizes"),
      entryRefused("llama.attention.layer_norm_rms_epsilon", nan, "MODEL_CORRUPT", "nan"),
      entryRefused("llama.attention.layer_norm_rms_epsilon", -1.0f, "MODEL_CORRUPT", "-1"),
      entryRefused("llama.attention.causal", false, "MODEL_UNSUPPORTED", "not causal"),
      entryRefused("llama.rope.dimension_count", 4u, "MODEL_UNSUPPORTED", "part of each head"),
      entryRefused("llama.rope.freq_base", 0.0f, "MODEL_CORRUPT", "freq_base"),
      entryRefused("llama.rope.scaling.type", std::string("spiral"), "MODEL_UNSUPPORTED", "spiral"),
      entryRefused("llama.rope.scaling.factor", nan, "MODEL_CORRUPT", "factor"),
      entryRefused("llama.expert_count", 8u, "MODEL_UNSUPPORTED", "experts"),
      entryRefused("llama.nextn_predict_layers", 9u, "MODEL_UNSUPPORTED", "several tokens"),
      entryRefused("tokenizer.ggml.model", std::string("rwkv"), "MODEL_UNSUPPORTED", "rwkv"),
      entryRefused("tokenizer.ggml.model", std::string("gpt2"), "MODEL_CORRUPT",
                   "merges\" is missing"),
      entryRefused("tokenizer.ggml.tokens", std::vector<std::string>{}, "MODEL_CORRUPT",
                   "vocabulary of 0"),
      entryRefused("tokenizer.ggml.scores", std::vector<float>(259, nan), "MODEL_CORRUPT",
                   "not a number"),
      entryRefused("tokenizer.ggml.scores", std::vector<float>(3), "MODEL_CORRUPT",
                   "3 scores for 259"),
      entryRefused("tokenizer.ggml.eos_token_id", 259u, "MODEL_CORRUPT",
                   "outside the vocabulary of 259"),
      entryRefused("tokenizer.chat_template", 1u, "MODEL_CORRUPT", "chat_template"),
      {"a token twice", "MODEL_CORRUPT", "occurs twice",
       [](Model& m) {
         std::get<std::vector<std::string>>(m.entries["tokenizer.ggml.tokens"])[0] = "<s>";
       }},
      {"a token that a zero byte cuts to another", "MODEL_CORRUPT", "occurs twice",
       [](Model& m) {
         std::get<std::vector<std::string>>(m.entries["tokenizer.ggml.tokens"])[0] =
             std::string("<s>\0x", 5);
       }},
      {"a byte without token", "MODEL_UNSUPPORTED", "<0x41>",
       [](Model& m) {
         std::get<std::vector<std::string>>(m.entries["tokenizer.ggml.tokens"])[3 + 0x41] = "x";
         std::get<std::vector<std::int32_t>>(m.entries["tokenizer.ggml.token_type"])[3 + 0x41] = 1;
       }},
      {"a byte token of another form", "MODEL_CORRUPT", "not <0xNN>",
       [](Model& m) {
         std::get<std::vector<std::string>>(m.entries["tokenizer.ggml.tokens"])[5] = "<0";
       }},
      {"BOS that does not exist", "MODEL_CORRUPT", "add_bos_token",
       [](Model& m) {
         m.entries.erase("tokenizer.ggml.bos_token_id");
         m.entries["tokenizer.ggml.add_bos_token"] = true;
       }},
      {"a tensor of another shape", "MODEL_CORRUPT", "[16, 32, 1, 1] instead of [32, 16]",
       [](Model& m) {
         m.tensors["blk.0.attn_k.weight"] = {{16, 32}};
       }},
      {"a tensor of rank three", "MODEL_CORRUPT", "instead of [32]",
       [](Model& m) {
         m.tensors["output_norm.weight"] = {{32, 1, 2}};
       }},
      {"a norm in f16", "MODEL_UNSUPPORTED", "output_norm.weight has the type f16",
       [](Model& m) { m.tensors["output_norm.weight"].type = GGML_TYPE_F16; }},
      {"a matrix of integers", "MODEL_UNSUPPORTED", "has the type i32",
       [](Model& m) { m.tensors["blk.0.attn_q.weight"].type = GGML_TYPE_I32; }},
      {"rope factors in f16", "MODEL_UNSUPPORTED", "rope_freqs.weight has the type f16",
       [](Model& m) {
         m.tensors["rope_freqs.weight"] = {{4}, GGML_TYPE_F16};
       }},
      {"a missing matrix", "MODEL_CORRUPT", "blk.1.ffn_up.weight is missing",
       [](Model& m) { m.tensors.erase("blk.1.ffn_up.weight"); }},
      {"a tensor of another architecture", "MODEL_UNSUPPORTED", "attn_q_norm",
       [](Model& m) { m.tensors["blk.0.attn_q_norm.weight"] = {{8}}; }},
  };
  for (const Refusal& refusal : refusals) {
    Model model;
    refusal.change(model);
    std::string said = "nothing";
    try {
      check(model.encode());
    } catch (const isopro::Error& error) {
      said = codeName(error.code()) + std::string(": ") + error.what();
    }
    // A code that ends with _ stands for either.
    const bool named =
        said.rfind(refusal.code, 0) == 0 && said.find(refusal.message) != std::string::npos;
    check::report(named, __FILE__, __LINE__, refusal.what + ": " + said);
  }
  Model qwen("qwen2");
  qwen.entries["qwen2.attention.key_length"] = 16u;
  qwen.entries["qwen2.attention.value_length"] = 16u;
  CHECK_SAYS(check(qwen.encode()), "MODEL_CORRUPT", "do not make an embedding of 32");
  Model gemma("gemma2");
  gemma.entries["gemma2.attention.sliding_window"] = 0u;
  CHECK_SAYS(check(gemma.encode()), "MODEL_CORRUPT", "sliding_window");
  struct Other {
    const char* architecture;
    const char* key;
    Model::Value value;
    const char* code;
    const char* message;
  };
  const Other others[] = {
      {"granite", "logit_scale", 0.0f, "MODEL_CORRUPT", "logit_scale"},
      {"granite", "embedding_scale", nan, "MODEL_CORRUPT", "embedding_scale"},
      {"granite", "residual_scale", 1e30f, "MODEL_CORRUPT", "residual_scale"},
      {"granite", "deepstack_mapping", std::vector<std::int32_t>{0, 1}, "MODEL_UNSUPPORTED",
       "vision"},
      {"granite", "expert_count", 4u, "MODEL_UNSUPPORTED", "experts"},
      {"mistral3", "attention.temperature_scale", nan, "MODEL_CORRUPT", "temperature_scale"},
      {"mistral3", "rope.scaling.yarn_beta_fast", -1.0f, "", ""},
      {"mistral3", "rope.scaling.original_context_length", 0u, "MODEL_CORRUPT", "original_context"},
      {"gemma3", "final_logit_softcapping", 1e-9f, "MODEL_CORRUPT", "too small"},
      {"gemma3", "rope.freq_base_swa", 0.0f, "MODEL_CORRUPT", "freq_base_swa"},
      {"gemma3", "attention.sliding_window_pattern", 4u, "MODEL_UNSUPPORTED", "sliding window"},
      {"gemma3", "attention.sliding_window_pattern", std::vector<std::int32_t>{1, 0},
       "MODEL_UNSUPPORTED", "sliding window"},
      {"gemma3", "attention.sliding_window", 0u, "", ""},
      {"phi3", "rope.dimension_count", 10u, "MODEL_CORRUPT", "cannot be rotated"},
      {"phi3", "rope.dimension_count", 5u, "MODEL_CORRUPT", "cannot be rotated"},
      {"phi3", "rope.dimension_count", 0u, "MODEL_CORRUPT", "cannot be rotated"},
      {"phi3", "rope.dimension_count", 8u, "MODEL_CORRUPT", "rope_factors_short.weight"},
      {"llama", "rope.scaling.type", std::string("longrope"), "MODEL_UNSUPPORTED", "longrope"},
      {"qwen3moe", "expert_count", 0u, "MODEL_CORRUPT", "expert_count"},
      {"qwen3moe", "expert_count", 1025u, "MODEL_CORRUPT", "expert_count"},
      {"qwen3moe", "expert_count", 8u, "MODEL_CORRUPT", "[32, 4, 1, 1] instead of [32, 8]"},
      {"qwen3moe", "expert_used_count", 0u, "MODEL_CORRUPT", "expert_used_count"},
      {"qwen3moe", "expert_used_count", 5u, "MODEL_CORRUPT", "outside 1 to 4"},
      {"qwen3moe", "expert_group_count", 2u, "MODEL_UNSUPPORTED", "groups of experts"},
      {"qwen3moe", "expert_feed_forward_length", 32u, "MODEL_CORRUPT",
       "[32, 64, 4, 1] instead of [32, 32, 4]"},
      {"gpt-oss", "attention.sliding_window", 0u, "MODEL_CORRUPT", "sliding_window"},
      {"gpt-oss", "expert_feed_forward_length", 0u, "MODEL_CORRUPT", "expert_feed_forward_length"},
      {"olmo2", "attention.key_length", 16u, "MODEL_UNSUPPORTED", "different sizes"},
      {"smollm3", "rope.dimension_count", 4u, "MODEL_UNSUPPORTED", "part of each head"},
  };
  for (const Other& other : others) {
    Model model(other.architecture);
    model.entries[std::string(other.architecture) + "." + other.key] = other.value;
    std::string said;
    try {
      check(model.encode());
    } catch (const isopro::Error& error) {
      said = codeName(error.code()) + std::string(": ") + error.what();
    }
    check::report(
        said.rfind(other.code, 0) == 0 &&
            (*other.code == '\0' ? said.empty() : said.find(other.message) != std::string::npos),
        __FILE__, __LINE__, std::string(other.architecture) + " " + other.key + ": " + said);
  }
  Model yarn("mistral3");
  yarn.entries["mistral3.rope.scaling.type"] = std::string("yarn");
  yarn.entries["mistral3.rope.scaling.factor"] = 4.0f;
  yarn.entries["mistral3.rope.scaling.yarn_beta_fast"] = -1.0f;
  CHECK_SAYS(check(yarn.encode()), "MODEL_CORRUPT", "yarn");
  Model olmo("olmo2");
  olmo.tensors["blk.0.attn_q_norm.weight"] = {{8}};
  CHECK_SAYS(check(olmo.encode()), "MODEL_CORRUPT", "[8, 1, 1, 1] instead of [32]");
  Model oss("gpt-oss");
  oss.tensors["blk.0.ffn_up_exps.bias"].type = GGML_TYPE_F16;
  CHECK_SAYS(check(oss.encode()), "MODEL_UNSUPPORTED", "has the type f16");
  oss = Model("gpt-oss");
  oss.tensors.erase("blk.1.attn_sinks.weight");
  CHECK_SAYS(check(oss.encode()), "MODEL_CORRUPT", "attn_sinks.weight is missing");
  olmo = Model("olmo2");
  olmo.tensors.erase("output.weight");
  CHECK_SAYS(check(olmo.encode()), "MODEL_CORRUPT", "output.weight is missing");
}

// What is checked of every text decoder, whatever its graph.
TEST(validate_decoders_without_a_validator_of_their_own) {
  const isopro::ModelInventory inventory =
      isopro::validateModel(Model("stablelm").encode().parse());
  CHECK(inventory.architecture == "stablelm");
  CHECK(inventory.memory == isopro::SequenceMemory::kCells);
  CHECK(inventory.cache.valuesPerToken == 2 * 2 * 16);
  CHECK(inventory.cache.stateBytes == 0);
  CHECK(inventory.matrices.size() == 1 + 2 * 7);

  Model hybrid("granitehybrid");
  hybrid.entries["granitehybrid.attention.head_count_kv"] = std::vector<std::int32_t>{0, 2};
  hybrid.entries["granitehybrid.ssm.conv_kernel"] = 4u;
  hybrid.entries["granitehybrid.ssm.inner_size"] = 64u;
  hybrid.entries["granitehybrid.ssm.state_size"] = 16u;
  hybrid.entries["granitehybrid.ssm.group_count"] = 1u;
  const isopro::ModelInventory mixed = isopro::validateModel(hybrid.encode().parse());
  CHECK(mixed.memory == isopro::SequenceMemory::kMixed);
  CHECK(mixed.cache.valuesPerToken == 2 * 16);
  CHECK(mixed.cache.stateBytes == 4 * (3 * (64 + 2 * 16) + 16 * 64));

  hybrid.entries["granitehybrid.ssm.state_size"] = 1u << 20;
  hybrid.entries["granitehybrid.ssm.inner_size"] = 1u << 10;
  CHECK_SAYS(check(hybrid.encode()), "MODEL_UNSUPPORTED", "more than 2 GB of memory");

  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Refusal> refusals = {
      entryRefused("stablelm.block_count", 0u, "MODEL_CORRUPT", "outside 1 to 512"),
      entryRefused("stablelm.block_count", 600u, "MODEL_CORRUPT", "outside 1 to 512"),
      entryRefused("stablelm.embedding_length", 0u, "MODEL_CORRUPT", "embedding_length"),
      entryRefused("stablelm.attention.head_count_kv", 3u, "MODEL_CORRUPT", "cannot share 3"),
      entryRefused("stablelm.attention.head_count_kv", std::vector<std::int32_t>{2},
                   "MODEL_CORRUPT", "1 values for 2 layers"),
      entryRefused("stablelm.attention.head_count_kv", std::vector<std::int32_t>{2, -2},
                   "MODEL_CORRUPT", "is -2"),
      entryRefused("stablelm.attention.key_length", 9999u, "MODEL_CORRUPT", "key_length"),
      entryRefused("stablelm.attention.layer_norm_rms_epsilon", nan, "MODEL_CORRUPT",
                   "not a number"),
      entryRefused("stablelm.attention.causal", false, "MODEL_UNSUPPORTED", "not causal"),
      entryRefused("stablelm.pooling_type", 1u, "MODEL_UNSUPPORTED", "embedding model"),
      entryRefused("stablelm.expert_used_count", 2u, "MODEL_CORRUPT", "2 of 0 experts"),
      entryRefused("stablelm.rope.scaling.type", std::string("spiral"), "MODEL_UNSUPPORTED",
                   "spiral"),
      entryRefused("stablelm.wkv.head_size", 16u, "MODEL_UNSUPPORTED", "multiple of 64"),
      entryRefused("split.count", 2u, "MODEL_UNSUPPORTED", "split"),
      entryRefused("tokenizer.ggml.model", std::string("bert"), "MODEL_UNSUPPORTED", "bert"),
      entryRefused("tokenizer.ggml.model", std::string("rwkv"), "MODEL_UNSUPPORTED",
                   "no token for the byte"),
      {"a norm in f16", "MODEL_UNSUPPORTED", "has the type f16",
       [](Model& m) { m.tensors["output_norm.weight"].type = GGML_TYPE_F16; }},
      {"a matrix of integers", "MODEL_UNSUPPORTED", "has the type i32",
       [](Model& m) { m.tensors["blk.0.attn_q.weight"].type = GGML_TYPE_I32; }},
      {"no embedding", "MODEL_CORRUPT", "token_embd.weight is missing",
       [](Model& m) { m.tensors.erase("token_embd.weight"); }},
      {"an embedding of other tokens", "MODEL_CORRUPT", "has 8 rows for 259 tokens",
       [](Model& m) {
         m.tensors["token_embd.weight"] = {{32, 8}};
       }},
  };
  for (const Refusal& refusal : refusals) {
    Model model("stablelm");
    refusal.change(model);
    CHECK_SAYS(check(model.encode()), refusal.code, refusal.message);
  }
}

Bytes adapter(const std::function<void(Model&)>& change = [](Model&) {}) {
  Model draft;
  draft.entries = {{"general.type", std::string("adapter")},
                   {"general.architecture", std::string("llama")},
                   {"adapter.type", std::string("lora")},
                   {"adapter.lora.alpha", 8.0f}};
  draft.tensors = {{"blk.0.attn_q.weight.lora_a", {{32, 4}}},
                   {"blk.0.attn_q.weight.lora_b", {{4, 32}}},
                   {"blk.1.ffn_down.weight.lora_a", {{64, 4}, GGML_TYPE_F16}},
                   {"blk.1.ffn_down.weight.lora_b", {{4, 32}, GGML_TYPE_F16}},
                   {"token_embd.weight.lora_a", {{4, 259}}},
                   {"token_embd.weight.lora_b", {{4, 32}}}};
  change(draft);
  return draft.encode();
}

TEST(validate_adapters_are_held_against_their_base) {
  const isopro::ModelInventory base = isopro::validateModel(Model().encode().parse());
  const auto validate = [&](const Bytes& bytes) {
    isopro::validateAdapter(bytes.parse(isopro::ErrorCode::adapterCorrupt), base);
  };
  validate(adapter());
  const Refusal refusals[] = {
      entryRefused("general.type", 1u, "ADAPTER_CORRUPT", "not a text"),
      entryRefused("general.type", std::string("model"), "ADAPTER_MISMATCH", "a whole model"),
      entryRefused("general.architecture", std::string("qwen2"), "ADAPTER_MISMATCH", "qwen2"),
      entryRefused("adapter.type", std::string("dora"), "ADAPTER_CORRUPT", "dora"),
      entryRefused("adapter.lora.alpha", 8u, "ADAPTER_CORRUPT", "alpha"),
      entryRefused("adapter.lora.alpha", std::numeric_limits<float>::infinity(), "ADAPTER_CORRUPT",
                   "alpha"),
      {"no tensors", "ADAPTER_CORRUPT", "not complete", [](Model& m) { m.tensors.clear(); }},
      {"half a pair", "ADAPTER_CORRUPT", "no counterpart",
       [](Model& m) { m.tensors.erase("blk.0.attn_q.weight.lora_b"); }},
      {"the other half", "ADAPTER_CORRUPT", "not complete",
       [](Model& m) { m.tensors.erase("blk.0.attn_q.weight.lora_a"); }},
      {"unequal ranks", "ADAPTER_CORRUPT", "ranks 4 and 5",
       [](Model& m) {
         m.tensors["blk.0.attn_q.weight.lora_b"] = {{5, 32}};
       }},
      {"unequal ranks of the embedding", "ADAPTER_CORRUPT", "ranks 4 and 5",
       [](Model& m) {
         m.tensors["token_embd.weight.lora_b"] = {{5, 32}};
       }},
      {"integers", "ADAPTER_CORRUPT", "type i32",
       [](Model& m) { m.tensors["blk.0.attn_q.weight.lora_a"].type = GGML_TYPE_I32; }},
      {"rank three", "ADAPTER_CORRUPT", "not a matrix",
       [](Model& m) {
         m.tensors["blk.0.attn_q.weight.lora_a"] = {{32, 4, 2}};
       }},
      {"another width", "ADAPTER_MISMATCH", "48 by 32",
       [](Model& m) {
         m.tensors["blk.0.attn_q.weight.lora_a"] = {{48, 4}};
       }},
      {"a layer that the base lacks", "ADAPTER_MISMATCH", "no matrix \"blk.7.attn_q.weight\"",
       [](Model& m) {
         m.tensors["blk.7.attn_q.weight.lora_a"] =
             m.tensors["blk.7.attn_q.weight.lora_b"] = {{32, 32}};
       }},
      {"a norm", "ADAPTER_CORRUPT", "not half of a low-rank pair",
       [](Model& m) { m.tensors["blk.0.attn_norm.weight"] = {{32}}; }},
  };
  for (const Refusal& refusal : refusals) {
    std::string said = "nothing";
    try {
      validate(adapter(refusal.change));
    } catch (const isopro::Error& error) {
      said = codeName(error.code()) + std::string(": ") + error.what();
    }
    check::report(
        said.rfind(refusal.code, 0) == 0 && said.find(refusal.message) != std::string::npos,
        __FILE__, __LINE__, refusal.what + ": " + said);
  }
}

TEST(validate_damage_is_a_typed_error) {
  const std::vector<std::string> kDamaged = {"qwen3", "gemma2", "gemma3", "mistral3",
                                             "olmo2", "phi3",   "gpt-oss"};
  const isopro::ModelInventory base = isopro::validateModel(Model().encode().parse());
  isopro::Random random(3);
  int passed = 0;
  for (int round = 0; round < 6000; ++round) {
    const bool lora = round % 3 == 0;
    Bytes bytes = lora ? adapter() : Model(kDamaged[round % kDamaged.size()]).encode();
    const std::size_t header = lora ? 600 : 11'000;
    for (auto flips = 1 + random.nextUint64() % 4; flips > 0; --flips)
      bytes[random.nextUint64() % header] ^=
          static_cast<std::uint8_t>(1u << (random.nextUint64() % 8));
    try {
      if (lora)
        isopro::validateAdapter(bytes.parse(isopro::ErrorCode::adapterCorrupt), base);
      else
        check(bytes);
      ++passed;
    } catch (const isopro::Error& error) {
      const std::string code = codeName(error.code());
      CHECK(code == "MODEL_CORRUPT" || code == "MODEL_UNSUPPORTED" || code == "ARCH_UNSUPPORTED" ||
            code == "ADAPTER_CORRUPT" || code == "ADAPTER_MISMATCH");
    }
  }
  CHECK(passed > 100);
}

}  // namespace
