/** Measures how far an adapter has moved a model on texts that it was not trained on. */

import { studentQuantile } from './student.js';
import type { Interval } from './intervals.js';

/** All texts of the measure (assets/forgetting). */
export const FORGETTING_SET = { prompts: 200, paragraphs: 32 } as const;

/**
 * Sums of natural log-probabilities of one text's tokens under the base model and under the trained
 * one.
 */
export interface ScoredText {
  readonly tokens: number;
  readonly before: number;
  readonly after: number;
}

export interface MeanPerToken {
  /** Nats a token. */
  readonly mean: number;
  /**
   * Standard error of the mean over texts, because tokens of one text are not independent. Null for
   * a single text.
   */
  readonly standardError: number | null;
  readonly texts: number;
  readonly tokens: number;
}

export interface Forgetting {
  /** Log-probability of held-out English, nats a token. */
  readonly english: { readonly before: number; readonly after: number };
  /** By how much that fell: what was forgotten, nats a token. Negative where it rose. */
  readonly lost: MeanPerToken;
  /**
   * KL(base || trained), nats a token, over what the base model itself says to general prompts.
   * Estimated without bias as the mean of ln p_base(x) - ln p_trained(x) over the tokens x that the
   * base sampled: a Monte Carlo estimate, which may be negative within its error.
   */
  readonly divergence: MeanPerToken | null;
}

/** Student's, of as many freedoms as texts but one; null for a single text. */
export function intervalOfMean({ mean, standardError, texts }: MeanPerToken): Interval | null {
  if (standardError === null) return null;
  const half = studentQuantile(0.025, texts - 1) * standardError;
  return { low: mean - half, high: mean + half };
}

/**
 * Ratio of sums, with the standard error of a ratio estimator over clusters (Cochran 1977, §6.4).
 */
function fallPerToken(texts: readonly ScoredText[]): MeanPerToken {
  const tokens = texts.reduce((sum, text) => sum + text.tokens, 0);
  const mean = texts.reduce((sum, { before, after }) => sum + (before - after), 0) / tokens;
  const n = texts.length;
  const squares = texts.reduce(
    (sum, text) => sum + (text.before - text.after - mean * text.tokens) ** 2,
    0,
  );
  return {
    mean,
    standardError: n === 1 ? null : Math.sqrt((squares * n) / (n - 1)) / tokens,
    texts: n,
    tokens,
  };
}

/**
 * Returns the forgetting over at least one English passage and replies to general prompts; without
 * replies there is no divergence.
 */
export function forgettingOf(
  english: readonly ScoredText[],
  replies: readonly ScoredText[],
): Forgetting {
  const lost = fallPerToken(english);
  const perToken = (of: (text: ScoredText) => number): number =>
    english.reduce((sum, text) => sum + of(text), 0) / lost.tokens;
  return {
    english: { before: perToken(({ before }) => before), after: perToken(({ after }) => after) },
    lost,
    divergence: replies.length === 0 ? null : fallPerToken(replies),
  };
}
