#include "training/statistics.h"

#include <algorithm>
#include <cmath>

namespace isopro::training {
namespace {

constexpr double kDormant = 0.025;  // Sokar et al. 2023

using Square = std::vector<double>;  // [r, r]

// X YT of two [r, columns] matrices.
Square gram(const float* x, const float* y, std::int64_t r, std::int64_t columns) {
  Square g(static_cast<std::size_t>(r * r));
  for (std::int64_t i = 0; i < r; ++i) {
    for (std::int64_t j = 0; j < r; ++j) {
      // Eight partial sums: a fixed order that the compiler can vectorise.
      double part[8] = {};
      const float* a = x + i * columns;
      const float* b = y + j * columns;
      std::int64_t k = 0;
      for (; k + 8 <= columns; k += 8) {
        for (int l = 0; l < 8; ++l)
          part[l] += static_cast<double>(a[k + l]) * static_cast<double>(b[k + l]);
      }
      double total = 0;
      for (; k < columns; ++k) total += static_cast<double>(a[k]) * static_cast<double>(b[k]);
      for (const double p : part) total += p;
      g[static_cast<std::size_t>(i * r + j)] = total;
    }
  }
  return g;
}

// tr(X YT) for square X, Y.
double trace(const Square& x, const Square& y) {
  double total = 0;
  for (std::size_t i = 0; i < x.size(); ++i) total += x[i] * y[i];
  return total;
}

// Eigenvalues of a symmetric matrix by cyclic Jacobi rotations (Golub and Van Loan, section 8.5).
std::vector<double> eigenvalues(Square a, std::int64_t r) {
  const auto at = [&](std::int64_t i, std::int64_t j) -> double& {
    return a[static_cast<std::size_t>(i * r + j)];
  };
  for (int sweep = 0; sweep < 30; ++sweep) {
    double off = 0, diagonal = 0;
    for (std::int64_t i = 0; i < r; ++i) {
      diagonal += at(i, i) * at(i, i);
      for (std::int64_t j = 0; j < i; ++j) off += at(i, j) * at(i, j);
    }
    if (off <= 1e-28 * diagonal) break;
    for (std::int64_t p = 0; p < r; ++p) {
      for (std::int64_t q = p + 1; q < r; ++q) {
        if (at(p, q) == 0) continue;
        const double theta = (at(q, q) - at(p, p)) / (2 * at(p, q));
        const double t = (theta >= 0 ? 1 : -1) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (std::int64_t k = 0; k < r; ++k) {
          const double x = at(k, p), y = at(k, q);
          at(k, p) = c * x - s * y;
          at(k, q) = s * x + c * y;
        }
        for (std::int64_t k = 0; k < r; ++k) {
          const double x = at(p, k), y = at(q, k);
          at(p, k) = c * x - s * y;
          at(q, k) = s * x + c * y;
        }
      }
    }
  }
  std::vector<double> values(static_cast<std::size_t>(r));
  for (std::int64_t i = 0; i < r; ++i) values[static_cast<std::size_t>(i)] = at(i, i);
  return values;
}

// Lower triangular L with L LT = g, for positive semi-definite g.
Square cholesky(const Square& g, std::int64_t r) {
  Square l(g.size());
  const auto at = [&](std::int64_t i, std::int64_t j) -> double& {
    return l[static_cast<std::size_t>(i * r + j)];
  };
  for (std::int64_t j = 0; j < r; ++j) {
    for (std::int64_t i = j; i < r; ++i) {
      double rest = g[static_cast<std::size_t>(i * r + j)];
      for (std::int64_t k = 0; k < j; ++k) rest -= at(i, k) * at(j, k);
      if (i == j) {
        at(j, j) = std::sqrt(std::max(rest, 0.0));
      } else {
        at(i, j) = at(j, j) > 0 ? rest / at(j, j) : 0.0;
      }
    }
  }
  return l;
}

}  // namespace

bool allFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

double squaredNorm(const std::vector<float>& values) {
  double part[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= values.size(); i += 8) {
    for (std::size_t l = 0; l < 8; ++l)
      part[l] += static_cast<double>(values[i + l]) * static_cast<double>(values[i + l]);
  }
  double total = 0;
  for (; i < values.size(); ++i)
    total += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  for (const double p : part) total += p;
  return total;
}

double frobeniusNorm(Engine& engine, const Matrix& w) {
  std::vector<double> rows(static_cast<std::size_t>(w.rows));
  engine.pool().parallelFor(w.rows, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> row(static_cast<std::size_t>(w.columns));
    for (std::int64_t i = begin; i < end; ++i) {
      kernels::readRow(engine.variant(), w, i, 0, w.columns, row.data());
      rows[static_cast<std::size_t>(i)] = squaredNorm(row);
    }
  });
  double total = 0;
  for (const double row : rows) total += row;
  return std::sqrt(total);
}

// delta(BA) = dB A1 + B0 dA, so ||delta||^2 = <dB dB, A1 A1> + <B0 B0, dA dA> + 2 <B0 dB, dA A1>,
// each a product of two r x r Gram matrices over the columns.
double updateRatio(const Lora& lora, const std::vector<float>& nextA,
                   const std::vector<float>& nextB) {
  const std::int64_t r = lora.rank(), in = lora.a.columns, out = lora.b.columns;
  std::vector<float> dA(nextA.size()), dB(nextB.size());
  for (std::size_t i = 0; i < dA.size(); ++i) dA[i] = nextA[i] - lora.a.value[i];
  for (std::size_t i = 0; i < dB.size(); ++i) dB[i] = nextB[i] - lora.b.value[i];
  const float* a1 = nextA.data();
  const float* b0 = lora.b.value.data();
  const double squared = trace(gram(dB.data(), dB.data(), r, out), gram(a1, a1, r, in)) +
                         trace(gram(b0, b0, r, out), gram(dA.data(), dA.data(), r, in)) +
                         2 * trace(gram(b0, dB.data(), r, out), gram(dA.data(), a1, r, in));
  return lora.baseNorm > 0 ? lora.scale * std::sqrt(std::max(squared, 0.0)) / lora.baseNorm : 0.0;
}

// Singular values of BA: square roots of the eigenvalues of LT (BT B) L with A AT = L LT.
double rankUse(const Parameter& a, const Parameter& b) {
  const std::int64_t r = a.rows;
  const Square l = cholesky(gram(a.value.data(), a.value.data(), r, a.columns), r);
  const Square bb = gram(b.value.data(), b.value.data(), r, b.columns);
  const auto at = [r](std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>(i * r + j);
  };
  Square bl(bb.size()), m(bb.size());
  for (std::int64_t i = 0; i < r; ++i) {
    for (std::int64_t j = 0; j < r; ++j) {
      for (std::int64_t k = 0; k < r; ++k) bl[at(i, j)] += bb[at(i, k)] * l[at(k, j)];
    }
  }
  for (std::int64_t i = 0; i < r; ++i) {
    for (std::int64_t j = 0; j < r; ++j) {
      for (std::int64_t k = 0; k < r; ++k) m[at(i, j)] += l[at(k, i)] * bl[at(k, j)];
    }
  }
  std::vector<double> singular = eigenvalues(std::move(m), r);
  double total = 0;
  for (double& value : singular) total += value = std::sqrt(std::max(value, 0.0));
  if (!(total > 0)) return 0;
  double entropy = 0;
  for (const double value : singular) {
    if (value > 0) entropy -= value / total * std::log(value / total);
  }
  return std::exp(entropy) / static_cast<double>(r);
}

std::vector<std::int64_t> dormantDirections(const Lora& lora) {
  const std::int64_t r = lora.rank();
  if (lora.activityTokens == 0 || static_cast<std::int64_t>(lora.activity.size()) != r) return {};
  std::vector<double> contribution(static_cast<std::size_t>(r));
  double mean = 0;
  for (std::int64_t j = 0; j < r; ++j) {
    const float* row = lora.b.value.data() + j * lora.b.columns;
    const double norm = std::sqrt(squaredNorm(std::vector<float>(row, row + lora.b.columns)));
    contribution[static_cast<std::size_t>(j)] = lora.activity[static_cast<std::size_t>(j)] /
                                                static_cast<double>(lora.activityTokens) * norm;
    mean += contribution[static_cast<std::size_t>(j)] / static_cast<double>(r);
  }
  std::vector<std::int64_t> dormant;
  if (!(mean > 0)) return dormant;
  for (std::int64_t j = 0; j < r; ++j) {
    if (contribution[static_cast<std::size_t>(j)] <= kDormant * mean) dormant.push_back(j);
  }
  return dormant;
}

}  // namespace isopro::training
