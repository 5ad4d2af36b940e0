/** Greedy evaluation of the present adapter on one of the run's sets, logged verdict by verdict. */
import type { EvaluationOptions } from '../evaluation/answers.js';
import type { Rollout } from '../engine/generation.js';
import { evaluateGreedy } from '../evaluation/greedy.js';
import type { HeldOut } from '../run-folder/records.js';
import { verdictsByTier, type Summary, type TierVerdicts } from '../statistics/index.js';
import { cancellation, report, type RunContext } from './run-state.js';

export interface SetEvaluation {
  readonly verdicts: readonly TierVerdicts[];
  readonly summary: Summary;
  readonly promptTokens: number;
  readonly sampledTokens: number;
}

/** @throws as evaluateGreedy */
export async function evaluateSet(
  context: RunContext,
  set: HeldOut['set'],
  at: Pick<HeldOut, 'when' | 'iteration' | 'adapter'>,
  onReply?: EvaluationOptions['onReply'],
): Promise<SetEvaluation> {
  const { settings, model, task, log } = context;
  const { problems, sha256: setSha256 } = context[set];
  const stage = set === 'dev' ? 'dev' : at.when === 'before' ? 'before' : 'after';
  const { style, maxTokens, maxSequences } = settings;
  const replies = new Map<string, Rollout>();
  const { outcomes, summary, promptTokens, sampledTokens } = await evaluateGreedy(model, task, problems, {
    style,
    maxTokens,
    maxSequences,
    ...cancellation(context),
    onReply: (reply) => {
      replies.set(reply.problem.id, reply.rollout);
      onReply?.(reply);
    },
    onProgress: ({ done, total, sampledTokens: tokens }) => report(context, { stage, iteration: at.iteration, done, total, tokens }),
  });
  const record = {
    kind: 'held_out',
    set,
    ...at,
    setSha256,
    outcomes: outcomes.map(({ problemId, tier, kind }) => [problemId, tier, kind]),
    tokens: outcomes.map(({ tokens }) => tokens),
    finishes: outcomes.map(({ finish }) => finish),
  } as const;
  // the adapters in between are not kept, so their replies are all that a judge can judge again
  const kept =
    set === 'dev'
      ? outcomes.map(({ problemId, finish }) => ({
          kind: 'dev_reply',
          iteration: at.iteration,
          problemId,
          finish,
          tokenIds: [...replies.get(problemId)!.tokenIds],
        }))
      : [];
  log.append([...kept, record].map((payload) => ({ stream: 'evaluations', payload })));
  return { verdicts: verdictsByTier(outcomes, task.tiers), summary, promptTokens, sampledTokens };
}
