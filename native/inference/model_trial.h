// A first look at a file whose architecture has no validator, in a process of its own that may end
// meanwhile: whatever libllama asserts on, and most that it reads beyond a buffer, shows there.
#pragma once

#include <cstdint>
#include <string>

namespace isopro {

// What the process may take next to the file's own pages.
constexpr std::int64_t kTrialBytes = 2'000'000'000;

// Whether a file is to be tried before another process loads it. Checks such a file as Model::load
// does before llama.cpp sees it. Throws what Model::load does of a file.
bool wantsTrial(const std::string& path);

// Loads the file without copies of its matrices, makes tokens of a text, and evaluates one token,
// some more and, where sequences can be copied, two at once. Throws what Model::load throws,
// NATIVE_FAILURE where llama.cpp gave up.
void tryModel(const std::string& path);

}  // namespace isopro
