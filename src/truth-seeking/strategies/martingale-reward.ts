/** The martingale as a reward of single trajectories. */
import type { BeliefPath } from '../beliefs/belief.js';
import { crossFitted, movementOf, type MartingaleConfig } from './martingale.js';

/**
 * Parameters of a loss to train on, lower is better: the slope as it is, squared or absolute, minus
 * `informative` times the mean absolute change, so that a belief that never changes is not optimal.
 */
export interface MartingaleLoss {
  readonly regularisation: 'none' | 'squared' | 'absolute';
  readonly informative: number;
}

/**
 * Reward of each trajectory: how much it lowers the loss to first order, around the slope of the
 * others. That is minus its own part of the slope, weighted by the gradient of the loss there, plus
 * `informative` times its mean absolute change. Moving the mean of the group gains nothing. A
 * trajectory is missing if the others have no slope.
 */
export function martingaleRewards(
  paths: readonly BeliefPath[],
  config: MartingaleConfig,
  { regularisation, informative }: MartingaleLoss,
): Map<string, number> {
  const rewards = new Map<string, number>();
  const fitted = crossFitted(paths, config);
  for (const path of paths) {
    const found = fitted.get(path.trajectoryId);
    if (found === undefined) continue;
    const weight = { none: 1, squared: 2 * found.slope, absolute: Math.sign(found.slope) }[
      regularisation
    ];
    rewards.set(
      path.trajectoryId,
      0 - weight * found.credit + informative * (movementOf([path])?.meanChange ?? 0),
    );
  }
  return rewards;
}
