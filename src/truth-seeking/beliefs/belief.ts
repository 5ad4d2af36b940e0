/** A belief: how probable a policy holds option 0 of a problem, at one place of its reasoning. */

export const BELIEF_SOURCES = ['logprob', 'judge', 'self', 'stated'] as const;
/**
 * `logprob`: read from the model's own probabilities, without sampling. `judge`: stated by another
 * model. `self`: stated by the reasoner when asked. `stated`: stated in the reasoning.
 */
export type BeliefSource = (typeof BELIEF_SOURCES)[number];

export interface Belief {
  /** Probability of option 0, in [0, 1]. */
  readonly p0: number;
  readonly source: BeliefSource;
  /**
   * Standard error over repeated measurements or wordings of the probe; none where it was measured
   * once.
   */
  readonly error?: number;
}

/** Beliefs of one trajectory: before its first step, and after each. */
export interface BeliefPath {
  readonly trajectoryId: string;
  readonly problemId: string;
  readonly beliefs: readonly number[];
  /**
   * Each belief as it was measured, in the same order at every place: by wording, or one repetition
   * after the other.
   */
  readonly measured?: readonly (readonly number[])[];
  /**
   * Group of related problems; paths of one group are not independent observations. Default: the
   * problem itself.
   */
  readonly group?: string;
}

/** Paths of one are not independent of each other. */
export const groupOf = ({ problemId, group }: Pick<BeliefPath, 'problemId' | 'group'>): string =>
  group ?? problemId;

/** On the right side of one half, which is on neither. @param target 1 where option 0 is right */
export const isRight = (belief: number, target: 0 | 1): boolean =>
  target === 1 ? belief > 0.5 : belief < 0.5;

/** log(sum of e^x), without overflow; -Infinity for nothing. */
export function logSumExp(values: readonly number[]): number {
  const top = Math.max(-Infinity, ...values);
  return top === -Infinity
    ? top
    : top + Math.log(values.reduce((sum, value) => sum + Math.exp(value - top), 0));
}

/**
 * P(option 0) of two exclusive options, from the log-probabilities of all surface forms of each
 * after the probe.
 * @returns null where neither option has any probability, or a log-probability is not a number
 */
export function readBelief(option0: readonly number[], option1: readonly number[]): number | null {
  const [l0, l1] = [logSumExp(option0), logSumExp(option1)];
  if (Number.isNaN(l0) || Number.isNaN(l1) || (l0 === -Infinity && l1 === -Infinity)) return null;
  return 1 / (1 + Math.exp(l1 - l0));
}

/**
 * Mean of a belief read with the options in their order, and of one read with the options exchanged
 * and turned back.
 */
export const orderAveraged = (inOrder: number, exchanged: number): number =>
  (inOrder + exchanged) / 2;

/**
 * Mean of one belief under several wordings of the probe, and the standard error of that mean; none
 * for one wording.
 */
export function overWordings(values: readonly number[]): {
  readonly p0: number;
  readonly error?: number;
} {
  const p0 = values.reduce((sum, value) => sum + value, 0) / values.length;
  if (values.length < 2) return { p0 };
  const squares = values.reduce((sum, value) => sum + (value - p0) ** 2, 0);
  return { p0, error: Math.sqrt(squares / (values.length - 1) / values.length) };
}
