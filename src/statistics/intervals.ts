/** Every interval here is a 95 % one, with the customary rounding of the normal quantile (1.95996…). */
export const Z95 = 1.96;

export interface Interval {
  readonly low: number;
  readonly high: number;
}

/** Wilson score interval of a proportion (Wilson 1927); [0, 1] for n = 0. */
export function wilsonInterval(passed: number, n: number): Interval {
  requireCounts(passed, n);
  if (n === 0) return { low: 0, high: 1 };
  const p = passed / n;
  const z2 = Z95 * Z95;
  const centre = (p + z2 / (2 * n)) / (1 + z2 / n);
  const half = (Z95 / (1 + z2 / n)) * Math.sqrt((p * (1 - p)) / n + z2 / (4 * n * n));
  return { low: passed === 0 ? 0 : centre - half, high: passed === n ? 1 : centre + half };
}

/** Normal (Wald) interval of a proportion, for comparison with tables that use it; degenerate at 0 and n. */
export function normalInterval(passed: number, n: number): Interval {
  requireCounts(passed, n);
  if (n === 0) return { low: 0, high: 1 };
  const p = passed / n;
  const half = Z95 * Math.sqrt((p * (1 - p)) / n);
  return { low: p - half, high: p + half };
}

/** Fisher's z interval of a Pearson correlation; [-1, 1] for n <= 3. */
export function fisherInterval(r: number, n: number): Interval {
  if (!(r >= -1 && r <= 1)) throw new RangeError(`a correlation lies in [-1, 1], got ${r}`);
  if (n <= 3) return { low: -1, high: 1 };
  const half = Z95 / Math.sqrt(n - 3);
  return { low: Math.tanh(Math.atanh(r) - half), high: Math.tanh(Math.atanh(r) + half) };
}

/** Quantile of sorted values by linear interpolation (type 7 of Hyndman and Fan 1996). */
export function quantile(sorted: readonly number[], q: number): number {
  if (sorted.length === 0) throw new RangeError('no quantile of nothing');
  const position = (sorted.length - 1) * q;
  const below = Math.floor(position);
  const low = sorted[below]!;
  return low + (position - below) * ((sorted[below + 1] ?? low) - low);
}

export function requireCounts(passed: number, n: number): void {
  if (!Number.isInteger(passed) || !Number.isInteger(n) || passed < 0 || passed > n) throw new RangeError(`needs whole 0 <= passed <= n, got ${passed} of ${n}`);
}
