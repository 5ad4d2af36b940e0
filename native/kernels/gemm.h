// Products with stored matrices of any ggml type, the only heavy arithmetic of the trainer. Rows x
// [columns of W] lie on the side of W's columns, rows y [rows of W] on that of its rows:
//   xWt  Y[t, r] = sum_c X[t, c] W[r, c]     yW  X[t, c] = sum_r Y[t, r] W[r, c]     addYtX  Z[r,
//   c] += sum_t Y[t, r] X[t, c]
// A linear map takes the first forward, the second for the gradient of its input and the third for
// that of its weight; LoRA's factor B is stored transposed and takes the second forward. The first
// two read the same row-major blocks: a tile is dequantised once and used for up to 512 rows of X
// or dY. ISOPRO_BLAS (set on macOS): through the sgemm of a BLAS instead (blas.cpp).
// docs/training.md, "The product", has the scheme and its cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <ggml.h>

#include "kernels/bf16_product.h"
#include "kernels/variant.h"
#include "support/thread_pool.h"

namespace isopro::kernels {

// A stored matrix [rows, columns], row-major in blocks of its type; not owned.
struct Matrix {
  const void* data = nullptr;
  ggml_type type = GGML_TYPE_F32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::size_t rowBytes = 0;
  // A weight of the model: an engine of lower precision may round it and what it is multiplied
  // with.
  bool rounds = false;

  explicit operator bool() const { return data != nullptr; }
};

// A plain f32 matrix; `stride` floats from a row to the next (0: columns).
Matrix denseMatrix(const float* data, std::int64_t rows, std::int64_t columns,
                   std::int64_t stride = 0);

// Whether values of this type can be read as f32.
bool readable(ggml_type type);

// Columns [begin, end) of one row as f32; begin on a block boundary, end too or the row's end.
void readRow(const Variant& variant, const Matrix& w, std::int64_t row, std::int64_t begin,
             std::int64_t end, float* values);

// Memory for one thread's share of a product.
struct ProductScratch {
  std::vector<float> tile;
  std::vector<Bf16Pair> rounded;  // the tile
  std::vector<float> product;
  std::vector<float> panels;
};

// Threads with their scratch memory. Everything in native/training computes through one of these.
class Engine {
 public:
  // `bf16`, where there is one, multiplies with the matrices that may be rounded.
  explicit Engine(int threads, const Variant& variant = kernels::kernels(),
                  const Bf16Product* bf16 = nullptr);

  const Variant& variant() const { return variant_; }
  ThreadPool& pool() { return pool_; }
  ProductScratch& scratch(int thread) { return scratch_[static_cast<std::size_t>(thread)]; }
  std::size_t scratchBytes() const;

  // y[tokens, w.rows] = or += x[tokens, w.columns] wT.
  void xWt(const Matrix& w, const float* x, float* y, std::int64_t tokens, bool accumulate = false);
  // x[tokens, w.columns] = or += y[tokens, w.rows] w.
  void yW(const Matrix& w, const float* y, float* x, std::int64_t tokens, bool accumulate = false);
  // z[rows, columns] += y[tokens, rows]T x[tokens, columns].
  void addYtX(const float* y, const float* x, float* z, std::int64_t tokens, std::int64_t rows,
              std::int64_t columns);

 private:
  ThreadPool pool_;
  const Variant& variant_;
  const Bf16Product* bf16_;
  std::vector<float> panels_;
  std::vector<Bf16Pair> roundedPanels_;
  std::vector<ProductScratch> scratch_;

  template <typename Body>
  void forPanels(const Matrix& w, Body body);  // blas.cpp
  void product(const Matrix& w, bool transposed, const float* b, std::int64_t bK, std::int64_t bN,
               float* c, std::int64_t cM, std::int64_t cN, std::int64_t columns, bool accumulate);
  bool roundsWith(const Matrix& w) const { return w.rounds && bf16_ != nullptr; }
  template <typename Product, typename Element>
  void productBy(const Product& kernel, std::vector<Element>& buffer, const Matrix& w,
                 bool transposed, const float* b, std::int64_t bK, std::int64_t bN, float* c,
                 std::int64_t cM, std::int64_t cN, std::int64_t columns, bool accumulate);
};

// The same product by one thread, for small dense matrices inside a parallel region (attention):
// c[m * cM + n * cN] = or += sum_k op(w)[m, k] b[k * bK + n * bN].
void serialProduct(const Variant& variant, ProductScratch& scratch, const Matrix& w,
                   bool transposed, const float* b, std::int64_t bK, std::int64_t bN, float* c,
                   std::int64_t cM, std::int64_t cN, std::int64_t columns, bool accumulate);

// How many times as fast as in f32 one thread multiplies in bf16, by the least processor time of a
// few products of 512 x 512 x 512; nothing where it does not. Takes about 50 ms.
std::optional<double> bf16Speed();

}  // namespace isopro::kernels
