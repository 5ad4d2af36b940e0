// The products through a BLAS, where there is one that reaches arithmetic which no compiler vector
// does: Accelerate, whose sgemm runs on the matrix units of Apple's processors.
// scripts/test-native.mjs --blas compiles this file against OpenBLAS, which is how it is tested on
// Linux.
//
// Rows of W are dequantised by all threads into a panel of plain f32 that is then multiplied by one
// call, so that the number of threads has no say in any sum; the order of the sums is the
// library's.
#if defined(ISOPRO_BLAS)

#include <algorithm>

#if defined(__APPLE__)
#define ACCELERATE_NEW_LAPACK  // the cblas that is not deprecated
#include <Accelerate/Accelerate.h>
#else
#include <cblas.h>
#endif

#include "kernels/gemm.h"

namespace isopro::kernels {
namespace {

constexpr std::int64_t kPanelFloats = std::int64_t{4} << 20;

// c[m, n] = a b + (accumulate ? c : 0)
void sgemm(CBLAS_TRANSPOSE transposeA, CBLAS_TRANSPOSE transposeB, std::int64_t m, std::int64_t n,
           std::int64_t k, const float* a, std::int64_t strideA, const float* b,
           std::int64_t strideB, bool accumulate, float* c, std::int64_t strideC) {
  cblas_sgemm(CblasRowMajor, transposeA, transposeB, static_cast<int>(m), static_cast<int>(n),
              static_cast<int>(k), 1.0f, a, static_cast<int>(strideA), b, static_cast<int>(strideB),
              accumulate ? 1.0f : 0.0f, c, static_cast<int>(strideC));
}

}  // namespace

// body(first row, rows, f32 values, floats from a row to the next) for consecutive rows of w.
template <typename Body>
void Engine::forPanels(const Matrix& w, Body body) {
  if (w.type == GGML_TYPE_F32) {
    body(std::int64_t{0}, w.rows, static_cast<const float*>(w.data),
         static_cast<std::int64_t>(w.rowBytes / sizeof(float)));
    return;
  }
  const std::int64_t step = std::min(w.rows, std::max<std::int64_t>(1, kPanelFloats / w.columns));
  if (static_cast<std::int64_t>(panels_.size()) < step * w.columns)
    panels_.resize(static_cast<std::size_t>(step * w.columns));
  for (std::int64_t first = 0; first < w.rows; first += step) {
    const std::int64_t rows = std::min(step, w.rows - first);
    pool_.parallelFor(rows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        readRow(variant_, w, first + row, 0, w.columns, panels_.data() + row * w.columns);
    });
    body(first, rows, panels_.data(), w.columns);
  }
}

void Engine::xWt(const Matrix& w, const float* x, float* y, std::int64_t tokens, bool accumulate) {
  forPanels(w, [&](std::int64_t first, std::int64_t rows, const float* panel, std::int64_t stride) {
    sgemm(CblasNoTrans, CblasTrans, tokens, rows, w.columns, x, w.columns, panel, stride,
          accumulate, y + first, w.rows);
  });
}

void Engine::yW(const Matrix& w, const float* y, float* x, std::int64_t tokens, bool accumulate) {
  forPanels(w, [&](std::int64_t first, std::int64_t rows, const float* panel, std::int64_t stride) {
    sgemm(CblasNoTrans, CblasNoTrans, tokens, w.columns, rows, y + first, w.rows, panel, stride,
          accumulate || first > 0, x, w.columns);
  });
}

void Engine::addYtX(const float* y, const float* x, float* z, std::int64_t tokens,
                    std::int64_t rows, std::int64_t columns) {
  sgemm(CblasTrans, CblasNoTrans, rows, columns, tokens, y, rows, x, columns, true, z, columns);
}

}  // namespace isopro::kernels

#endif
