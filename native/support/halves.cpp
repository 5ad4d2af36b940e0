#include "support/halves.h"

#include <cmath>
#include <cstdio>
#include <string>

#include <ggml.h>

#include "support/error.h"

namespace isopro {

void toHalves(const float* values, std::uint16_t* halves, std::int64_t count, int boundary) {
  ggml_fp32_to_fp16_row(values, halves, count);
  constexpr std::uint16_t kExponent = 0x7c00;  // all ones: an infinity or no number
  for (std::int64_t i = 0; i < count; ++i) {
    if ((halves[i] & kExponent) != kExponent) continue;
    const std::string where = "at layer boundary " + std::to_string(boundary);
    if (!std::isfinite(values[i]))
      throw Error(ErrorCode::numericFailure, "an activation " + where + " is not finite");
    char value[32];
    std::snprintf(value, sizeof value, "%.4g", static_cast<double>(values[i]));
    throw Error(ErrorCode::numericFailure, "an activation " + where + " is " + value +
                                               ", more than f16 holds (65504), in which boundaries "
                                               "are kept; with all layers trained none is kept");
  }
}

}  // namespace isopro
