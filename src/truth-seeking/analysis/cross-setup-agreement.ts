/** Compares the scores of one policy on the same problems under different setups. */
import { z } from 'zod';
import { mean, sampleStandardDeviation, Z95 } from '../../statistics/index.js';
import { groupBy } from '../../statistics/paired.js';
import { clusteredMean } from '../../statistics/regression.js';
import { adjusted, claimSchema, estimateOf, estimateSchema, multiplicitySchema } from './claim.js';
import { correlate, correlationSchema } from './correlation.js';
import {
  areAlike,
  byProblem,
  bySetup,
  groupOfProblem,
  intervalSchema,
  joined,
  setupSchema,
  towardsZero,
  type ScoredRun,
} from './scored-run.js';

const agreement = z.strictObject({
  policyId: z.string(),
  setups: z.tuple([setupSchema, setupSchema]),
  /** Members in which the two differ. */
  differ: z.array(z.string()),
  shared: z.int(),
  unmatched: z.int(),
  points: z.array(z.strictObject({ problemId: z.string(), x: z.number(), y: z.number() })),
  correlation: correlationSchema,
  /** Mean over shared problems of the first's score less the second's. */
  difference: estimateSchema,
  /**
   * Limits that contain 95 % of single differences (Bland and Altman 1986); null for one problem.
   */
  limits: intervalSchema.nullable(),
  /**
   * An effect of the one member that differs, where questions and conditions are the same; else an
   * association.
   */
  claim: claimSchema,
});
type Agreement = z.output<typeof agreement>;

export const agreementSchema = z.strictObject({
  analyzer: z.literal('cross-setup-agreement'),
  agreements: z.array(agreement),
  multiplicity: multiplicitySchema,
});
export type CrossSetupAgreement = z.output<typeof agreementSchema>;

const MEMBERS = ['domain', 'mode', 'systemPrompt'] as const;

/**
 * Signed scores that are best at 0 by their distances from it. Pairs of setups of one strategy, as
 * it was configured, and one policy; those without a common problem are left out.
 */
export function crossSetupAgreement(all: readonly ScoredRun[]): CrossSetupAgreement {
  const runs = towardsZero(all);
  const comparable = groupBy(
    runs.filter(({ aggregate, scores }) => aggregate === 'mean' && scores.length > 0),
    ({ policyId, setup }) => `${policyId}\n${setup.strategy}\n${setup.config}`,
  );
  const found = [...comparable.values()].flatMap((own) => {
    const setups = bySetup(own);
    return setups.flatMap((a, i) =>
      setups.slice(i + 1).flatMap((b): Agreement[] => {
        const { ids, x, y, unmatched } = joined(byProblem(a.runs), byProblem(b.runs));
        if (ids.length === 0) return [];
        const differences = x.map((value, k) => value - y[k]!);
        const centre = mean(differences);
        const spread = Z95 * sampleStandardDeviation(differences);
        const differ = MEMBERS.filter((member) => a.setup[member] !== b.setup[member]);
        return [
          {
            policyId: own[0]!.policyId,
            setups: [a.setup, b.setup],
            differ,
            shared: ids.length,
            unmatched,
            points: ids.map((problemId, k) => ({ problemId, x: x[k]!, y: y[k]! })),
            correlation: correlate(x, y, ids.map(groupOfProblem(own))),
            difference: estimateOf(
              centre,
              clusteredMean(differences, ids.map(groupOfProblem(own))),
            ),
            limits: Number.isNaN(spread) ? null : { low: centre - spread, high: centre + spread },
            claim:
              differ.length === 1 && unmatched === 0 && areAlike([...a.runs, ...b.runs])
                ? 'effect'
                : 'association',
          },
        ];
      }),
    );
  });
  const tests = adjusted(found.map(({ difference }) => difference.p));
  return {
    analyzer: 'cross-setup-agreement',
    agreements: found.map((each, i) => ({
      ...each,
      difference: { ...each.difference, adjusted: tests.adjusted[i]! },
    })),
    multiplicity: tests.multiplicity,
  };
}
