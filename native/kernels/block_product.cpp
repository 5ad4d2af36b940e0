// Compiled once for each instruction set (kernels.cmake); block_product_dispatch.cpp chooses. Of
// the standard library nothing that a compiler may emit for all to use (variant.cpp).
#include "kernels/block_product.h"

#include <cstring>

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

namespace isopro::kernels::ISOPRO_VARIANT {
namespace {

constexpr int kGroups = 8;       // of four weights in a block
constexpr int kBlockScales = 2;  // room for each lane's
constexpr int kRowsAtOnce = 4;
constexpr int kFewRows = 3;  // for which unpacking weights is not worth its while
constexpr int kChunk = 8;    // blocks that are unpacked at once: they stay in the first cache

std::int32_t fourOf(const void* from) {
  std::int32_t four;
  std::memcpy(&four, from, sizeof four);
  return four;
}

#if defined(__aarch64__)
#include "kernels/block_vectors_neon.inl"
#else
#include "kernels/block_vectors_x86.inl"
#endif

// The same in every 16 bytes.
template <int... kBytes>
Integers sixteenBytes() {
  static constexpr std::int8_t kEach[] = {kBytes...};
  static_assert(sizeof kEach == 16);
  return inEachQuarter(kEach);
}

// The byte `byte` of each lane, four times.
Integers ofEachLane(Integers fours, int byte) {
  return lookedUp(
      fours, sixteenBytes<0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12>() + allBytes(byte));
}

// The byte `byte` of each lane.
Integers unsignedByte(Integers fours, int byte) {
  constexpr int kNone = -128;
  const Integers first = sixteenBytes<0, kNone, kNone, kNone, 4, kNone, kNone, kNone, 8, kNone,
                                      kNone, kNone, 12, kNone, kNone, kNone>();
  return lookedUp(fours, first + allFours(byte));
}

// A tile of weights as the file has it: rows `rowBytes` apart.
struct PackedTile {
  const char* first;
  std::size_t rowBytes;

  const char* row(std::size_t i) const { return first + i * rowBytes; }
};

// Two bytes of each lane at the place `at` of its row, as f16.
Floats halvesAt(PackedTile tile, std::int64_t at) {
  alignas(64) std::int32_t each[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) {
    std::uint16_t half;
    std::memcpy(&half, tile.row(i) + at, sizeof half);
    each[i] = half;
  }
  return floatsOfLowHalves(loadBytes(each));
}

// Four bytes of each lane.
Integers foursAt(PackedTile tile, std::int64_t at) {
  alignas(64) std::int32_t each[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) each[i] = fourOf(tile.row(i) + at);
  return loadBytes(each);
}

// 16 bytes of each lane: groups [4][lanes][4]. Four rows of four times four bytes are transposed
// within each 128 bits.
void groupsAt(PackedTile tile, std::int64_t at, Integers* groups) {
  const Integers a = gathered(tile.row(0) + at, tile.rowBytes);
  const Integers b = gathered(tile.row(1) + at, tile.rowBytes);
  const Integers c = gathered(tile.row(2) + at, tile.rowBytes);
  const Integers d = gathered(tile.row(3) + at, tile.rowBytes);
  const Integers ab = lowPairs(a, b);
  const Integers cd = lowPairs(c, d);
  const Integers abHigh = highPairs(a, b);
  const Integers cdHigh = highPairs(c, d);
  groups[0] = lowQuads(ab, cd);
  groups[1] = highQuads(ab, cd);
  groups[2] = lowQuads(abHigh, cdHigh);
  groups[3] = highQuads(abHigh, cdHigh);
}

Integers lowHalves(Integers bytes) { return both(bytes, allBytes(15)); }

// 16 bytes of each lane from `at` on, whose low halves are the weights 0 to 15 of a block and whose
// high halves the others.
void halfBytesAt(PackedTile tile, std::int64_t at, Integers* groups) {
  Integers bytes[4];
  groupsAt(tile, at, bytes);
  for (int g = 0; g < 4; ++g) {
    groups[g] = lowHalves(bytes[g]);
    groups[4 + g] = lowHalves(down<4>(bytes[g]));
  }
}

#include "kernels/block_formats.inl"

// Of the weights after these: rows are short, so that processors do not see in time where one walks
// next.
template <class Format>
void prefetchNext(PackedTile tile, std::int64_t block) {
  constexpr std::int64_t kStep = kLanes * Format::kStripe * Format::kBytes / Format::kSpan;
  const char* from = tile.row(kLanes) + block / Format::kStripe * kStep;
  for (std::int64_t at = 0; at < kStep; at += 64) __builtin_prefetch(from + at, 0, 3);
}

// Adds a block to sums[row][tile], the order of every sum: weights [group][tile], scales
// [scale][tile] and rows of x, whose blocks are `xStride` apart.
template <class Format, int kRows, int kTiles>
void addBlock(Floats (*sums)[kTiles], const Integers* weights, const Floats* scales,
              const std::int8_t* q, const QuantisedBlock* x, std::int64_t xStride) {
  constexpr int kCount = kGroups / Format::kParts;
  Integers dots[Format::kParts][kRows][kTiles];
#pragma GCC unroll 2
  for (int part = 0; part < Format::kParts; ++part) {
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
      const std::int32_t* halves = x[row * xStride].halves;
      const std::int32_t sum = Format::kParts == 2 ? halves[part] : halves[0] + halves[1];
#pragma GCC unroll 2
      for (int t = 0; t < kTiles; ++t)
        dots[part][row][t] = allFours(Format::kOffset == 0 ? 0 : -Format::kOffset * sum);
    }
    addDots<Format::kMost, kCount, kRows, kTiles>(dots[part], weights + part * kCount * kTiles,
                                                  q + 4 * part * kCount, xStride * kProductBlock);
  }
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) {
    const QuantisedBlock& block = x[row * xStride];
#pragma GCC unroll 2
    for (int t = 0; t < kTiles; ++t) {
      Floats& sum = sums[row][t];
#pragma GCC unroll 2
      for (int part = 0; part < Format::kParts; ++part)
        sum = fused(multiplied(scales[part * kTiles + t], all(block.scale)),
                    asFloats(dots[part][row][t]), sum);
      if (Format::kHasMinimum) sum = fused(scales[kTiles + t], all(block.scaledSum), sum);
    }
  }
}

// At most kFewRows: each block is used as it is read.
template <class Format, int kRows>
void multiplyFewRows(PackedTile tile, std::int64_t blocks, const std::int8_t* q,
                     const QuantisedBlock* xBlocks, float* y, std::int64_t yStride) {
  Floats sums[kRows][1];
  for (int row = 0; row < kRows; ++row) sums[row][0] = all(0.0f);
  for (std::int64_t block = 0; block < blocks; block += Format::kStripe) {
    prefetchNext<Format>(tile, block);
    Format::read(tile, block, [&](int i, const Integers* groups, const Floats* scales) {
      addBlock<Format, kRows, 1>(sums, groups, scales, q + (block + i) * kProductBlock,
                                 xBlocks + block + i, blocks);
    });
  }
  for (int row = 0; row < kRows; ++row) store(y + row * yStride, sums[row][0]);
}

template <int kTiles>
struct Chunk {
  Integers weights[kChunk][kGroups][kTiles];
  Floats scales[kChunk][kBlockScales][kTiles];
};

// The sums of the blocks before are in y.
template <class Format, int kRows, int kTiles>
void addChunk(const Chunk<kTiles>& chunk, std::int64_t block, std::int64_t count,
              std::int64_t blocks, const std::int8_t* q, const QuantisedBlock* xBlocks, float* y,
              std::int64_t yStride) {
  Floats sums[kRows][kTiles];
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int t = 0; t < kTiles; ++t)
      sums[row][t] = block == 0 ? all(0.0f) : load(y + row * yStride + t * kLanes);
  }
  for (std::int64_t i = 0; i < count; ++i)
    addBlock<Format, kRows, kTiles>(sums, chunk.weights[i][0], chunk.scales[i][0],
                                    q + (block + i) * kProductBlock, xBlocks + block + i, blocks);
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int t = 0; t < kTiles; ++t) store(y + row * yStride + t * kLanes, sums[row][t]);
  }
}

template <class Format, int kTiles>
void multiplyManyRows(PackedTile tile, std::int64_t blocks, const std::int8_t* q,
                      const QuantisedBlock* xBlocks, std::int64_t rows, float* y,
                      std::int64_t yStride) {
  static_assert(kChunk % Format::kStripe == 0);
  Chunk<kTiles> chunk;
  for (std::int64_t block = 0; block < blocks; block += kChunk) {
    const std::int64_t count = blocks - block < kChunk ? blocks - block : kChunk;
    for (int t = 0; t < kTiles; ++t) {
      const PackedTile packed{tile.row(t * kLanes), tile.rowBytes};
      for (std::int64_t from = 0; from < count; from += Format::kStripe) {
        prefetchNext<Format>({tile.row((kTiles - 1 + t) * kLanes), tile.rowBytes}, block + from);
        Format::read(packed, block + from,
                     [&](int i, const Integers* groups, const Floats* scales) {
                       for (int g = 0; g < kGroups; ++g) chunk.weights[from + i][g][t] = groups[g];
                       for (int s = 0; s < kBlockScales; ++s)
                         chunk.scales[from + i][s][t] = scales[s];
                     });
      }
    }
    for (std::int64_t row = 0; row < rows;) {
      const std::int64_t left = rows - row;
      const auto add = left >= kRowsAtOnce ? addChunk<Format, kRowsAtOnce, kTiles>
                       : left == 3         ? addChunk<Format, 3, kTiles>
                       : left == 2         ? addChunk<Format, 2, kTiles>
                                           : addChunk<Format, 1, kTiles>;
      add(chunk, block, count, blocks, q + row * blocks * kProductBlock, xBlocks + row * blocks,
          y + row * yStride, yStride);
      row += left < kRowsAtOnce ? left : kRowsAtOnce;
    }
  }
}

template <class Format>
void multiply(const void* weights, std::size_t rowBytes, std::int64_t lanes, std::int64_t blocks,
              const std::int8_t* q, const QuantisedBlock* xBlocks, std::int64_t rows, float* y,
              std::int64_t yStride) {
  const auto* from = static_cast<const char*>(weights);
  const auto few = rows == 1   ? multiplyFewRows<Format, 1>
                   : rows == 2 ? multiplyFewRows<Format, 2>
                               : multiplyFewRows<Format, 3>;
  for (std::int64_t lane = 0; lane < lanes;) {
    const PackedTile tile{from + static_cast<std::size_t>(lane) * rowBytes, rowBytes};
    const bool all = lanes - lane >= kTilesAtOnce * kLanes;
    if (rows <= kFewRows) {
      few(tile, blocks, q, xBlocks, y + lane, yStride);
    } else {
      const auto many = all ? multiplyManyRows<Format, kTilesAtOnce> : multiplyManyRows<Format, 1>;
      many(tile, blocks, q, xBlocks, rows, y + lane, yStride);
    }
    lane += rows > kFewRows && all ? kTilesAtOnce * kLanes : kLanes;
  }
}

#include "kernels/low_rank.inl"

}  // namespace

extern const BlockProducts blockProducts;
const BlockProducts blockProducts = {
    ISOPRO_VARIANT_NAME,
    quantise,
    {multiply<Q4_1>, multiply<Q5_0>, multiply<Q6_K>, multiply<Q8_0>, multiply<Q4_K>, multiply<Q5_K>,
     multiply<Q4_0>, multiply<IQ4_XS>, multiply<MXFP4>},
    {widen, narrow, add}};

}  // namespace isopro::kernels::ISOPRO_VARIANT
