// What a GGUF file says about itself, for `models inspect`. Unlike validateModel, this answers for
// any file whose structure can be read, so that a user can see what is wrong with one that does not
// load.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "inference/own_products.h"
#include "inference/validate_model.h"
#include "support/error.h"
#include "support/gguf.h"

namespace isopro {

struct TensorTypeCount {
  std::string type;
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
  // Who multiplies with these matrices where `matmul` is auto; none where all are vectors.
  std::optional<Multiplier> multiplier;
};

struct TensorSummary {
  std::string name;
  std::string type;
  std::vector<std::int64_t> dimensions;  // dimensions[0] is the length of a row
  std::uint64_t bytes = 0;
};

struct Problem {
  ErrorCode code;
  std::string message;
};

struct Inspection {
  std::uint32_t version = 0;
  std::uint64_t bytes = 0;
  std::string kind;          // "model", or "adapter"
  std::string architecture;  // empty where the file names none
  std::string modelName;
  std::uint64_t parameters = 0;
  std::uint64_t vocabularySize = 0;
  // Type of the cached keys and values where `matmul` is auto and no other is asked for.
  std::string kvType;
  std::vector<TensorTypeCount> types;  // most bytes first
  std::vector<std::pair<std::string, std::string>>
      metadata;  // scalars as text; arrays as "array of TYPE, N"; in file order
  std::vector<TensorSummary> tensors;
  std::optional<Problem> problem;     // why the engine would refuse the file; none for adapters
  std::vector<std::string> warnings;  // of llama.cpp
  std::optional<CacheShape> cache;    // where the validators take the file
  bool evaluatesAlone = false;        // as Model::evaluatesAlone
};

// `byLlama`: llama.cpp may read the file, too. Throws MODEL_NOT_FOUND, or MODEL_CORRUPT where the
// structure itself cannot be read.
Inspection inspect(const std::string& path, bool byLlama);

}  // namespace isopro
