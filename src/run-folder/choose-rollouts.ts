/**
 * Chooses the rollouts to show out of thousands: equally many of every tier, iteration and verdict,
 * as far as there are any.
 */

import { groupBy } from '../statistics/paired.js';

export interface RolloutPlace {
  readonly gseq: number;
  readonly iteration: number;
  readonly tier: string;
  readonly verdict: string;
}

/**
 * Returns the numbers of the chosen records, ascending. Within a stratum they are evenly spaced in
 * the order of the log.
 */
export function chooseRollouts(places: readonly RolloutPlace[], limit: number): number[] {
  const strata = groupBy(
    places,
    ({ verdict, tier, iteration }) => JSON.stringify([verdict, tier, iteration]),
    ({ gseq }) => gseq,
  );
  let lists = [...strata].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, list]) => list);
  if (lists.length > limit)
    lists = Array.from({ length: limit }, (_, i) => lists[Math.floor((i * lists.length) / limit)]!);
  const quotas = lists.map(() => 0);
  let left = Math.min(limit, lists.flat().length);
  while (left > 0) {
    for (let i = 0; i < lists.length && left > 0; i++) {
      if (quotas[i]! === lists[i]!.length) continue;
      quotas[i]!++;
      left--;
    }
  }
  return lists
    .flatMap((list, i) =>
      Array.from(
        { length: quotas[i]! },
        (_, k) => list[Math.floor(((k + 0.5) * list.length) / quotas[i]!)]!,
      ),
    )
    .sort((a, b) => a - b);
}
