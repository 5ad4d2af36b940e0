#pragma once

#include <cstddef>

#include "support/gguf.h"

namespace isopro {

// Checks tokens, types, scores, merges, special tokens and chat template; returns the number of
// tokens. Throws MODEL_CORRUPT, or MODEL_UNSUPPORTED for tokenizers other than byte-level BPE
// (`gpt2`) and SentencePiece (`llama`).
std::size_t validateVocabulary(const GgufFile& file);

}  // namespace isopro
