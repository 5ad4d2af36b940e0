/** Investigators of the world of a problem. */
import type { Problem } from '../problem.js';
import { observed, WORLDS, type Observation, type World } from '../strategies/worlds.js';
import type { Trajectory } from '../trajectory.js';

/** Looks at the world of a problem. A plug-in could ask others over a network; none exists here. */
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
