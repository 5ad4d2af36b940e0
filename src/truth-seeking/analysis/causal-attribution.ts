/** Attributes a score to features: domain, mode, prompt, policy and features of trajectories. */
import { z } from 'zod';
import { clusterBootstrap } from '../../statistics/index.js';
import { groupBy } from '../../statistics/paired.js';
import {
  independentColumns,
  leastSquares,
  logisticRegression,
} from '../../statistics/least-squares.js';
import { adjusted, claimSchema, estimateOf, estimateSchema, multiplicitySchema } from './claim.js';
import { intervalSchema, policyNames, type ScoredRun } from './scored-run.js';

/** Maximum number of levels of a feature. */
const MOST_LEVELS = 20;
const BOOTSTRAP_SEED = 1n;

const coefficient = z.strictObject({
  feature: z.string(),
  /**
   * Level of a feature with levels, compared with the reference level. Null for a numeric feature:
   * effect per unit.
   */
  level: z.string().nullable(),
  estimate: estimateSchema,
  claim: claimSchema,
});

export const attributionSchema = z.strictObject({
  analyzer: z.literal('causal-attribution'),
  /** Strategy with its options. */
  strategy: z.string(),
  trajectories: z.int(),
  problems: z.int(),
  /** Number of groups of related problems, whose errors may depend on each other. */
  groups: z.int(),
  /** Reference level of each feature with levels. */
  references: z.record(z.string(), z.string()),
  /** Features that were left out, and why. */
  leftOut: z.record(z.string(), z.string()),
  rSquared: z.number().nullable(),
  coefficients: z.array(coefficient),
  /**
   * Logistic regression of a score above `threshold`; null without a threshold, or if features
   * separate the two halves.
   */
  logistic: z
    .strictObject({
      threshold: z.number(),
      /** Log-odds with Wald intervals, over groups. */
      coefficients: z.array(coefficient.omit({ claim: true })),
      /**
       * Mean -ln of the probability of what came about, with a bootstrap interval over groups (2000
       * draws).
       */
      loss: intervalSchema.extend({ mean: z.number() }),
    })
    .nullable(),
  multiplicity: multiplicitySchema,
});
export type CausalAttribution = z.output<typeof attributionSchema>;

export interface AttributionOptions {
  /** Members of the setup, `policy`, and members of the trajectories' features. */
  readonly features: readonly string[];
  /**
   * Features that were assigned; each is checked: all its levels must have the same questions,
   * under the same of all else.
   */
  readonly randomised?: readonly string[];
  /** For the logistic regression: of a score above it. */
  readonly threshold?: number;
}

interface Row {
  readonly problemId: string;
  readonly group: string;
  readonly score: number;
  readonly features: Readonly<Record<string, number | string>>;
  readonly conditions: string;
}

/** Features chosen by the author of the runs; all others are observed in trajectories. */
const CHOSEN: readonly string[] = ['domain', 'mode', 'systemPrompt', 'policy'];

function rowsOf(runs: readonly ScoredRun[]): Row[] {
  const names = policyNames(runs);
  return runs.flatMap(
    ({ setup: { domain, mode, systemPrompt }, policyId, conditions = '', scores }) =>
      scores.map(({ problemId, group = problemId, score, features }) => ({
        problemId,
        group,
        score,
        features: { ...features, domain, mode, systemPrompt, policy: names.get(policyId)! },
        conditions,
      })),
  );
}

interface Column {
  readonly feature: string;
  readonly level: string | null;
  readonly values: readonly number[];
}

type Coded =
  | { readonly columns: Column[]; readonly reference: string | null }
  | { readonly leftOut: string };

/** Its columns; the most frequent level is the reference. */
function coded(feature: string, rows: readonly Row[]): Coded {
  const values = rows.map(({ features }) =>
    Object.hasOwn(features, feature) ? features[feature]! : null,
  );
  if (values.includes(null)) return { leftOut: 'some trajectories lack it' };
  if (new Set(values).size < 2) return { leftOut: 'it does not vary' };
  if (values.every((value) => typeof value === 'number'))
    return { columns: [{ feature, level: null, values }], reference: null };
  const counts = groupBy(values, String);
  if (counts.size > MOST_LEVELS) return { leftOut: `it has more than ${MOST_LEVELS} levels` };
  const levels = [...counts]
    .sort(([a, x], [b, y]) => y.length - x.length || (a < b ? -1 : 1))
    .map(([level]) => level);
  const [reference, ...others] = levels as [string, ...string[]];
  return {
    reference,
    columns: others.map((level) => ({
      feature,
      level,
      values: values.map((value) => (String(value) === level ? 1 : 0)),
    })),
  };
}

/**
 * True if every level of a feature was asked exactly the same questions, with all other chosen
 * features equal.
 */
function isCrossed(feature: string, rows: readonly Row[]): boolean {
  const beside = CHOSEN.filter((chosen) => chosen !== feature);
  const questions = groupBy(
    rows,
    ({ features }) => String(features[feature]),
    ({ problemId, features, conditions }) =>
      JSON.stringify([problemId, conditions, ...beside.map((chosen) => features[chosen])]),
  );
  const sets = [...questions.values()].map((ids) => [...new Set(ids)].sort().join('\n'));
  return new Set(sets).size === 1;
}

/**
 * True if a feature was fixed before the reasoning: the same for all trajectories of a problem. A
 * feature such as length is a consequence of the chosen ones and takes away part of their effect.
 */
function isGiven(feature: string, rows: readonly Row[]): boolean {
  if (CHOSEN.includes(feature)) return true;
  const found = groupBy(
    rows,
    ({ problemId }) => problemId,
    ({ features }) => features[feature],
  );
  return [...found.values()].every((values) => new Set(values).size === 1);
}

/**
 * @param runs of one strategy, configured alike, whose value is a mean of trajectories
 * @throws RangeError where they are of several, or parts of a slope
 */
export function attribute(
  runs: readonly ScoredRun[],
  { features, randomised = [], threshold }: AttributionOptions,
): CausalAttribution {
  const strategies = [...new Set(runs.map(({ setup }) => `${setup.strategy} ${setup.config}`))];
  if (strategies.length > 1)
    throw new RangeError(`expected scores of one strategy, got ${strategies.join(', ')}`);
  if (runs.some(({ aggregate }) => aggregate !== 'mean'))
    throw new RangeError('parts of a slope cannot be attributed to trajectories');
  const rows = rowsOf(runs);
  const scores = rows.map(({ score }) => score);
  const clusters = rows.map(({ group }) => group);
  const leftOut: Record<string, string> = {};
  const references: Record<string, string> = {};
  const wanted: Column[] = [{ feature: '', level: null, values: rows.map(() => 1) }];
  for (const feature of features) {
    const found = coded(feature, rows);
    if ('leftOut' in found) leftOut[feature] = found.leftOut;
    else {
      wanted.push(...found.columns);
      if (found.reference !== null) references[feature] = found.reference;
    }
  }
  const kept = new Set(independentColumns(wanted.map(({ values }) => values)));
  for (const [i, { feature, level }] of wanted.entries())
    if (!kept.has(i))
      leftOut[level === null ? feature : `${feature}=${level}`] =
        'it is determined by earlier features';
  const columns = wanted.filter((_, i) => kept.has(i));
  const design = columns.map(({ values }) => values);
  const fit = leastSquares(design, scores, clusters);
  const areGiven = columns.slice(1).every(({ feature }) => isGiven(feature, rows));
  const effects = new Set(areGiven ? randomised.filter((feature) => isCrossed(feature, rows)) : []);
  const estimates = (fit?.coefficients ?? []).map((each) => estimateOf(each.value, each));
  const named = columns
    .map(({ feature, level }, i) => ({ feature, level, estimate: estimates[i]! }))
    .slice(1);
  const own = fit === null ? [] : named;
  const all = adjusted(own.map(({ estimate }) => estimate.p));
  return {
    analyzer: 'causal-attribution',
    strategy: runs[0]?.setup.config ?? '',
    trajectories: rows.length,
    problems: new Set(rows.map(({ problemId }) => problemId)).size,
    groups: new Set(clusters).size,
    references,
    leftOut,
    rSquared: fit?.rSquared ?? null,
    coefficients: own.map(({ feature, level, estimate }, i) => ({
      feature,
      level,
      estimate: { ...estimate, adjusted: all.adjusted[i]! },
      claim: effects.has(feature) ? ('effect' as const) : ('association' as const),
    })),
    logistic: threshold === undefined ? null : logisticOf(columns, scores, threshold, clusters),
    multiplicity: all.multiplicity,
  };
}

function logisticOf(
  columns: readonly Column[],
  scores: readonly number[],
  threshold: number,
  clusters: readonly string[],
): CausalAttribution['logistic'] {
  const above = scores.map((score) => score > threshold);
  const fit = logisticRegression(
    columns.map(({ values }) => values),
    above,
    clusters,
  );
  if (fit === null || new Set(above).size < 2) return null;
  return {
    threshold,
    coefficients: columns.slice(1).map(({ feature, level }, i) => {
      const { value, half, p } = fit.coefficients[i + 1]!;
      return {
        feature,
        level,
        estimate: { value, low: value - half, high: value + half, p, adjusted: null },
      };
    }),
    loss: clusterBootstrap(fit.losses, clusters, { seed: BOOTSTRAP_SEED }),
  };
}
