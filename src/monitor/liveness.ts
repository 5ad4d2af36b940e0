/**
 * Finds the first iteration in which a rule can fire. Rules wait for readings: windows, warm-ups,
 * persistence. The combined wait is found by experiment: the evaluator reads histories that are
 * healthy up to some iteration and as sick as possible from then on.
 */
import { evaluateHistory } from './evaluate-rules.js';
import type { HeldOutMeasurement, Iteration, Step } from './measurements.js';
import type { RuleSet } from './rule-set.js';
import type { BreachSide, RuleConfig, RuleId } from './rules.js';

export interface Liveness {
  readonly rule: RuleId;
  readonly criterion: string;
  /** First iteration after which it can fire; null if there is none among those examined. */
  readonly from: number | null;
}

const MODULES = ['a', 'b', 'c', 'd'];
const PROBLEMS = 40;

function step(
  at: number,
  stepNumber: number,
  { r1 }: RuleConfig,
  { signals }: RuleSet,
  sick: Sickness,
): Step {
  // a rate in the upper half of R1's band, gradients that differ a little, a noise scale of about
  // the batch
  const change = r1.updateRatioLow ** 0.25 * r1.updateRatioHigh ** 0.75;
  const healthy: ModuleReadings = { change, gradient: 1, dormancy: 0, capacity: 0.5, begun: 0.5 };
  const moduleOf = (readings: ModuleReadings): Step['modules'][string] =>
    Object.fromEntries(
      Object.entries(signals).flatMap(([kind, signal]) =>
        signal === null ? [] : [[signal, readings[kind as keyof ModuleReadings]]],
      ),
    );
  const all = { ...healthy, ...sick.module };
  const modules = Object.fromEntries(
    MODULES.map((name, i) => [name, moduleOf(i === 0 ? { ...all, ...sick.oneModule } : all)]),
  );
  return {
    step: stepNumber,
    learningRate: 1e-4,
    loss: 1,
    gradNorm: Math.SQRT2 * (1 + 0.01 * (at % 2)),
    clipped: false,
    applied: true,
    nonFinite: [],
    microBatchNorms: [Math.sqrt(3), Math.sqrt(3)],
    microBatchTokens: [200, 200],
    modules,
    ...sick.step,
  };
}

/**
 * Readings of a module's signals by their role in the rules. One signal may have several roles; the
 * last one counts.
 */
type ModuleReadings = Readonly<Record<keyof RuleSet['signals'], number>>;

interface Sickness {
  readonly module?: Partial<ModuleReadings>;
  readonly oneModule?: Partial<ModuleReadings>;
  readonly step?: Partial<Step>;
  readonly iteration?: Partial<Iteration>;
}

const verdicts = (kind: 'p' | 'f'): HeldOutMeasurement['verdicts'] => [
  { weight: 1, verdicts: kind.repeat(PROBLEMS) },
];
const lost: HeldOutMeasurement = {
  passRate: 0,
  n: PROBLEMS,
  verdicts: verdicts('f'),
  best: verdicts('p'),
};
const still = { objective: { value: 0, standardError: 0 } };

const CRITERIA: readonly (readonly [RuleId, string, BreachSide, Sickness])[] = [
  ['R1', 'update ratio too high', 'high', { module: { change: 1e6 } }],
  ['R1', 'update ratio too low', 'low', { module: { change: 1e-30 } }],
  ['R1', 'KL', 'high', { iteration: { kl: 1e6 } }],
  ['R1', 'plateau', 'plateau', { iteration: still }],
  ['R2', 'noise scale too high', 'high', { step: { gradNorm: 1e-6, microBatchNorms: [1e3, 1e3] } }],
  ['R2', 'noise scale too low', 'low', { step: { gradNorm: 1e3, microBatchNorms: [1e3, 1e3] } }],
  ['R3', 'no gain', 'plateau', { iteration: { heldOut: lost } }],
  ['R4', 'full and flat', 'plateau', { module: { capacity: 1, begun: 1 }, iteration: still }],
  ['R5', 'dormant directions', 'high', { oneModule: { dormancy: 1 } }],
  ['R6', 'vanishing gradient', 'low', { oneModule: { gradient: 1e-30 } }],
  ['R7', 'not finite', 'nonfinite', { step: { loss: NaN, nonFinite: ['loss'], applied: false } }],
  ['R7', 'gradient over its median', 'high', { module: { gradient: 1e9 } }],
  [
    'R7',
    'gradient outside its past',
    'high',
    { step: { gradNorm: 1e9, microBatchNorms: [2e9, 2e9] } },
  ],
  ['R7', 'clipping', 'high', { step: { clipped: true } }],
];

function history(
  config: RuleConfig,
  ruleSet: RuleSet,
  length: number,
  steps: number,
  onset: number,
  sick: Sickness,
): Iteration[] {
  return Array.from({ length }, (_, i): Iteration => {
    const change = i + 1 < onset ? {} : sick;
    return {
      iteration: i + 1,
      steps: Array.from({ length: steps }, (__, k) =>
        step(k, i * steps + k + 1, config, ruleSet, change),
      ),
      informativeGroupFraction: 1,
      heldOut: null,
      kl: null,
      objective: { value: 0.01 * (i + 1), standardError: 0 },
      parameters: Object.fromEntries(MODULES.map((name) => [name, 1])),
      executed: [],
      ...change.iteration,
    };
  });
}

/** @param within iterations that are looked at */
export function liveness(
  config: RuleConfig,
  ruleSet: RuleSet,
  stepsPerIteration: number,
  within = 40,
): Liveness[] {
  return CRITERIA.map(([rule, criterion, side, sick]) => {
    let from: number | null = null;
    // a later onset never fires earlier than the iteration before it
    for (let onset = 1; onset <= (from ?? within); onset++) {
      const evaluations = evaluateHistory(
        history(config, ruleSet, from ?? within, stepsPerIteration, onset, sick),
        config,
        ruleSet,
      );
      const fired = evaluations.find(
        ({ iteration, rules }) =>
          iteration >= onset && rules[rule].fired && rules[rule].side === side,
      )?.iteration;
      if (fired !== undefined && (from === null || fired < from)) from = fired;
    }
    return { rule, criterion, from };
  });
}
