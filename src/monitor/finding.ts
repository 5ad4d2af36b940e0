/** What a rule concludes from an iteration, and how it reads the signals of modules. */
import { ownValue } from '../dictionary.js';
import type { Iteration, ModuleSignals, Step } from './measurements.js';
import type { RuleSet } from './rule-set.js';
import type { BreachSide } from './rules.js';
import { mean } from './smoothing.js';

/** Before eligibility, cool-down and recurrence are looked at. */
export interface Finding {
  readonly side: BreachSide;
  readonly value: number | null;
  readonly threshold: number | null;
  readonly modules?: readonly string[];
  readonly reading: boolean;
  readonly warm: boolean;
}

export interface Rule {
  read(iteration: Iteration, informative: boolean): Finding;
  /** After an executed remedy: smoothers are seeded by the next reading. */
  reseed(): void;
}

export const NOTHING: Finding = {
  side: 'none',
  value: null,
  threshold: null,
  reading: false,
  warm: true,
};
export const positive = (x: number): boolean => Number.isFinite(x) && x > 0;

/** NaN where the module has no such number. */
export function readingOf(module: ModuleSignals, signal: string): number {
  const value = ownValue(module, signal);
  return typeof value === 'number' ? value : NaN;
}

/** Mean over the iteration's steps of a module's signal; only finite readings count. */
export function moduleMeans(steps: readonly Step[], signal: string): Map<string, number> {
  const values = new Map<string, number[]>();
  for (const step of steps) {
    for (const [name, module] of Object.entries(step.modules)) {
      const value = readingOf(module, signal);
      if (!Number.isFinite(value)) continue;
      const list = values.get(name);
      if (list === undefined) values.set(name, [value]);
      else list.push(value);
    }
  }
  return new Map([...values].map(([name, list]) => [name, mean(list)]));
}

/** Steps in which some module has begun to contribute. */
export const begunSteps = (
  steps: readonly Step[],
  { begun }: RuleSet['signals'],
): readonly Step[] =>
  begun === null
    ? steps
    : steps.filter((step) =>
        Object.values(step.modules).some((module) => readingOf(module, begun) > 0),
      );
