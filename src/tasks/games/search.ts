/**
 * What can be had without a model: a grid over the strategies, the best constant, a random one; and
 * what no strategy exceeds.
 */
import { Random } from '../../random.js';
import type { Scenario } from './document.js';
import { checkStrategy, drawSeed, Scorer, type Draw, type Strategy } from './score.js';

const MOST_POINTS = 2_000;

/** Parts of each parameter's range: as many as keep the whole grid below `MOST_POINTS`. */
const partsOf = (dimensions: number): number =>
  [20, 10, 5, 2, 1].find((parts) => (parts + 1) ** dimensions <= MOST_POINTS)!;

/** Every combination of one value of each list. */
function* product(lists: readonly (readonly number[])[]): Generator<number[]> {
  const [first, ...rest] = lists;
  if (first === undefined) return yield [];
  for (const value of first) for (const others of product(rest)) yield [value, ...others];
}

const named = ({ document: { parameters } }: Scenario, point: readonly number[]): Strategy =>
  Object.fromEntries(parameters.map(({ name }, at) => [name, point[at]!]));

const grids = new WeakMap<Scenario, readonly (readonly number[])[]>();

/**
 * The valid points of the grid, ends of the ranges included; decimals are as short as they can be.
 */
function grid(scenario: Scenario): readonly (readonly number[])[] {
  const known = grids.get(scenario);
  if (known !== undefined) return known;
  const { parameters } = scenario.document;
  const parts = partsOf(parameters.length);
  const axes = parameters.map(({ low, high }) =>
    Array.from({ length: parts + 1 }, (_, at) =>
      Number((low + ((high - low) * at) / parts).toPrecision(12)),
    ),
  );
  const points = [...product(axes)].filter(
    (point) => checkStrategy(scenario, named(scenario, point)).ok,
  );
  grids.set(scenario, points);
  return points;
}

/** The best point of a grid, and its score before rounding; the first of equals. */
function bestOf(
  scenario: Scenario,
  score: (point: readonly number[]) => number,
): { strategy: Strategy; score: number } {
  let best: { point: readonly number[]; score: number } | undefined;
  for (const point of grid(scenario)) {
    const found = score(point);
    if (best === undefined || found > best.score) best = { point, score: found };
  }
  return { strategy: named(scenario, best!.point), score: best!.score };
}

/**
 * The best point of a grid for one draw, noise known: what asking the verifier thousands of times
 * gets.
 */
export function gridSearch(scenario: Scenario, draw: Draw): { strategy: Strategy; score: number } {
  const scorer = new Scorer(scenario, draw);
  return bestOf(scenario, (point) => scorer.score(point));
}

/** Draws that the best constant is fitted to; no evaluation has them. */
const FITTED = 64;
const constants = new WeakMap<Scenario, Strategy>();

/** The one strategy of the grid with the highest mean score over 64 seeds of its own. */
export function bestConstant(scenario: Scenario): Strategy {
  const known = constants.get(scenario);
  if (known !== undefined) return known;
  const random = new Random(0xc0n);
  const scorers = Array.from(
    { length: FITTED },
    () => new Scorer(scenario, drawSeed(scenario, random.nextInteger(0, 2 ** 32 - 1))),
  );
  const { strategy } = bestOf(scenario, (point) =>
    scorers.reduce((sum, scorer) => sum + scorer.score(point), 0),
  );
  constants.set(scenario, strategy);
  return strategy;
}

/** Draws before a point of the grid is taken instead, where hardly any strategy is valid. */
const TRIES = 1_000;

/** Uniform over the valid strategies, to three decimals. */
export function randomStrategy(scenario: Scenario, random: Random): Strategy {
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const point = scenario.document.parameters.map(({ low, high }) =>
      Number((low + (high - low) * random.nextDouble()).toFixed(3)),
    );
    const checked = checkStrategy(scenario, named(scenario, point));
    if (checked.ok) return checked.strategy;
  }
  const points = grid(scenario);
  return named(scenario, points[random.nextInteger(0, points.length - 1)]!);
}

/** Whether any strategy is valid, as far as the grid shows. */
export const hasValid = (scenario: Scenario): boolean => grid(scenario).length > 0;

/**
 * A score that no valid strategy of this draw exceeds, rounding included: the ranges are cut into
 * cells, and in each cell every component is at most its value in the middle and its slopes times
 * half the cell.
 */
export function upperBound(scenario: Scenario, draw: Draw): number {
  const { parameters, constraints, score } = scenario.document;
  const parts = partsOf(parameters.length);
  const reach = parameters.map(({ low, high }) => (high - low) / parts / 2);
  const middles = parameters.map(({ low }, at) =>
    Array.from({ length: parts }, (_, cell) => low + (2 * cell + 1) * reach[at]!),
  );
  const limits = constraints.map(({ terms, atMost }) => ({
    weights: parameters.map(({ name }) =>
      terms.reduce((sum, { weight, of }) => sum + (of === name ? weight : 0), 0),
    ),
    atMost,
  }));
  const scorer = new Scorer(scenario, draw);
  let most = 0;
  for (const middle of product(middles)) {
    const reachable = limits.every(
      ({ weights, atMost }) =>
        weights.reduce(
          (sum, weight, at) => sum + weight * middle[at]! - Math.abs(weight) * reach[at]!,
          0,
        ) <=
        atMost + 1e-6,
    );
    if (reachable) most = Math.max(most, scorer.bound(middle, reach));
  }
  return Math.min(1, most + 10 ** -score.decimals / 2 + 1e-9);
}
