// C = tile * panels: a register block of kBlockRows x kPanelWidth, panels outermost so that one stays in the first
// cache while the rows of the tile pass by (Goto and van de Geijn 2008, with the roles of A and B as in variant.h).

constexpr std::int64_t kPanelWidth = kBlockVectors * kLanes;

template <int Rows, int Vectors, bool Transposed>
void block(std::int64_t depth, const float* tile, const float* panel, float* c, std::int64_t cStride, bool accumulate) {
  Vector sums[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sums[r][v] = accumulate ? load(c + r * cStride + v * kLanes) : Vector{};
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector b[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) b[v] = load(panel + k * kPanelWidth + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const Vector a = broadcast(Transposed ? tile[k * kTileStride + r] : tile[r * kTileStride + k]);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sums[r][v] += a * b[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) store(c + r * cStride + v * kLanes, sums[r][v]);
  }
}

// Runtime number of rows (1 .. Rows) to the function that has it as a constant.
template <int Rows, int Vectors, bool Transposed>
void blockOf(std::int64_t rows, std::int64_t depth, const float* tile, const float* panel, float* c, std::int64_t cStride,
             bool accumulate) {
  if constexpr (Rows > 1) {
    if (rows < Rows) return blockOf<Rows - 1, Vectors, Transposed>(rows, depth, tile, panel, c, cStride, accumulate);
  }
  block<Rows, Vectors, Transposed>(depth, tile, panel, c, cStride, accumulate);
}

template <int Vectors, bool Transposed>
void blocksOfPanel(std::int64_t rows, std::int64_t depth, const float* tile, const float* panel, float* c,
                   std::int64_t cStride, bool accumulate) {
  for (std::int64_t r = 0; r < rows; r += kBlockRows) {
    const std::int64_t some = rows - r < kBlockRows ? rows - r : std::int64_t{kBlockRows};
    const float* from = tile + (Transposed ? r : r * kTileStride);
    blockOf<kBlockRows, Vectors, Transposed>(some, depth, from, panel, c + r * cStride, cStride, accumulate);
  }
}

void multiply(bool transposed, std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* tile,
              const float* panels, std::int64_t panelStride, float* c, std::int64_t cStride, bool accumulate) {
  for (std::int64_t n = 0; n < columns; n += kPanelWidth, panels += panelStride) {
    // A last panel of few columns computes only half of the vectors.
    if (columns - n <= kPanelWidth / 2) {
      transposed ? blocksOfPanel<kBlockVectors / 2, true>(rows, depth, tile, panels, c + n, cStride, accumulate)
                 : blocksOfPanel<kBlockVectors / 2, false>(rows, depth, tile, panels, c + n, cStride, accumulate);
    } else {
      transposed ? blocksOfPanel<kBlockVectors, true>(rows, depth, tile, panels, c + n, cStride, accumulate)
                 : blocksOfPanel<kBlockVectors, false>(rows, depth, tile, panels, c + n, cStride, accumulate);
    }
  }
}

void pack(const float* b, std::int64_t kStride, std::int64_t nStride, std::int64_t depth, std::int64_t columns,
          float* panel) {
  constexpr std::int64_t kChunk = 16;
  for (std::int64_t k0 = 0; k0 < depth; k0 += kChunk) {
    const std::int64_t k1 = k0 + kChunk < depth ? k0 + kChunk : depth;
    if (nStride == 1) {
      for (std::int64_t k = k0; k < k1; ++k) {
        for (std::int64_t n = 0; n < columns; ++n) panel[k * kPanelWidth + n] = b[k * kStride + n];
      }
    } else {
      for (std::int64_t n = 0; n < columns; ++n) {
        for (std::int64_t k = k0; k < k1; ++k) panel[k * kPanelWidth + n] = b[k * kStride + n * nStride];
      }
    }
    for (std::int64_t k = k0; k < k1; ++k) {
      for (std::int64_t n = columns; n < kPanelWidth; ++n) panel[k * kPanelWidth + n] = 0;
    }
  }
}

void unpack(const float* scratch, std::int64_t scratchStride, std::int64_t rows, std::int64_t columns, float* c,
            std::int64_t mStride, std::int64_t nStride, bool accumulate) {
  constexpr std::int64_t kChunk = 16;
  for (std::int64_t m0 = 0; m0 < rows; m0 += kChunk) {
    const std::int64_t m1 = m0 + kChunk < rows ? m0 + kChunk : rows;
    if (nStride == 1) {
      for (std::int64_t m = m0; m < m1; ++m) {
        float* to = c + m * mStride;
        const float* from = scratch + m * scratchStride;
        if (accumulate) {
          for (std::int64_t n = 0; n < columns; ++n) to[n] += from[n];
        } else {
          for (std::int64_t n = 0; n < columns; ++n) to[n] = from[n];
        }
      }
    } else {
      for (std::int64_t n = 0; n < columns; ++n) {
        float* to = c + n * nStride;
        const float* from = scratch + n;
        if (accumulate) {
          for (std::int64_t m = m0; m < m1; ++m) to[m * mStride] += from[m * scratchStride];
        } else {
          for (std::int64_t m = m0; m < m1; ++m) to[m * mStride] = from[m * scratchStride];
        }
      }
    }
  }
}
