/** Greedy evaluation of the present adapter on one of the run's sets, logged verdict by verdict. */
import type { TokenReply } from '../backends/backend.js';
import type { EvaluationOptions } from '../evaluation/answers.js';
import { evaluateGreedy } from '../evaluation/greedy.js';
import { judgedRollout, type JudgedRollout } from '../rollouts/sample.js';
import { devReplyRecord, heldOutRecord, type HeldOut } from '../run-folder/evaluation-records.js';
import { figuresGiven, figuresOf, verdictsByTier, type Summary, type TierVerdicts } from '../statistics/index.js';
import { turnRecords } from './rollout-records.js';
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
  onReply?: EvaluationOptions<TokenReply>['onReply'],
): Promise<SetEvaluation> {
  const { settings, backend, task, log } = context;
  const { problems, sha256: setSha256 } = context[set];
  const stage = set === 'dev' ? 'dev' : at.when === 'before' ? 'before' : 'after';
  const { style, maxTokens } = settings.sampling;
  const { maxSequences } = settings.model;
  const replies = new Map<string, JudgedRollout>();
  const { outcomes, summary } = await evaluateGreedy(backend, task, problems, {
    style,
    maxTokens,
    maxSequences,
    lenient: set === 'test',
    ...cancellation(context),
    onReply: (reply) => {
      replies.set(reply.problem.id, judgedRollout(backend, reply));
      onReply?.(reply);
    },
    onProgress: ({ done, total, sampledTokens: tokens }) =>
      report(context, { stage, iteration: at.iteration, done, total, tokens: tokens ?? 0 }),
  });
  const rollouts = outcomes.map(({ problemId }) => replies.get(problemId)!);
  const record = heldOutRecord({
    set,
    ...at,
    setSha256,
    outcomes: outcomes.map(({ problemId, tier, kind }) => [problemId, tier, kind]),
    ...(figuresGiven(outcomes).length === 0 ? {} : { figures: outcomes.map(figuresOf) }),
    formed: outcomes.map(({ formed }) => formed),
    ...(outcomes.every(({ lenient }) => lenient === undefined) ? {} : { lenient: outcomes.map(({ lenient }) => lenient!) }),
    tokens: rollouts.map(({ tokenIds }) => tokenIds.length),
    finishes: outcomes.map(({ finish }) => finish),
  });
  // the adapters in between are not kept, so their replies are all that a judge can judge again
  const kept =
    set === 'dev'
      ? outcomes.map(({ problemId, finish }, i) =>
          devReplyRecord({
            iteration: at.iteration,
            problemId,
            finish,
            tokenIds: [...rollouts[i]!.tokenIds],
            ...turnRecords(rollouts[i]!),
          }),
        )
      : [];
  log.append([...kept, record]);
  return {
    verdicts: verdictsByTier(outcomes, task.tiers),
    summary,
    promptTokens: rollouts.reduce((sum, { episode }) => sum + episode[0]!.ids.length, 0),
    sampledTokens: rollouts.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
  };
}
