/** Judged rollouts in groups: what an algorithm learns from. */
import { trainable, type Backend, type TokenReply } from '../backends/backend.js';
import type { Problem, Verdict } from '../tasks/task.js';
import { answer, type AnswerRequest } from './answer.js';
import { exchange, type Episode } from './episode.js';

/** `tokenIds` and the log-probabilities are of the sampled tokens of the episode, in order. */
export interface JudgedRollout extends Omit<TokenReply, 'promptIds'> {
  readonly episode: Episode;
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

/**
 * Groups in the order of the plan, each of at least one sample.
 * @throws IsoproError BACKEND_INCAPABLE where the replies could not be learned from; as answer
 */
export async function sampleRollouts({ backend, onVerdict, ...request }: SampleOptions): Promise<SampledGroups> {
  const judged: JudgedRollout[][] = request.plan.map(() => []);
  let [promptTokens, sampledTokens] = [0, 0];
  await answer({ ...request, backend: trainable(backend) }, ({ problem, rollout: { promptIds, ...rollout }, judgement }) => {
    const { promptIndex, sampleIndex, tokenIds } = rollout;
    const { verdict, form } = judgement;
    if (judged[promptIndex]!.length === 0) promptTokens += promptIds.length;
    sampledTokens += tokenIds.length;
    judged[promptIndex]![sampleIndex] = { ...rollout, episode: exchange(promptIds, tokenIds), verdict, form };
    onVerdict?.(problem, verdict);
  });
  return { groups: request.plan.map(({ problem }, i) => ({ problem, rollouts: judged[i]! })), promptTokens, sampledTokens };
}
