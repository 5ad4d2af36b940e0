// The yardstick of `bench rollout`: the least that any program on llama.cpp must do for the same
// work.
#pragma once

#include <vector>

#include "inference/model.h"

namespace isopro::bench {

// Evaluates each prompt once, shares its cache among `samples` sequences and extends all of them in
// lockstep by `tokens` tokens, taking the argmax. Returns the seconds from the first to the last
// llama_decode.
double bareDecodeLoop(const Model& model, const std::vector<std::vector<Token>>& prompts,
                      int samples, int tokens, int threads);

}  // namespace isopro::bench
