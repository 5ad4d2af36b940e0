/** What a scenario's seed draws, which strategies are valid, and what one scores. */
import { openGenerator, roundTo } from './generators.js';
import type { Scenario } from './document.js';

/** A number for each parameter. */
export type Strategy = Readonly<Record<string, number>>;

/** What one seed draws. */
export interface Draw {
  /** By name; the observation. */
  readonly environment: Readonly<Record<string, number>>;
  /** Of each component that has any, in order. No model is told it. */
  readonly noise: readonly number[];
}

/** @param seed a safe integer from 0 on */
export function drawSeed(
  { document: { generator, environment, components } }: Scenario,
  seed: number,
): Draw {
  let random = openGenerator(generator.name, seed);
  const uniform = (low: number, high: number): number => low + (high - low) * random.next();
  const drawn = environment.map(({ name, low, high, kind, decimals }): [string, number] => [
    name,
    kind === 'integer' ? random.integer(low, high) : roundTo(uniform(low, high), decimals),
  ]);
  if (generator.noise === 'restarts') random = openGenerator(generator.name, seed);
  const noise = components.flatMap((component) =>
    component.noise === undefined ? [] : [uniform(component.noise.low, component.noise.high)],
  );
  return { environment: Object.fromEntries(drawn), noise };
}

export type CheckedStrategy =
  | { readonly ok: true; readonly strategy: Strategy }
  | {
      readonly ok: false;
      readonly category: 'format' | 'range' | 'constraint';
      readonly detail: string;
    };

/**
 * Whether a value is a strategy: an object with exactly the parameters, each a finite number in its
 * range, all constraints kept. Truth values, texts and what is no number are none.
 */
export function checkStrategy(
  { document: { parameters, constraints } }: Scenario,
  value: unknown,
): CheckedStrategy {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { ok: false, category: 'format', detail: 'The strategy is no object.' };
  const given = value as Readonly<Record<string, unknown>>;
  const extra = Object.keys(given).find((key) => parameters.every(({ name }) => name !== key));
  const strategy: Record<string, number> = {};
  for (const { name, low, high } of parameters) {
    const number = Object.hasOwn(given, name) ? given[name] : undefined;
    if (number === undefined)
      return { ok: false, category: 'format', detail: `${name} is missing.` };
    if (typeof number !== 'number' || !Number.isFinite(number))
      return { ok: false, category: 'format', detail: `${name} is no number.` };
    if (number < low || number > high)
      return { ok: false, category: 'range', detail: `${name} must be from ${low} to ${high}.` };
    strategy[name] = number;
  }
  if (extra !== undefined)
    return {
      ok: false,
      category: 'format',
      detail: `There is no ${JSON.stringify(extra.slice(0, 40))}.`,
    };
  for (const { terms, atMost } of constraints)
    if (!keeps(terms, atMost, strategy)) {
      const sum = terms
        .map(({ weight, of }) => (weight === 1 ? of : `${weight} × ${of}`))
        .join(' + ');
      return { ok: false, category: 'constraint', detail: `${sum} must be at most ${atMost}.` };
    }
  return { ok: true, strategy };
}

/** Rounding of a sum of decimals must not decide: 0.9 + 0.5 is not above 1.4. */
const SLACK = 1e-9;
const keeps = (
  terms: readonly { weight: number; of: string }[],
  atMost: number,
  strategy: Strategy,
): boolean =>
  terms.reduce((sum, { weight, of }) => sum + weight * strategy[of]!, 0) <= atMost + SLACK;

const clamp = (value: number): number => Math.min(1, Math.max(0, value));

/**
 * One component of a draw: a constant and a slope for each parameter, in the order of the document.
 */
interface Affine {
  readonly weight: number;
  readonly constant: number;
  readonly slopes: readonly number[];
}

/**
 * The scenario's scorer for one draw, over points: the parameters' values in order. Nothing is
 * rounded.
 */
export class Scorer {
  readonly #components: readonly Affine[];
  readonly #offset: number;

  constructor(
    { document: { parameters, components, score } }: Scenario,
    { environment, noise }: Draw,
  ) {
    let drawn = 0;
    this.#offset = score.offset;
    this.#components = components.map(({ weight, constant, terms, noise: range }) => {
      const slopes = parameters.map(() => 0);
      let sum = constant;
      for (const { weight: factor, of } of terms) {
        let product = factor;
        let parameter = -1;
        for (const name of of) {
          const at = parameters.findIndex((candidate) => candidate.name === name);
          if (at < 0) product *= environment[name]!;
          else parameter = at;
        }
        if (parameter < 0) sum += product;
        else slopes[parameter]! += product;
      }
      return { weight, constant: range === undefined ? sum : sum + noise[drawn++]!, slopes };
    });
  }

  components(point: readonly number[]): number[] {
    return this.#components.map(({ constant, slopes }) => {
      let value = constant;
      for (let at = 0; at < slopes.length; at++) value += slopes[at]! * point[at]!;
      return clamp(value);
    });
  }

  score(point: readonly number[]): number {
    let total = this.#offset;
    for (const { weight, constant, slopes } of this.#components) {
      let value = constant;
      for (let at = 0; at < slopes.length; at++) value += slopes[at]! * point[at]!;
      total += weight * clamp(value);
    }
    return clamp(total);
  }

  /**
   * At least as much as any point scores that is at most `reach` away from the middle in each
   * parameter: components are affine.
   */
  bound(middle: readonly number[], reach: readonly number[]): number {
    let total = this.#offset;
    for (const { weight, constant, slopes } of this.#components) {
      let value = constant;
      let slack = 0;
      for (let at = 0; at < slopes.length; at++) {
        value += slopes[at]! * middle[at]!;
        slack += Math.abs(slopes[at]! * reach[at]!);
      }
      total += weight * clamp(weight > 0 ? value + slack : value - slack);
    }
    return clamp(total);
  }
}

export interface Scored {
  readonly score: number;
  /** The components, clamped, by name. */
  readonly components: Readonly<Record<string, number>>;
}

/**
 * Score of a valid strategy, rounded as the document says; null where it is no number, which the
 * form of a document excludes.
 */
export function scoreStrategy(scenario: Scenario, draw: Draw, strategy: Strategy): Scored | null {
  const { parameters, components, score } = scenario.document;
  const point = parameters.map(({ name }) => strategy[name]!);
  const scorer = new Scorer(scenario, draw);
  const values = scorer.components(point);
  const total = scorer.score(point);
  if (![total, ...values].every(Number.isFinite)) return null;
  return {
    score: roundTo(total, score.decimals),
    components: Object.fromEntries(
      components.map(({ name }, at) => [name, roundTo(values[at]!, score.decimals)]),
    ),
  };
}
