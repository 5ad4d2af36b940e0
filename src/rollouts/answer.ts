/** The one path from problems to verdicts: prompts, replies, judgements. The loop, its modes, every evaluation and the judge take it. */
import { sampleFrom, type Backend, type Reply, type SamplePrompt, type SampleRequest } from '../backends/backend.js';
import type { ChatMessage, Judgement, OpenTask, Problem } from '../tasks/task.js';
import type { PlannedProblem } from './plan.js';

export interface AnswerRequest<R extends Reply = Reply> extends Pick<SampleRequest, 'maxTokens' | 'adapter' | 'signal' | 'onProgress'> {
  readonly backend: Backend<R>;
  readonly task: Pick<OpenTask, 'judge'>;
  readonly plan: readonly PlannedProblem[];
  readonly prompt: (problem: Problem) => Promise<readonly ChatMessage[]>;
  /** What every reply begins with, as if the model had said it; its tokens must be those that the model would have said it in. */
  readonly opening?: string;
  readonly temperature: number;
  /** Default 1. */
  readonly topP?: number;
  readonly maxSequences: number;
}

export interface JudgedReply<R extends Reply = Reply> {
  readonly problem: Problem;
  /** What the back end was asked. */
  readonly messages: SamplePrompt['messages'];
  /** `promptIndex` is the place in the plan, `sampleIndex` that of its seed; `text` begins with the opening. */
  readonly rollout: R;
  readonly judgement: Judgement;
}

/**
 * Asks for the whole plan in one request and judges each reply while the others go on.
 * @param take is given the judged replies in the order in which they finished; where it throws, the generation ends
 * @throws IsoproError as sampleFrom and OpenTask.prompt; what the back end and `take` throw
 */
export async function answer<R extends Reply>(request: AnswerRequest<R>, take: (reply: JudgedReply<R>) => void): Promise<void> {
  const { backend, task, plan, prompt, opening = '', temperature, topP = 1, maxTokens, maxSequences } = request;
  const { adapter, signal, onProgress } = request;
  const said: readonly ChatMessage[] = opening === '' ? [] : [{ role: 'assistant', content: opening }];
  const prompts: SamplePrompt[] = [];
  for (const { problem, seeds } of plan) prompts.push({ id: problem.id, messages: [...(await prompt(problem)), ...said], seeds });
  if (plan.every(({ seeds }) => seeds.length === 0)) return;

  const failed = new AbortController();
  const cancelled = signal === undefined ? failed.signal : AbortSignal.any([signal, failed.signal]);
  let taken = Promise.resolve();
  let over = false;
  const replies = sampleFrom(backend, {
    prompts,
    sampling: { temperature, topP },
    maxTokens,
    maxSequences,
    signal: cancelled,
    ...(adapter === undefined ? {} : { adapter }),
    ...(onProgress === undefined ? {} : { onProgress }),
  });
  try {
    for await (const reply of replies) {
      const { problem } = plan[reply.promptIndex]!;
      const { messages } = prompts[reply.promptIndex]!;
      const rollout = opening === '' ? reply : { ...reply, text: opening + reply.text };
      const judging = task.judge(problem, rollout.text, rollout.finish, { signal: cancelled });
      taken = Promise.all([judging, taken]).then(([judgement]) => {
        if (!over) take({ problem, messages, rollout, judgement });
      });
      taken.catch(() => failed.abort());
    }
    await taken;
  } catch (error) {
    if (failed.signal.aborted) await taken; // throws what went wrong first
    throw error;
  } finally {
    over = true; // a verdict that comes later is nobody's
  }
}
