// Products of many rows with weights of Q4_1, whose numbers are d * q + m in blocks of 32, q of 0 to 15: integer dot products of
// blocks, as llama.cpp takes them, but of a tile of weight rows and several rows of x at a time. ggml has such a kernel for Q4_1
// on processors with AMX alone; elsewhere it unpacks every weight anew for every row.
//
// Each element is summed over the blocks in ascending order by two fused multiply-adds a block, whatever the tiling, the
// instruction set and the other rows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isopro::kernels {

constexpr std::int64_t kProductBlock = 32;  // weights
constexpr std::int64_t kUnpackedRows = 4;   // from so many rows on an unpacked tile is worth its while
constexpr std::int64_t kMostLanes = 16;     // of any instruction set

struct BlockProduct {
  const char* name;
  std::int64_t lanes;  // weight rows of a tile

  // x becomes scale * q, block by block; `scales` [blocks, 2]: scale, and scale times the sum of q, each as f16 has it.
  void (*quantise)(const float* x, std::int64_t blocks, std::int8_t* q, float* scales);
  // `lanes` rows of weights, `rowBytes` apart: tile [blocks, 8, lanes, 4] and tileScales [blocks, 2, lanes], d and m.
  void (*unpack)(const void* weights, std::size_t rowBytes, std::int64_t blocks, std::uint8_t* tile, float* tileScales);
  // y[row * yStride + lane], for rows of quantised x that follow each other.
  void (*multiply)(const std::uint8_t* tile, const float* tileScales, std::int64_t blocks, const std::int8_t* q, const float* scales,
                   std::int64_t rows, float* y, std::int64_t yStride);
  // The same of a tile as the file has it, for fewer than kUnpackedRows rows.
  void (*multiplyPacked)(const void* weights, std::size_t rowBytes, std::int64_t blocks, const std::int8_t* q, const float* scales,
                         std::int64_t rows, float* y, std::int64_t yStride);
};

// The best one that this processor runs; null where there is none.
const BlockProduct* blockProduct();

// All that it runs, the best first, then null.
const BlockProduct* const* runnableBlockProducts();

}  // namespace isopro::kernels
