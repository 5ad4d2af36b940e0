#include "inference/low_rank_pairs.h"

#include <algorithm>
#include <utility>

#include <ggml.h>

#include "kernels/gemm.h"

namespace isopro {
namespace {

constexpr std::string_view kSuffixA = ".lora_a";

std::vector<float> valuesOf(const GgufFile& file, const GgufTensor& tensor) {
  const std::int64_t columns = tensor.dimensions[0], rows = tensor.dimensions[1];
  const kernels::Matrix matrix{file.data(tensor), tensor.type, rows, columns,
                               ggml_row_size(tensor.type, columns)};
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row)
    kernels::readRow(kernels::kernels(), matrix, row, 0, columns, values.data() + row * columns);
  return values;
}

}  // namespace

LowRankPairs LowRankPairs::of(const GgufFile& adapter) {
  const double alpha = adapter.real("adapter.lora.alpha").value_or(0);
  LowRankPairs pairs;
  for (const GgufTensor& a : adapter.tensors()) {
    const std::size_t end = a.name.size() - std::min(a.name.size(), kSuffixA.size());
    if (a.name.substr(end) != kSuffixA) continue;
    const std::string weight(a.name.substr(0, end));
    const GgufTensor* b = adapter.findTensor(weight + ".lora_b");
    if (b == nullptr || weight == "token_embd.weight" || !kernels::readable(a.type) ||
        !kernels::readable(b->type))
      return {};
    LowRankPair pair;
    pair.rank = a.dimensions[1];
    pair.inputs = a.dimensions[0];
    pair.outputs = b->dimensions[1];
    // An alpha of 0 means none.
    if (alpha != 0) pair.scale = static_cast<float>(alpha) / static_cast<float>(pair.rank);
    pair.a = valuesOf(adapter, a);
    const std::vector<float> values = valuesOf(adapter, *b);
    pair.bTransposed.resize(values.size());
    for (std::int64_t o = 0; o < pair.outputs; ++o) {
      for (std::int64_t r = 0; r < pair.rank; ++r)
        pair.bTransposed[static_cast<std::size_t>(r * pair.outputs + o)] =
            values[static_cast<std::size_t>(o * pair.rank + r)];
    }
    pairs.pairs_.emplace(weight, std::move(pair));
  }
  return pairs;
}

const LowRankPair* LowRankPairs::find(const std::string& weight) const {
  const auto found = pairs_.find(weight);
  return found == pairs_.end() ? nullptr : &found->second;
}

}  // namespace isopro
