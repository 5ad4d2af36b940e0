/**
 * Tests that the mean of signed costs, such as slopes, is no further from 0 than another mean plus
 * a margin. A mean of distances would not work: noise alone keeps it away from 0 and hides
 * differences below the noise.
 *
 * The distance of a mean from 0 is the greater of its two sides: the mean and its negative. The
 * challenger is worse by the margin if one of its sides exceeds both of the incumbent's by that
 * much. Each pair of sides has an e-process of its own. The mean of two e-processes is an
 * e-process, and the lesser of two is one for either hypothesis.
 */
import { mean } from '../statistics/index.js';
import { BettingProcess } from './e-process.js';
import { SIDES, type Block, type CostSides, type Side } from './trials.js';

export interface TwoSided {
  /**
   * ln of the e-value for a mean that is worse by less than the margin, and of that for one that is
   * worse by more.
   */
  readonly notWorse: number;
  readonly worse: number;
  /**
   * Distance of the incumbent's mean less that of the challenger's, as parts of the ceiling; NaN
   * for no blocks.
   */
  readonly mean: number;
}

const sideOf = (costs: readonly CostSides[], side: Side): number =>
  mean(costs.map((cost) => cost[side]));

/** ln of the mean of two e-values. */
function logMean(a: number, b: number): number {
  const [large, small] = [Math.max(a, b), Math.min(a, b)];
  return large + Math.log((1 + Math.exp(small - large)) / 2);
}

function logBet(differences: readonly number[]): number {
  const process = new BettingProcess();
  // what is gained beyond 1 is given away, which leaves it an e-process
  for (const difference of differences) process.add(Math.min(1, difference));
  return process.logE();
}

/** @param margin as part of the ceiling, below 1 */
export function twoSided(blocks: readonly Block[], margin: number): TwoSided {
  const costs = blocks.map(({ costs: of }) => of!);
  const of = Object.fromEntries(
    SIDES.map((side) => [
      side,
      costs.map((each) => [sideOf(each.challenger, side), sideOf(each.incumbent, side)] as const),
    ]),
  ) as Record<Side, (readonly [challenger: number, incumbent: number])[]>;
  // both ends of a scale are 1 away from 0, so that a difference is at most 2
  const [notWorse, worse] = [1, -1].map((sign) =>
    SIDES.map((own) =>
      SIDES.map((other) =>
        logBet(
          of[own].map(
            ([challenger], i) =>
              (sign * (of[other][i]![1] - challenger + margin)) / (2 - sign * margin),
          ),
        ),
      ),
    ),
  ) as [number[][], number[][]];
  const distance = (place: 0 | 1): number =>
    Math.max(...SIDES.map((side) => mean(of[side].map((pair) => pair[place]))));
  const [up, down] = notWorse.map((each) => logMean(each[0]!, each[1]!));
  return {
    notWorse: Math.min(up!, down!),
    worse: logMean(Math.min(...worse[0]!), Math.min(...worse[1]!)),
    mean: distance(1) - distance(0),
  };
}
