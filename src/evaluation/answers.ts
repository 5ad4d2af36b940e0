import type { Backend, Reply, SampleRequest } from '../backends/backend.js';
import { given } from '../given.js';
import { figuresOf, type Figures } from '../statistics/index.js';
import { answer, type JudgedReply } from '../rollouts/answer.js';
import type { FinishReason, OpenTask, Problem, PromptStyle, VerdictKind } from '../tasks/task.js';
import { FailureTally, reasonOf, type Failures } from '../tasks/failures.js';
import { withQuestions } from './failure-examples.js';
import { promptsOf, type FewShot } from './few-shot.js';
import { FirstVerdicts } from './first-verdicts.js';
import { seedOf } from '../tasks/seed.js';

export interface EvaluationOptions<R extends Reply = Reply> {
  readonly style: PromptStyle;
  /** Solved examples of each question's own tier before it. */
  readonly fewShot?: FewShot;
  /**
   * GBNF that every reply keeps: of a task's `answerGrammar`, so that the form of an answer cannot
   * fail.
   */
  readonly grammar?: string;
  /** Reads each reply a second time, in the task's most lenient way. */
  readonly lenient?: boolean;
  /**
   * Ends it where the verifier decides none of the first replies. Default: their verdicts are kept
   * as they are.
   */
  readonly endUndecided?: boolean;
  /** Of each answer. */
  readonly maxTokens: number;
  /**
   * Default 64. Sequences in one batch; with the threads it decides the last bits of the logits.
   */
  readonly maxSequences?: number;
  /** For this evaluation; absent: what the back end answers with by itself; null: the bare base. */
  readonly adapter?: SampleRequest['adapter'];
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: {
    readonly done: number;
    readonly total: number;
    readonly sampledTokens: number | null;
  }) => void;
  /** Every reply as it is judged, for a reader; the order is that in which they finish. */
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
  /** Violations of an answer that fails, what the verifier said of one that it did not decide. */
  readonly why: readonly string[];
  /** Whether the strict reading succeeded. */
  readonly formed: boolean;
  /**
   * The verdict under the most lenient reading, of which the strict one is a part; absent where it
   * was not asked for or there is none.
   */
  readonly lenient?: VerdictKind;
  readonly finish: FinishReason;
  /** Sampled; null where the back end does not count. */
  readonly tokens: number | null;
}

export interface JudgedAnswers {
  /** [problems][samples]. */
  readonly judged: readonly (readonly JudgedAnswer[])[];
  /** Why answers do not pass, in the order of problems and samples. */
  readonly failures: Failures;
  /** Null where the back end does not count. */
  readonly promptTokens: number | null;
  readonly sampledTokens: number | null;
}

/** A sum of which one part is unknown is unknown. */
const plus = (sum: number | null, part: number | undefined): number | null =>
  sum === null || part === undefined ? null : sum + part;

/** Samples every problem and has the task judge each answer, as `answer`. */
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
      if (options.endUndecided === true) first.take(reason);
      judged[promptIndex]![sampleIndex] = { ...reason, ...figuresOf(verdict), tokens };
      if (verdict.kind !== 'pass') failing[promptIndex]![sampleIndex] = reply.rollout.text;
      sampledTokens = plus(sampledTokens, tokens ?? undefined);
      onReply?.(reply);
      onProgress?.({ done: ++done, total: problems.length * samples, sampledTokens });
    },
  );
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
