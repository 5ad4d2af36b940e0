/** The one path from problems to verdicts: prompts, replies, judgements. The loop, its modes, every evaluation and the judge take it. */
import type { Adapter } from '../engine/adapter.js';
import type { GenerationProgress } from '../engine/addon.js';
import type { Rollout } from '../engine/generation.js';
import type { Model } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import type { ChatMessage, Judgement, OpenTask, Problem } from '../tasks/task.js';
import type { PlannedProblem } from './plan.js';

export interface AnswerRequest {
  readonly model: Model;
  /** The task itself, or the threads that judge for it. */
  readonly verdicts: Pick<OpenTask, 'judge'>;
  readonly plan: readonly PlannedProblem[];
  readonly prompt: (problem: Problem) => Promise<readonly ChatMessage[]>;
  /** What every reply begins with, as if the model had said it; its tokens must be those that the model would have said it in. */
  readonly opening?: string;
  readonly temperature: number;
  /** Default 1. */
  readonly topP?: number;
  readonly maxTokens: number;
  readonly maxSequences: number;
  /** The model's own where absent. */
  readonly adapter?: Adapter | null;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: GenerationProgress) => void;
}

export interface JudgedReply {
  readonly problem: Problem;
  /** `promptIndex` is the place in the plan, `sampleIndex` that of its seed; `text` begins with the opening. */
  readonly rollout: Rollout;
  readonly judgement: Judgement;
}

export type AnswerTotals = Pick<GenerationProgress, 'promptTokens' | 'sampledTokens'>;

/**
 * Samples the whole plan in one running batch and judges each reply while the others go on. One request, so that the composition of the
 * batches, and with it the last bits of the logits, is the same each time.
 * @param take is given the judged replies in the order in which they finished; where it throws, the generation ends
 * @throws IsoproError as Model.generate and OpenTask.prompt; ABORTED; what `take` throws
 */
export async function answer(request: AnswerRequest, take: (reply: JudgedReply) => void): Promise<AnswerTotals> {
  const { model, verdicts, plan, opening = '', temperature, topP = 1, maxTokens, maxSequences, adapter, signal, onProgress } = request;
  const begun = opening === '' ? [] : [...model.tokenize(opening)];
  const prompts: { tokenIds: Int32Array; seeds: readonly bigint[] }[] = [];
  for (const { problem, seeds } of plan) {
    const { tokenIds } = model.renderChat(await request.prompt(problem));
    prompts.push({ tokenIds: begun.length === 0 ? tokenIds : Int32Array.from([...tokenIds, ...begun]), seeds });
  }
  if (plan.every(({ seeds }) => seeds.length === 0)) return { promptTokens: 0, sampledTokens: 0 };

  const failed = new AbortController();
  let taken = Promise.resolve();
  let over = false;
  const generation = model.generate({
    prompts,
    sampling: { temperature, topP },
    maxTokens,
    maxSequences,
    signal: signal === undefined ? failed.signal : AbortSignal.any([signal, failed.signal]),
    ...(adapter === undefined ? {} : { adapter }),
    ...(onProgress === undefined ? {} : { onProgress }),
  });
  try {
    let step = await generation.next();
    for (; step.done !== true; step = await generation.next()) {
      const { finish, promptIndex } = step.value;
      if (finish === 'aborted') continue;
      const { problem } = plan[promptIndex]!;
      const rollout = opening === '' ? step.value : { ...step.value, text: opening + step.value.text };
      const judging = verdicts.judge(problem, rollout.text, finish);
      taken = Promise.all([judging, taken]).then(([judgement]) => {
        if (!over) take({ problem, rollout, judgement });
      });
      taken.catch(() => failed.abort());
    }
    await taken;
    if (signal?.aborted === true) throw new IsoproError('ABORTED', 'sampling was cancelled');
    return step.value;
  } catch (error) {
    if (failed.signal.aborted) await taken; // throws what went wrong first
    throw error;
  } finally {
    over = true; // a verdict that comes later is nobody's
  }
}
