import type { TierVerdicts } from '../statistics/index.js';
import type { RuleId } from './rules.js';

/**
 * Signals of one module, by the names in its trainee's description. A missing or non-finite member
 * is not a reading.
 */
export type ModuleSignals = { readonly [signal: string]: number | readonly number[] };

/** An optimiser step as the rules see it. Measured before clipping. */
export interface Step {
  /** 1 is the first. */
  readonly step: number;
  readonly learningRate: number;
  readonly loss: number;
  readonly gradNorm: number;
  readonly clipped: boolean;
  /** False if something was not finite; then nothing was changed. */
  readonly applied: boolean;
  /** Names of what was not finite. */
  readonly nonFinite: readonly string[];
  /**
   * Norm of each micro-batch's mean gradient, for the noise scale, and the sizes of those batches.
   */
  readonly microBatchNorms: readonly number[];
  readonly microBatchTokens: readonly number[];
  readonly modules: { readonly [module: string]: ModuleSignals };
}

/** Evaluation on the frozen dev problems. */
export interface HeldOutMeasurement {
  /** Mean over tiers, and the problems with a verdict. */
  readonly passRate: number;
  readonly n: number;
  readonly verdicts: readonly TierVerdicts[];
  /**
   * Verdicts on the same problems in the best state before this iteration; the untrained model
   * counts as a state.
   */
  readonly best: readonly TierVerdicts[];
}

/**
 * One iteration as the rules see it: data, K optimiser steps, an evaluation. All of it is in the
 * metrics stream.
 */
export interface Iteration<S extends Step = Step> {
  readonly iteration: number;
  readonly steps: readonly S[];
  /**
   * Part of the groups of training data that carry a gradient; 0 makes this a no-signal iteration.
   */
  readonly informativeGroupFraction: number;
  /** Train objective in [0, 1], higher is better, with its standard error. */
  readonly objective: { readonly value: number; readonly standardError: number } | null;
  readonly heldOut: HeldOutMeasurement | { readonly loss: number } | null;
  /** Mean KL(new‖old) of an output, nats. */
  readonly kl: number | null;
  /** Trainable parameters of each module. */
  readonly parameters: { readonly [module: string]: number };
  /** Rules whose remedy was executed after this iteration (an effect record is in the log). */
  readonly executed: readonly RuleId[];
}

/** Measurements of an iteration, without what is executed after it. */
export type Measurement<S extends Step = Step> = Omit<Iteration<S>, 'executed'>;
