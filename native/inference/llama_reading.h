// What llama.cpp itself says of a model file, beyond what validateModel asks of it.
#pragma once

#include <string>
#include <vector>

#include <llama.h>

namespace isopro {

// Throws what keeps llama.cpp from reading a file that validateModel takes: MODEL_UNSUPPORTED,
// since the file is whole, or what the system refused. `said`: llama.cpp's own words.
[[noreturn]] void refuseUnread(const std::string& path, const std::string& said);

// Throws MODEL_UNSUPPORTED where a loaded model is none that this engine runs.
void checkDecoder(const llama_model* model, const std::string& path);

// Reads everything of the file but its weights; returns llama.cpp's warnings. Throws what loading
// would: MODEL_UNSUPPORTED, OUT_OF_MEMORY, SYSTEM_LIMIT.
std::vector<std::string> readWithoutWeights(const std::string& path);

}  // namespace isopro
