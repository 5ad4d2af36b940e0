/**
 * Selects training data from scored trajectories: the best of each file, as examples or as few-shot
 * turns.
 */
import { z } from 'zod';
import { checked } from '../../engine/argument-check.js';
import { IsoproError } from '../../errors.js';
import { Random } from '../../random.js';
import type { TrajectoryScores } from '../analysis/trajectory-score.js';
import type { TrainingSample } from '../modes/reason.js';
import type { Message } from '../reasoner.js';
import type { Option } from '../problem.js';
import { endsRight, fewShotCounts, ranked, selectTop, validationSize } from './selection.js';

/**
 * `train`: kept apart by lot. `gt`: first only trajectories that end on the right side of one half,
 * then as `train`.
 */
export const VALIDATIONS = ['none', 'train', 'gt'] as const;

export const selectConfig = z.strictObject({
  /** Part of each file that is trained on, rounded down. */
  part: z.number().gt(0).max(1).default(0.1),
  validation: z.enum(VALIDATIONS).default('none'),
  seed: z.bigint().min(0n).default(0n),
});
export type SelectConfig = z.input<typeof selectConfig>;

/** Data of a trajectory in addition to its score. */
export interface Selectable {
  readonly samples: readonly TrainingSample[];
  /** The belief after its last step; null where it could not be read. */
  readonly eventual: number | null;
  readonly correctOption: Option | null;
}

export interface TrainingSelection {
  readonly training: readonly TrainingSample[];
  readonly validation: readonly TrainingSample[];
  /** Ids of the trajectories, file by file, best first. */
  readonly selected: readonly string[];
  /** Trajectories that `gt` took out before anything was selected. */
  readonly notRight: number;
}

/** @throws IsoproError INVALID_ARGUMENT for a score of an unknown trajectory */
const known = (id: string, of: (trajectoryId: string) => Selectable | null): Selectable => {
  const found = of(id);
  if (found === null)
    throw new IsoproError('INVALID_ARGUMENT', `scores: unknown trajectory ${id.slice(0, 12)}`);
  return found;
};

/**
 * Selects the best of each file separately, because scores of different files cannot be compared.
 * Samples of one trajectory stay on one side of the split.
 * @throws IsoproError INVALID_ARGUMENT for a wrong option, where a trajectory is not there, or
 *   nothing is selected
 */
export function selectForTraining(
  files: readonly TrajectoryScores[],
  of: (trajectoryId: string) => Selectable | null,
  given: SelectConfig = {},
): TrainingSelection {
  const { part, validation, seed } = checked(selectConfig, given, 'options');
  let notRight = 0;
  const chosen = files.flatMap(({ direction, scores }) => {
    const eligible = scores.filter(({ trajectoryId }) => {
      const { eventual, correctOption } = known(trajectoryId, of);
      const kept = validation !== 'gt' || (eventual !== null && endsRight(eventual, correctOption));
      if (!kept) notRight++;
      return kept;
    });
    return selectTop(eligible, part, direction).map(({ trajectoryId }) => trajectoryId);
  });
  if (chosen.length === 0)
    throw new IsoproError('INVALID_ARGUMENT', `part ${part}: too few trajectories to select any`);
  const held = new Set(
    validation === 'none'
      ? []
      : new Random(seed).shuffle(chosen).slice(0, validationSize(chosen.length)),
  );
  const samplesOf = (ids: readonly string[]): TrainingSample[] =>
    ids.flatMap((id) => known(id, of).samples);
  return {
    training: samplesOf(chosen.filter((id) => !held.has(id))),
    validation: samplesOf(chosen.filter((id) => held.has(id))),
    selected: chosen,
    notRight,
  };
}

/**
 * Selects few-shot turns: from each file its share of `count`, one random sample per trajectory.
 * @throws IsoproError INVALID_ARGUMENT where a trajectory is not there
 */
export function selectFewShot(
  files: readonly TrajectoryScores[],
  of: (trajectoryId: string) => Selectable | null,
  {
    count = 100,
    part = 0.1,
    seed = 0n,
  }: { readonly count?: number; readonly part?: number; readonly seed?: bigint } = {},
): Message[] {
  const random = new Random(seed);
  const counts = fewShotCounts(
    files.map(({ scores }) => scores.length),
    count,
    part,
  );
  return files.flatMap(({ direction, scores }, i) => {
    const best = ranked(scores, direction, ({ score }) => score);
    return best.slice(0, counts[i]).flatMap(({ trajectoryId }): Message[] => {
      const { samples } = known(trajectoryId, of);
      if (samples.length === 0) return [];
      const { history, output } = samples[random.nextInteger(0, samples.length - 1)]!;
      return [
        ...history.filter(({ role }) => role !== 'system'),
        { role: 'assistant', content: output },
      ];
    });
  });
}

/** A row that `train --data` reads. */
export const trainingRow = ({
  history,
  output,
}: TrainingSample): { readonly messages: readonly Message[] } => ({
  messages: [...history, { role: 'assistant', content: output }],
});
