import type { StepStatistics } from '../engine/trainer.js';
import type { TierVerdicts } from '../statistics/index.js';
import type { RuleId } from './rules.js';

export type { ModuleStatistics, StepStatistics } from '../engine/trainer.js';

/** On the frozen dev problems. */
export interface HeldOutMeasurement {
  /** Mean over tiers, and the problems with a verdict. */
  readonly passRate: number;
  readonly n: number;
  readonly verdicts: readonly TierVerdicts[];
  /** The same problems under the best adapter before this iteration; the base model counts as one. */
  readonly best: readonly TierVerdicts[];
}

/** One iteration as the rules see it: rollouts, verdicts, K optimiser steps, an evaluation. All of it stands in the metrics stream. */
export interface Iteration {
  readonly iteration: number;
  readonly steps: readonly StepStatistics[];
  /** Part of the rollout groups that carry a gradient (neither all right nor all wrong); 0 makes this a no-signal iteration. */
  readonly informativeGroupFraction: number;
  /** Train objective in [0, 1], higher is better (hit rate on training problems), with its standard error. */
  readonly objective: { readonly value: number; readonly standardError: number } | null;
  readonly heldOut: HeldOutMeasurement | { readonly loss: number } | null;
  /** Mean KL(new‖old) per token, nats. */
  readonly kl: number | null;
  /** Trainable parameters of each module. */
  readonly parameters: { readonly [module: string]: number };
  /** Rules whose remedy was executed after this iteration (an effect record is in the log). */
  readonly executed: readonly RuleId[];
}
