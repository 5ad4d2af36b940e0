#include "inference/elementary.h"

#include <cmath>
#include <limits>

namespace isopro {
namespace {

// ln 2 in two parts, the first of which a whole number below 2^20 multiplies exactly.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

}  // namespace

double naturalLogarithm(double x) {
  if (!(x > 0))
    return x == 0 ? -std::numeric_limits<double>::infinity()
                  : std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(x)) return x;
  // x = 2^exponent m, m between the roots of 1/2 and 2; ln m = 2 artanh(f), f = (m - 1) / (m + 1).
  int exponent;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double g = m - 1;
  const double f = g / (g + 2);
  const double square = f * f;
  // The next term is below 2e-18.
  double sum = 1.0 / 23;
  for (int k = 21; k >= 3; k -= 2) sum = sum * square + 1.0 / k;
  // 2 f = g - f g, of which g has no error.
  const double half = 2 * sum * square * f;
  const double e = exponent;
  return e * kLn2High + (g + (half - f * g + e * kLn2Low));
}

double naturalExponential(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.79) return std::numeric_limits<double>::infinity();
  if (x < -745.2) return 0;
  const double n = std::nearbyint(x * 1.4426950408889634);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  // Taylor series; the next term is below 5e-18.
  double sum = 1.0 / 6227020800;
  constexpr double kFactorials[] = {479001600, 39916800, 3628800, 362880, 40320, 5040,
                                    720,       120,      24,      6,      2};
  for (const double factorial : kFactorials) sum = sum * r + 1 / factorial;
  return std::ldexp(1 + (r + r * r * sum), static_cast<int>(n));
}

}  // namespace isopro
