/** The martingale as a reward of single trajectories. */
import type { BeliefPath } from '../beliefs/belief.js';
import { crossFitted, movementOf, type MartingaleConfig } from './martingale.js';

/**
 * Of a loss to train on, lower is better: the slope as it is, squared or absolute, less
 * `informative` times the mean absolute change, so that never changing one's mind is not the best
 * there is.
 */
export interface MartingaleLoss {
  readonly regularisation: 'none' | 'squared' | 'absolute';
  readonly informative: number;
}

/**
 * By how much a trajectory lowers the loss to first order, about the slope of the others
 * alone: minus its own part of the slope, weighted by how the loss rises there, and `informative`
 * times its mean absolute change. Whoever moves the group's mean wins nothing. Absent where the
 * others have no slope.
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
