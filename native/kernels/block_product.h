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
constexpr std::int64_t kMostLanes = 16;  // rows of weights that any instruction set takes at once

// As ggml names them. Q4_1: d * q + m. Q4_0, Q5_0, Q8_0: d * (q - 8), d * (q - 16), d * q. MXFP4: a
// power of two times one of 16 values. Blocks of 256 with d: Q4_K and Q5_K, with another e, have
// d * s * q - e * m, s and m for each 32; Q6_K a scale for each 16 of (q - 32); IQ4_XS one for each
// 32 of 16 values.
enum class BlockFormat { kQ4_1, kQ5_0, kQ6_K, kQ8_0, kQ4_K, kQ5_K, kQ4_0, kIQ4_XS, kMXFP4 };
constexpr std::size_t kBlockFormats = 9;

// Of 32 numbers of x, which are scale * q.
struct QuantisedBlock {
  float scale;             // as f16 has it
  float scaledSum;         // scale times the sum of q, as f16 has it
  std::int32_t halves[2];  // sums of 16 q
};

// y[row * yStride + lane], of `lanes` rows of weights, a multiple of kMostLanes, which are
// `rowBytes` apart, for rows of quantised x that follow each other.
using BlockProduct = void (*)(const void* weights, std::size_t rowBytes, std::int64_t lanes,
                              std::int64_t blocks, const std::int8_t* q,
                              const QuantisedBlock* xBlocks, std::int64_t rows, float* y,
                              std::int64_t yStride);

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
  void (*quantise)(const float* x, std::int64_t blocks, std::int8_t* q, QuantisedBlock* xBlocks);
  std::array<BlockProduct, kBlockFormats> formats;
  LowRankProducts lowRank;

  BlockProduct of(BlockFormat format) const { return formats[static_cast<std::size_t>(format)]; }
};

// The best ones that this processor runs; null where there are none.
const BlockProducts* blockProducts();

// All that it runs, the best first, then null.
const BlockProducts* const* runnableBlockProducts();

}  // namespace isopro::kernels
