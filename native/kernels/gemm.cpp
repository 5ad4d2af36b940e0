#include "kernels/gemm.h"

#include <algorithm>
#include <cstring>

#include "support/cpu.h"
#include "support/error.h"

namespace isopro::kernels {
namespace {

// Columns of B that are packed and multiplied together: bounds the memory and is enough to hide the
// dequantisation.
constexpr std::int64_t kColumns = 512;

template <typename T>
void grow(std::vector<T>& buffer, std::int64_t size) {
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

// The two products underneath: operands as they are, and operands rounded to bf16. Both are walked
// in the same way; a step of k is one value in the first and a pair in the second.
struct ExactProduct {
  const Variant& variant;

  std::int64_t panelWidth() const { return variant.panelWidth; }
  static std::int64_t steps(std::int64_t depth) { return depth; }
  void pack(const float* b, std::int64_t bK, std::int64_t bN, std::int64_t depth,
            std::int64_t columns, float* panel) const {
    variant.pack(b, bK, bN, depth, columns, panel);
  }
  void multiply(ProductScratch& scratch, bool transposed, std::int64_t rows, std::int64_t columns,
                std::int64_t depth, const float* panels, std::int64_t panelStride,
                std::int64_t productStride, bool accumulate) const {
    variant.multiply(transposed, rows, columns, depth, scratch.tile.data(), panels, panelStride,
                     scratch.product.data(), productStride, accumulate);
  }
};

struct RoundedProduct {
  const Bf16Product& bf16;

  std::int64_t panelWidth() const { return bf16.panelWidth; }
  static std::int64_t steps(std::int64_t depth) { return pairsOf(depth); }
  void pack(const float* b, std::int64_t bK, std::int64_t bN, std::int64_t depth,
            std::int64_t columns, Bf16Pair* panel) const {
    bf16.pack(b, bK, bN, depth, columns, panel);
  }
  void multiply(ProductScratch& scratch, bool transposed, std::int64_t rows, std::int64_t columns,
                std::int64_t depth, const Bf16Pair* panels, std::int64_t panelStride,
                std::int64_t productStride, bool accumulate) const {
    grow(scratch.rounded, std::max(kTileRows * kPairStride, pairsOf(kTileRows) * kTileStride));
    bf16.roundTile(transposed, rows, depth, scratch.tile.data(), scratch.rounded.data());
    bf16.multiply(transposed, rows, columns, pairsOf(depth), scratch.rounded.data(), panels,
                  panelStride, scratch.product.data(), productStride, accumulate);
  }
};

// Rows [m.begin, m.end) of C = op(W) B for the columns [n.begin, n.end) of the packed panels; `c`
// points at column 0 of the panels. Plain, W is walked in tiles of rows x kTileColumns, transposed
// in tiles of kTileRows x kTileColumns whose columns are the rows of C.
template <typename Product, typename Element>
void multiplyPart(const Variant& variant, const Product& kernel, ProductScratch& scratch,
                  const Matrix& w, bool transposed, Range m, Range n, const Element* panels,
                  std::int64_t depth, float* c, std::int64_t cM, std::int64_t cN, bool accumulate) {
  if (m.begin >= m.end || n.begin >= n.end) return;
  const std::int64_t stepM = transposed ? kTileColumns : kTileRows;
  const std::int64_t stepK = transposed ? kTileRows : kTileColumns;
  const std::int64_t width = n.end - n.begin;
  const std::int64_t panelWidth = kernel.panelWidth();
  const std::int64_t panelStride = kernel.steps(depth) * panelWidth;
  // One cache line more than a multiple of the panel, against equal cache sets of successive rows.
  const std::int64_t productStride = (width + panelWidth - 1) / panelWidth * panelWidth + 16;
  grow(scratch.tile, std::max(kTileRows, kTileColumns) * kTileStride);
  grow(scratch.product, stepM * productStride);
  const auto* firstPanel = panels + n.begin / panelWidth * panelStride;

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
      kernel.multiply(scratch, transposed, m1 - m0, width, k1 - k0,
                      firstPanel + kernel.steps(k0) * panelWidth, panelStride, productStride,
                      k0 > 0);
    }
    variant.unpack(scratch.product.data(), productStride, m1 - m0, width,
                   c + m0 * cM + n.begin * cN, cM, cN, accumulate);
  }
}

template <typename Product, typename Element>
void packPanels(const Product& kernel, const float* b, std::int64_t bK, std::int64_t bN,
                std::int64_t depth, std::int64_t columns, Range panelRange, Element* panels) {
  const std::int64_t width = kernel.panelWidth();
  for (std::int64_t panel = panelRange.begin; panel < panelRange.end; ++panel) {
    const std::int64_t n = panel * width;
    kernel.pack(b + n * bN, bK, bN, depth, std::min(width, columns - n),
                panels + panel * kernel.steps(depth) * width);
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
bool thin(const Matrix& w) { return w.type == GGML_TYPE_F32 && w.rows <= kThinRows; }

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

Engine::Engine(int threads, const Variant& variant, const Bf16Product* bf16)
    : pool_(threads),
      variant_(variant),
      bf16_(bf16),
      scratch_(static_cast<std::size_t>(pool_.threads())) {}

std::size_t Engine::scratchBytes() const {
  static_assert(sizeof(Bf16Pair) == sizeof(float));
  std::size_t floats = panels_.capacity() + roundedPanels_.capacity();
  for (const ProductScratch& s : scratch_)
    floats += s.tile.capacity() + s.rounded.capacity() + s.product.capacity() + s.panels.capacity();
  return floats * sizeof(float);
}

#if !defined(ISOPRO_BLAS)  // else blas.cpp

void Engine::xWt(const Matrix& w, const float* x, float* y, std::int64_t tokens, bool accumulate) {
  if (thin(w) && !roundsWith(w)) {
    product(denseMatrix(x, tokens, w.columns), false, floats(w), 1, stride(w), y, w.rows, 1, w.rows,
            accumulate);
  } else {
    product(w, false, x, 1, w.columns, y, 1, w.rows, tokens, accumulate);
  }
}

void Engine::yW(const Matrix& w, const float* y, float* x, std::int64_t tokens, bool accumulate) {
  if (thin(w) && !roundsWith(w)) {
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
  if (rows <= kThinRows) {
    product(denseMatrix(x, tokens, columns), true, y, rows, 1, z, 1, columns, rows, true);
  } else {
    product(denseMatrix(y, tokens, rows), true, x, columns, 1, z, columns, 1, columns, true);
  }
}

void Engine::product(const Matrix& w, bool transposed, const float* b, std::int64_t bK,
                     std::int64_t bN, float* c, std::int64_t cM, std::int64_t cN,
                     std::int64_t columns, bool accumulate) {
  if (roundsWith(w)) {
    productBy(RoundedProduct{*bf16_}, roundedPanels_, w, transposed, b, bK, bN, c, cM, cN, columns,
              accumulate);
  } else {
    productBy(ExactProduct{variant_}, panels_, w, transposed, b, bK, bN, c, cM, cN, columns,
              accumulate);
  }
}

template <typename Product, typename Element>
void Engine::productBy(const Product& kernel, std::vector<Element>& buffer, const Matrix& w,
                       bool transposed, const float* b, std::int64_t bK, std::int64_t bN, float* c,
                       std::int64_t cM, std::int64_t cN, std::int64_t columns, bool accumulate) {
  const std::int64_t rows = transposed ? w.columns : w.rows;
  const std::int64_t depth = transposed ? w.rows : w.columns;
  const std::int64_t width = kernel.panelWidth();
  // Rows of C are shared out in whole blocks of the stored type.
  const std::int64_t unit = transposed ? ggml_blck_size(w.type) : std::int64_t{4};
  const std::int64_t threads = pool_.threads();
  for (std::int64_t n0 = 0; n0 < columns; n0 += kColumns) {
    const std::int64_t some = std::min(kColumns, columns - n0);
    const std::int64_t panels = (some + width - 1) / width;
    const std::int64_t columnParts = partsOfColumns(rows, unit, some, width, threads);
    const std::int64_t rowParts = threads / columnParts;
    grow(buffer, panels * kernel.steps(depth) * width);
    pool_.run([&](int thread) {
      packPanels(kernel, b + n0 * bN, bK, bN, depth, some, split(panels, threads, thread),
                 buffer.data());
    });
    pool_.run([&](int thread) {
      if (thread >= rowParts * columnParts) return;
      const Range m = split(rows, rowParts, thread / columnParts, unit);
      const Range n = split(some, columnParts, thread % columnParts, width);
      multiplyPart(variant_, kernel, scratch(thread), w, transposed, m, n, buffer.data(), depth,
                   c + n0 * cN, cM, cN, accumulate);
    });
  }
}

#endif

void serialProduct(const Variant& variant, ProductScratch& scratch, const Matrix& w,
                   bool transposed, const float* b, std::int64_t bK, std::int64_t bN, float* c,
                   std::int64_t cM, std::int64_t cN, std::int64_t columns, bool accumulate) {
  const ExactProduct exact{variant};
  const std::int64_t rows = transposed ? w.columns : w.rows;
  const std::int64_t depth = transposed ? w.rows : w.columns;
  for (std::int64_t n0 = 0; n0 < columns; n0 += kColumns) {
    const std::int64_t some = std::min(kColumns, columns - n0);
    const std::int64_t panels = (some + variant.panelWidth - 1) / variant.panelWidth;
    grow(scratch.panels, panels * depth * variant.panelWidth);
    packPanels(exact, b + n0 * bN, bK, bN, depth, some, {0, panels}, scratch.panels.data());
    multiplyPart(variant, exact, scratch, w, transposed, {0, rows}, {0, some},
                 scratch.panels.data(), depth, c + n0 * cN, cM, cN, accumulate);
  }
}

std::optional<double> bf16Speed() {
  constexpr std::int64_t kSide = 512;
  constexpr int kRounds = 5;
  const Bf16Product* bf16 = bf16Product();
  if (bf16 == nullptr) return std::nullopt;
  const std::vector<float> values(kSide * kSide, 0.5f);
  std::vector<float> y(values.size());
  Matrix w = denseMatrix(values.data(), kSide, kSide);
  w.rounds = true;
  Engine exact(1), rounded(1, kernels(), bf16);
  const auto least = [&](Engine& engine, std::int64_t before) {
    const std::int64_t start = processCpuNanoseconds();
    engine.xWt(w, values.data(), y.data(), kSide);
    return std::min(before, processCpuNanoseconds() - start);
  };
  std::int64_t f32 = INT64_MAX, pairs = INT64_MAX;
  for (int round = 0; round < kRounds; ++round)
    f32 = least(exact, f32), pairs = least(rounded, pairs);
  return static_cast<double>(f32) / static_cast<double>(std::max<std::int64_t>(1, pairs));
}

}  // namespace isopro::kernels
