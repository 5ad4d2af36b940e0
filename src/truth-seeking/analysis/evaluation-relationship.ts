/** Relates the scores of two strategies on the same trajectories. */
import { z } from 'zod';
import { linearRegression } from '../../statistics/regression.js';
import { mean } from '../../statistics/index.js';
import { groupBy } from '../../statistics/paired.js';
import { claimSchema, estimateOf, estimateSchema, adjusted, multiplicitySchema } from './claim.js';
import {
  correlate,
  correlationSchema,
  isSkewed,
  outliersOf,
  slopeOfGroups,
} from './correlation.js';
import { joined, setupSchema, type ScoredRun } from './scored-run.js';

const relation = z.strictObject({
  runId: z.string(),
  setups: z.tuple([setupSchema, setupSchema]),
  /** Trajectories that one of the two has no score of. */
  unmatched: z.int(),
  points: z.array(z.strictObject({ trajectoryId: z.string(), x: z.number(), y: z.number() })),
  correlation: correlationSchema,
  outliers: z.array(z.string()),
  withoutOutliers: correlationSchema.nullable(),
  logarithmic: z.strictObject({ x: z.boolean(), y: z.boolean() }),
  /**
   * Slope within problems, of scores minus their problem's mean, so that the difficulty of a
   * problem does not explain both. Null if no problem has two trajectories.
   */
  withinProblems: estimateSchema.nullable(),
  adjusted: z.number().min(0).max(1).nullable(),
  claim: claimSchema,
});
type Relation = z.output<typeof relation>;

export const relationshipSchema = z.strictObject({
  analyzer: z.literal('evaluation-relationship'),
  relations: z.array(relation),
  multiplicity: multiplicitySchema,
});
export type EvaluationRelationship = z.output<typeof relationshipSchema>;

type Scored = ScoredRun['scores'][number];

function withinProblems(
  of: readonly Scored[],
  x: readonly number[],
  y: readonly number[],
): Relation['withinProblems'] {
  const groups = groupBy(
    of.map(({ problemId, group = problemId }, i) => ({
      problem: problemId,
      group,
      x: x[i]!,
      y: y[i]!,
    })),
    ({ problem }) => problem,
  );
  const several = [...groups.values()].filter(({ length }) => length > 1);
  const centred = several.flatMap((points) => {
    const [mx, my] = [mean(points.map((point) => point.x)), mean(points.map((point) => point.y))];
    return points.map((point) => ({ group: point.group, x: point.x - mx, y: point.y - my }));
  });
  const [cx, cy] = [centred.map((point) => point.x), centred.map((point) => point.y)];
  const line = linearRegression(cx, cy);
  if (line === null) return null;
  const clusters = centred.map(({ group }) => group);
  return estimateOf(line.slope, slopeOfGroups(cx, cy, clusters, line));
}

/**
 * Every two strategies of each run and setup. An association always: both are read from the same
 * trajectories, and nothing here was assigned by lot.
 */
export function relateEvaluations(runs: readonly ScoredRun[]): EvaluationRelationship {
  // strategies that scored the same trajectories: those of one run under one domain, mode and
  // prompt
  const together = groupBy(runs, ({ runId, setup: { domain, mode, systemPrompt } }) =>
    JSON.stringify([runId, domain, mode, systemPrompt]),
  );
  const found = [...together.values()].flatMap((strategies) =>
    strategies.flatMap((a, i) =>
      strategies.slice(i + 1).map((b): Relation => {
        const scoresOf = ({ scores }: ScoredRun): Map<string, number> =>
          new Map(scores.map((each) => [each.trajectoryId, each.score]));
        const { ids, x, y, unmatched } = joined(scoresOf(a), scoresOf(b));
        const far = new Set(outliersOf(x, y));
        const scored = new Map(a.scores.map((each) => [each.trajectoryId, each]));
        const own = ids.map((id) => scored.get(id)!);
        const clusters = own.map(({ problemId, group = problemId }) => group);
        const keep = <T>(values: readonly T[]): T[] => values.filter((_, k) => !far.has(k));
        return {
          runId: a.runId,
          setups: [a.setup, b.setup],
          unmatched,
          points: ids.map((trajectoryId, k) => ({ trajectoryId, x: x[k]!, y: y[k]! })),
          correlation: correlate(x, y, clusters),
          outliers: ids.filter((_, k) => far.has(k)),
          withoutOutliers: far.size === 0 ? null : correlate(keep(x), keep(y), keep(clusters)),
          logarithmic: { x: isSkewed(x), y: isSkewed(y) },
          withinProblems: withinProblems(own, x, y),
          adjusted: null,
          claim: 'association',
        };
      }),
    ),
  );
  const all = adjusted(found.map(({ correlation }) => correlation.pearson?.p ?? null));
  return {
    analyzer: 'evaluation-relationship',
    relations: found.map((each, i) => ({ ...each, adjusted: all.adjusted[i]! })),
    multiplicity: all.multiplicity,
  };
}
