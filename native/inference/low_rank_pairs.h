// The pairs of a LoRA adapter (Hu et al. 2021, section 4.1) as plain numbers, for what is computed
// beside llama.cpp's graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "support/gguf.h"

namespace isopro {

// Adds scale * B A x to the product of a weight with x.
struct LowRankPair {
  std::int64_t rank = 0;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  float scale = 1.0f;              // alpha / rank, as llama.cpp has it
  std::vector<float> a;            // [rank, inputs]
  std::vector<float> bTransposed;  // [rank, outputs]
};

class LowRankPairs {
 public:
  // Of a validated adapter. Empty where one of its pairs is for the token embedding, in which
  // llama.cpp looks rows up, or of a type that the kernels do not read.
  static LowRankPairs of(const GgufFile& adapter);

  bool empty() const { return pairs_.empty(); }
  // Of a weight by its name in the model; null where the adapter has none.
  const LowRankPair* find(const std::string& weight) const;

 private:
  std::unordered_map<std::string, LowRankPair> pairs_;
};

}  // namespace isopro
