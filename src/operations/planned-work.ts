/** Work of a run as known beforehand, for time estimates. */
import { MAX_USES } from '../algorithms/replay-buffer.js';
import { given } from '../given.js';
import { replaysRollouts, type RunSettings } from '../training/settings.js';

export { forgettingTextCount } from '../evaluation/forgetting.js';

export interface PlannedWork {
  /** Problems of a tier. */
  readonly testSize: number;
  readonly devSize: number;
  /** Rollouts per iteration, and samples per prompt. */
  readonly rollouts: number;
  readonly samples?: number;
  /** Sequences that an iteration trains on, at most. */
  readonly trained?: number;
  /** Limits if the sequences come from rollouts: how often one is used, and which ones are. */
  readonly reuse?: { readonly uses: number; readonly passing: boolean; readonly earlier: boolean };
  /** Replies that are under way at once. */
  readonly together?: number;
  /** General prompts of the measure of forgetting. */
  readonly forgetting?: number;
}

export function plannedWork(settings: RunSettings): PlannedWork {
  const { model, evaluation, sampling, buffer, optimiser } = settings;
  const replays = replaysRollouts(settings);
  const passingOnly = replays && buffer.accept === 'passing';
  return {
    testSize: evaluation.testSize,
    devSize: evaluation.devSize,
    rollouts: sampling.rollouts,
    samples: sampling.samples,
    together: model.maxSequences,
    // the classic buffer has as many as were accepted
    ...(buffer.kind !== 'classic' && {
      trained: optimiser.stepsPerIteration * optimiser.batchSize,
      ...(buffer.accept !== 'references' && {
        reuse: { uses: MAX_USES, passing: passingOnly, earlier: replays && buffer.accumulate },
      }),
    }),
    ...given({ forgetting: evaluation.forgetting }),
  };
}
