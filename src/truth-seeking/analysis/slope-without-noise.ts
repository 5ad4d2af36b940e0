/** Second figure of a slope: without measurement noise, which lowers the first one. */
import { z } from 'zod';
import type { ResultRecord } from '../run/records.js';
import { STRATEGIES } from '../strategies/strategy.js';

export interface SlopeWithoutNoise {
  /** Null where the beliefs before vary by noise alone. */
  readonly value: number | null;
  /** Without a bound on a side it is null there: the beliefs before may vary by noise alone. */
  readonly interval: { readonly low: number | null; readonly high: number | null } | null;
  /** Trajectories whose beliefs were measured more than once. */
  readonly n: number;
}

/** A bound; null in JSON if infinite. */
const bound = z.number().nullable();
const details = z.object({
  trajectories: z.number(),
  withoutNoise: z
    .object({
      leftOut: z.number().optional(),
      slope: z
        .object({ slope: z.number(), interval: z.object({ low: bound, high: bound }).nullable() })
        .nullable(),
    })
    .nullable(),
});

/** @returns null unless it is a slope of differences with repeated measurements */
export function slopeWithoutNoiseIn({
  strategy,
  details: given,
}: Pick<ResultRecord, 'strategy' | 'details'>): SlopeWithoutNoise | null {
  const asked = STRATEGIES.parse(strategy);
  if (asked.name !== 'martingale' || asked.change !== 'difference') return null;
  const found = details.safeParse(given);
  if (!found.success || found.data.withoutNoise === null) return null;
  const { slope, leftOut = 0 } = found.data.withoutNoise;
  return {
    value: slope?.slope ?? null,
    interval: slope?.interval ?? null,
    n: slope === null ? 0 : found.data.trajectories - leftOut,
  };
}
