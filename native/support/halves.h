// Activations that are kept in f16 between a forward pass and the steps that start from them.
#pragma once

#include <cstdint>

namespace isopro {

// Rounds `count` values at a layer boundary to halves. Throws NUMERIC_FAILURE where one is not
// finite or lies beyond what f16 holds: as an infinity it would make every step that starts from it
// void.
void toHalves(const float* values, std::uint16_t* halves, std::int64_t count, int boundary);

}  // namespace isopro
