// Tensors of a file that the angles of rotary positions are divided by.
#pragma once

#include "support/gguf.h"

namespace isopro {

// Throws MODEL_CORRUPT if a factor is not a positive number.
void checkRopeFactors(const GgufFile& file);

// Whether the file has factors of shorter or of longer texts (longrope), one of which llama.cpp
// chooses by the room of a context.
bool hasFactorsByLength(const GgufFile& file);

}  // namespace isopro
