import type { Backend, Reply, SampleRequest } from '../backends/backend.js';
import { given } from '../given.js';
import { figuresOf, type Figures } from '../statistics/index.js';
import { answer, type JudgedReply } from '../rollouts/answer.js';
import type { EpisodeEnd, OpenTask, Problem, PromptStyle, VerdictKind } from '../tasks/task.js';
import { FailureTally, reasonOf, type Failures } from '../tasks/failures.js';
import { FailedSamples } from './failed-samples.js';
import { withQuestions } from './failure-examples.js';
import { promptsOf, type FewShot } from './few-shot.js';
import { FirstVerdicts } from './first-verdicts.js';
import { seedOf } from '../tasks/seed.js';

export interface EvaluationOptions<R extends Reply = Reply> {
  readonly style: PromptStyle;
  /** Solved examples of the same tier before each question. */
  readonly fewShot?: FewShot;
  /**
   * GBNF that constrains every reply, such as `answerGrammar` of the task, so that the form of an
   * answer cannot fail.
   */
  readonly grammar?: string;
  /** Judge each reply a second time under the most lenient reading of the task. */
  readonly lenient?: boolean;
  /** End the evaluation if the verifier decides none of the first replies. Default: continue. */
  readonly endUndecided?: boolean;
  /**
   * Share of the samples that may have no reply; the evaluation ends where more than one and more
   * than this have none. Default: any but all.
   */
  readonly maxFailed?: number;
  /** Most tokens of each answer. */
  readonly maxTokens: number;
  /**
   * Sequences in one batch; default: 64. Like the threads, it changes the last bits of the logits.
   */
  readonly maxSequences?: number;
  /** Adapter for this evaluation; absent: that of the back end; null: the base model. */
  readonly adapter?: SampleRequest['adapter'];
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: {
    readonly done: number;
    readonly total: number;
    readonly sampledTokens: number | null;
  }) => void;
  /** Called with each judged reply, in the order in which they finish. */
  readonly onReply?: (reply: JudgedReply<R>) => void;
}

export interface Sampling {
  /** Of each problem. */
  readonly samples: number;
  readonly temperature: number;
  readonly seed: bigint;
}

export interface JudgedAnswer extends Figures {
  readonly kind: VerdictKind;
  /** Violations of an answer that fails; reason of the verifier for an undecided one. */
  readonly why: readonly string[];
  /** True if the strict reading succeeded. */
  readonly formed: boolean;
  /**
   * Verdict under the most lenient reading, which includes the strict one; absent if it was not
   * asked for or the task has none.
   */
  readonly lenient?: VerdictKind;
  readonly finish: EpisodeEnd;
  /** Sampled tokens; null if the back end does not count them. */
  readonly tokens: number | null;
}

export interface JudgedAnswers {
  /** [problems][samples]. */
  readonly judged: readonly (readonly JudgedAnswer[])[];
  /** Reasons why answers do not pass, in the order of problems and samples. */
  readonly failures: Failures;
  /** Null if the back end does not count tokens. */
  readonly promptTokens: number | null;
  readonly sampledTokens: number | null;
}

/** A sum of which one part is unknown is unknown. */
const plus = (sum: number | null, part: number | undefined): number | null =>
  sum === null || part === undefined ? null : sum + part;

/** Samples every problem and judges each answer. @throws as `answer` */
export async function sampleAndJudge<R extends Reply>(
  backend: Backend<R>,
  task: OpenTask,
  problems: readonly Problem[],
  options: EvaluationOptions<R>,
  { samples, temperature, seed }: Sampling,
): Promise<JudgedAnswers> {
  const {
    style,
    maxTokens,
    maxSequences = 64,
    adapter,
    grammar,
    signal,
    onProgress,
    onReply,
  } = options;
  const plan = problems.map((problem) => ({
    problem,
    seeds: Array.from({ length: samples }, (_, sample) =>
      seedOf(seed, 'evaluation', problem.id, sample),
    ),
  }));
  const judged: JudgedAnswer[][] = problems.map(() => []);
  /** [problems][samples] of replies that do not pass. */
  const failing: string[][] = problems.map(() => []);
  const first = new FirstVerdicts(task.id);
  const failed = new FailedSamples(problems.length * samples, options.maxFailed);
  let done = 0;
  let promptTokens: number | null = 0;
  let sampledTokens: number | null = 0;
  await answer(
    {
      backend,
      task,
      plan,
      prompt: promptsOf(task, style, options.fewShot),
      temperature,
      maxTokens,
      maxSequences,
      ...given({ grammar, adapter, signal }),
    },
    (reply) => {
      const { promptIndex, sampleIndex, finish } = reply.rollout;
      const replies = [...reply.earlier.map((turn) => turn.reply), reply.rollout];
      const tokens = replies.reduce<number | null>(
        (sum, each) => plus(sum, each.tokenIds?.length ?? each.tokens),
        0,
      );
      const [{ promptIds, promptTokens: counted }] = replies as [R, ...R[]];
      if (judged[promptIndex]!.length === 0)
        promptTokens = plus(promptTokens, promptIds?.length ?? counted);
      const { verdict } = reply.judgement;
      const reason = reasonOf(reply.judgement, finish);
      if (finish === 'failed') failed.take(reply.rollout.failure!);
      else if (options.endUndecided === true) first.take(reason);
      judged[promptIndex]![sampleIndex] = { ...reason, ...figuresOf(verdict), tokens };
      if (verdict.kind !== 'pass') failing[promptIndex]![sampleIndex] = reply.rollout.text;
      sampledTokens = plus(sampledTokens, tokens ?? undefined);
      onReply?.(reply);
      onProgress?.({ done: ++done, total: problems.length * samples, sampledTokens });
    },
  );
  failed.end();
  if (options.endUndecided === true) first.end();
  const tally = new FailureTally();
  for (const [i, { id: problemId, tier }] of problems.entries())
    for (const [sample, answered] of judged[i]!.entries())
      tally.take({ ...answered, problemId, tier, text: failing[i]![sample] ?? null });
  const counted = {
    promptTokens,
    sampledTokens,
    failures: await withQuestions(tally.failures, task, problems, style),
  };
  if (options.lenient !== true || !task.readsLeniently) return { judged, ...counted };
  return { judged: await readLeniently(task, problems, judged, failing, signal), ...counted };
}

/**
 * One after the other: a verifier's time limit runs from when it is asked. A reply that passes is
 * not read twice: it passes here too.
 */
async function readLeniently(
  task: OpenTask,
  problems: readonly Problem[],
  judged: readonly (readonly JudgedAnswer[])[],
  failing: readonly (readonly string[])[],
  signal: AbortSignal | undefined,
): Promise<JudgedAnswer[][]> {
  const read: JudgedAnswer[][] = [];
  for (const [i, problem] of problems.entries()) {
    const samples: JudgedAnswer[] = [];
    for (const [sample, answered] of judged[i]!.entries()) {
      const text = failing[i]![sample];
      const judgement =
        text === undefined ? null : await task.judgeLeniently(problem, text, given({ signal }));
      samples.push({ ...answered, lenient: judgement?.verdict.kind ?? 'pass' });
    }
    read.push(samples);
  }
  return read;
}
