/** Replies of whoever answers to a list of problems, judged: what every mode is made of. */
import type { Reply } from '../../backends/backend.js';
import { FailedSamples } from '../../evaluation/failed-samples.js';
import { given } from '../../given.js';
import { answer, type AnswerRequest } from '../../rollouts/answer.js';
import type { Problem } from '../../tasks/task.js';
import type { ModeContext, ModeReply } from './mode.js';

export interface ModeReplies {
  /** In the order of the plan, each by sample index. */
  readonly groups: readonly { readonly problem: Problem; readonly replies: readonly ModeReply[] }[];
  /** Sampled; a back end that does not count them counts as none. */
  readonly tokens: number;
}

/** @throws as `answer`; BACKEND_FAILED */
export async function sampleReplies(
  { backend, task, settings, signal, maxFailed }: ModeContext,
  asking: Pick<AnswerRequest, 'plan' | 'prompt' | 'temperature' | 'onProgress'> & {
    readonly topP?: number;
  },
): Promise<ModeReplies> {
  const { plan } = asking;
  const groups: ModeReply[][] = plan.map(() => []);
  const planned = plan.reduce((sum, { seeds }) => sum + seeds.length, 0);
  const failed = new FailedSamples(planned, maxFailed);
  let tokens = 0;
  await answer(
    {
      ...{ backend, task, ...asking },
      maxTokens: settings.sampling.maxTokens,
      maxSequences: settings.model.maxSequences,
      adapter: null,
      ...given({ signal }),
    },
    ({ earlier, rollout, judgement }) => {
      const { promptIndex, sampleIndex, text, finish, failure } = rollout;
      if (failure !== undefined) failed.take(failure);
      const turns: readonly Pick<Reply, 'tokenIds' | 'tokens' | 'logprobs'>[] = [
        ...earlier.map((turn) => turn.reply),
        rollout,
      ];
      tokens += turns.reduce((sum, each) => sum + (each.tokenIds?.length ?? each.tokens ?? 0), 0);
      const logprobs = turns.every((each) => each.logprobs !== undefined)
        ? Float32Array.from(turns.flatMap((each) => [...each.logprobs!]))
        : undefined;
      const { verdict, form } = judgement;
      groups[promptIndex]![sampleIndex] = { text, finish, verdict, form, ...given({ logprobs }) };
    },
  );
  failed.end();
  return { groups: plan.map(({ problem }, i) => ({ problem, replies: groups[i]! })), tokens };
}
