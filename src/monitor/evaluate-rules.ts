import { IsoproError } from '../errors.js';
import { Capacity, Dormancy } from './capacity-rules.js';
import { EarlyStop } from './early-stop.js';
import type { Finding, Rule } from './finding.js';
import type { Iteration } from './measurements.js';
import type { RuleSet } from './rule-set.js';
import { PRECEDENCE, RULES, type BreachSide, type RuleConfig, type RuleId } from './rules.js';
import { Persistence } from './smoothing.js';
import { Exploding, Vanishing } from './stability-rules.js';
import { bandMiddle, BatchSize, LearningRate } from './tuning-rules.js';

/** One rule at one iteration; the judge recomputes it and compares every member. */
export interface RuleEvaluation {
  readonly fired: boolean;
  readonly side: BreachSide;
  /** The smoothed signal that was compared, null if there is none yet. */
  readonly value: number | null;
  readonly threshold: number | null;
  /** Modules that breach, if the rule looks at modules. */
  readonly modules: readonly string[];
  /** Warm, not cooling down. */
  readonly eligible: boolean;
  /** This iteration gave the rule a reading. */
  readonly reading: boolean;
  /** Fired again soon after its remedy was executed. */
  readonly recurrence: boolean;
}

export interface Evaluation {
  readonly iteration: number;
  readonly rules: Readonly<Record<RuleId, RuleEvaluation>>;
  /** Fired rules, first the one that goes first. */
  readonly fired: readonly RuleId[];
  /** `S0`: no group has carried a gradient for as many iterations as rules persist. */
  readonly advisories: readonly 'S0'[];
}

/**
 * The seven rules at the newest iteration of a history. Pure: the same history and configuration
 * give the same answer, so a judge can repeat it from the metrics stream. Readings that are not
 * finite reach no smoother; iterations without signal give R1, R2, R5 and R6 no reading.
 * @throws IsoproError INVALID_ARGUMENT for an empty history or iterations that do not ascend
 */
export function evaluateRules(
  history: readonly Iteration[],
  config: RuleConfig,
  ruleSet: RuleSet,
): Evaluation {
  const evaluations = evaluateHistory(history, config, ruleSet);
  const newest = evaluations.at(-1);
  if (newest === undefined)
    throw new IsoproError('INVALID_ARGUMENT', 'cannot evaluate rules without an iteration');
  return newest;
}

/** Evaluates the rules for every iteration of a history. @throws IsoproError INVALID_ARGUMENT */
export function evaluateHistory(
  history: readonly Iteration[],
  config: RuleConfig,
  { signals }: RuleSet,
): Evaluation[] {
  const learningRate = new LearningRate(config, signals);
  const rules: Record<RuleId, Rule> = {
    R1: learningRate,
    R2: new BatchSize(config, signals),
    R3: new EarlyStop(config, signals),
    R4: new Capacity(config, signals),
    R5: new Dormancy(config, signals),
    R6: new Vanishing(config, signals),
    R7: new Exploding(config, signals),
  };
  const executedAt = new Map<RuleId, number>();
  const noSignal = new Persistence(config.persistence);
  let last = -Infinity;
  return history.map((iteration) => {
    const now = iteration.iteration;
    if (!Number.isSafeInteger(now) || now <= last)
      throw new IsoproError('INVALID_ARGUMENT', `iteration ${now} does not follow ${last}`);
    last = now;
    const informative = iteration.informativeGroupFraction > 0;
    const findings = Object.fromEntries(
      RULES.map((rule) => [rule, rules[rule].read(iteration, informative)]),
    ) as Record<RuleId, Finding>;
    const conclude = (rule: RuleId, finding: Finding): RuleEvaluation => {
      const executed = executedAt.get(rule);
      const since = executed === undefined ? Infinity : now - executed;
      const cooling = since <= config.coolDown && finding.side !== 'nonfinite';
      const eligible = finding.warm && !cooling;
      const fired = eligible && finding.side !== 'none';
      return {
        fired,
        side: fired ? finding.side : 'none',
        value: finding.value,
        threshold: finding.threshold,
        modules: fired ? [...(finding.modules ?? [])].sort() : [],
        eligible,
        reading: finding.reading,
        recurrence: fired && since <= config.recurrenceWindow,
      };
    };
    const concluded = Object.fromEntries(
      RULES.map((rule) => [rule, conclude(rule, findings[rule])]),
    ) as Record<RuleId, RuleEvaluation>;
    // growing does not cure sick gradients or a wrong rate
    const ratio = learningRate.ratio;
    const inBand =
      ratio === null || (ratio >= bandMiddle(config) && ratio <= config.r1.updateRatioHigh);
    if (
      concluded.R4.fired &&
      (concluded.R5.fired || concluded.R6.fired || concluded.R7.fired || !inBand)
    ) {
      const silent = { fired: false, side: 'none', modules: [], recurrence: false } as const;
      concluded.R4 = { ...concluded.R4, ...silent };
    }
    for (const rule of iteration.executed) {
      executedAt.set(rule, now);
      rules[rule].reseed();
      if (rule === 'R4') rules.R5.reseed(); // new capacity is not dormant yet
    }
    return {
      iteration: now,
      rules: concluded,
      fired: PRECEDENCE.filter((rule) => concluded[rule].fired),
      advisories: noSignal.update(!informative) ? ['S0' as const] : [],
    };
  });
}
