import { requireCounts } from './intervals.js';

/**
 * Unbiased pass@k (Chen et al. 2021, arXiv 2107.03374 §2.1): 1 - C(n-c, k) / C(n, k), the chance
 * that at least one of k samples drawn without replacement from the n passes.
 */
export function passAtK(samples: number, passed: number, k: number): number {
  requireCounts(passed, samples);
  if (!Number.isInteger(k) || k < 1 || k > samples)
    throw new RangeError(`needs 1 <= k <= ${samples} samples, got k = ${k}`);
  let allFail = 1;
  for (let i = 0; i < k; i++) allFail *= Math.max(0, samples - passed - i) / (samples - i);
  return 1 - allFail;
}
