/**
 * Measures whether some answers of a reasoner make another of its answers more likely to a
 * predictor, as consistent answers do.
 */
import { given } from '../../given.js';
import { mean } from '../../statistics/index.js';
import { meanScore, SkipCount, type Groups, type Score } from '../score.js';

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
 * Increase of the log-probability of the same tokens, nats.
 * @throws RangeError where they are not as many, or none
 */
export function uplift(conditional: readonly number[], base: readonly number[]): Uplift {
  if (conditional.length !== base.length || base.length === 0)
    throw new RangeError(
      `expected equally many scores with and without context, got ${conditional.length} and ${base.length}`,
    );
  const total = sum(conditional) - sum(base);
  return { total, perToken: total / base.length };
}

/** Reason why a trial does not count; null if it does. */
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
  scoring: 'uplift' | 'conditional',
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
  return meanScore('higher', perTrajectory, skipped, given({ groups }));
}
