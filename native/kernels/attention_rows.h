// Attention of one row of queries over the cells of its own sequence, of keys and values in f16:
// what other rows see is walked past. ggml's kernel walks all cells for every row and head, rounds
// queries to f16 and adds values up in f16.
//
// The order of every sum follows from the row's own cells, one after the other: it depends on no
// other row, on no place that lies free between the cells, on no instruction set and on no number
// of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isopro::kernels {

constexpr std::int64_t kHeadPart = 16;   // widths of heads are multiples of it
constexpr std::int64_t kScorePart = 16;  // and scores have room for a multiple of it
constexpr std::int64_t kMostHeadWidth = 256;

// Heads that read the same keys and values. Strides are in elements.
struct AttentionHeads {
  const float* q;          // [heads, keyWidth]
  std::int64_t qStride;    // from head to head
  const std::uint16_t* k;  // f16, [cells, keyWidth]
  std::int64_t kStride;    // from cell to cell
  const std::uint16_t* v;  // f16, [cells, valueWidth]
  std::int64_t vStride;
  float* y;  // [heads, valueWidth]
  std::int64_t yStride;
  std::int64_t heads;
  std::int64_t keyWidth;
  std::int64_t valueWidth;
  float scale;
};

struct AttentionRows {
  const char* name;
  // The cells that a row of a mask of f16 sees, where it is not minus infinity, in ascending order;
  // how many. `found` has room for `count`.
  std::int64_t (*visible)(const std::uint16_t* mask, std::int64_t count, std::int32_t* found);
  // y = softmax(scale q k) v over `count` cells, at least one. `cells` and `scores` [heads, count]
  // have room for a multiple of kScorePart.
  void (*attend)(const AttentionHeads& heads, std::int32_t* cells, std::int64_t count,
                 float* scores);
};

// The best one that this processor runs; null where there is none.
const AttentionRows* attentionRows();

// All that it runs, the best first, then null.
const AttentionRows* const* runnableAttentionRows();

}  // namespace isopro::kernels
