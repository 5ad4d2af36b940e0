// Products of many rows with weights that a file has in blocks: integer dot products of blocks of
// 32, as llama.cpp takes them, but of a tile of weight rows and several rows of x at a time. ggml
// unpacks the weights of these formats anew for every row, or for a few of them (Q4_1 it unpacks
// for several rows on processors with AMX alone).
//
// A block of a tile has integers q of eight bits and up to two scales a lane; its dot products with
// a row of x are added to the row's sum in ascending order, by one or two fused multiply-adds a
// block, whatever the tiling, the instruction set and the other rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace isopro::kernels {

constexpr std::int64_t kProductBlock = 32;  // weights
constexpr std::int64_t kUnpackedRows =
    4;                                   // from so many rows on an unpacked tile is worth its while
constexpr std::int64_t kMostLanes = 16;  // of any instruction set
constexpr std::int64_t kBlockScales = 2;  // room for each lane's

// As ggml names them. Q4_1: d * q + m. Q5_0, Q8_0: d * (q - 16), d * q. Q6_K: blocks of 256 with d,
// and a scale for each 16 of (q - 32).
enum class BlockFormat { kQ4_1, kQ5_0, kQ6_K, kQ8_0 };
constexpr std::size_t kBlockFormats = 4;

// Of 32 numbers of x, which are scale * q.
struct QuantisedBlock {
  float scale;             // as f16 has it
  float scaledSum;         // scale times the sum of q, as f16 has it
  std::int32_t halves[2];  // sums of 16 q
};

struct BlockProduct {
  // `lanes` rows of weights, `rowBytes` apart: tile [blocks, 8, lanes, 4] and tileScales [blocks,
  // kBlockScales, lanes].
  void (*unpack)(const void* weights, std::size_t rowBytes, std::int64_t blocks, std::uint8_t* tile,
                 float* tileScales);
  // y[row * yStride + lane], for rows of quantised x that follow each other.
  void (*multiply)(const std::uint8_t* tile, const float* tileScales, std::int64_t blocks,
                   const std::int8_t* q, const QuantisedBlock* xBlocks, std::int64_t rows, float* y,
                   std::int64_t yStride);
  // The same of a tile as the file has it, for fewer than kUnpackedRows rows.
  void (*multiplyPacked)(const void* weights, std::size_t rowBytes, std::int64_t blocks,
                         const std::int8_t* q, const QuantisedBlock* xBlocks, std::int64_t rows,
                         float* y, std::int64_t yStride);
};

constexpr std::int64_t kMostRank = 4096;  // of a pair of LoRA whose products are ours: of all

// Products of f32 with the pairs of LoRA, one of whose sides is short. y follows x row by row.
struct LowRankProducts {
  // y[row * yStride + i], of kMostLanes rows b[i, rank]: sums over the rank in ascending order,
  // fused.
  void (*widen)(const float* b, std::int64_t rank, const float* x, std::int64_t rows, float* y,
                std::int64_t yStride);
  // y[row * rank + k], of a[rank, inputs], inputs a multiple of kMostLanes: sums of every
  // kMostLanes-th product, ascending and fused, which are then added up in halves.
  void (*narrow)(const float* a, std::int64_t rank, std::int64_t inputs, const float* x,
                 std::int64_t rows, float* y);
  // y[outputs] += scale * B A x, of one row, as `narrow` and `widen` have it: bTransposed is
  // [rank, outputs], and `inner` scratch of `rank` floats.
  void (*add)(const float* x, const float* a, const float* bTransposed, float scale,
              std::int64_t rank, std::int64_t inputs, std::int64_t outputs, float* inner, float* y);
};

// Of one instruction set.
struct BlockProducts {
  const char* name;
  std::int64_t lanes;  // weight rows of a tile
  void (*quantise)(const float* x, std::int64_t blocks, std::int8_t* q, QuantisedBlock* xBlocks);
  std::array<BlockProduct, kBlockFormats> formats;
  LowRankProducts lowRank;

  const BlockProduct& of(BlockFormat format) const {
    return formats[static_cast<std::size_t>(format)];
  }
};

// The best ones that this processor runs; null where there are none.
const BlockProducts* blockProducts();

// All that it runs, the best first, then null.
const BlockProducts* const* runnableBlockProducts();

}  // namespace isopro::kernels
