/**
 * False and missed alarms of the rules on tiny training runs. Runs are measured once, without
 * remedies; since the rules are a pure function of what was measured, every configuration is then
 * tried on the same runs.
 */
import { evaluateHistory } from '../../src/monitor/evaluate-rules.js';
import { observe } from '../../src/monitor/policy.js';
import {
  type BreachSide,
  DEFAULT_RULES,
  ruleConfig,
  type RuleConfig,
  type RuleId,
  RULES,
} from '../../src/monitor/rules.js';
import { scripted } from '../../src/trainees/lora/scripted.js';
import { LORA, type LoraIteration as Iteration } from '../../src/trainees/lora/trainee.js';
import type { LoraReport as MonitorReport } from '../../src/training/monitor-session.js';
import { Random } from '../../src/random.js';
import { monitoredRun, type MonitoredRunOptions } from '../../src/harness/monitored-run.js';
import { SCENARIOS, usualOptions } from '../../src/harness/scenarios.js';

/** Scenarios that came later than docs/monitor-calibration.json. */
const LATER = ['policy-shift', 'labels-spoilt', 'bound-lowered'];
/** What docs/monitor-calibration.json was measured on. */
const CALIBRATED = SCENARIOS.filter(({ id }) => !LATER.includes(id));

/** What the three numbers of our own judgement may be. */
export const CANDIDATES = {
  rankUse: [0.7, 0.75, 0.8, 0.85, 0.9],
  relativeGradientLow: [1e-4, 3e-4, 1e-3, 3e-3, 1e-2],
  objectiveTarget: [0.8, 0.85, 0.9, 0.95, 0.98],
} as const;
export type Judgement = { readonly [name in keyof typeof CANDIDATES]: number };

export const configOf = ({
  rankUse,
  relativeGradientLow,
  objectiveTarget,
}: Judgement): RuleConfig =>
  ruleConfig.parse({ r4: { rankUse }, r6: { relativeGradientLow }, objectiveTarget });
export const DEFAULT_JUDGEMENT: Judgement = {
  rankUse: DEFAULT_RULES.r4.rankUse,
  relativeGradientLow: DEFAULT_RULES.r6.relativeGradientLow,
  objectiveTarget: DEFAULT_RULES.objectiveTarget,
};

export interface MeasuredRun {
  /** Null: healthy. */
  readonly sick: RuleId | null;
  readonly name: string;
  readonly seed: bigint;
  readonly history: readonly Iteration[];
}

const pick = <T>(random: Random, values: readonly T[]): T =>
  values[random.nextInteger(0, values.length - 1)] as T;

/**
 * A run that learns all the way to its goal: rate, rank, batch, task and the kind of held-out
 * evaluation vary with the seed.
 */
export function healthyOptions(seed: bigint): Partial<MonitoredRunOptions> {
  const random = new Random(seed ^ 0x4ea1n);
  return {
    learningRate: pick(random, [1e-3, 1.25e-3, 1.5e-3]),
    lora: { rank: pick(random, [4, 8]), alpha: 16 },
    batchSize: pick(random, [16, 24, 32]),
    symbols: pick(random, [20, 24, 28]),
    heldOut: pick(random, ['loss', 'passRate'] as const),
    noise: 0,
    stepsEach: 12,
    iterations: 24,
    until: 0.9,
  };
}

export async function measureHealthy(seed: bigint): Promise<MeasuredRun> {
  const { session } = await monitoredRun({
    seed,
    rules: DEFAULT_RULES,
    policy: observe,
    ...healthyOptions(seed),
  });
  return { sick: null, name: 'healthy', seed, history: session.history };
}

/** One sick run of each kind. */
export async function measureSick(seed: bigint): Promise<MeasuredRun[]> {
  const runs: MeasuredRun[] = [];
  for (const scenario of CALIBRATED) {
    const { session } = await monitoredRun({
      rules: DEFAULT_RULES,
      policy: observe,
      ...usualOptions(scenario),
      seed,
    });
    const { name, rule } = scenario;
    runs.push({ sick: rule, name, seed, history: session.history });
  }
  return runs;
}

/** What the scripted policy's remedies did for one sick run. */
export interface Treated {
  readonly name: string;
  readonly rule: RuleId;
  readonly seed: bigint;
  /** On the side that the case is of. */
  readonly fired: boolean;
  /** Each operation that answered the rule was carried out, and there was one. */
  readonly executed: boolean;
  /**
   * Executed, and the rule was silent from the last of them on, for two iterations at least; R3:
   * the run ended with the state that it named.
   */
  readonly settled: boolean;
}

/** One sick run of each kind with remedies, as it is drawn. */
export async function treatSick(seed: bigint): Promise<Treated[]> {
  const treated: Treated[] = [];
  for (const scenario of CALIBRATED) {
    const { reports, stopped } = await monitoredRun({
      rules: DEFAULT_RULES,
      policy: scripted,
      ...usualOptions(scenario),
      seed,
    });
    const { name, rule, side } = scenario;
    treated.push({ name, rule, seed, ...outcomeOf(reports, rule, side, stopped) });
  }
  return treated;
}

export function outcomeOf(
  reports: readonly MonitorReport[],
  rule: RuleId,
  side: BreachSide,
  stopped: boolean,
): Pick<Treated, 'fired' | 'executed' | 'settled'> {
  const effects = reports.map((report) => report.effects.filter((effect) => effect.rule === rule));
  const executed = effects.flat().length > 0 && effects.flat().every((effect) => effect.executed);
  const after = reports.slice(effects.findLastIndex((own) => own.length > 0) + 1);
  const quiet =
    rule === 'R3'
      ? stopped
      : after.length >= 2 && after.every(({ evaluation }) => !evaluation.rules[rule].fired);
  return {
    fired: reports.some(({ evaluation }) => evaluation.rules[rule].side === side),
    executed,
    settled: executed && quiet,
  };
}

/** Counts by cause. */
export function treatmentRates(
  treated: readonly Treated[],
): Record<string, { runs: number; fired: number; executed: number; settled: number }> {
  const rates: Record<string, { runs: number; fired: number; executed: number; settled: number }> =
    {};
  for (const { name, rule, fired, executed, settled } of treated) {
    const of = (rates[`${rule}: ${name}`] ??= { runs: 0, fired: 0, executed: 0, settled: 0 });
    of.runs++;
    if (fired) of.fired++;
    if (executed) of.executed++;
    if (settled) of.settled++;
  }
  return rates;
}

export interface Rates {
  readonly healthy: number;
  /** Healthy runs in which some rule fired. */
  readonly false: number;
  readonly falseByRule: Readonly<Record<RuleId, number>>;
  readonly sick: number;
  /** Sick runs in which their rule did not fire. */
  readonly missed: number;
  readonly missedByCause: Readonly<Record<string, number>>;
}

export function ratesOf(runs: readonly MeasuredRun[], config: RuleConfig): Rates {
  const fired = (run: MeasuredRun): Set<RuleId> =>
    new Set(
      evaluateHistory(run.history, config, LORA.ruleSet).flatMap((evaluation) => evaluation.fired),
    );
  const healthy = runs.filter(({ sick }) => sick === null).map(fired);
  const sick = runs.filter((run) => run.sick !== null);
  const missed = sick.filter((run) => !fired(run).has(run.sick as RuleId));
  return {
    healthy: healthy.length,
    false: healthy.filter((rules) => rules.size > 0).length,
    falseByRule: Object.fromEntries(
      RULES.map((rule) => [rule, healthy.filter((rules) => rules.has(rule)).length]),
    ) as Record<RuleId, number>,
    sick: sick.length,
    missed: missed.length,
    missedByCause: Object.fromEntries(
      [...new Set(sick.map(({ name }) => name))].map((name) => [
        name,
        missed.filter((run) => run.name === name).length,
      ]),
    ),
  };
}

export type Curve = readonly {
  readonly value: number;
  readonly false: number;
  readonly missed: number;
}[];

/** False and missed alarms of each candidate of one number, the other two as given. */
export function sweep(
  runs: readonly MeasuredRun[],
  name: keyof Judgement,
  others: Judgement,
): Curve {
  return CANDIDATES[name].map((value) => {
    const rates = ratesOf(runs, configOf({ ...others, [name]: value }));
    return { value, false: rates.false, missed: rates.missed };
  });
}

/**
 * One number after the other, twice around: the candidate with the smallest sum of false and missed
 * rate; among equals the one next to what is in force.
 */
export function calibrate(runs: readonly MeasuredRun[]): {
  readonly judgement: Judgement;
  readonly curves: Readonly<Record<keyof Judgement, Curve>>;
} {
  let judgement: Judgement = DEFAULT_JUDGEMENT;
  const healthy = runs.filter(({ sick }) => sick === null).length;
  const cost = (each: Curve[number]): number =>
    each.false / Math.max(1, healthy) + each.missed / Math.max(1, runs.length - healthy);
  const names = Object.keys(CANDIDATES) as (keyof Judgement)[];
  for (const name of [...names, ...names]) {
    const curve = sweep(runs, name, judgement);
    const least = Math.min(...curve.map(cost));
    const equals = curve.filter((each) => cost(each) === least);
    const place = (value: number): number => (CANDIDATES[name] as readonly number[]).indexOf(value);
    const distance = (value: number): number =>
      Math.abs(place(value) - place(DEFAULT_JUDGEMENT[name]));
    judgement = {
      ...judgement,
      [name]: equals.reduce((a, b) => (distance(b.value) < distance(a.value) ? b : a)).value,
    };
  }
  return {
    judgement,
    curves: Object.fromEntries(names.map((name) => [name, sweep(runs, name, judgement)])) as Record<
      keyof Judgement,
      Curve
    >,
  };
}
