/**
 * False and missed stops of R3, on the dev sets and patience that users get. Runs are simulated:
 * each problem has an ability, each adapter adds what it gained and a shake of its own, and a
 * problem passes where the sum is above zero. The shake decides how many problems change sides
 * between two adapters of one accuracy; on the embedded model's default run that are 2 to 8 of 80.
 */
import { evaluateHistory } from '../../src/monitor/evaluate-rules.js';
import { ruleConfig, type RuleConfigInput } from '../../src/monitor/rules.js';
import { LORA, type LoraIteration as Iteration } from '../../src/trainees/lora/trainee.js';
import { Random } from '../../src/random.js';
import { pairedChange, verdictsByTier, type Outcome } from '../../src/statistics/index.js';
import type { Tier } from '../../src/tasks/task.js';
import type { RunSettings } from '../../src/training/settings.js';
import { gaussian } from './rule-history.js';

/** Points of accuracy an iteration gains or loses, and where the base model is. */
export const COURSES = {
  'gains 5 points an iteration': [0.5, 0.05],
  'gains 3 points an iteration': [0.5, 0.03],
  'gains 3 points from 20': [0.2, 0.03],
  'gains 2 points an iteration': [0.5, 0.02],
  'stands still at 50': [0.5, 0],
  'stands still at 20': [0.2, 0],
  'loses 3 points an iteration': [0.5, -0.03],
} as const;
export type Course = keyof typeof COURSES;

/** Shake over the spread of abilities, and what part of the problems changes sides by it. */
export const SHAKES = {
  'few problems change sides (7 %)': 0.15,
  'many change sides (21 %)': 0.5,
} as const;
export type Shake = keyof typeof SHAKES;

/** The normal quantile, by bisection of its distribution (Abramowitz and Stegun 26.2.17). */
function quantile(p: number): number {
  const distribution = (x: number): number => {
    const t = 1 / (1 + 0.2316419 * Math.abs(x));
    const tail =
      (Math.exp(-(x * x) / 2) / Math.sqrt(2 * Math.PI)) *
      t *
      (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
    return x > 0 ? 1 - tail : tail;
  };
  let [low, high] = [-6, 6];
  for (let k = 0; k < 60; k++) {
    const middle = (low + high) / 2;
    if (distribution(middle) < p) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

interface Settings extends Pick<RunSettings, 'iterations'> {
  readonly monitor: Pick<RunSettings['monitor'], 'patience'>;
  readonly evaluation: Pick<RunSettings['evaluation'], 'devSize'>;
}

/** The run as R3 sees it; each evaluation beside the best one before it. */
export function simulatedRun(
  random: Random,
  { iterations, evaluation: { devSize } }: Settings,
  tiers: readonly Tier[],
  course: Course,
  shake: Shake,
): Iteration[] {
  const [start, gain] = COURSES[course];
  const shaken = SHAKES[shake];
  const problems = tiers.flatMap(({ id }) =>
    Array.from({ length: devSize }, () => ({ tier: id, ability: gaussian(random) })),
  );
  const evaluate = (iteration: number): ReturnType<typeof verdictsByTier> => {
    const shift =
      quantile(Math.min(0.999, Math.max(0.001, start + gain * iteration))) *
      Math.sqrt(1 + shaken ** 2);
    const outcomes = problems.map(
      ({ tier, ability }): Outcome => ({
        tier,
        kind: ability + shift + shaken * gaussian(random) > 0 ? 'pass' : 'fail',
      }),
    );
    return verdictsByTier(outcomes, tiers);
  };
  let best = evaluate(0);
  return Array.from({ length: iterations }, (_, i): Iteration => {
    const verdicts = evaluate(i + 1);
    const change = pairedChange(best, verdicts);
    const measured: Iteration = {
      iteration: i + 1,
      steps: [],
      informativeGroupFraction: 1,
      objective: null,
      heldOut: { passRate: change.after, n: problems.length, verdicts, best },
      kl: null,
      parameters: {},
      executed: [],
    };
    if (change.difference >= 0) best = verdicts;
    return measured;
  });
}

/** Part of simulated runs that R3 stops before their last iteration. */
export function stopRate(
  runs: number,
  seed: bigint,
  settings: Settings,
  tiers: readonly Tier[],
  course: Course,
  shake: Shake,
  r3: RuleConfigInput['r3'] = {},
): number {
  const random = new Random(seed);
  const config = ruleConfig.parse({ r3: { patience: settings.monitor.patience, ...r3 } });
  let stopped = 0;
  for (let run = 0; run < runs; run++) {
    const history = simulatedRun(random, settings, tiers, course, shake);
    if (
      evaluateHistory(history.slice(0, -1), config, LORA.ruleSet).some(
        ({ rules }) => rules.R3.fired,
      )
    )
      stopped++;
  }
  return stopped / runs;
}
