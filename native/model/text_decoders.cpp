#include "model/text_decoders.h"

#include <algorithm>
#include <iterator>

namespace isopro {
namespace {

constexpr auto kCells = SequenceMemory::kCells;
constexpr auto kState = SequenceMemory::kState;
constexpr auto kMixed = SequenceMemory::kMixed;

// By name. Source: the names and the kinds of memory in llama.cpp v0.5.0 (src/llama-arch.cpp,
// llama_model::create_memory).
constexpr TextDecoder kDecoders[] = {
    {"afmoe", kCells},        {"apertus", kCells},       {"arcee", kCells},
    {"arctic", kCells},       {"arwkv7", kState},        {"baichuan", kCells},
    {"bailingmoe", kCells},   {"bailingmoe2", kCells},   {"bailingmoe3", kMixed},
    {"bitnet", kCells},       {"bloom", kCells},         {"chatglm", kCells},
    {"codeshell", kCells},    {"cohere2", kCells},       {"cohere2moe", kCells},
    {"command-r", kCells},    {"dbrx", kCells},          {"deci", kCells},
    {"deepseek", kCells},     {"deepseek2", kCells},     {"deepseek32", kMixed},
    {"deepseek4", kMixed},    {"dots1", kCells},         {"dots3note", kMixed},
    {"ernie4_5", kCells},     {"ernie4_5-moe", kCells},  {"exaone", kCells},
    {"exaone-moe", kCells},   {"exaone4", kCells},       {"falcon", kCells},
    {"falcon-h1", kMixed},    {"gemma", kCells},         {"gemma2", kCells},
    {"gemma3", kCells},       {"gemma3n", kCells},       {"gemma4", kCells},
    {"glm-dsa", kMixed},      {"glm4", kCells},          {"glm4moe", kCells},
    {"gpt-oss", kCells},      {"gpt2", kCells},          {"gptneox", kCells},
    {"granite", kCells},      {"granite_swa", kCells},   {"granitehybrid", kMixed},
    {"granitemoe", kCells},   {"graniteswitch", kCells}, {"grok", kCells},
    {"grovemoe", kCells},     {"hrm_text", kCells},      {"hunyuan-dense", kCells},
    {"hunyuan-moe", kCells},  {"hy_v3", kCells},         {"hy_v4", kMixed},
    {"internlm2", kCells},    {"jais", kCells},          {"jais2", kCells},
    {"jamba", kMixed},        {"kimi-k3", kMixed},       {"kimi-linear", kMixed},
    {"laguna", kCells},       {"lfm2", kMixed},          {"lfm2moe", kMixed},
    {"llama", kCells},        {"llama4", kCells},        {"maincoder", kCells},
    {"mamba", kState},        {"mamba2", kState},        {"maple", kCells},
    {"mellum", kCells},       {"mimo2", kCells},         {"minicpm", kCells},
    {"minicpm3", kCells},     {"minimax-01", kMixed},    {"minimax-m2", kCells},
    {"minimax-m3", kMixed},   {"mistral3", kCells},      {"mistral4", kCells},
    {"mpt", kCells},          {"muse-glimmer", kCells},  {"nanbeige", kCells},
    {"nemotron", kCells},     {"nemotron_h", kMixed},    {"nemotron_h_moe", kMixed},
    {"olmo", kCells},         {"olmo2", kCells},         {"olmoe", kCells},
    {"openelm", kCells},      {"orion", kCells},         {"pangu-embedded", kCells},
    {"phi2", kCells},         {"phi3", kCells},          {"phimoe", kCells},
    {"plamo", kCells},        {"plamo2", kMixed},        {"plamo3", kCells},
    {"plm", kCells},          {"qwen", kCells},          {"qwen2", kCells},
    {"qwen2moe", kCells},     {"qwen3", kCells},         {"qwen35", kMixed},
    {"qwen35moe", kMixed},    {"qwen3moe", kCells},      {"qwen3next", kMixed},
    {"qwen4exp", kMixed},     {"refact", kCells},        {"rwkv6", kState},
    {"rwkv6qwen2", kState},   {"rwkv7", kState},         {"seed_oss", kCells},
    {"smallthinker", kCells}, {"smollm3", kCells},       {"spark2_5", kCells},
    {"stablelm", kCells},     {"starcoder", kCells},     {"starcoder2", kCells},
    {"step35", kCells},       {"talkie", kCells},        {"xverse", kCells},
};

struct Refused {
  const char* name;
  const char* reason;
};

constexpr const char* kEncoder = "it is an encoder, which gives vectors and writes no text";
constexpr const char* kDiffusion =
    "it is a diffusion model, which does not write one token after the other";
constexpr const char* kVision = "it is a model of images and text, and only text models run here";
constexpr const char* kAudio = "it is a model of sound, and only text models run here";
constexpr const char* kDraft = "it is a draft model, which only runs next to another model";

constexpr Refused kRefused[] = {
    {"bert", kEncoder},
    {"chameleon", kVision},
    {"clip", kVision},
    {"cogvlm", kVision},
    {"deepseek2-ocr", kVision},
    {"dflash", kDraft},
    {"dream", kDiffusion},
    {"eagle3", kDraft},
    {"eurobert", kEncoder},
    {"gemma-embedding", kEncoder},
    {"gemma4-assistant", kDraft},
    {"gptj", "llama.cpp names it, but has no code for it"},
    {"hunyuan_vl", kVision},
    {"jina-bert-v2", kEncoder},
    {"jina-bert-v3", kEncoder},
    {"llada", kDiffusion},
    {"llada-moe", kDiffusion},
    {"llama-embed", kEncoder},
    {"modern-bert", kEncoder},
    {"neo-bert", kEncoder},
    {"nomic-bert", kEncoder},
    {"nomic-bert-moe", kEncoder},
    {"paddleocr", kVision},
    {"pockettts", kAudio},
    {"qwen2vl", kVision},
    {"qwen3tts", kAudio},
    {"qwen3vl", kVision},
    {"qwen3vlmoe", kVision},
    {"rnd1", kDiffusion},
    {"t5", "it has an encoder, and only decoders run here"},
    {"t5encoder", kEncoder},
    {"wavtokenizer-dec", kAudio},
};

template <typename Row, std::size_t N>
const Row* rowOf(const Row (&rows)[N], std::string_view name) {
  const Row* found = std::find_if(std::begin(rows), std::end(rows),
                                  [&](const Row& row) { return name == row.name; });
  return found == std::end(rows) ? nullptr : found;
}

}  // namespace

const TextDecoder* findTextDecoder(std::string_view name) { return rowOf(kDecoders, name); }

const char* reasonAgainst(std::string_view name) {
  const Refused* refused = rowOf(kRefused, name);
  return refused == nullptr ? nullptr : refused->reason;
}

}  // namespace isopro
