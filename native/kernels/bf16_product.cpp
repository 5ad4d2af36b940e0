// Compiled with -mavx512bf16 alone (kernels.cmake); like variant.cpp it uses no template or inline
// function of the standard library.
#include "kernels/bf16_product.h"

#include <immintrin.h>

namespace isopro::kernels::avx512bf16 {
namespace {

constexpr int kLanes = 16, kBlockRows = 12, kBlockVectors = 2;
constexpr std::int64_t kPanelWidth = kBlockVectors * kLanes;

__m512bh pairsAt(const Bf16Pair* p) { return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p)); }

// The register block of tile_product.inl; a multiply-add takes a pair of k.
template <int Rows, int Vectors, bool Transposed>
void block(std::int64_t pairs, const Bf16Pair* tile, const Bf16Pair* panel, float* c,
           std::int64_t cStride, bool accumulate) {
  __m512 sums[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      sums[r][v] = accumulate ? _mm512_loadu_ps(c + r * cStride + v * kLanes) : _mm512_setzero_ps();
  }
  for (std::int64_t k = 0; k < pairs; ++k) {
    __m512bh b[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) b[v] = pairsAt(panel + k * kPanelWidth + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const Bf16Pair pair = Transposed ? tile[k * kTileStride + r] : tile[r * kPairStride + k];
      const auto a = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(pair)));
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], a, b[v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) _mm512_storeu_ps(c + r * cStride + v * kLanes, sums[r][v]);
  }
}

// Runtime number of rows (1 .. Rows) to the function that has it as a constant.
template <int Rows, int Vectors, bool Transposed>
void blockOf(std::int64_t rows, std::int64_t pairs, const Bf16Pair* tile, const Bf16Pair* panel,
             float* c, std::int64_t cStride, bool accumulate) {
  if constexpr (Rows > 1) {
    if (rows < Rows)
      return blockOf<Rows - 1, Vectors, Transposed>(rows, pairs, tile, panel, c, cStride,
                                                    accumulate);
  }
  block<Rows, Vectors, Transposed>(pairs, tile, panel, c, cStride, accumulate);
}

template <int Vectors, bool Transposed>
void blocksOfPanel(std::int64_t rows, std::int64_t pairs, const Bf16Pair* tile,
                   const Bf16Pair* panel, float* c, std::int64_t cStride, bool accumulate) {
  for (std::int64_t r = 0; r < rows; r += kBlockRows) {
    const std::int64_t some = rows - r < kBlockRows ? rows - r : std::int64_t{kBlockRows};
    blockOf<kBlockRows, Vectors, Transposed>(some, pairs, tile + (Transposed ? r : r * kPairStride),
                                             panel, c + r * cStride, cStride, accumulate);
  }
}

void multiply(bool transposed, std::int64_t rows, std::int64_t columns, std::int64_t pairs,
              const Bf16Pair* tile, const Bf16Pair* panels, std::int64_t panelStride, float* c,
              std::int64_t cStride, bool accumulate) {
  constexpr int kHalf = kBlockVectors / 2;
  for (std::int64_t n = 0; n < columns; n += kPanelWidth, panels += panelStride) {
    // A last panel of few columns computes only half of the vectors.
    const auto blocks =
        columns - n <= kPanelWidth / 2
            ? (transposed ? blocksOfPanel<kHalf, true> : blocksOfPanel<kHalf, false>)
            : (transposed ? blocksOfPanel<kBlockVectors, true>
                          : blocksOfPanel<kBlockVectors, false>);
    blocks(rows, pairs, tile, panels, c + n, cStride, accumulate);
  }
}

__mmask16 firstLanes(std::int64_t count) {
  return static_cast<__mmask16>(count >= kLanes ? 0xffff : (1u << count) - 1);
}

__m512 some(const float* p, std::int64_t count) {
  return count <= 0 ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(firstLanes(count), p);
}

// Pairs of successive values: `count` of p, then zeros, 32 in all.
__m512i alongPairs(const float* p, std::int64_t count) {
  return reinterpret_cast<__m512i>(
      _mm512_cvtne2ps_pbh(some(p + kLanes, count - kLanes), some(p, count)));
}

// Pairs of the values of two rows; `odd` may be null, whose values are zeros.
__m512i acrossPairs(const float* even, const float* odd, std::int64_t count) {
  const auto half = [count](const float* p) {
    return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(some(p, count))));
  };
  const __m512i low = half(even);
  return odd == nullptr ? low : _mm512_or_si512(low, _mm512_slli_epi32(half(odd), 16));
}

void storeSome(Bf16Pair* to, __m512i pairs, std::int64_t count) {
  _mm512_mask_storeu_epi32(to, firstLanes(count), pairs);
}

void roundTile(bool transposed, std::int64_t rows, std::int64_t depth, const float* tile,
               Bf16Pair* rounded) {
  if (transposed) {
    for (std::int64_t k = 0; k < depth; k += 2, tile += 2 * kTileStride, rounded += kTileStride) {
      for (std::int64_t r = 0; r < rows; r += kLanes) {
        const float* odd = k + 1 < depth ? tile + kTileStride + r : nullptr;
        storeSome(rounded + r, acrossPairs(tile + r, odd, rows - r), rows - r);
      }
    }
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r, tile += kTileStride, rounded += kPairStride) {
    for (std::int64_t k = 0; k < depth; k += 2 * kLanes)
      storeSome(rounded + k / 2, alongPairs(tile + k, depth - k), pairsOf(depth - k));
  }
}

// 16 rows of 16 pairs become their columns.
void transpose(__m512i rows[kLanes]) {
  __m512i half[kLanes];
  for (int i = 0; i < kLanes; i += 2) {
    half[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    half[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  // Four rows by four: column 4 j + i of the rows 4 g .. is lane j of rows[4 g + i].
  for (int g = 0; g < kLanes; g += 4) {
    rows[g] = _mm512_unpacklo_epi64(half[g], half[g + 2]);
    rows[g + 1] = _mm512_unpackhi_epi64(half[g], half[g + 2]);
    rows[g + 2] = _mm512_unpacklo_epi64(half[g + 1], half[g + 3]);
    rows[g + 3] = _mm512_unpackhi_epi64(half[g + 1], half[g + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(rows[i], rows[4 + i], 0x88),
                  b = _mm512_shuffle_i32x4(rows[8 + i], rows[12 + i], 0x88),
                  c = _mm512_shuffle_i32x4(rows[i], rows[4 + i], 0xdd),
                  d = _mm512_shuffle_i32x4(rows[8 + i], rows[12 + i], 0xdd);
    half[i] = _mm512_shuffle_i32x4(a, b, 0x88);
    half[4 + i] = _mm512_shuffle_i32x4(c, d, 0x88);
    half[8 + i] = _mm512_shuffle_i32x4(a, b, 0xdd);
    half[12 + i] = _mm512_shuffle_i32x4(c, d, 0xdd);
  }
  for (int i = 0; i < kLanes; ++i) rows[i] = half[i];
}

// One of kStride and nStride is 1.
void pack(const float* b, std::int64_t kStride, std::int64_t nStride, std::int64_t depth,
          std::int64_t columns, Bf16Pair* panel) {
  if (nStride == 1) {
    for (std::int64_t k = 0; k < depth; k += 2, panel += kPanelWidth) {
      const float* even = b + k * kStride;
      for (std::int64_t n = 0; n < kPanelWidth; n += kLanes) {
        const float* odd = k + 1 < depth ? even + kStride + n : nullptr;
        _mm512_storeu_si512(panel + n, acrossPairs(even + n, odd, columns - n));
      }
    }
    return;
  }
  for (std::int64_t k = 0; k < depth; k += 2 * kLanes, panel += kLanes * kPanelWidth) {
    const std::int64_t pairs = pairsOf(depth - k);
    for (std::int64_t n = 0; n < kPanelWidth; n += kLanes) {
      __m512i rows[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i)
        rows[i] = n + i < columns ? alongPairs(b + (n + i) * nStride + k, depth - k)
                                  : _mm512_setzero_si512();
      transpose(rows);
      for (std::int64_t p = 0; p < kLanes && p < pairs; ++p)
        _mm512_storeu_si512(panel + p * kPanelWidth + n, rows[p]);
    }
  }
}

}  // namespace

extern const Bf16Product product;
const Bf16Product product = {"avx512bf16", kPanelWidth, roundTile, pack, multiply};

}  // namespace isopro::kernels::avx512bf16
