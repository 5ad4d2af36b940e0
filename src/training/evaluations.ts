/** Greedy evaluation of the present adapter on one of the run's sets, logged verdict by verdict. */
import type { TokenReply } from '../backends/backend.js';
import { IsoproError } from '../errors.js';
import type { EvaluationOptions } from '../evaluation/answers.js';
import { evaluateGreedy } from '../evaluation/greedy.js';
import { given } from '../given.js';
import { judgedRollout, type JudgedRollout } from '../rollouts/sample.js';
import {
  constrainedRecord,
  devReplyRecord,
  heldOutRecord,
  type HeldOut,
} from '../run-folder/evaluation-records.js';
import {
  figuresGiven,
  figuresOf,
  verdictsByTier,
  type Summary,
  type TierVerdicts,
} from '../statistics/index.js';
import type { OpenTask, VerdictKind } from '../tasks/task.js';
import { turnRecords } from './rollout-records.js';
import {
  countVerdict,
  report,
  shownHits,
  type Answering,
  type EvaluationSets,
  type Log,
  type Reporting,
} from './run-state.js';
import { actsWithinTurns, type RunSettings } from './settings.js';
import { refuseUndecided } from './verifier-check.js';

export interface SetEvaluation {
  readonly verdicts: readonly TierVerdicts[];
  readonly summary: Summary;
  readonly promptTokens: number;
  readonly sampledTokens: number;
}

type At = Pick<HeldOut, 'when' | 'iteration' | 'adapter'>;
type Evaluating = Reporting & Answering & Log & EvaluationSets;

/**
 * The test set, once before and once after; with `evaluation.constrained` under the grammar of
 * answers too.
 * @throws as evaluateGreedy
 */
export async function evaluateTest(context: Evaluating, at: At): Promise<SetEvaluation> {
  const evaluated = await evaluateSet(context, 'test', at);
  if (!context.settings.evaluation.constrained) return evaluated;
  const { promptTokens, sampledTokens } = await evaluateSet(context, 'test', at, {
    grammar: context.task.answerGrammar!,
  });
  return {
    ...evaluated,
    promptTokens: evaluated.promptTokens + promptTokens,
    sampledTokens: evaluated.sampledTokens + sampledTokens,
  };
}

/** @throws IsoproError INVALID_ARGUMENT */
export function refuseTurns(
  settings: RunSettings,
  { id, turns }: Pick<OpenTask, 'id' | 'turns'>,
): void {
  if (settings.layers.adapterFrom === 'reply' && turns > 1)
    throw new IsoproError('INVALID_ARGUMENT', actsWithinTurns(`${id} has up to ${turns} turns`));
}

/** @throws IsoproError INVALID_ARGUMENT where the settings ask for what the task has not */
export function refuseWithoutGrammar(
  { evaluation }: RunSettings,
  { id, answerGrammar }: OpenTask,
): void {
  if (evaluation.constrained && answerGrammar === null)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `evaluation.constrained: ${id} has no answer grammar`,
    );
}

/** @throws as evaluateGreedy */
export async function evaluateSet(
  context: Evaluating,
  set: HeldOut['set'],
  at: At,
  { onReply, grammar }: Pick<EvaluationOptions<TokenReply>, 'onReply' | 'grammar'> = {},
): Promise<SetEvaluation> {
  const { settings, backend, task, log } = context;
  const { problems, sha256: setSha256 } = context[set];
  const stage = set === 'dev' ? 'dev' : at.when === 'before' ? 'before' : 'after';
  const { style, maxTokens } = settings.sampling;
  const { maxSequences } = settings.model;
  const replies = new Map<string, JudgedRollout>();
  const hits = new Map<string, { passed: number; decided: number }>();
  const { outcomes, summary, failures } = await evaluateGreedy(backend, task, problems, {
    style,
    maxTokens,
    maxSequences,
    lenient: set === 'test',
    endUndecided: at.when === 'before',
    ...given({ grammar }),
    ...given(context, 'signal'),
    onReply: (reply) => {
      replies.set(reply.problem.id, judgedRollout(backend, reply));
      countVerdict(hits, reply.problem.tier, reply.judgement.verdict.kind);
      onReply?.(reply);
    },
    onProgress: ({ done, total, sampledTokens: tokens }) =>
      report(context, {
        stage,
        iteration: at.iteration,
        done,
        total,
        tokens: tokens ?? 0,
        hits: shownHits(hits),
      }),
  });
  const rollouts = outcomes.map(({ problemId }) => replies.get(problemId)!);
  const measured = {
    ...at,
    setSha256,
    outcomes: outcomes.map(({ problemId, tier, kind }): [string, string, VerdictKind] => [
      problemId,
      tier,
      kind,
    ]),
    ...(figuresGiven(outcomes).length > 0 && { figures: outcomes.map(figuresOf) }),
    formed: outcomes.map(({ formed }) => formed),
    why: outcomes.map(({ why }) => [...why]),
    examples: failures.rows.flatMap(({ example }) => {
      if (example === null) return [];
      const { problemId, tier: _, ...said } = example;
      return [{ at: problems.findIndex(({ id }) => id === problemId), ...said }];
    }),
    ...(outcomes.some(({ lenient }) => lenient !== undefined) && {
      lenient: outcomes.map(({ lenient }) => lenient!),
    }),
    tokens: rollouts.map(({ tokenIds }) => tokenIds.length),
    finishes: rollouts.map(({ finish }) => finish),
  };
  const record =
    grammar === undefined
      ? heldOutRecord({ set, ...measured })
      : constrainedRecord({ set: 'test', ...measured });
  // the adapters in between are not kept, so their replies are all that a judge can judge again
  const kept =
    set === 'dev'
      ? outcomes.map(({ problemId }, i) =>
          devReplyRecord({
            iteration: at.iteration,
            problemId,
            finish: rollouts[i]!.finish,
            tokenIds: [...rollouts[i]!.tokenIds],
            ...turnRecords(rollouts[i]!),
          }),
        )
      : [];
  log.append([...kept, record]);
  if (at.when === 'before') refuseUndecided(task, outcomes);
  return {
    verdicts: verdictsByTier(outcomes, task.tiers),
    summary,
    promptTokens: rollouts.reduce((sum, { episode }) => sum + episode[0]!.ids.length, 0),
    sampledTokens: rollouts.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
  };
}
