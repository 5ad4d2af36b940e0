// Rows of floats that grow to the largest batch, row after row.
#pragma once

#include <vector>

namespace isopro::training {

using Buffer = std::vector<float>;

}  // namespace isopro::training
