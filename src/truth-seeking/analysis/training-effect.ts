/**
 * Measures the effect of a training on scores: the same questions before and after, over the
 * training seeds.
 */
import { z } from 'zod';
import { mean } from '../../statistics/index.js';
import { clusteredMean, crossedMean } from '../../statistics/regression.js';
import {
  adjusted,
  claimSchema,
  estimateOf,
  estimateOfAll,
  estimateSchema,
  multiplicitySchema,
} from './claim.js';
import {
  areAlike,
  byProblem,
  bySetup,
  groupOfProblem,
  joined,
  setupKey,
  setupSchema,
  towardsZero,
  type ScoredRun,
} from './scored-run.js';

const change = z.strictObject({
  setup: setupSchema,
  /** Policies that were trained: one a seed of the training. */
  trained: z.array(z.strictObject({ policyId: z.string(), difference: z.number() })),
  problems: z.int(),
  unmatched: z.int(),
  before: z.number(),
  after: z.number(),
  /**
   * Mean over problems of after less before, seeds averaged first; the interval is over problems.
   */
  overProblems: estimateSchema,
  /**
   * Mean over training seeds. All are compared with the same answers before, so the interval is
   * over seeds and problems together; null for one seed or one problem.
   */
  overSeeds: estimateSchema,
  claim: claimSchema,
});
type Change = z.output<typeof change>;

export const trainingEffectSchema = z.strictObject({
  analyzer: z.literal('training-causal-effect'),
  changes: z.array(change),
  multiplicity: multiplicitySchema,
});
export type TrainingEffect = z.output<typeof trainingEffectSchema>;

/**
 * By setup. An effect where one policy was asked every question before, and each that was trained
 * after, under the same conditions; of the training rather than of one adapter where several seeds
 * of it were run. p is over seeds and problems where there are several seeds, else over problems.
 * Signed scores that are best at 0 are compared by their distances from it.
 */
export function trainingEffect(
  runsBefore: readonly ScoredRun[],
  runsAfter: readonly ScoredRun[],
): TrainingEffect {
  const [before, after] = [towardsZero(runsBefore), towardsZero(runsAfter)];
  const found = bySetup(before).flatMap(({ setup, runs: own }): Change[] => {
    const trained = after.filter(
      (run) => setupKey(run.setup) === setupKey(setup) && run.aggregate === 'mean',
    );
    if (trained.length === 0 || own.some(({ aggregate }) => aggregate !== 'mean')) return [];
    const base = byProblem(own);
    const { ids, x, y, unmatched } = joined(base, byProblem(trained));
    if (ids.length === 0) return [];
    const differences = x.map((value, i) => y[i]! - value);
    const policies = [...new Set(trained.map(({ policyId }) => policyId))].sort();
    const paired = policies.map((policyId) => ({
      policyId,
      ...joined(base, byProblem(trained.filter((run) => run.policyId === policyId))),
    }));
    const groupOf = groupOfProblem([...own, ...trained]);
    const matched = paired.flatMap(({ policyId, ids: of, x: was, y: is }) =>
      of.length === 0
        ? []
        : [{ policyId, values: is.map((value, i) => value - was[i]!), clusters: of.map(groupOf) }],
    );
    const seeds = matched.map(({ policyId, values }) => ({ policyId, difference: mean(values) }));
    const isOne = new Set(own.map(({ policyId }) => policyId)).size === 1;
    const isSame = areAlike([...own, ...trained]) && paired.every((pairs) => pairs.unmatched === 0);
    const bySeed = seeds.map(({ difference }) => difference);
    return [
      {
        setup,
        trained: seeds,
        problems: ids.length,
        unmatched,
        before: mean(x),
        after: mean(y),
        overProblems: estimateOf(mean(differences), clusteredMean(differences, ids.map(groupOf))),
        overSeeds: estimateOfAll(mean(bySeed), crossedMean(matched)),
        claim: isOne && isSame ? 'effect' : 'association',
      },
    ];
  });
  const all = adjusted(
    found.map(({ overSeeds, overProblems }) =>
      overSeeds.p === null ? overProblems.p : overSeeds.p,
    ),
  );
  return {
    analyzer: 'training-causal-effect',
    changes: found.map((each, i) => {
      const p = all.adjusted[i]!;
      const over = each.overSeeds.p === null ? 'overProblems' : 'overSeeds';
      return { ...each, [over]: { ...each[over], adjusted: p } };
    }),
    multiplicity: all.multiplicity,
  };
}
