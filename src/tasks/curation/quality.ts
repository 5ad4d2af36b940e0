/**
 * What a score says to training: how much an example counts, and what the model is told of how good
 * it is.
 */

const BUCKETS = 5;
/** What is asked for when the model is used. */
export const BEST_QUALITY = BUCKETS - 1;

/** @param score in [0, 1] @returns 0 to 4: a fifth each, 1 in the last */
export const qualityBucket = (score: number): number =>
  Math.min(BEST_QUALITY, Math.max(0, Math.floor(score * BUCKETS)));

/**
 * The line with which an example of a quality is learned, and with which that quality is asked for:
 * the system's message, before any other. One text for training, evaluation and use, or they would
 * not meet.
 */
export const qualityLine = (bucket: number): string =>
  `Target quality: ${bucket} of ${BEST_QUALITY}.`;

export const WEIGHTINGS = ['uniform', 'linear', 'softmax'] as const;
export type Weighting = (typeof WEIGHTINGS)[number];

/** What the worst example counts beside the best, before the mean is made 1. */
const LEAST = 0.1;

/**
 * Factors on the losses of examples, with mean 1: linear from 0.1 at the lowest score to 1 at the
 * highest, or exp((score - highest) / temperature); without a difference between scores all are 1.
 */
export function lossWeights(
  scores: readonly number[],
  weighting: Weighting,
  temperature = 1,
): number[] {
  const [low, high] = scores.reduce(
    ([least, most], score) => [Math.min(least, score), Math.max(most, score)],
    [Infinity, -Infinity],
  );
  if (weighting === 'uniform' || !(low < high)) return scores.map(() => 1);
  const raw = scores.map((score) =>
    weighting === 'linear'
      ? LEAST + ((1 - LEAST) * (score - low)) / (high - low)
      : Math.exp((score - high) / temperature),
  );
  const mean = raw.reduce((sum, each) => sum + each, 0) / raw.length;
  return raw.map((each) => each / mean);
}
