/** Rules of the class `capacity`: too little capacity (R4), or part of it dormant (R5). */
import {
  begunSteps,
  found,
  moduleMeans,
  NOTHING,
  readingOf,
  Rule,
  type Finding,
} from './finding.js';
import type { Iteration } from './measurements.js';
import { Ema, mean, Persistence } from './smoothing.js';

/**
 * R4: the objective has stopped rising below its target, and capacity is used up. The caller adds
 * that R5 to R7 are silent.
 */
export class Capacity extends Rule {
  #objectives: number[] = [];
  readonly #flat = new Persistence(this.config.persistence);

  read(iteration: Iteration): Finding {
    const { objective } = iteration;
    const { window, saturationGap, rankUse } = this.config.r4;
    if (objective === null || !Number.isFinite(objective.value)) return NOTHING;
    this.#objectives.push(objective.value);
    if (this.#objectives.length < window) return { ...NOTHING, reading: true, warm: false };
    const bound = slopeUpperBound(this.#objectives.slice(-window));
    const flat = this.#flat.update(bound < saturationGap);
    const { capacity } = this.signals;
    const use =
      capacity === null ? new Map<string, number>() : moduleMeans(iteration.steps, capacity);
    const full = [...use].filter(([, value]) => value >= rankUse).map(([name]) => name);
    const usedUp = capacity === null || (use.size > 0 && full.length * 2 >= use.size);
    const saturated = flat && objective.value < this.config.objectiveTarget && usedUp;
    return saturated
      ? found('plateau', bound, saturationGap, full)
      : found('none', bound, saturationGap);
  }

  reseed(): void {
    this.#objectives = [];
    this.#flat.reset();
  }
}

/** Returns the least-squares slope of y over 0, 1, 2, … plus one standard error of it. */
export function slopeUpperBound(y: readonly number[]): number {
  const n = y.length;
  const center = (n - 1) / 2;
  const average = mean(y);
  const spread = y.reduce((sum, _, i) => sum + (i - center) ** 2, 0);
  const slope = y.reduce((sum, value, i) => sum + (i - center) * (value - average), 0) / spread;
  const residual = y.reduce(
    (sum, value, i) => sum + (value - average - slope * (i - center)) ** 2,
    0,
  );
  return slope + (n > 2 ? Math.sqrt(residual / (n - 2) / spread) : 0);
}

/** R5: the module of which the largest part is dormant. */
export class Dormancy extends Rule {
  readonly #ema = new Ema(this.config.alpha);
  readonly #high = new Persistence(this.config.persistence);
  #steps = 0;

  read(iteration: Iteration, informative: boolean): Finding {
    const trained = begunSteps(iteration.steps, this.signals);
    this.#steps += trained.length;
    const last = trained.at(-1);
    const warm = this.#steps >= this.config.r5.minSteps;
    const { dormancy, begun } = this.signals;
    // what is younger than the warm-up looks dormant without being it, so its readings do not enter
    // the average either
    if (dormancy === null || !informative || last === undefined || !warm)
      return { ...NOTHING, warm };
    const limit = this.config.r5.dormantFraction;
    const fractions = Object.entries(last.modules)
      .filter(([, module]) => begun === null || readingOf(module, begun) > 0)
      .map(([name, module]): [string, number] => [name, readingOf(module, dormancy)])
      .filter(([, fraction]) => Number.isFinite(fraction));
    if (fractions.length === 0) return { ...NOTHING, warm };
    const value = this.#ema.update(Math.max(...fractions.map(([, fraction]) => fraction)));
    const above = fractions.filter(([, fraction]) => fraction > limit).map(([name]) => name);
    return this.#high.update(value > limit)
      ? found('high', value, limit, above)
      : found('none', value, limit);
  }

  reseed(): void {
    this.#ema.reset();
    this.#high.reset();
    this.#steps = 0;
  }
}
