/** Alpha that each attempt may spend, so that all attempts on a name together stay within alpha. */
import { normalQuantile } from '../statistics/index.js';

/** alpha × 6 / (pi² k²) for the k-th attempt, k >= 1: over all k it adds up to alpha. */
export const inverseSquareAlpha = (alpha: number, attempt: number): number =>
  (alpha * 6) / (Math.PI * attempt) ** 2;

/** alpha (1 - ratio) ratio^(k - 1) for the k-th attempt, k >= 1: over all k it adds up to alpha. */
export const geometricAlpha = (alpha: number, ratio: number, attempt: number): number =>
  alpha * (1 - ratio) * ratio ** (attempt - 1);

/** Two-sided normal threshold of a level, to 12 decimals. */
export const twoSidedThreshold = (level: number): number =>
  Math.round(normalQuantile(level / 2) * 1e12) / 1e12;

/** The fewest blocks that have to be won, all of them, for 2^-blocks <= level; at least 2. */
export const minimumBlocks = (level: number): number => {
  let blocks = 2;
  while (2 ** -blocks > level) blocks++;
  return blocks;
};

/** 2^-1074 is the smallest double above 0. */
export const MOST_BLOCKS = 1074;
