import type { Adapter } from '../engine/adapter.js';
import type { Rollout } from '../engine/generation.js';
import type { Model } from '../engine/model.js';
import { deriveSeed } from '../random.js';
import type { Judgement, OpenTask, Problem, PromptStyle, VerdictKind } from '../tasks/task.js';

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
  readonly onReply?: (reply: { readonly problem: Problem; readonly rollout: Rollout; readonly judgement: Judgement }) => void;
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

/**
 * Samples every problem in one running batch and has the task judge each answer as it is finished. One request, so that the composition of
 * the batches, and with it the last bits of the logits, is the same each time.
 */
export async function sampleAndJudge(
  model: Model,
  task: OpenTask,
  problems: readonly Problem[],
  options: EvaluationOptions,
  { samples, temperature, seed }: Sampling,
): Promise<JudgedAnswers> {
  const { style, maxTokens, maxSequences = 64, adapter, signal, onProgress, onReply } = options;
  const prompts = [];
  for (const problem of problems) {
    const { tokenIds } = model.renderChat(await task.prompt(problem, style));
    const seeds = Array.from({ length: samples }, (_, sample) =>
      deriveSeed({ runSeed: seed, purpose: 'evaluation', iteration: 0, problemId: problem.id, sample }),
    );
    prompts.push({ tokenIds, seeds });
  }
  const judged: JudgedAnswer[][] = problems.map(() => []);
  let done = 0;
  let sampledTokens = 0;
  const total = problems.length * samples;
  if (total > 0) {
    const rollouts = model.generate({
      prompts,
      maxTokens,
      maxSequences,
      sampling: { temperature },
      ...(adapter === undefined ? {} : { adapter }),
      ...(signal === undefined ? {} : { signal }),
    });
    for await (const rollout of rollouts) {
      if (rollout.finish === 'aborted') continue; // ABORTED follows
      const problem = problems[rollout.promptIndex]!;
      const judgement = await task.judge(problem, rollout.text, rollout.finish);
      judged[rollout.promptIndex]![rollout.sampleIndex] = {
        kind: judgement.verdict.kind,
        finish: rollout.finish,
        tokens: rollout.tokenIds.length,
      };
      sampledTokens += rollout.tokenIds.length;
      onReply?.({ problem, rollout, judgement });
      onProgress?.({ done: ++done, total, sampledTokens });
    }
  }
  return { judged, promptTokens: prompts.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0), sampledTokens };
}
