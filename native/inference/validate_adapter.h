#pragma once

#include "inference/validate_model.h"
#include "support/gguf.h"

namespace isopro {

// Reads a LoRA adapter before libllama does (see validate_model.h), and holds it against its base.
// Throws ADAPTER_CORRUPT, or ADAPTER_MISMATCH where it belongs to another model.
void validateAdapter(const GgufFile& adapter, const ModelInventory& base);

}  // namespace isopro
