/** Claims of an analysis about differences, adjusted for the number of tests. */
import { z } from 'zod';
import { holm, studentQuantile } from '../../statistics/index.js';
import type { Tested } from '../../statistics/regression.js';

/**
 * `effect` only where what differs was assigned, not found: the same questions in the same way
 * under each. Else it is an `association`.
 */
export const claimSchema = z.enum(['effect', 'association']);
export type Claim = z.output<typeof claimSchema>;

/**
 * An estimate with its 95 % interval; p is of its being 0, `adjusted` by Holm's method over all
 * tests of a result, where it is one.
 */
export const estimateSchema = z.strictObject({
  value: z.number(),
  low: z.number().nullable(),
  high: z.number().nullable(),
  p: z.number().min(0).max(1).nullable(),
  adjusted: z.number().min(0).max(1).nullable(),
});
export type Estimate = z.output<typeof estimateSchema>;

/**
 * Without adjustment. No interval where too little was measured for an error, or all of it is alike
 * and not 0, which proves nothing.
 */
export function estimateOf(
  value: number,
  test: Pick<Tested, 'error' | 'freedom' | 'p'> | null,
): Estimate {
  if (test === null || (test.error === 0 && value !== 0))
    return { value, low: null, high: null, p: null, adjusted: null };
  const half = studentQuantile(0.025, test.freedom) * test.error;
  return { value, low: value - half, high: value + half, p: test.p, adjusted: null };
}

/**
 * Estimate for several tests that must hold together: the greatest p, and the widest interval,
 * which excludes 0 if that p is below 0.05.
 */
export function estimateOfAll(
  value: number,
  tests: readonly Pick<Tested, 'error' | 'freedom' | 'p'>[] | null,
): Estimate {
  const all = (tests ?? []).map((test) => estimateOf(value, test)).filter(({ p }) => p !== null);
  if (all.length === 0) return estimateOf(value, null);
  return {
    value,
    low: Math.min(...all.map(({ low }) => low!)),
    high: Math.max(...all.map(({ high }) => high!)),
    p: Math.max(...all.map(({ p }) => p!)),
    adjusted: null,
  };
}

export const multiplicitySchema = z.strictObject({
  method: z.literal('Holm 1979'),
  /** Tests that share the 5 %. */
  tests: z.int().min(0),
  note: z.string(),
});
export type Multiplicity = z.output<typeof multiplicitySchema>;

export const multiplicity = (tests: number): Multiplicity => ({
  method: 'Holm 1979',
  tests,
  note:
    tests < 2
      ? 'at most one test, so nothing is adjusted'
      : `${tests} tests: p values are adjusted for a 5 % chance of any false finding; intervals are not adjusted`,
});

/** Adjusts p values by Holm's method; null stays null and does not count as a test. */
export function adjusted(pValues: readonly (number | null)[]): {
  readonly adjusted: (number | null)[];
  readonly multiplicity: Multiplicity;
} {
  const tests = pValues.filter((p) => p !== null);
  const found = holm(tests);
  let next = 0;
  return {
    adjusted: pValues.map((p) => (p === null ? null : found[next++]!)),
    multiplicity: multiplicity(tests.length),
  };
}
