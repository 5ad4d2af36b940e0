/** What can be found out about the world of a problem, here and without a network. */
import { z } from 'zod';
import type { Problem } from '../problem.js';
import type { Trajectory } from '../trajectory.js';

/** A question about the world, and what came about. */
export interface Observation {
  readonly question: string;
  readonly outcome: string;
}

/** Who looks. One that asks others is a plug-in, which nothing here has. */
export interface Investigator {
  readonly id: string;
  /** Null where there is nothing to look at. */
  investigate(problem: Problem, trajectory: Trajectory, signal?: AbortSignal): Promise<readonly Observation[] | null>;
}

const town = z.object({ name: z.string(), altitude: z.number(), wells: z.number() });
const table = z.object({ heldOut: z.array(town).min(1) });
const sum = z.object({ a: z.number(), b: z.number(), c: z.number() });

/** Rows that a table leaves out, and sums. */
export const LOCAL_WORLDS: Investigator = {
  id: 'local-worlds',
  async investigate({ about = {} }) {
    const towns = table.safeParse(about);
    if (towns.success)
      return towns.data.heldOut.map(({ name, altitude, wells }) => ({
        question: `How many wells has ${name}, which lies at ${altitude} metres? Answer with the number.`,
        outcome: String(wells),
      }));
    const claim = sum.safeParse(about);
    if (!claim.success) return null;
    const { a, b } = claim.data;
    return [{ question: `What is ${a} + ${b}? Answer with the number.`, outcome: String(a + b) }];
  },
};
