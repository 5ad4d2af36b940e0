import type { Adapter } from '../engine/adapter.js';
import type { Rollout } from '../engine/generation.js';
import type { Model } from '../engine/model.js';
import { deriveSeed } from '../random.js';
import { answer, type JudgedReply } from '../rollouts/answer.js';
import type { OpenTask, Problem, PromptStyle, VerdictKind } from '../tasks/task.js';

export interface EvaluationOptions {
  readonly style: PromptStyle;
  /** Of each answer. */
  readonly maxTokens: number;
  /** Default 64. Sequences in one batch; with the threads it decides the last bits of the logits. */
  readonly maxSequences?: number;
  /** For this evaluation; absent: the model's own; null: the bare base. */
  readonly adapter?: Adapter | null;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: { readonly done: number; readonly total: number; readonly sampledTokens: number }) => void;
  /** Every reply as it is judged, for a reader; the order is that in which they finish. */
  readonly onReply?: (reply: JudgedReply) => void;
}

export interface Sampling {
  readonly samples: number;
  readonly temperature: number;
  readonly seed: bigint;
}

export interface JudgedAnswer {
  readonly kind: VerdictKind;
  readonly finish: Rollout['finish'];
  readonly tokens: number;
}

export interface JudgedAnswers {
  /** [problems][samples]. */
  readonly judged: readonly (readonly JudgedAnswer[])[];
  readonly promptTokens: number;
  readonly sampledTokens: number;
}

/** Samples every problem and has the task judge each answer, as `answer`. */
export async function sampleAndJudge(
  model: Model,
  task: OpenTask,
  problems: readonly Problem[],
  options: EvaluationOptions,
  { samples, temperature, seed }: Sampling,
): Promise<JudgedAnswers> {
  const { style, maxTokens, maxSequences = 64, adapter, signal, onProgress, onReply } = options;
  const plan = problems.map((problem) => ({
    problem,
    seeds: Array.from({ length: samples }, (_, sample) =>
      deriveSeed({ runSeed: seed, purpose: 'evaluation', iteration: 0, problemId: problem.id, sample }),
    ),
  }));
  const judged: JudgedAnswer[][] = problems.map(() => []);
  const promptTokens = problems.map(() => 0);
  let [done, sampledTokens] = [0, 0];
  await answer(
    {
      model,
      verdicts: task,
      plan,
      prompt: (problem) => task.prompt(problem, style),
      temperature,
      maxTokens,
      maxSequences,
      ...(adapter === undefined ? {} : { adapter }),
      ...(signal === undefined ? {} : { signal }),
    },
    (reply) => {
      const { promptIndex, sampleIndex, finish, promptIds, tokenIds } = reply.rollout;
      judged[promptIndex]![sampleIndex] = { kind: reply.judgement.verdict.kind, finish, tokens: tokenIds.length };
      promptTokens[promptIndex] = promptIds.length;
      sampledTokens += tokenIds.length;
      onReply?.(reply);
      onProgress?.({ done: ++done, total: problems.length * samples, sampledTokens });
    },
  );
  return { judged, promptTokens: promptTokens.reduce((sum, tokens) => sum + tokens, 0), sampledTokens };
}
