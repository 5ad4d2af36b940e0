import { dictionary, type Dictionary } from '../dictionary.js';
import type { Backend, Reply } from '../backends/backend.js';
import { measure, passAtK, stratifiedBootstrap, SUMMARY_SEED, type Measures, type Stratum } from '../statistics/index.js';
import type { OpenTask, Problem, Tier } from '../tasks/task.js';
import { sampleAndJudge, type EvaluationOptions } from './answers.js';

export interface PassAtKOptions<R extends Reply = Reply> extends EvaluationOptions<R> {
  /** Samples of each problem. */
  readonly samples: number;
  readonly temperature: number;
  readonly seed: bigint;
  /** Ascending, none above `samples`. */
  readonly ks: readonly number[];
}

export interface PassAtKEvaluation {
  /** In the order of the problems; `samples` counts those with a verdict. */
  readonly problems: readonly { readonly problemId: string; readonly tier: string; readonly samples: number; readonly passed: number }[];
  /** Unbiased pass@k by k and tier, over problems with at least k verdicts; bootstrap intervals over problems. */
  readonly passAtK: Readonly<Record<string, PassAtKSummary>>;
  readonly none: number;
  /** Of a task whose verdicts have figures; a problem counts with the mean of its samples. */
  readonly measures?: Measures;
  /** Null where the back end does not count. */
  readonly promptTokens: number | null;
  readonly sampledTokens: number | null;
}

export interface PassAtKEstimate {
  readonly mean: number | null;
  readonly low: number;
  readonly high: number;
  /** Problems with at least k verdicts. */
  readonly n: number;
}

/** The mean is unweighted over tiers, a group counting as one. */
export interface PassAtKSummary extends PassAtKEstimate {
  readonly byTier: Dictionary<PassAtKEstimate>;
}

function estimate(strata: readonly Stratum[]): PassAtKEstimate {
  const n = strata.reduce((sum, { values }) => sum + values.length, 0);
  if (strata.length === 0 || strata.some(({ values }) => values.length === 0)) return { mean: null, low: 0, high: 1, n };
  return { ...stratifiedBootstrap(strata, { seed: SUMMARY_SEED, of: 'fractions' }), n };
}

function summariseK(k: number, problems: PassAtKEvaluation['problems'], tiers: readonly Tier[]): PassAtKSummary {
  const present = tiers.filter(({ id }) => problems.some(({ tier }) => tier === id));
  const slots = [...new Set(present.map(({ id, group }) => group ?? id))];
  const valuesOf = (id: string): number[] =>
    problems.filter(({ tier, samples }) => tier === id && samples >= k).map(({ samples, passed }) => passAtK(samples, passed, k));
  const byTier = dictionary<PassAtKEstimate>();
  const strata: Stratum[] = [];
  for (const { id, group } of present) {
    const values = valuesOf(id);
    byTier[id] = estimate([{ weight: 1, values }]);
    strata.push({ weight: 1 / slots.length / present.filter((other) => (other.group ?? other.id) === (group ?? id)).length, values });
  }
  return { ...estimate(strata), byTier };
}

/**
 * Several answers to each problem at a temperature, and from them the unbiased chance that one of k passes (Chen et al. 2021, §2.1). It is
 * a ceiling: choosing the right answer among k needs the verifier.
 * @throws IsoproError as evaluateGreedy
 */
export async function evaluatePassAtK<R extends Reply>(
  backend: Backend<R>,
  task: OpenTask,
  problems: readonly Problem[],
  options: PassAtKOptions<R>,
): Promise<PassAtKEvaluation> {
  const { samples, temperature, seed, ks, ...rest } = options;
  const { judged, ...tokens } = await sampleAndJudge(backend, task, problems, rest, { samples, temperature, seed });
  const counts = problems.map(({ id, tier }, i) => {
    const decided = judged[i]!.filter(({ kind }) => kind !== 'none');
    return { problemId: id, tier, samples: decided.length, passed: decided.filter(({ kind }) => kind === 'pass').length };
  });
  const measures = measure(
    judged.map((samplesOf, i) => samplesOf.map((each) => ({ tier: problems[i]!.tier, ...each }))),
    task.tiers,
    { seed: SUMMARY_SEED },
  );
  return {
    problems: counts,
    passAtK: Object.fromEntries(ks.map((k) => [k, summariseK(k, counts, task.tiers)])),
    none: problems.length * samples - counts.reduce((sum, each) => sum + each.samples, 0),
    ...(measures === null ? {} : { measures }),
    ...tokens,
  };
}
