/** Who looks at the world of a problem. */
import type { Problem } from '../problem.js';
import { observed, WORLDS, type Observation, type World } from '../strategies/worlds.js';
import type { Trajectory } from '../trajectory.js';

/** One that asks others, over a network, is a plug-in, which nothing here has. */
export interface Investigator {
  readonly id: string;
  /** Null where there is nothing to look at. */
  investigate(
    problem: Problem,
    trajectory: Trajectory,
    signal?: AbortSignal,
  ): Promise<readonly Observation[] | null>;
}

export const investigatorOf = (worlds: readonly World[]): Investigator => ({
  id: worlds.map(({ id }) => id).join(', '),
  investigate: async (problem) => observed(problem, worlds)?.observations ?? null,
});

export const LOCAL_WORLDS: Investigator = investigatorOf(WORLDS);
