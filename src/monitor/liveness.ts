/**
 * From when a rule can fire. Rules wait for readings: windows, warm-ups, as many in a row as persist. How long that takes together is found
 * by trying: histories that are healthy up to some iteration and as sick as can be from it on, given to the evaluator itself.
 */
import type { ModuleStatistics, StepStatistics } from '../engine/trainer.js';
import { evaluateHistory } from './evaluate-rules.js';
import type { HeldOutMeasurement, Iteration } from './measurements.js';
import type { BreachSide, RuleConfig, RuleId } from './rules.js';

export interface Liveness {
  readonly rule: RuleId;
  readonly criterion: string;
  /** First iteration after which it can fire; null where none of those looked at is. */
  readonly from: number | null;
}

const MODULES = ['a', 'b', 'c', 'd'];
const PROBLEMS = 40;

function step(at: number, stepNumber: number, { r1 }: RuleConfig, change: Sickness): StepStatistics {
  // a rate in the upper half of R1's band, gradients that differ a little, a noise scale of about the batch
  const updateRatio = r1.updateRatioLow ** 0.25 * r1.updateRatioHigh ** 0.75;
  const module: ModuleStatistics = {
    pairGradNorm: 1,
    updateRatio,
    dormantFraction: 0,
    dormantDirections: [],
    rankUse: 0.5,
    ...change.module,
  };
  const modules = Object.fromEntries(MODULES.map((name, i) => [name, i === 0 ? { ...module, ...change.oneModule } : module]));
  return {
    step: stepNumber,
    learningRate: 1e-4,
    tokens: 400,
    loss: 1,
    gradNorm: Math.SQRT2 * (1 + 0.01 * (at % 2)),
    clipped: false,
    applied: true,
    nonFinite: [],
    clipFraction: 0,
    klToReference: 0,
    oldPolicyGap: 0,
    microBatchNorms: [Math.sqrt(3), Math.sqrt(3)],
    microBatchTokens: [200, 200],
    modules,
    ...change.step,
  };
}

interface Sickness {
  readonly module?: Partial<ModuleStatistics>;
  readonly oneModule?: Partial<ModuleStatistics>;
  readonly step?: Partial<StepStatistics>;
  readonly iteration?: Partial<Iteration>;
}

const verdicts = (kind: 'p' | 'f'): HeldOutMeasurement['verdicts'] => [{ weight: 1, verdicts: kind.repeat(PROBLEMS) }];
const lost: HeldOutMeasurement = { passRate: 0, n: PROBLEMS, verdicts: verdicts('f'), best: verdicts('p') };
const still = { objective: { value: 0, standardError: 0 } };

const CRITERIA: readonly { readonly rule: RuleId; readonly criterion: string; readonly side: BreachSide; readonly sick: Sickness }[] = [
  { rule: 'R1', criterion: 'update ratio too high', side: 'high', sick: { module: { updateRatio: 1e6 } } },
  { rule: 'R1', criterion: 'update ratio too low', side: 'low', sick: { module: { updateRatio: 1e-30 } } },
  { rule: 'R1', criterion: 'KL', side: 'high', sick: { iteration: { kl: 1e6 } } },
  { rule: 'R1', criterion: 'plateau', side: 'plateau', sick: { iteration: still } },
  { rule: 'R2', criterion: 'noise scale too high', side: 'high', sick: { step: { gradNorm: 1e-6, microBatchNorms: [1e3, 1e3] } } },
  { rule: 'R2', criterion: 'noise scale too low', side: 'low', sick: { step: { gradNorm: 1e3, microBatchNorms: [1e3, 1e3] } } },
  { rule: 'R3', criterion: 'no gain', side: 'plateau', sick: { iteration: { heldOut: lost } } },
  { rule: 'R4', criterion: 'full and flat', side: 'plateau', sick: { module: { rankUse: 1 }, iteration: still } },
  { rule: 'R5', criterion: 'dormant directions', side: 'high', sick: { oneModule: { dormantFraction: 1 } } },
  { rule: 'R6', criterion: 'vanishing gradient', side: 'low', sick: { oneModule: { pairGradNorm: 1e-30 } } },
  { rule: 'R7', criterion: 'not finite', side: 'nonfinite', sick: { step: { loss: NaN, nonFinite: ['loss'], applied: false } } },
  { rule: 'R7', criterion: 'gradient over its median', side: 'high', sick: { module: { pairGradNorm: 1e9 } } },
  { rule: 'R7', criterion: 'gradient outside its past', side: 'high', sick: { step: { gradNorm: 1e9, microBatchNorms: [2e9, 2e9] } } },
  { rule: 'R7', criterion: 'clipping', side: 'high', sick: { step: { clipped: true } } },
];

function history(config: RuleConfig, length: number, steps: number, onset: number, sick: Sickness): Iteration[] {
  return Array.from({ length }, (_, i): Iteration => {
    const change = i + 1 < onset ? {} : sick;
    return {
      iteration: i + 1,
      steps: Array.from({ length: steps }, (__, k) => step(k, i * steps + k + 1, config, change)),
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
export function liveness(config: RuleConfig, stepsPerIteration: number, within = 40): Liveness[] {
  return CRITERIA.map(({ rule, criterion, side, sick }) => {
    let from: number | null = null;
    // a later onset never fires earlier than the iteration before it
    for (let onset = 1; onset <= (from ?? within); onset++) {
      const evaluations = evaluateHistory(history(config, from ?? within, stepsPerIteration, onset, sick), config);
      const fired = evaluations.find(
        ({ iteration, rules }) => iteration >= onset && rules[rule].fired && rules[rule].side === side,
      )?.iteration;
      if (fired !== undefined && (from === null || fired < from)) from = fired;
    }
    return { rule, criterion, from };
  });
}
