import type { RuleId } from './rules.js';

/** What the trainer measured of one LoRA module in one step (natively, before clipping). */
export interface ModuleStatistics {
  /** √(‖gA‖² + ‖gB‖²). */
  readonly pairGradNorm: number;
  /** s‖Δ(BA)‖/‖W0‖. */
  readonly updateRatio: number;
  /** Directions whose mean contribution is at most 2.5 % of the module's mean. */
  readonly dormantFraction: number;
  /** exp(entropy of the normalised singular values of BA)/rank; 0 while BA = 0. */
  readonly rankUse: number;
}

/** One optimiser step as `src/engine/trainer.ts` reports it; more members may be there. */
export interface StepStatistics {
  readonly step: number;
  readonly learningRate: number;
  readonly tokens: number;
  readonly loss: number;
  readonly gradNorm: number;
  readonly clipped: boolean;
  readonly nonFinite: readonly string[];
  readonly microBatchNorms: readonly number[];
  /** Labelled tokens of each micro-batch; equal shares where it is absent. */
  readonly microBatchTokens?: readonly number[];
  readonly modules: { readonly [name: string]: ModuleStatistics };
}

/** One iteration as the rules see it: rollouts, verdicts, K optimiser steps, an evaluation. All of it stands in the metrics stream. */
export interface Iteration {
  readonly iteration: number;
  readonly steps: readonly StepStatistics[];
  /** Part of the rollout groups that carry a gradient (neither all right nor all wrong); 0 makes this a no-signal iteration. */
  readonly informativeGroupFraction: number;
  /** Train objective in [0, 1], higher is better (hit rate on training problems), with its standard error. */
  readonly objective: { readonly value: number; readonly standardError: number } | null;
  /** On the frozen dev problems. */
  readonly heldOut: { readonly passRate: number; readonly n: number } | { readonly loss: number } | null;
  /** Mean KL(new‖old) per token, nats. */
  readonly kl: number | null;
  /** Trainable parameters of each module. */
  readonly parameters: { readonly [module: string]: number };
  /** Rules whose remedy was executed after this iteration (an effect record is in the log). */
  readonly executed: readonly RuleId[];
}
