/**
 * Whether some answers of a policy make another of its answers more likely to a predictor: answers
 * that hang together do.
 */
import { mean } from '../../statistics/index.js';
import { meanScore, SkipCount, type Groups, type Score } from '../score.js';

/**
 * `uplift`: with the context less without it. `conditional`: with it alone. `judge`: a judge's
 * rating in [0, 1].
 */
export const MUTUAL_SCORINGS = ['uplift', 'conditional', 'judge'] as const;
export type MutualScoring = (typeof MUTUAL_SCORINGS)[number];
/** Whose answer, or who predicts: the policy under evaluation, a random other one, or any. */
export const PARTIES = ['evaluated', 'random-other', 'random-any'] as const;
export type Party = (typeof PARTIES)[number];

export interface MutualConfig {
  readonly predictor: Party;
  readonly predicted: Party;
  /** Which question's answer is predicted. */
  readonly target: 'evaluated-question' | 'random-other' | 'random-any';
  /** Which questions stand before it: the evaluated one, or so many others. */
  readonly context: 'evaluated-question' | 'random-others';
  readonly contextSize: number;
  readonly trials: number;
  readonly scoring: MutualScoring;
  /** Earlier questions with the predicted policy's answers before it all. */
  readonly behaviourExamples: number;
}

export const MUTUAL_DEFAULTS: MutualConfig = {
  predictor: 'random-other',
  predicted: 'evaluated',
  target: 'evaluated-question',
  context: 'random-others',
  contextSize: 3,
  trials: 3,
  scoring: 'uplift',
  behaviourExamples: 0,
};

/** Log-probabilities of the target answer's tokens, nats. */
export interface MutualTrial {
  readonly predictorId: string;
  readonly predictedId: string;
  readonly answer: string;
  readonly contextAnswers: readonly string[];
  readonly conditional: readonly number[];
  readonly base: readonly number[];
}

const sum = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0);

export interface Uplift {
  readonly total: number;
  readonly perToken: number;
}

/**
 * How much likelier the same tokens have become, nats.
 * @throws RangeError where they are not as many, or none
 */
export function uplift(conditional: readonly number[], base: readonly number[]): Uplift {
  if (conditional.length !== base.length || base.length === 0)
    throw new RangeError(
      `the same tokens have to be scored twice, got ${conditional.length} and ${base.length}`,
    );
  const total = sum(conditional) - sum(base);
  return { total, perToken: total / base.length };
}

/** Why a trial says nothing; null where it does. */
export function uselessTrial({
  predictorId,
  predictedId,
  answer,
  contextAnswers,
  conditional,
  base,
}: MutualTrial): string | null {
  if (predictorId === predictedId) return 'the predictor is the predicted policy';
  if (contextAnswers.includes(answer)) return 'the context holds the answer';
  if (conditional.length === 0) return 'the answer has no tokens';
  return [...conditional, ...base].includes(-Infinity)
    ? 'the predictor never says the answer'
    : null;
}

/** Mean over the trials of each trajectory that say something; higher is better. */
export function mutualPredictability(
  trials: ReadonlyMap<string, readonly MutualTrial[]>,
  scoring: Exclude<MutualScoring, 'judge'>,
  groups?: Groups,
): Score {
  const skipped = new SkipCount();
  const perTrajectory = new Map<string, number>();
  for (const [trajectoryId, made] of trials) {
    const values: number[] = [];
    for (const trial of made) {
      const useless = uselessTrial(trial);
      if (useless !== null) skipped.add(useless);
      else
        values.push(
          scoring === 'uplift'
            ? uplift(trial.conditional, trial.base).total
            : sum(trial.conditional),
        );
    }
    if (values.length > 0) perTrajectory.set(trajectoryId, mean(values));
    else skipped.add('no trial counts');
  }
  return meanScore('higher', perTrajectory, skipped, { ...(groups && { groups }) });
}
