// exp and tanh of a vector, to about 2 units in the last place.

inline Vector exponential(Vector x) {
  // Clamped to where 2^n is a normal number; below it the result is 1e-38 instead of a denormal or
  // zero.
  x = select(x < -87.0f, broadcast(-87.0f), x);
  x = select(x > 88.0f, broadcast(88.0f), x);
  // x = n ln 2 + r, |r| <= ln 2 / 2; ln 2 in two parts (Cody and Waite 1980). Adding 1.5 * 2^23
  // rounds to integer.
  const Vector n = (x * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
  Vector r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  // Taylor series to degree 7: the next term is below 2^-26 relative.
  Vector p = r * (1.0f / 5040) + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const IntVector exponent = (__builtin_convertvector(n, IntVector) + 127) << 23;
  return p * reinterpret_cast<Vector>(exponent);
}

inline Vector sigmoid(Vector x) { return 1.0f / (1.0f + exponential(-x)); }

inline Vector hyperbolicTangent(Vector x) {
  const Vector square = x * x;
  // Near zero 1 - 2 / (e^2x + 1) cancels; there the odd Taylor series to x^15 (error below 1e-8 for
  // |x| < 0.45).
  Vector p = square * (-929569.0f / 638512875.0f) + 21844.0f / 6081075;
  p = p * square - 1382.0f / 155925;
  p = p * square + 62.0f / 2835;
  p = p * square - 17.0f / 315;
  p = p * square + 2.0f / 15;
  p = p * square - 1.0f / 3;
  const Vector small = x + x * square * p;
  const Vector large = 1.0f - 2.0f / (exponential(x + x) + 1.0f);
  return select(square < 0.2f, small, large);
}
