// C = tile * panels: a register block of kBlockRows x kPanelWidth, panels outermost so that one
// stays in the first cache while the rows of the tile pass by (Goto and van de Geijn 2008, with the
// roles of A and B as in variant.h).

constexpr std::int64_t kPanelWidth = kBlockVectors * kLanes;

template <int Rows, int Vectors, bool Transposed>
void block(std::int64_t depth, const float* tile, const float* panel, float* c,
           std::int64_t cStride, bool accumulate) {
  Vector sums[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      sums[r][v] = accumulate ? load(c + r * cStride + v * kLanes) : Vector{};
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector b[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) b[v] = load(panel + k * kPanelWidth + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const Vector a =
          broadcast(Transposed ? tile[k * kTileStride + r] : tile[r * kTileStride + k]);
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
void blockOf(std::int64_t rows, std::int64_t depth, const float* tile, const float* panel, float* c,
             std::int64_t cStride, bool accumulate) {
  if constexpr (Rows > 1) {
    if (rows < Rows)
      return blockOf<Rows - 1, Vectors, Transposed>(rows, depth, tile, panel, c, cStride,
                                                    accumulate);
  }
  block<Rows, Vectors, Transposed>(depth, tile, panel, c, cStride, accumulate);
}

template <int Vectors, bool Transposed>
void blocksOfPanel(std::int64_t rows, std::int64_t depth, const float* tile, const float* panel,
                   float* c, std::int64_t cStride, bool accumulate) {
  for (std::int64_t r = 0; r < rows; r += kBlockRows) {
    const std::int64_t some = rows - r < kBlockRows ? rows - r : std::int64_t{kBlockRows};
    const float* from = tile + (Transposed ? r : r * kTileStride);
    blockOf<kBlockRows, Vectors, Transposed>(some, depth, from, panel, c + r * cStride, cStride,
                                             accumulate);
  }
}

void multiply(bool transposed, std::int64_t rows, std::int64_t columns, std::int64_t depth,
              const float* tile, const float* panels, std::int64_t panelStride, float* c,
              std::int64_t cStride, bool accumulate) {
  for (std::int64_t n = 0; n < columns; n += kPanelWidth, panels += panelStride) {
    // A last panel of few columns computes only half of the vectors.
    if (columns - n <= kPanelWidth / 2) {
      transposed ? blocksOfPanel<kBlockVectors / 2, true>(rows, depth, tile, panels, c + n, cStride,
                                                          accumulate)
                 : blocksOfPanel<kBlockVectors / 2, false>(rows, depth, tile, panels, c + n,
                                                           cStride, accumulate);
    } else {
      transposed ? blocksOfPanel<kBlockVectors, true>(rows, depth, tile, panels, c + n, cStride,
                                                      accumulate)
                 : blocksOfPanel<kBlockVectors, false>(rows, depth, tile, panels, c + n, cStride,
                                                       accumulate);
    }
  }
}

typedef float Four __attribute__((vector_size(16)));

// Lanes of two vectors by number, 0 to 3 of x and 4 to 7 of y. GCC before 12 has only the other
// spelling.
#if defined(__clang__) || __GNUC__ >= 12
#define ISOPRO_SHUFFLE(x, y, a, b, c, d) __builtin_shufflevector(x, y, a, b, c, d)
#else
typedef std::int32_t FourIndices __attribute__((vector_size(16)));
#define ISOPRO_SHUFFLE(x, y, a, b, c, d) __builtin_shuffle(x, y, (FourIndices{a, b, c, d}))
#endif

// to[c * toStride + r] = or += from[r * fromStride + c], r < rows, c < columns.
template <bool Accumulate>
void transpose(const float* from, std::int64_t fromStride, std::int64_t rows, std::int64_t columns,
               float* to, std::int64_t toStride) {
  const std::int64_t wholeRows = rows / 4 * 4, wholeColumns = columns / 4 * 4;
  constexpr std::int64_t kChunk = 16;  // rows: a cache line of the destination
  for (std::int64_t r0 = 0; r0 < wholeRows; r0 += kChunk) {
    const std::int64_t r1 = r0 + kChunk < wholeRows ? r0 + kChunk : wholeRows;
    for (std::int64_t c = 0; c < wholeColumns; c += 4) {
      for (std::int64_t r = r0; r < r1; r += 4) {
        Four in[4], out[4];
        for (int i = 0; i < 4; ++i)
          __builtin_memcpy(&in[i], from + (r + i) * fromStride + c, sizeof(Four));
        const Four a = ISOPRO_SHUFFLE(in[0], in[1], 0, 4, 1, 5),
                   b = ISOPRO_SHUFFLE(in[2], in[3], 0, 4, 1, 5);
        const Four d = ISOPRO_SHUFFLE(in[0], in[1], 2, 6, 3, 7),
                   e = ISOPRO_SHUFFLE(in[2], in[3], 2, 6, 3, 7);
        out[0] = ISOPRO_SHUFFLE(a, b, 0, 1, 4, 5), out[1] = ISOPRO_SHUFFLE(a, b, 2, 3, 6, 7);
        out[2] = ISOPRO_SHUFFLE(d, e, 0, 1, 4, 5), out[3] = ISOPRO_SHUFFLE(d, e, 2, 3, 6, 7);
        for (int i = 0; i < 4; ++i) {
          float* at = to + (c + i) * toStride + r;
          if (Accumulate) {
            Four before;
            __builtin_memcpy(&before, at, sizeof(Four));
            out[i] += before;
          }
          __builtin_memcpy(at, &out[i], sizeof(Four));
        }
      }
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = r < wholeRows ? wholeColumns : 0; c < columns; ++c) {
      float& at = to[c * toStride + r];
      at = Accumulate ? at + from[r * fromStride + c] : from[r * fromStride + c];
    }
  }
}

template <bool Accumulate>
void copyRows(const float* from, std::int64_t fromStride, std::int64_t rows, std::int64_t columns,
              float* to, std::int64_t toStride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      float& at = to[r * toStride + c];
      at = Accumulate ? at + from[r * fromStride + c] : from[r * fromStride + c];
    }
  }
}

// One of kStride and nStride is 1.
void pack(const float* b, std::int64_t kStride, std::int64_t nStride, std::int64_t depth,
          std::int64_t columns, float* panel) {
  if (nStride == 1) {
    copyRows<false>(b, kStride, depth, columns, panel, kPanelWidth);
  } else {
    // Few k at a time, so that the lines of the panel stay in the cache until all n have been
    // written.
    constexpr std::int64_t kChunk = 64;
    for (std::int64_t k = 0; k < depth; k += kChunk) {
      transpose<false>(b + k, nStride, columns, depth - k < kChunk ? depth - k : kChunk,
                       panel + k * kPanelWidth, kPanelWidth);
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t n = columns; n < kPanelWidth; ++n) panel[k * kPanelWidth + n] = 0;
  }
}

// One of mStride and nStride is 1.
void unpack(const float* scratch, std::int64_t scratchStride, std::int64_t rows,
            std::int64_t columns, float* c, std::int64_t mStride, std::int64_t nStride,
            bool accumulate) {
  if (nStride == 1) {
    accumulate ? copyRows<true>(scratch, scratchStride, rows, columns, c, mStride)
               : copyRows<false>(scratch, scratchStride, rows, columns, c, mStride);
  } else {
    accumulate ? transpose<true>(scratch, scratchStride, rows, columns, c, nStride)
               : transpose<false>(scratch, scratchStride, rows, columns, c, nStride);
  }
}
