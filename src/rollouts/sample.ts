/** Judged rollouts in groups: what an algorithm learns from. */
import type { Rollout } from '../engine/generation.js';
import type { Problem, Verdict } from '../tasks/task.js';
import { answer, type AnswerRequest, type AnswerTotals } from './answer.js';
import { exchange, type Episode } from './episode.js';

/** `tokenIds` and the log-probabilities are of the sampled tokens of the episode, in order. */
export interface JudgedRollout extends Omit<Rollout, 'promptIds'> {
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

export interface SampleOptions extends AnswerRequest {
  /** After each verdict. */
  readonly onVerdict?: (problem: Problem, verdict: Verdict) => void;
}

export interface SampledGroups extends AnswerTotals {
  readonly groups: readonly RolloutGroup[];
}

/**
 * Groups in the order of the plan, each of at least one sample.
 * @throws as answer
 */
export async function sampleRollouts({ onVerdict, ...request }: SampleOptions): Promise<SampledGroups> {
  const judged: JudgedRollout[][] = request.plan.map(() => []);
  const { promptTokens, sampledTokens } = await answer(request, ({ problem, rollout: { promptIds, ...rollout }, judgement }) => {
    const { verdict, form } = judgement;
    judged[rollout.promptIndex]![rollout.sampleIndex] = { ...rollout, episode: exchange(promptIds, rollout.tokenIds), verdict, form };
    onVerdict?.(problem, verdict);
  });
  const groups = request.plan.map(({ problem }, i) => ({ problem, rollouts: judged[i]! }));
  return { groups, promptTokens, sampledTokens };
}
