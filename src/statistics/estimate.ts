import { given } from '../given.js';
import type { Interval } from './intervals.js';
import { stratifiedBootstrap, type BootstrapOptions, type Stratum } from './paired.js';

export const isEmpty = (strata: readonly Stratum[]): boolean =>
  strata.length === 0 || strata.some(({ values }) => values.length === 0);

/** Number of kept bootstraps: a process may show the same run several times. */
const KEPT = 64;
const bootstraps = new Map<string, Interval & { readonly mean: number }>();

/** Runs `stratifiedBootstrap` on fractions; the mean is null if a stratum is empty. */
export function estimate(
  strata: readonly Stratum[],
  { seed, resamples }: Omit<BootstrapOptions, 'of'>,
): Interval & { readonly mean: number | null } {
  if (isEmpty(strata)) return { mean: null, low: 0, high: 1 };
  const key = `${seed} ${resamples ?? ''} ${strata.map(({ weight, values }) => `${weight}:${values.join()}`).join(' ')}`;
  const known =
    bootstraps.get(key) ??
    stratifiedBootstrap(strata, {
      seed,
      ...given({ resamples }),
      of: 'fractions',
    });
  bootstraps.delete(key);
  bootstraps.set(key, known);
  if (bootstraps.size > KEPT) bootstraps.delete(bootstraps.keys().next().value!);
  return known;
}
