import { dictionary, type Dictionary } from '../dictionary.js';
import type { Backend, Reply } from '../backends/backend.js';
import type { JudgedReply, LastReply } from '../rollouts/answer.js';
import {
  measure,
  passAtK,
  stratifiedBootstrap,
  summarise,
  SUMMARY_SEED,
  type Measures,
  type Outcome,
  type Stratum,
  type Summary,
} from '../statistics/index.js';
import type { OpenTask, Problem, Tier, VerdictKind } from '../tasks/task.js';
import {
  sampleAndJudge,
  type EvaluationOptions,
  type JudgedAnswer,
  type JudgedAnswers,
  type Sampling,
} from './answers.js';
import { commonest, meanLogprob, mostLikely } from './reply-selection.js';

export interface PassAtKOptions<R extends Reply = Reply> extends EvaluationOptions<R>, Sampling {
  /** Values of k in ascending order, none above `samples`. */
  readonly ks: readonly number[];
}

export interface PassAtKEvaluation extends Omit<JudgedAnswers, 'judged'> {
  /** Counts by problem, in their order; `samples` counts those with a verdict. */
  readonly problems: readonly {
    readonly problemId: string;
    readonly tier: string;
    readonly samples: number;
    readonly passed: number;
  }[];
  /**
   * Unbiased pass@k by k and tier, over problems with at least k verdicts; bootstrap intervals over
   * problems.
   */
  readonly passAtK: Readonly<Record<string, PassAtKSummary>>;
  readonly none: number;
  /**
   * Share of the samples with a verdict whose strict reading succeeded; each problem counts with
   * the mean of its samples.
   */
  readonly format: PassAtKSummary;
  /** Pass@k under the most lenient reading, if it was asked for and the task has one. */
  readonly lenientPassAtK?: Readonly<Record<string, PassAtKSummary>>;
  /**
   * Accuracy of one sample per problem, chosen without the verifier; it costs as many tokens as
   * pass@k of all samples.
   */
  readonly chosen: {
    /** First sample with the most common answer. */
    readonly majority: Summary;
    /**
     * Complete sample with the highest mean log-probability per token; null if the back end returns
     * no log-probabilities.
     */
    readonly bestOfK: Summary | null;
  };
  /** For verdicts with scores or forecasts; a problem counts with the mean of its samples. */
  readonly measures?: Measures;
}

export interface PassAtKEstimate {
  readonly mean: number | null;
  readonly low: number;
  readonly high: number;
  /** Problems with at least k verdicts. */
  readonly n: number;
}

interface Sample extends Pick<LastReply, 'text' | 'finish' | 'sampleIndex'> {
  /** Per token; null where the back end gives none. */
  readonly likelihood: number | null;
}

/** The mean is unweighted over tiers, a group counting as one. */
export interface PassAtKSummary extends PassAtKEstimate {
  readonly byTier: Dictionary<PassAtKEstimate>;
}

/** Estimates the mean of fractions with its interval; null without values. */
export function estimate(strata: readonly Stratum[]): PassAtKEstimate {
  const n = strata.reduce((sum, { values }) => sum + values.length, 0);
  if (strata.length === 0 || strata.some(({ values }) => values.length === 0))
    return { mean: null, low: 0, high: 1, n };
  return { ...stratifiedBootstrap(strata, { seed: SUMMARY_SEED, of: 'fractions' }), n };
}

/** @param values of the problems of each tier, in which null counts for nothing */
function summariseValues(
  values: readonly { readonly tier: string; readonly value: number | null }[],
  tiers: readonly Tier[],
): PassAtKSummary {
  const present = tiers.filter(({ id }) => values.some(({ tier }) => tier === id));
  const slots = [...new Set(present.map(({ id, group }) => group ?? id))];
  const byTier = dictionary<PassAtKEstimate>();
  const strata: Stratum[] = [];
  for (const { id, group } of present) {
    const own = values.flatMap(({ tier, value }) => (tier === id && value !== null ? [value] : []));
    byTier[id] = estimate([{ weight: 1, values: own }]);
    strata.push({
      weight:
        1 /
        slots.length /
        present.filter((other) => (other.group ?? other.id) === (group ?? id)).length,
      values: own,
    });
  }
  return { ...estimate(strata), byTier };
}

type Counts = PassAtKEvaluation['problems'];

const summariseK = (k: number, problems: Counts, tiers: readonly Tier[]): PassAtKSummary =>
  summariseValues(
    problems.map(({ tier, samples, passed }) => ({
      tier,
      value: samples >= k ? passAtK(samples, passed, k) : null,
    })),
    tiers,
  );

/** @param kindOf the verdict of a sample */
const countsOf = (
  problems: readonly Problem[],
  judged: readonly (readonly JudgedAnswer[])[],
  kindOf: (answer: JudgedAnswer) => VerdictKind,
): Counts =>
  problems.map(({ id, tier }, i) => {
    const decided = judged[i]!.map(kindOf).filter((kind) => kind !== 'none');
    return {
      problemId: id,
      tier,
      samples: decided.length,
      passed: decided.filter((kind) => kind === 'pass').length,
    };
  });

/**
 * Samples several answers to each problem and estimates, without bias, the chance that one of k
 * passes (Chen et al. 2021, §2.1). This is an upper bound, since choosing the right answer needs
 * the verifier; the accuracy of choosing without it is reported too.
 * @throws IsoproError as evaluateGreedy
 */
export async function evaluatePassAtK<R extends Reply>(
  backend: Backend<R>,
  task: OpenTask,
  problems: readonly Problem[],
  options: PassAtKOptions<R>,
): Promise<PassAtKEvaluation> {
  const { samples, temperature, seed, ks, onReply, ...rest } = options;
  /** [problems][samples]; of what a reply holds only this is kept. */
  const replies: Sample[][] = problems.map(() => []);
  const keep = (reply: JudgedReply<R>): void => {
    const { promptIndex, sampleIndex, text, finish } = reply.rollout;
    const turns = [...reply.earlier.map((turn) => turn.reply), reply.rollout].map(
      ({ logprobs }) => logprobs,
    );
    const likelihood = turns.every((logprobs) => logprobs !== undefined)
      ? meanLogprob({ logprobs: Float32Array.from(turns.flatMap((logprobs) => [...logprobs])) })
      : null;
    replies[promptIndex]![sampleIndex] = { text, finish, sampleIndex, likelihood };
    onReply?.(reply);
  };
  const { judged, ...counted } = await sampleAndJudge(
    backend,
    task,
    problems,
    { ...rest, onReply: keep },
    { samples, temperature, seed },
  );
  const counts = countsOf(problems, judged, ({ kind }) => kind);
  const lenient = judged.flat().every((answer) => answer.lenient !== undefined)
    ? countsOf(problems, judged, (answer) => answer.lenient!)
    : null;
  const ofEachK = (of: Counts): Record<string, PassAtKSummary> =>
    Object.fromEntries(ks.map((k) => [k, summariseK(k, of, task.tiers)]));
  const chosen = async (
    choose: (problem: Problem, of: readonly Sample[]) => Sample | Promise<Sample>,
  ): Promise<Summary> => {
    const outcomes: Outcome[] = [];
    for (const [i, problem] of problems.entries()) {
      const { sampleIndex } = await choose(problem, replies[i]!);
      outcomes.push({ tier: problem.tier, ...judged[i]![sampleIndex]! });
    }
    return summarise(outcomes, task.tiers, { seed: SUMMARY_SEED });
  };
  const likelihoods = replies.every((of) => of.every(({ likelihood }) => likelihood !== null));
  const measures = measure(
    judged.map((samplesOf, i) => samplesOf.map((each) => ({ tier: problems[i]!.tier, ...each }))),
    task.tiers,
    { seed: SUMMARY_SEED },
  );
  const shares = judged.map((of, i) => {
    const decided = of.filter(({ kind }) => kind !== 'none');
    const formed = decided.filter((answer) => answer.formed).length;
    return {
      tier: problems[i]!.tier,
      value: decided.length === 0 ? null : formed / decided.length,
    };
  });
  return {
    problems: counts,
    passAtK: ofEachK(counts),
    ...(lenient === null ? {} : { lenientPassAtK: ofEachK(lenient) }),
    format: summariseValues(shares, task.tiers),
    chosen: {
      majority: await chosen((problem, of) => commonest(problem, of, task.readAnswer.bind(task))),
      bestOfK: likelihoods
        ? await chosen((_, of) => mostLikely(of, ({ likelihood }) => likelihood!))
        : null,
    },
    none: problems.length * samples - counts.reduce((sum, each) => sum + each.samples, 0),
    ...(measures === null ? {} : { measures }),
    ...counted,
  };
}
