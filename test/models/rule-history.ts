import type { ModuleStatistics, StepStatistics } from '../../src/engine/trainer.js';
import { IsoproError } from '../../src/errors.js';
import type { HeldOutMeasurement } from '../../src/monitor/measurements.js';
import type { Evaluation } from '../../src/monitor/evaluate-rules.js';
import { decide } from '../../src/monitor/policy.js';
import { Random } from '../../src/random.js';
import type { TierVerdicts } from '../../src/statistics/index.js';
import {
  LORA,
  type LoraDecision,
  type LoraIteration as Iteration,
  type LoraPolicy,
  type TrainerSettings,
} from '../../src/trainees/lora/trainee.js';

/** Histories in the shape that the trainer measures; healthy unless a case changes them. */
export const MODULES = ['blk.0.attn_q', 'blk.0.attn_v', 'blk.1.attn_q', 'blk.1.attn_v'];
/** What a policy is told of the trainer. */
export const SETTINGS: TrainerSettings = {
  learningRate: 3e-4,
  batchSize: 16,
  maxBatchSize: 64,
  maxGradNorm: 2,
  epsilon: 1e-8,
  unadapted: [],
  bestAdapter: 'ab'.repeat(32),
  lastSoundAdapter: 'cd'.repeat(32),
  modules: {},
};
export const PARAMETERS = Object.fromEntries(MODULES.map((name) => [name, 4096]));

export function gaussian(random: Random): number {
  return (
    Math.sqrt(-2 * Math.log(1 - random.nextDouble())) * Math.cos(2 * Math.PI * random.nextDouble())
  );
}

export function healthyStep(random: Random, step: number, spread = 0.2): StepStatistics {
  const noisy = (x: number): number => x * Math.exp(spread * gaussian(random));
  const module = (): ModuleStatistics => ({
    pairGradNorm: noisy(0.2),
    updateRatio: noisy(1e-3),
    dormantFraction: Math.max(0, 0.1 + 0.05 * gaussian(random)),
    dormantDirections: [],
    rankUse: Math.min(1, Math.max(0.05, 0.5 + 0.05 * gaussian(random))),
  });
  // signal 0.1 and noise so that the noise scale is about the batch: E‖g_b‖² = |G|² + S/b
  const [signal, noise, tokens, parts] = [0.01, 0.01 * 512, 512, 4];
  const gradNorm = Math.sqrt(signal + noise / tokens) * Math.exp(0.5 * spread * gaussian(random));
  return {
    step,
    learningRate: 2e-4,
    tokens,
    loss: noisy(1),
    gradNorm,
    clipped: false,
    applied: true,
    nonFinite: [],
    clipFraction: 0,
    klToReference: 0,
    oldPolicyGap: 0.01,
    microBatchTokens: Array.from({ length: parts }, () => tokens / parts),
    microBatchNorms: Array.from(
      { length: parts },
      () =>
        Math.sqrt(signal + (noise * parts) / tokens) * Math.exp(0.5 * spread * gaussian(random)),
    ),
    modules: Object.fromEntries(MODULES.map((name) => [name, module()])),
  };
}

/** Verdicts of which the first `count` pass. */
export const passing = (count: number, n = 200): TierVerdicts[] => [
  { weight: 1, verdicts: 'p'.repeat(count) + 'f'.repeat(n - count) },
];

/**
 * An evaluation that passes on so many of 200 problems where the best one before passed on others.
 */
export const heldOut = (passed: number, best: number, n = 200): HeldOutMeasurement => ({
  passRate: passed / n,
  n,
  verdicts: passing(passed, n),
  best: passing(best, n),
});

export function healthyIteration(random: Random, iteration: number, stepsEach = 10): Iteration {
  const rateAt = (n: number): number => Math.min(0.97, 0.1 + 0.06 * n);
  const rate = rateAt(iteration);
  const measured = (n: number): number =>
    Array.from({ length: n }, () => (random.nextDouble() < rate ? 1 : 0) as number).reduce(
      (a, b) => a + b,
      0,
    ) / n;
  const value = measured(336);
  return {
    iteration,
    steps: Array.from({ length: stepsEach }, (_, i) =>
      healthyStep(random, iteration * stepsEach + i),
    ),
    informativeGroupFraction: 0.6,
    objective: { value, standardError: Math.sqrt((value * (1 - value)) / 336) },
    heldOut: heldOut(Math.round(200 * rate), Math.round(200 * rateAt(iteration - 1))),
    kl: 0.005,
    parameters: PARAMETERS,
    executed: [],
  };
}

/** A healthy history whose iterations from `from` on are changed. */
export function history(
  length: number,
  change: (iteration: Iteration, i: number) => Iteration = (iteration) => iteration,
  seed = 1n,
): Iteration[] {
  const random = new Random(seed);
  return Array.from({ length }, (_, i) => change(healthyIteration(random, i), i));
}

export const eachStep = (
  iteration: Iteration,
  change: (step: StepStatistics) => Partial<StepStatistics>,
): Iteration => ({
  ...iteration,
  steps: iteration.steps.map((step) => ({ ...step, ...change(step) })),
});

export const eachModule = (
  iteration: Iteration,
  change: (module: ModuleStatistics, name: string) => Partial<ModuleStatistics>,
): Iteration =>
  eachStep(iteration, (step) => ({
    modules: Object.fromEntries(
      Object.entries(step.modules).map(([name, module]) => [
        name,
        { ...module, ...change(module, name) },
      ]),
    ),
  }));

/** What a policy decides on evaluations alone. */
export async function decided(
  policy: LoraPolicy,
  evaluations: readonly Evaluation[],
  settings: TrainerSettings,
): Promise<readonly LoraDecision[]> {
  const [measurements] = history(1);
  const situation = {
    evaluations,
    settings,
    measurements: measurements!,
    history: [],
    decisions: [],
    playbook: '',
  };
  const { decisions, refused } = await decide(policy, situation, { watched: LORA });
  if (refused !== null) throw new IsoproError(refused.code, refused.reason);
  return decisions;
}
