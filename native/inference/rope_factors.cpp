#include "inference/rope_factors.h"

#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

namespace isopro {
namespace {

bool isNamed(const GgufTensor& tensor, std::string_view part) {
  return tensor.name.find(part) != std::string_view::npos;
}

}  // namespace

void checkRopeFactors(const GgufFile& file) {
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.type != GGML_TYPE_F32 ||
        !(isNamed(tensor, "rope_freqs.") || isNamed(tensor, "rope_factors_")))
      continue;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      float factor;
      std::memcpy(&factor, file.data(tensor) + static_cast<std::size_t>(i) * sizeof factor,
                  sizeof factor);
      if (!(factor > 0) || std::isinf(factor))
        file.fail("a factor in " + std::string(tensor.name) + " is not a positive number");
    }
  }
}

bool hasFactorsByLength(const GgufFile& file) {
  for (const GgufTensor& tensor : file.tensors()) {
    if (isNamed(tensor, "rope_factors_")) return true;
  }
  return false;
}

}  // namespace isopro
