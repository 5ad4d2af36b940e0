#pragma once

#include <cstddef>

#include "support/gguf.h"

namespace isopro {

// Which values of tokenizer.ggml.model a file may have.
enum class Tokenizers {
  kGpt2AndLlama,  // byte-level BPE (`gpt2`) and SentencePiece (`llama`)
  kAll,           // also gemma4, plamo2 and rwkv, and every pre-tokenizer of a text decoder
};

// Checks tokens, types, scores, merges, special tokens and chat template; returns the number of
// tokens. Throws MODEL_CORRUPT, or MODEL_UNSUPPORTED for another tokenizer.
std::size_t validateVocabulary(const GgufFile& file, Tokenizers taken);

}  // namespace isopro
