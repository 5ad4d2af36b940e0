// Products with the pairs of LoRA (LowRankProducts), part of block_product.cpp.

// Vectors of kMostLanes numbers.
constexpr int kVectors = kMostLanes / kLanes;

// Ranks whose lanes stay in a core's first cache.
constexpr std::int64_t kRanksAtOnce = 64;

// y = B x of `some` ranks, or y += where `accumulates`.
template <int kRows>
void widenRows(const float* lanes, std::int64_t some, const float* x, std::int64_t rank, float* y,
               std::int64_t yStride, bool accumulates) {
  Floats sums[kRows][kVectors];
  for (int row = 0; row < kRows; ++row) {
    for (int v = 0; v < kVectors; ++v)
      sums[row][v] = accumulates ? load(y + row * yStride + v * kLanes) : all(0.0f);
  }
  for (std::int64_t k = 0; k < some; ++k) {
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
  alignas(64) float lanes[kRanksAtOnce * kMostLanes];
  for (std::int64_t from = 0; from < rank; from += kRanksAtOnce) {
    const std::int64_t some = rank - from < kRanksAtOnce ? rank - from : kRanksAtOnce;
    for (std::int64_t i = 0; i < kMostLanes; ++i) {
      for (std::int64_t k = 0; k < some; ++k) lanes[k * kMostLanes + i] = b[i * rank + from + k];
    }
    std::int64_t row = 0;
    for (; row + 4 <= rows; row += 4)
      widenRows<4>(lanes, some, x + row * rank + from, rank, y + row * yStride, yStride, from > 0);
    for (; row < rows; ++row)
      widenRows<1>(lanes, some, x + row * rank + from, rank, y + row * yStride, yStride, from > 0);
  }
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

void add(const float* x, const float* a, const float* bTransposed, float scale, std::int64_t rank,
         std::int64_t inputs, std::int64_t outputs, float* inner, float* y) {
  const std::int64_t whole = inputs / kMostLanes * kMostLanes;
  for (std::int64_t k = 0; k < rank; ++k, a += inputs) {
    // As narrowRows; what is behind the last whole part is followed by zeros.
    Floats sums[kVectors];
    for (Floats& sum : sums) sum = all(0.0f);
    for (std::int64_t i = 0; i < whole; i += kMostLanes) {
      for (int v = 0; v < kVectors; ++v)
        sums[v] = fused(load(x + i + v * kLanes), load(a + i + v * kLanes), sums[v]);
    }
    alignas(64) float each[kMostLanes];
    for (int v = 0; v < kVectors; ++v) store(each + v * kLanes, sums[v]);
    for (std::int64_t i = whole; i < inputs; ++i)
      each[i - whole] = __builtin_fmaf(x[i], a[i], each[i - whole]);
    for (std::int64_t half = kMostLanes / 2; half > 0; half /= 2) {
      for (std::int64_t i = 0; i < half; ++i) each[i] += each[half + i];
    }
    inner[k] = each[0];
  }
  std::int64_t o = 0;
  for (; o + kLanes <= outputs; o += kLanes) {
    Floats sum = all(0.0f);
    for (std::int64_t k = 0; k < rank; ++k)
      sum = fused(all(inner[k]), load(bTransposed + k * outputs + o), sum);
    store(y + o, load(y + o) + multiplied(sum, all(scale)));
  }
  for (; o < outputs; ++o) {
    float sum = 0;
    for (std::int64_t k = 0; k < rank; ++k)
      sum = __builtin_fmaf(inner[k], bTransposed[k * outputs + o], sum);
    y[o] += sum * scale;
  }
}
