// Products with the pairs of LoRA (LowRankProducts), part of block_product.cpp.

// Vectors of kMostLanes numbers.
constexpr int kVectors = kMostLanes / kLanes;

template <int kRows>
void widenRows(const float* lanes, std::int64_t rank, const float* x, float* y,
               std::int64_t yStride) {
  Floats sums[kRows][kVectors];
  for (auto& row : sums) {
    for (Floats& sum : row) sum = all(0.0f);
  }
  for (std::int64_t k = 0; k < rank; ++k) {
    for (int v = 0; v < kVectors; ++v) {
      const Floats weights = load(lanes + k * kMostLanes + v * kLanes);
      for (int row = 0; row < kRows; ++row)
        sums[row][v] = fused(all(x[row * rank + k]), weights, sums[row][v]);
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int v = 0; v < kVectors; ++v) store(y + row * yStride + v * kLanes, sums[row][v]);
  }
}

void widen(const float* b, std::int64_t rank, const float* x, std::int64_t rows, float* y,
           std::int64_t yStride) {
  alignas(64) float lanes[kMostRank * kMostLanes];
  for (std::int64_t i = 0; i < kMostLanes; ++i) {
    for (std::int64_t k = 0; k < rank; ++k) lanes[k * kMostLanes + i] = b[i * rank + k];
  }
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4)
    widenRows<4>(lanes, rank, x + row * rank, y + row * yStride, yStride);
  for (; row < rows; ++row) widenRows<1>(lanes, rank, x + row * rank, y + row * yStride, yStride);
}

template <int kRows>
void narrowRows(const float* a, std::int64_t rank, std::int64_t inputs, const float* x, float* y) {
  for (std::int64_t k = 0; k < rank; ++k, a += inputs) {
    Floats sums[kRows][kVectors];
    for (auto& row : sums) {
      for (Floats& sum : row) sum = all(0.0f);
    }
    for (std::int64_t i = 0; i < inputs; i += kMostLanes) {
      for (int v = 0; v < kVectors; ++v) {
        const Floats weights = load(a + i + v * kLanes);
        for (int row = 0; row < kRows; ++row)
          sums[row][v] = fused(load(x + row * inputs + i + v * kLanes), weights, sums[row][v]);
      }
    }
    for (int row = 0; row < kRows; ++row) {
      alignas(64) float each[kMostLanes];
      for (int v = 0; v < kVectors; ++v) store(each + v * kLanes, sums[row][v]);
      for (std::int64_t half = kMostLanes / 2; half > 0; half /= 2) {
        for (std::int64_t i = 0; i < half; ++i) each[i] += each[half + i];
      }
      y[row * rank + k] = each[0];
    }
  }
}

void narrow(const float* a, std::int64_t rank, std::int64_t inputs, const float* x,
            std::int64_t rows, float* y) {
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4)
    narrowRows<4>(a, rank, inputs, x + row * inputs, y + row * rank);
  for (; row < rows; ++row) narrowRows<1>(a, rank, inputs, x + row * inputs, y + row * rank);
}
