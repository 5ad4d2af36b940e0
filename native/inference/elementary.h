// Logarithm and exponential whose bits are the same on every processor and with every C library:
// what is drawn and what is logged depends on them. Of sums and products of doubles alone, which
// nothing contracts (CMakeLists.txt).
#pragma once

namespace isopro {

// ln(x), to a unit in the last place; -infinity of 0, NaN of less.
double naturalLogarithm(double x);

// e^x, to a unit in the last place where it is a normal number.
double naturalExponential(double x);

}  // namespace isopro
