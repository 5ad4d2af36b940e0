/** Context of a running run: its log, its reasoners and its recompute rules. */
import { IsoproError } from '../../errors.js';
import type { Domains } from '../domains/user-domain.js';
import type { TruthConfig } from './config.js';
import type { Answer } from './measure.js';
import type { TruthReasoners } from './reasoners.js';
import type { Setup, TrajectoryRecord } from './records.js';
import type { TruthSession } from './session.js';
import type { TruthState } from './state.js';

export const RECOMPUTE = ['never', 'missing', 'always'] as const;
/** `missing`: what is not there. */
export type Recompute = (typeof RECOMPUTE)[number];

/**
 * Recompute rules of world in the loop. `all`: both parts if either is missing; `investigation`:
 * missing observations only; `uplift`: missing log-probabilities where observations exist;
 * `upliftblanket`: log-probabilities wherever observations exist.
 */
export const WORLD_RECOMPUTE = ['all', 'investigation', 'uplift', 'upliftblanket'] as const;
export type WorldRecompute = (typeof WORLD_RECOMPUTE)[number];

/** Parts of an existing run to recompute. Scores follow from the rest and are always up to date. */
export interface RecomputeRules {
  readonly trajectories: Recompute;
  readonly beliefs: Recompute;
  readonly trials: Recompute;
  readonly world: WorldRecompute;
}
export const RECOMPUTE_DEFAULTS: RecomputeRules = {
  trajectories: 'missing',
  beliefs: 'missing',
  trials: 'missing',
  world: 'all',
};

export const TRUTH_STAGES = ['trajectories', 'beliefs', 'measurements', 'results'] as const;
export interface TruthProgress {
  readonly stage: (typeof TRUTH_STAGES)[number];
  readonly done: number;
  readonly total: number;
}

/** An open run, with its cancellation and progress. */
export interface Open {
  readonly session: TruthSession;
  readonly options: {
    readonly signal?: AbortSignal;
    readonly onProgress?: (progress: TruthProgress) => void;
  };
}

/** An open run with everything needed to work on it. */
export interface Work extends Open {
  readonly config: TruthConfig;
  readonly policies: TruthReasoners;
  /** Domains of the run. */
  readonly domains: Domains;
  readonly recompute: RecomputeRules;
}

export function step(
  { options: { signal, onProgress } }: Open,
  stage: TruthProgress['stage'],
  done: number,
  total: number,
): void {
  if (signal?.aborted === true)
    throw new IsoproError('ABORTED', 'the run was cancelled', { cause: signal.reason });
  onProgress?.({ stage, done, total });
}

export const answerIn = (state: TruthState, { trajectory }: TrajectoryRecord): Answer => ({
  problem: state.problem(trajectory.problemId)!,
  trajectory,
});

/** A trajectory on an unframed problem, with the others of its setup. */
export interface Plain {
  readonly setup: Setup;
  readonly record: TrajectoryRecord;
  readonly answers: readonly Answer[];
}

/** In the order in which they are measured. */
export const plainIn = (state: TruthState): Plain[] =>
  state.setups.flatMap((setup): Plain[] => {
    const records = state.of(setup, 'plain');
    const answers = records.map((record) => answerIn(state, record));
    return records.map((record) => ({ setup, record, answers }));
  });
