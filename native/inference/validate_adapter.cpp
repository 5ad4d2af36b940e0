#include "inference/validate_adapter.h"

#include <cmath>
#include <string>

#include "model/invocation.h"

namespace isopro {
namespace {

constexpr std::string_view suffixA = ".lora_a";
constexpr std::string_view suffixB = ".lora_b";
constexpr std::size_t mostTensors = 16'384;  // libllama compares each name with every other

bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

void expectText(const GgufFile& adapter, const char* key, std::string_view expected) {
  const auto value = adapter.text(key);
  if (!value || *value != expected) {
    adapter.fail(std::string("metadata \"") + key + "\" is " +
                 (value ? inQuotes(*value) : "missing") + ", not \"" + std::string(expected) +
                 "\"");
  }
}

// Shapes in ggml's order, rows first: A is [input, rank] and B is [rank, output]. For the token
// embedding llama.cpp looks rows up in A, so that there A is [rank, vocabulary] and B is [rank,
// embedding].
void checkPair(const GgufFile& adapter, const std::string& target, const GgufTensor& a,
               const GgufTensor& b, const ModelInventory& base) {
  for (const GgufTensor* tensor : {&a, &b}) {
    if (!isWeightType(tensor->type))
      adapter.fail("tensor " + inQuotes(tensor->name) + " has the type " +
                   ggml_type_name(tensor->type));
    if (tensor->dimensions[2] != 1 || tensor->dimensions[3] != 1)
      adapter.fail("tensor " + inQuotes(tensor->name) + " is not a matrix");
  }
  const auto found = base.matrices.find(target);
  if (found == base.matrices.end())
    adapter.fail(ErrorCode::adapterMismatch, "the base model has no matrix " + inQuotes(target));
  const auto [input, output] = found->second;
  const bool embedding = target == "token_embd.weight";
  const std::int64_t rank = embedding ? a.dimensions[0] : a.dimensions[1];
  if (b.dimensions[0] != rank)
    adapter.fail("the pair of " + inQuotes(target) + " has ranks " + std::to_string(rank) +
                 " and " + std::to_string(b.dimensions[0]));
  const std::int64_t inputs = embedding ? b.dimensions[1] : a.dimensions[0];
  const std::int64_t outputs = embedding ? a.dimensions[1] : b.dimensions[1];
  if (inputs != input || outputs != output) {
    adapter.fail(ErrorCode::adapterMismatch, "the pair of " + inQuotes(target) +
                                                 " is for a matrix of " + std::to_string(inputs) +
                                                 " by " + std::to_string(outputs) +
                                                 ", the base model's is " + std::to_string(input) +
                                                 " by " + std::to_string(output));
  }
}

}  // namespace

void validateAdapter(const GgufFile& adapter, const ModelInventory& base) {
  if (adapter.metadata().size() > kMostEntries)
    adapter.fail(std::to_string(adapter.metadata().size()) + " metadata entries");
  if (adapter.tensors().size() > mostTensors)
    adapter.fail(std::to_string(adapter.tensors().size()) + " tensors");
  if (adapter.text("general.type").value_or("") == "model")
    adapter.fail(ErrorCode::adapterMismatch, "this is a whole model, not an adapter");
  expectText(adapter, "general.type", "adapter");
  expectText(adapter, "adapter.type", "lora");
  const auto architecture = adapter.text("general.architecture");
  if (!architecture) adapter.fail("metadata \"general.architecture\" is missing");
  if (*architecture != base.architecture) {
    adapter.fail(ErrorCode::adapterMismatch, "the adapter is for " + inQuotes(*architecture) +
                                                 ", the base model is " + base.architecture);
  }
  const GgufValue* alpha = adapter.find("adapter.lora.alpha");
  if (alpha == nullptr || alpha->isArray || alpha->type != GgufType::Float32 ||
      !std::isfinite(*adapter.real("adapter.lora.alpha"))) {
    adapter.fail("metadata \"adapter.lora.alpha\" is not a finite f32");
  }
  for (const std::int32_t token : readInvocationTokens(adapter)) {
    if (token >= base.hyper.vocabulary)
      adapter.fail(ErrorCode::adapterMismatch, "the adapter's invocation token " +
                                                   std::to_string(token) +
                                                   " is outside the base model's vocabulary of " +
                                                   std::to_string(base.hyper.vocabulary));
  }

  std::size_t pairs = 0;
  for (const GgufTensor& a : adapter.tensors()) {
    if (endsWith(a.name, suffixB)) continue;
    if (!endsWith(a.name, suffixA))
      adapter.fail("tensor " + inQuotes(a.name) + " is not half of a low-rank pair");
    const std::string target(a.name.substr(0, a.name.size() - suffixA.size()));
    const GgufTensor* b = adapter.findTensor(target + std::string(suffixB));
    if (b == nullptr) adapter.fail("tensor " + inQuotes(a.name) + " has no counterpart");
    checkPair(adapter, target, a, *b, base);
    ++pairs;
  }
  if (pairs == 0 || 2 * pairs != adapter.tensors().size())
    adapter.fail("a low-rank pair is not complete");
}

}  // namespace isopro
