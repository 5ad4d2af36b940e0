/** The trajectories of a run by their scores, best first: what a trainer selects from. */
import { z } from 'zod';
import { DIRECTIONS } from '../score.js';
import { ranked } from '../training/selection.js';
import { scoredTrajectorySchema, setupSchema, type ScoredRun } from './scored-run.js';

export const trajectoryScoresSchema = z.strictObject({
  analyzer: z.literal('trajectory-score'),
  runId: z.string(),
  policyId: z.string(),
  setup: setupSchema,
  direction: z.enum(DIRECTIONS),
  /** The best first, by `direction`; equal ones in the order of their ids. */
  scores: z.array(scoredTrajectorySchema),
});
export type TrajectoryScores = z.output<typeof trajectoryScoresSchema>;

export function trajectoryScores({
  runId,
  policyId,
  setup,
  direction,
  scores,
}: ScoredRun): TrajectoryScores {
  const ordered = [...scores].sort((a, b) => (a.trajectoryId < b.trajectoryId ? -1 : 1));
  const best = ranked(ordered, direction, ({ score }) => score);
  return { analyzer: 'trajectory-score', runId, policyId, setup, direction, scores: best };
}
