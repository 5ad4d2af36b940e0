// What llama.cpp v0.5.0 names in general.architecture: the text decoders, which this engine runs,
// and the rest, which it refuses by name. Those that hyper_parameters.h knows have a validator;
// the others are first tried in a process of their own.
#pragma once

#include <string_view>

namespace isopro {

// What a model keeps of the text before a token.
enum class SequenceMemory {
  kCells,  // keys and values of each token: a beginning can be shared, copied and cut
  kState,  // a state of the whole text, which none of this can be done with
  kMixed,  // both, or cells with an index of another kind
};

struct TextDecoder {
  const char* name;
  SequenceMemory memory;
};

// nullptr where llama.cpp names no such text decoder.
const TextDecoder* findTextDecoder(std::string_view name);

// Why the engine does not run an architecture that llama.cpp names ("it is an encoder"); nullptr
// for a text decoder, and for what llama.cpp does not name.
const char* reasonAgainst(std::string_view name);

}  // namespace isopro
