/** Any grader as a strategy. */
import { gradeSafely, type Grade } from '../graders/belief-grader.js';
import type { Problem } from '../problem.js';
import { meanScore, SkipCount, type Score } from '../score.js';
import { textOf, type Trajectory } from '../trajectory.js';

export type Grader = (text: string, problem: Problem) => Promise<Grade> | Grade;

/**
 * Mean grade, higher is better; an error is no grade, and is counted by its reason.
 * @param problems by their ids
 */
export async function graderScore(
  trajectories: readonly Trajectory[],
  problems: ReadonlyMap<string, Problem>,
  grader: Grader,
): Promise<Score> {
  const [perTrajectory, skipped] = [new Map<string, number>(), new SkipCount()];
  for (const of of trajectories) {
    const problem = problems.get(of.problemId);
    if (problem === undefined) {
      skipped.add('problem unknown');
      continue;
    }
    const grade = await gradeSafely(() => grader(textOf(of), problem));
    if (grade.ok) perTrajectory.set(of.id, grade.value);
    else skipped.add(grade.reason);
  }
  return meanScore('higher', perTrajectory, skipped);
}
