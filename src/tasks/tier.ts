import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import { didYouMean } from '../nearest.js';
import type { Tier } from './task.js';

/** @throws IsoproError TIER_UNKNOWN */
export function findTier<T extends Tier>(task: string, tiers: readonly T[], id: string): T {
  const tier = tiers.find((candidate) => candidate.id === id);
  if (tier !== undefined) return tier;
  const ids = tiers.map((candidate) => candidate.id);
  throw new IsoproError(
    'TIER_UNKNOWN',
    `${task} has no tier ${JSON.stringify(id)}; its tiers are ${ids.join(', ')}${didYouMean(id, ids)}`,
  );
}

/** Picks the public members of a tier. */
export const publicTier = ({ id, title, trains, group }: Tier): Tier => ({
  id,
  title,
  trains,
  ...given({ group }),
});
