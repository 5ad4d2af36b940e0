// Each kernel's definition, written to be read: plain loops in double. The tests bound the
// difference of the fast variants from these, and check gradients against central differences of
// them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace isopro::kernels::reference {

using Values = std::vector<double>;

// y[t, o] = sum_i x[t, i] w[o, i]; the outputs of a row side by side, since the checks of gradients
// spend their time here
inline Values product(const Values& x, const Values& w, std::size_t tokens, std::size_t inputs,
                      std::size_t outputs) {
  Values byInput(w.size()), y(tokens * outputs);
  for (std::size_t o = 0; o < outputs; ++o) {
    for (std::size_t i = 0; i < inputs; ++i) byInput[i * outputs + o] = w[o * inputs + i];
  }
  for (std::size_t t = 0; t < tokens; ++t) {
    double* row = &y[t * outputs];
    for (std::size_t i = 0; i < inputs; ++i) {
      const double value = x[t * inputs + i];
      const double* weights = &byInput[i * outputs];
      for (std::size_t o = 0; o < outputs; ++o) row[o] += value * weights[o];
    }
  }
  return y;
}

inline float withoutSubnormals(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

// To the nearest bf16, ties to even; subnormal values become zero, NaN stays NaN.
inline float roundToBf16(float value) {
  value = withoutSubnormals(value);
  if (std::isnan(value)) return value;
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

// `product` with operands rounded to bf16, and the sums of f32 as bf16_product.h says: the only
// reference that fixes every bit.
inline std::vector<float> bf16Product(const std::vector<float>& x, const std::vector<float>& w,
                                      std::size_t tokens, std::size_t inputs, std::size_t outputs) {
  std::vector<float> y(tokens * outputs);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t o = 0; o < outputs; ++o) {
      float sum = 0;
      const auto add = [&](std::size_t i) {
        if (i < inputs) {
          sum = withoutSubnormals(
              std::fma(roundToBf16(x[t * inputs + i]), roundToBf16(w[o * inputs + i]), sum));
        }
      };
      for (std::size_t i = 0; i < inputs; i += 2) add(i + 1), add(i);
      y[t * outputs + o] = sum;
    }
  }
  return y;
}

// Rows of `width`: x / sqrt(mean(x^2) + epsilon) * weight
inline Values norm(const Values& x, const Values& weight, double epsilon) {
  const std::size_t width = weight.size();
  Values y(x.size());
  for (std::size_t row = 0; row < x.size(); row += width) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += x[row + i] * x[row + i];
    for (std::size_t i = 0; i < width; ++i) {
      y[row + i] =
          x[row + i] / std::sqrt(squares / static_cast<double>(width) + epsilon) * weight[i];
    }
  }
  return y;
}

inline double silu(double x) { return x / (1 + std::exp(-x)); }

inline double gelu(double x) {
  return x / 2 *
         (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

inline double softCap(double x, double cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }

// log(sum(exp(x)))
inline double logSumExp(const Values& x) {
  double largest = x[0], sum = 0;
  for (const double value : x) largest = std::max(largest, value);
  for (const double value : x) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

// Rotates pair i (first, second) of a head at `position` by position * turns[i].first, and
// lengthens it turns[i].second times.
inline void rotate(double* head, bool halves, double position,
                   const std::vector<std::pair<double, double>>& turns) {
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const double angle = position * turns[i].first, length = turns[i].second;
    double& first = head[halves ? i : 2 * i];
    double& second = head[halves ? i + turns.size() : 2 * i + 1];
    const double x = first, y = second;
    first = length * (x * std::cos(angle) - y * std::sin(angle));
    second = length * (x * std::sin(angle) + y * std::cos(angle));
  }
}

// One head of one sequence: q, k, v [tokens, width]; a token sees itself and the `window` - 1
// before it (0: all before). sink: a score more, whose value is 0.
inline Values attention(const Values& q, const Values& k, const Values& v, std::size_t width,
                        double scale, double cap, std::size_t window,
                        const double* sink = nullptr) {
  const std::size_t tokens = q.size() / width;
  Values out(q.size());
  for (std::size_t t = 0; t < tokens; ++t) {
    const std::size_t first = window == 0 || t + 1 < window ? 0 : t + 1 - window;
    Values scores;
    for (std::size_t s = first; s <= t; ++s) {
      double score = 0;
      for (std::size_t i = 0; i < width; ++i) score += q[t * width + i] * k[s * width + i];
      scores.push_back(softCap(score * scale, cap));
    }
    Values all = scores;
    if (sink != nullptr) all.push_back(*sink);
    const double logZ = logSumExp(all);
    for (std::size_t s = first; s <= t; ++s) {
      for (std::size_t i = 0; i < width; ++i)
        out[t * width + i] += std::exp(scores[s - first] - logZ) * v[s * width + i];
    }
  }
  return out;
}

}  // namespace isopro::kernels::reference
