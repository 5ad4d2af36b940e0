// A text as one vector: the model's hidden states after the last norm, averaged.
#pragma once

#include <atomic>
#include <vector>

#include "inference/context.h"

namespace isopro {

// Unit vector [d_model] along the mean of the rows that the output head would read. The head itself
// is not evaluated. The tokens have the context to themselves, so that the vector depends on
// nothing else. Throws INVALID_ARGUMENT, NUMERIC_FAILURE, ABORTED and as Context::decode.
std::vector<float> embed(Context& context, const std::vector<Token>& tokens,
                         const std::atomic<bool>& cancelled);

}  // namespace isopro
