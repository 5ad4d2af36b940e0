// What one compilation of variant.cpp offers. The same source is compiled once for each instruction
// set that the platform may have (kernels.cmake); kernels() picks the best one that this processor
// runs.
//
// The matrix product underneath everything is C[m, n] = A[m, k] B[k, n] with
//   A  one tile of weights, dequantised, row stride kTileStride floats, at most kTileRows x
//   kTileColumns; B  packed in panels of panelWidth columns: panel j holds B[0..k, j*panelWidth
//   ...] as [k, panelWidth]; C  row-major scratch.
// Each element of C is summed over k in ascending order by one fused multiply-add a step, whatever
// the blocking.
#pragma once

#include <cstdint>

#include <ggml.h>

namespace isopro::kernels {

constexpr std::int64_t kTileRows = 128;
constexpr std::int64_t kTileColumns =
    256;  // the K-quants' super-block: a tile starts and ends on whole blocks
// 17 cache lines: rows of a tile fall into different cache sets.
constexpr std::int64_t kTileStride = kTileColumns + 16;

struct Variant {
  const char* name;
  std::int64_t panelWidth;

  // C[rows, columns] = tile B, or += where `accumulate`. `tile` is [rows, depth], or [depth, rows]
  // where `transposed`. `panelStride`: floats from a panel to the next.
  void (*multiply)(bool transposed, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                   const float* tile, const float* panels, std::int64_t panelStride, float* c,
                   std::int64_t cStride, bool accumulate);
  // One panel [depth, panelWidth] from b[k * kStride + n * nStride]; columns beyond `columns`
  // become zero. One of the strides is 1, here and below.
  void (*pack)(const float* b, std::int64_t kStride, std::int64_t nStride, std::int64_t depth,
               std::int64_t columns, float* panel);
  // c[m * mStride + n * nStride] = scratch[m * scratchStride + n], or += where `accumulate`.
  void (*unpack)(const float* scratch, std::int64_t scratchStride, std::int64_t rows,
                 std::int64_t columns, float* c, std::int64_t mStride, std::int64_t nStride,
                 bool accumulate);

  // Whole blocks of a type to f32; false where this variant has no code for the type.
  bool (*dequantise)(ggml_type type, const void* blocks, float* values, std::int64_t count);

  // y = x / rms(x) * weight, rms(x) = sqrt(mean(x^2) + epsilon); returns 1 / rms.
  float (*normForward)(const float* x, const float* weight, float* y, std::int64_t width,
                       float epsilon);
  // dx += the gradient through normForward; dWeight (may be null) += dy * x / rms.
  void (*normBackward)(const float* x, const float* weight, float inverseRms, const float* dy,
                       float* dx, float* dWeight, std::int64_t width);

  // Gated activations: h = f(gate) * up, f = silu (swiglu) or the tanh form of gelu (geglu).
  void (*swigluForward)(const float* gate, const float* up, float* h, std::int64_t count);
  void (*swigluBackward)(const float* gate, const float* up, const float* dh, float* dGate,
                         float* dUp, std::int64_t count);
  void (*gegluForward)(const float* gate, const float* up, float* h, std::int64_t count);
  void (*gegluBackward)(const float* gate, const float* up, const float* dh, float* dGate,
                        float* dUp, std::int64_t count);

  // In place, x becomes cap * tanh(x / cap); backward: dy becomes dy * (1 - (y / cap)^2), y the
  // forward's result.
  void (*softCapForward)(float* x, float cap, std::int64_t count);
  void (*softCapBackward)(const float* y, float cap, float* dy, std::int64_t count);

  // In place, x becomes e = exp(z), z = scale * x - shift; returns the sum of e, and in `moment`
  // that of e z.
  float (*exponentials)(float* x, float scale, float shift, std::int64_t count, float* moment);
  float (*largest)(const float* x, std::int64_t count);
  // In place softmax; returns log(sum(exp(x))). Backward: dy becomes y * (dy - sum(y * dy)).
  float (*softmaxForward)(float* x, std::int64_t count);
  void (*softmaxBackward)(const float* y, float* dy, std::int64_t count);

  float (*dot)(const float* x, const float* y, std::int64_t count);

  // y[outputs] += scale * B A x, A [rank, inputs], B transposed: [rank, outputs]; `inner` is
  // scratch of `rank` floats.
  void (*addLowRank)(const float* x, const float* a, const float* bTransposed, float scale,
                     std::int64_t rank, std::int64_t inputs, std::int64_t outputs, float* inner,
                     float* y);
};

const Variant& kernels();

// Every variant that this processor can run, the best one first (tests compare them all with the
// reference).
const Variant* const* runnableVariants();

}  // namespace isopro::kernels
