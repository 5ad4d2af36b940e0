/** Conclusions of a rule from an iteration, and how rules read the signals of modules. */
import { ownValue } from '../dictionary.js';
import { groupBy } from '../statistics/paired.js';
import type { Iteration, ModuleSignals, Step } from './measurements.js';
import type { RuleSet } from './rule-set.js';
import type { BreachSide, RuleConfig } from './rules.js';
import { mean } from './smoothing.js';

/** Finding before eligibility, cool-down and recurrence are applied. */
export interface Finding {
  readonly side: BreachSide;
  readonly value: number | null;
  readonly threshold: number | null;
  readonly modules?: readonly string[];
  readonly reading: boolean;
  readonly warm: boolean;
}

export abstract class Rule {
  constructor(
    readonly config: RuleConfig,
    readonly signals: RuleSet['signals'],
  ) {}

  abstract read(iteration: Iteration, informative: boolean): Finding;
  /** Resets the smoothers after an executed remedy; the next reading seeds them. */
  abstract reseed(): void;
}

export const NOTHING: Finding = {
  side: 'none',
  value: null,
  threshold: null,
  reading: false,
  warm: true,
};
/** Returns the finding of a warm rule that had a reading. */
export const found = (
  side: BreachSide,
  value: number | null,
  threshold: number | null,
  modules: readonly string[] = [],
): Finding => ({ side, value, threshold, modules, reading: true, warm: true });

export const positive = (x: number): boolean => Number.isFinite(x) && x > 0;

/** Returns a module's signal; NaN if it has no such number. */
export function readingOf(module: ModuleSignals, signal: string): number {
  const value = ownValue(module, signal);
  return typeof value === 'number' ? value : NaN;
}

/** Returns the mean of a module's signal over the iteration's steps; only finite readings count. */
export function moduleMeans(steps: readonly Step[], signal: string): Map<string, number> {
  const readings = steps.flatMap((step) =>
    Object.entries(step.modules)
      .map(([name, module]) => ({ name, value: readingOf(module, signal) }))
      .filter(({ value }) => Number.isFinite(value)),
  );
  const values = groupBy(
    readings,
    ({ name }) => name,
    ({ value }) => value,
  );
  return new Map([...values].map(([name, list]) => [name, mean(list)]));
}

/** Returns the steps in which some module has begun to contribute. */
export const begunSteps = (
  steps: readonly Step[],
  { begun }: RuleSet['signals'],
): readonly Step[] =>
  begun === null
    ? steps
    : steps.filter((step) =>
        Object.values(step.modules).some((module) => readingOf(module, begun) > 0),
      );
