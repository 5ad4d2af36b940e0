/** Tails and quantiles of the normal distribution and of Student's t. */

const HALF_LN_2PI = 0.9189385332046727;
/**
 * Steps after which a series or a fraction that has not ended counts as a defect; 100 are usual.
 */
const MOST_STEPS = 10_000;

/**
 * P(Z > z) of a standard normal variable, z >= 0: the series of Phi near 0, Laplace's continued
 * fraction in the tail.
 */
export function normalTail(z: number): number {
  if (!(z >= 0)) throw new RangeError(`an upper tail needs z >= 0, got ${z}`);
  const density = Math.exp(-0.5 * z * z - HALF_LN_2PI);
  if (z > 4) {
    let fraction = z;
    for (let k = 200; k >= 1; k--) fraction = z + k / fraction;
    return density / fraction;
  }
  let [term, sum] = [z, z];
  for (let k = 3; term > sum * 1e-18; k += 2) {
    term *= (z * z) / k;
    sum += term;
  }
  return 0.5 - density * sum;
}

/** z >= 0 with P(Z > z) = tail, for 0 < tail <= 1/2. */
export function normalQuantile(tail: number): number {
  requireTail(tail);
  return bisect(normalTail, tail);
}

/** P(T > t) of Student's t with `freedom` degrees of freedom, t >= 0. */
export function studentTail(t: number, freedom: number): number {
  if (!(t >= 0) || !(freedom > 0))
    throw new RangeError(`needs t >= 0 and freedom > 0, got ${t} and ${freedom}`);
  return (
    0.5 *
    incompleteBeta(freedom / (freedom + t * t), (t * t) / (freedom + t * t), 0.5 * freedom, 0.5)
  );
}

/** t >= 0 with P(T > t) = tail, for 0 < tail <= 1/2. */
export function studentQuantile(tail: number, freedom: number): number {
  requireTail(tail);
  return bisect((t) => studentTail(t, freedom), tail);
}

function requireTail(tail: number): void {
  if (!(tail > 0 && tail <= 0.5))
    throw new RangeError(`an upper tail must be in (0, 0.5], got ${tail}`);
}

/**
 * Argument at which a tail that falls from 1/2 to 0 has the given value, to the last significant
 * bit.
 */
function bisect(tail: (at: number) => number, value: number): number {
  let [low, high] = [0, 1];
  while (tail(high) > value && high < Number.MAX_VALUE / 4) [low, high] = [high, 2 * high];
  for (;;) {
    const middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return high;
    if (tail(middle) > value) low = middle;
    else high = middle;
  }
}

/**
 * Regularised incomplete beta function I_x(a, b), by Lentz's evaluation of its continued fraction
 * (Abramowitz and Stegun 26.5.8).
 * @param y 1 - x, given apart because it may be too small to come out of the subtraction
 */
export function incompleteBeta(x: number, y: number, a: number, b: number): number {
  if (x <= 0) return 0;
  if (y <= 0) return 1;
  // the fraction converges fast below the mean of the distribution only
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(y, x, b, a);
  const front =
    Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log(y)) / a;
  const TINY = 1e-300;
  let [c, d] = [1, 1 / (1 - ((a + b) * x) / (a + 1) || TINY)];
  let fraction = d;
  for (let m = 1; m <= MOST_STEPS; m++) {
    const steps = [
      (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)),
      (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1)),
    ];
    let change = 1;
    for (const step of steps) {
      d = 1 / (1 + step * d || TINY);
      c = 1 + step / c || TINY;
      change = c * d;
      fraction *= change;
    }
    if (Math.abs(change - 1) < 1e-16) break;
  }
  return front * fraction;
}

/**
 * ln of the gamma function for x > 0: Stirling's series, after the recurrence has brought x to
 * where it is exact in doubles.
 */
export function logGamma(x: number): number {
  let shift = 0;
  let at = x;
  for (; at < 12; at++) shift += Math.log(at);
  const inverse = 1 / (at * at);
  const series =
    1 / 12 -
    inverse *
      (1 / 360 -
        inverse *
          (1 / 1260 - inverse * (1 / 1680 - inverse * (1 / 1188 - (inverse * 691) / 360360))));
  return (at - 0.5) * Math.log(at) - at + HALF_LN_2PI + series / at - shift;
}
