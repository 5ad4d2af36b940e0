// Activated LoRA (Greenewald et al. 2025, arXiv 2504.12397): an adapter that acts on a text from
// its invocation tokens on, those of the generation prompt. What stands before them is the base
// model's.
#pragma once

#include <cstdint>
#include <vector>

#include "support/gguf.h"

namespace isopro {

// The key under which llama.cpp and PEFT's converter keep them, an array of u32.
constexpr const char* kInvocationTokensKey = "adapter.alora.invocation_tokens";
constexpr std::size_t kMostInvocationTokens = 256;

// Empty where the file has none: the adapter acts on all tokens. Throws the file's error code where
// they are no array of 1 to kMostInvocationTokens u32 below 2^31.
std::vector<std::int32_t> readInvocationTokens(const GgufFile& adapter);

// The first token of the first `length` that the adapter acts on: where its invocation tokens occur
// last; `length` where they do not occur, 0 where it has none.
std::int64_t activationIn(const std::vector<std::int32_t>& tokens, std::int64_t length,
                          const std::vector<std::int32_t>& invocationTokens);

}  // namespace isopro
