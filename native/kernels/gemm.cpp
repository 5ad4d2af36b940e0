#include "kernels/gemm.h"

#include <algorithm>
#include <cstring>

#include "support/error.h"

namespace isopro::kernels {
namespace {

// Columns of B that are packed and multiplied together: bounds the memory and is enough to hide the
// dequantisation.
constexpr std::int64_t kColumns = 512;
void grow(std::vector<float>& buffer, std::int64_t size) {
  if (static_cast<std::int64_t>(buffer.size()) < size)
    buffer.resize(static_cast<std::size_t>(size));
}

// A tile is many short pieces far apart, which the processor does not foresee.
constexpr std::int64_t kRowsAhead = 8;
void prefetch(const Matrix& w, std::int64_t row, Range columns) {
#if defined(__GNUC__)
  const auto* start = static_cast<const char*>(w.data) + static_cast<std::size_t>(row) * w.rowBytes;
  const std::size_t end = ggml_row_size(w.type, columns.end);
  for (std::size_t at = ggml_row_size(w.type, columns.begin); at < end; at += 64)
    __builtin_prefetch(start + at);
#endif
}

// Rows [m.begin, m.end) of C = op(W) B for the columns [n.begin, n.end) of the packed panels; `c`
// points at column 0 of the panels. Plain, W is walked in tiles of rows x kTileColumns, transposed
// in tiles of kTileRows x kTileColumns whose columns are the rows of C.
void multiplyPart(const Variant& variant, ProductScratch& scratch, const Matrix& w, bool transposed,
                  Range m, Range n, const float* panels, std::int64_t depth, float* c,
                  std::int64_t cM, std::int64_t cN, bool accumulate) {
  if (m.begin >= m.end || n.begin >= n.end) return;
  const std::int64_t stepM = transposed ? kTileColumns : kTileRows;
  const std::int64_t stepK = transposed ? kTileRows : kTileColumns;
  const std::int64_t width = n.end - n.begin;
  const std::int64_t panelStride = depth * variant.panelWidth;
  // One cache line more than a multiple of the panel, against equal cache sets of successive rows.
  const std::int64_t productStride =
      (width + variant.panelWidth - 1) / variant.panelWidth * variant.panelWidth + 16;
  grow(scratch.tile, std::max(kTileRows, kTileColumns) * kTileStride);
  grow(scratch.product, stepM * productStride);
  const float* firstPanel = panels + n.begin / variant.panelWidth * panelStride;

  for (std::int64_t m0 = m.begin; m0 < m.end; m0 += stepM) {
    const std::int64_t m1 = std::min(m0 + stepM, m.end);
    for (std::int64_t k0 = 0; k0 < depth; k0 += stepK) {
      const std::int64_t k1 = std::min(k0 + stepK, depth);
      const Range rows = transposed ? Range{k0, k1} : Range{m0, m1};
      const Range columns = transposed ? Range{m0, m1} : Range{k0, k1};
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        if (row + kRowsAhead < rows.end) prefetch(w, row + kRowsAhead, columns);
        readRow(variant, w, row, columns.begin, columns.end,
                scratch.tile.data() + (row - rows.begin) * kTileStride);
      }
      variant.multiply(transposed, m1 - m0, width, k1 - k0, scratch.tile.data(),
                       firstPanel + k0 * variant.panelWidth, panelStride, scratch.product.data(),
                       productStride, k0 > 0);
    }
    variant.unpack(scratch.product.data(), productStride, m1 - m0, width,
                   c + m0 * cM + n.begin * cN, cM, cN, accumulate);
  }
}

void packPanels(const Variant& variant, const float* b, std::int64_t bK, std::int64_t bN,
                std::int64_t depth, std::int64_t columns, Range panelRange, float* panels) {
  for (std::int64_t panel = panelRange.begin; panel < panelRange.end; ++panel) {
    const std::int64_t n = panel * variant.panelWidth;
    variant.pack(b + n * bN, bK, bN, depth, std::min(variant.panelWidth, columns - n),
                 panels + panel * depth * variant.panelWidth);
  }
}

#if !defined(ISOPRO_BLAS)
// Rows of W that yW sums over at a time: bounds the packed panels where the output head has 150 000
// rows.
constexpr std::int64_t kSummedRows = 16384;

// See `thin`.
constexpr std::int64_t kThinRows = 64;

// Threads share C as a grid of rows and columns. Threads side by side each dequantise the same
// tiles, which costs about as much as kDequantise more columns; threads below each other wait for
// the one with the most rows.
std::int64_t partsOfColumns(std::int64_t rows, std::int64_t unit, std::int64_t columns,
                            std::int64_t width, std::int64_t threads) {
  constexpr std::int64_t kDequantise = 32;
  const auto largestShare = [](std::int64_t count, std::int64_t of, std::int64_t parts) {
    return ((count + of - 1) / of + parts - 1) / parts * of;
  };
  std::int64_t best = 1, least = 0;
  for (std::int64_t parts = 1; parts <= threads; ++parts) {
    const std::int64_t cost = largestShare(rows, unit, threads / parts) *
                              (kDequantise + largestShare(columns, width, parts));
    if (parts == 1 || cost < least) best = parts, least = cost;
  }
  return best;
}

// Few rows of W, a LoRA factor: the activations then take the place of W, whose tiles are read
// where they stand, and the factor is what gets packed; packing the activations would cost more
// than the product. Each element is the same sum.
bool thin(ggml_type type, std::int64_t rows) { return type == GGML_TYPE_F32 && rows <= kThinRows; }

const float* floats(const Matrix& w) { return static_cast<const float*>(w.data); }
std::int64_t stride(const Matrix& w) {
  return static_cast<std::int64_t>(w.rowBytes / sizeof(float));
}
#endif

}  // namespace

Matrix denseMatrix(const float* data, std::int64_t rows, std::int64_t columns,
                   std::int64_t stride) {
  return {data, GGML_TYPE_F32, rows, columns,
          static_cast<std::size_t>(stride == 0 ? columns : stride) * sizeof(float)};
}

bool readable(ggml_type type) {
  return type == GGML_TYPE_F32 ||
         (type >= 0 && type < GGML_TYPE_COUNT && ggml_get_type_traits(type)->to_float != nullptr);
}

void readRow(const Variant& variant, const Matrix& w, std::int64_t row, std::int64_t begin,
             std::int64_t end, float* values) {
  const auto* start = static_cast<const std::byte*>(w.data) +
                      static_cast<std::size_t>(row) * w.rowBytes + ggml_row_size(w.type, begin);
  if (w.type == GGML_TYPE_F32) {
    std::memcpy(values, start, static_cast<std::size_t>(end - begin) * sizeof(float));
  } else if (!variant.dequantise(w.type, start, values, end - begin)) {
    ggml_get_type_traits(w.type)->to_float(start, values, end - begin);
  }
}

Engine::Engine(int threads, const Variant& variant)
    : pool_(threads), variant_(variant), scratch_(static_cast<std::size_t>(pool_.threads())) {}

std::size_t Engine::scratchBytes() const {
  std::size_t floats = panels_.capacity();
  for (const ProductScratch& s : scratch_)
    floats += s.tile.capacity() + s.product.capacity() + s.panels.capacity();
  return floats * sizeof(float);
}

#if !defined(ISOPRO_BLAS)  // else blas.cpp

void Engine::xWt(const Matrix& w, const float* x, float* y, std::int64_t tokens, bool accumulate) {
  if (thin(w.type, w.rows)) {
    product(denseMatrix(x, tokens, w.columns), false, floats(w), 1, stride(w), y, w.rows, 1, w.rows,
            accumulate);
  } else {
    product(w, false, x, 1, w.columns, y, 1, w.rows, tokens, accumulate);
  }
}

void Engine::yW(const Matrix& w, const float* y, float* x, std::int64_t tokens, bool accumulate) {
  if (thin(w.type, w.rows)) {
    product(denseMatrix(y, tokens, w.rows), false, floats(w), stride(w), 1, x, w.columns, 1,
            w.columns, accumulate);
    return;
  }
  for (std::int64_t row = 0; row < w.rows; row += kSummedRows) {
    Matrix part = w;
    part.data = static_cast<const std::byte*>(w.data) + static_cast<std::size_t>(row) * w.rowBytes;
    part.rows = std::min(kSummedRows, w.rows - row);
    product(part, true, y + row, 1, w.rows, x, 1, w.columns, tokens, accumulate || row > 0);
  }
}

void Engine::addYtX(const float* y, const float* x, float* z, std::int64_t tokens,
                    std::int64_t rows, std::int64_t columns) {
  if (thin(GGML_TYPE_F32, rows)) {
    product(denseMatrix(x, tokens, columns), true, y, rows, 1, z, 1, columns, rows, true);
  } else {
    product(denseMatrix(y, tokens, rows), true, x, columns, 1, z, columns, 1, columns, true);
  }
}

void Engine::product(const Matrix& w, bool transposed, const float* b, std::int64_t bK,
                     std::int64_t bN, float* c, std::int64_t cM, std::int64_t cN,
                     std::int64_t columns, bool accumulate) {
  const std::int64_t rows = transposed ? w.columns : w.rows;
  const std::int64_t depth = transposed ? w.rows : w.columns;
  const std::int64_t width = variant_.panelWidth;
  // Rows of C are shared out in whole blocks of the stored type.
  const std::int64_t unit = transposed ? ggml_blck_size(w.type) : std::int64_t{4};
  const std::int64_t threads = pool_.threads();
  for (std::int64_t n0 = 0; n0 < columns; n0 += kColumns) {
    const std::int64_t some = std::min(kColumns, columns - n0);
    const std::int64_t panels = (some + width - 1) / width;
    const std::int64_t columnParts = partsOfColumns(rows, unit, some, width, threads);
    const std::int64_t rowParts = threads / columnParts;
    grow(panels_, panels * depth * width);
    pool_.run([&](int thread) {
      packPanels(variant_, b + n0 * bN, bK, bN, depth, some, split(panels, threads, thread),
                 panels_.data());
    });
    pool_.run([&](int thread) {
      if (thread >= rowParts * columnParts) return;
      const Range m = split(rows, rowParts, thread / columnParts, unit);
      const Range n = split(some, columnParts, thread % columnParts, width);
      multiplyPart(variant_, scratch(thread), w, transposed, m, n, panels_.data(), depth,
                   c + n0 * cN, cM, cN, accumulate);
    });
  }
}

#endif

void serialProduct(const Variant& variant, ProductScratch& scratch, const Matrix& w,
                   bool transposed, const float* b, std::int64_t bK, std::int64_t bN, float* c,
                   std::int64_t cM, std::int64_t cN, std::int64_t columns, bool accumulate) {
  const std::int64_t rows = transposed ? w.columns : w.rows;
  const std::int64_t depth = transposed ? w.rows : w.columns;
  for (std::int64_t n0 = 0; n0 < columns; n0 += kColumns) {
    const std::int64_t some = std::min(kColumns, columns - n0);
    const std::int64_t panels = (some + variant.panelWidth - 1) / variant.panelWidth;
    grow(scratch.panels, panels * depth * variant.panelWidth);
    packPanels(variant, b + n0 * bN, bK, bN, depth, some, {0, panels}, scratch.panels.data());
    multiplyPart(variant, scratch, w, transposed, {0, rows}, {0, some}, scratch.panels.data(),
                 depth, c + n0 * cN, cM, cN, accumulate);
  }
}

}  // namespace isopro::kernels
