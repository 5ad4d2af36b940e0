// The product of variant.h with operands rounded to bf16, where the processor multiplies such pairs
// (AVX512-BF16).
//
// Two successive k of a column, or of a row of the tile, are one pair: 32 bits, the even k in the
// lower half. An odd depth ends in a pair whose upper half is zero. Panels are [pairs, panelWidth]
// pairs, a rounded tile is [rows, pairs] with kPairStride pairs from a row to the next, transposed
// it is [pairs, rows] with kTileStride.
//
// Rounding is to nearest, ties to even, and subnormal values become zero. A pair adds to a sum of
// f32 by two fused multiply-adds, the odd k first; subnormal sums become zero too. The pairs of a
// sum follow each other in ascending order, whatever the blocking. reference.h emulates this bit
// for bit.
#pragma once

#include <cstdint>

#include "kernels/variant.h"

namespace isopro::kernels {

using Bf16Pair = std::uint32_t;

// 9 cache lines, as kTileStride is 17.
constexpr std::int64_t kPairStride = kTileColumns / 2 + 16;

constexpr std::int64_t pairsOf(std::int64_t depth) { return (depth + 1) / 2; }

struct Bf16Product {
  const char* name;
  std::int64_t panelWidth;

  // `tile` as Variant::multiply takes it, rounded.
  void (*roundTile)(bool transposed, std::int64_t rows, std::int64_t depth, const float* tile,
                    Bf16Pair* rounded);
  // As Variant::pack, rounded.
  void (*pack)(const float* b, std::int64_t kStride, std::int64_t nStride, std::int64_t depth,
               std::int64_t columns, Bf16Pair* panel);
  // As Variant::multiply; `panelStride` in pairs.
  void (*multiply)(bool transposed, std::int64_t rows, std::int64_t columns, std::int64_t pairs,
                   const Bf16Pair* tile, const Bf16Pair* panels, std::int64_t panelStride, float* c,
                   std::int64_t cStride, bool accumulate);
};

// Null where this processor, or this build, has none.
const Bf16Product* bf16Product();

}  // namespace isopro::kernels
