/** Judged rollouts in groups, from which an algorithm learns. */
import { failureText, trainable, type Backend, type TokenReply } from '../backends/backend.js';
import { IsoproError } from '../errors.js';
import type { EpisodeEnd, Problem, Verdict } from '../tasks/task.js';
import { answer, type AnswerRequest, type JudgedReply, type LastReply } from './answer.js';
import { episodeOf, type Episode } from './episode.js';

/** `tokenIds` and the log-probabilities are of the sampled tokens of the episode, in order. */
export interface JudgedRollout extends Omit<LastReply<TokenReply>, 'promptIds'> {
  readonly episode: Episode;
  /** The texts of the turns before the last reply, whose text is `text`. */
  readonly earlier: readonly { readonly text: string; readonly said: string }[];
  readonly verdict: Verdict;
  /** Surface form of the answer; null where none was read. */
  readonly form: string | null;
}

/** All samples of one problem, by sample index. */
export interface RolloutGroup {
  readonly problem: Problem;
  readonly rollouts: readonly JudgedRollout[];
}

export interface SampleOptions extends Omit<AnswerRequest, 'backend'> {
  readonly backend: Backend;
  /** After each verdict. */
  readonly onVerdict?: (problem: Problem, verdict: Verdict) => void;
}

export interface SampledGroups {
  readonly groups: readonly RolloutGroup[];
  /** Each prompt counts once, however many samples it has. */
  readonly promptTokens: number;
  readonly sampledTokens: number;
}

/** @throws IsoproError BACKEND_INCAPABLE if the back end gives no token ids of the turns */
export function judgedRollout(
  { identity }: Backend,
  { earlier, rollout, judgement }: JudgedReply<TokenReply>,
): JudgedRollout {
  const { promptIds, ...last } = rollout;
  const ended = last.finish as EpisodeEnd; // as a back end says it, whatever its type promises
  if (ended === 'failed' || ended === 'refused') {
    const why =
      last.failure === undefined ? 'a content filter refused it' : failureText(last.failure);
    throw new IsoproError(
      'BACKEND_REPLY_INVALID',
      `the back end ${identity.kind}:${identity.name} gave no reply to train on: ${why}`,
    );
  }
  const exchanges = earlier.map(({ reply, saidIds }) => {
    if (saidIds === undefined)
      throw new IsoproError(
        'BACKEND_INCAPABLE',
        `the back end ${identity.kind}:${identity.name} lacks renderTurn, which episodes of several turns need`,
      );
    return { replyIds: reply.tokenIds, saidIds };
  });
  const replies = [...earlier.map(({ reply }) => reply), last];
  return {
    ...last,
    seed: replies[0]!.seed,
    tokenIds: Int32Array.from(replies.flatMap(({ tokenIds }) => [...tokenIds])),
    logprobs: Float32Array.from(replies.flatMap(({ logprobs }) => [...logprobs])),
    sampledLogprobs: Float32Array.from(
      replies.flatMap(({ sampledLogprobs }) => [...sampledLogprobs]),
    ),
    episode: episodeOf(earlier[0]?.reply.promptIds ?? promptIds, exchanges, last.tokenIds),
    earlier: earlier.map(({ reply, said }) => ({ text: reply.text, said })),
    verdict: judgement.verdict,
    form: judgement.form,
  };
}

/**
 * Groups in the order of the plan, each of at least one sample.
 * @throws IsoproError BACKEND_INCAPABLE where the replies could not be learned from; as answer
 */
export async function sampleRollouts({
  backend,
  onVerdict,
  ...request
}: SampleOptions): Promise<SampledGroups> {
  const judged: JudgedRollout[][] = request.plan.map(() => []);
  let [promptTokens, sampledTokens] = [0, 0];
  await answer({ ...request, backend: trainable(backend) }, (reply) => {
    const rollout = judgedRollout(backend, reply);
    const of = judged[rollout.promptIndex]!;
    if (of.length === 0) promptTokens += rollout.episode[0]!.ids.length;
    sampledTokens += rollout.tokenIds.length;
    of[rollout.sampleIndex] = rollout;
    onVerdict?.(reply.problem, rollout.verdict);
  });
  return {
    groups: request.plan.map(({ problem }, i) => ({ problem, rollouts: judged[i]! })),
    promptTokens,
    sampledTokens,
  };
}
