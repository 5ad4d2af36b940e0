// Checks of a text decoder whose architecture has no validator of its own (validate_model.h): what
// holds of any file. What they leave open is found out in a process of its own (model_trial.h).
#pragma once

#include "inference/validate_model.h"

namespace isopro {

// Whether the file's architecture is a text decoder without a validator.
// Throws MODEL_CORRUPT, MODEL_UNSUPPORTED; ARCH_UNSUPPORTED where it is no text decoder.
bool isOtherDecoder(const GgufFile& file);

// Sizes, tensor types, vocabulary. Throws MODEL_CORRUPT, MODEL_UNSUPPORTED or ARCH_UNSUPPORTED.
ModelInventory validateDecoder(const GgufFile& file);

}  // namespace isopro
