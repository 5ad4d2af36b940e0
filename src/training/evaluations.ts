/** Greedy evaluation of the present adapter on a frozen set, logged verdict by verdict. */
import { summarise, type Summary } from '../statistics/index.js';
import { sampleRollouts } from '../rollouts/sample.js';
import type { Outcomes } from './gate.js';
import { cancellation, report, type RunContext } from './run-state.js';

export interface SetEvaluation {
  readonly outcomes: Outcomes;
  readonly summary: Summary;
  readonly promptTokens: number;
  readonly sampledTokens: number;
}

export type When = 'before' | 'iteration' | 'after';

export async function evaluateSet(context: RunContext, set: 'dev' | 'test', at: { readonly when: When; readonly iteration: number; readonly adapterId: string | null }): Promise<SetEvaluation> {
  const { settings, model, task, verdicts, log } = context;
  const problems = context[set];
  const stage = set === 'dev' ? ('dev' as const) : at.when === 'before' ? ('before' as const) : ('after' as const);
  const { groups, promptTokens, sampledTokens } = await sampleRollouts({
    model, task, verdicts, plan: problems.map((problem) => ({ problem, seeds: [0n] })),
    style: settings.style, temperature: 0, topP: 1, maxTokens: settings.maxTokens, maxSequences: settings.maxSequences,
    ...cancellation(context),
    onProgress: ({ finished, total, sampledTokens: tokens }) => report(context, { stage, iteration: at.iteration, done: finished, total, tokens }),
  });
  const rows = groups.map(({ problem, rollouts }) => ({ problem, rollout: rollouts[0]! }));
  const summary = summarise(rows.map(({ problem, rollout }) => ({ tier: problem.tier, kind: rollout.verdict.kind })), task.tiers, { seed: BigInt(settings.seed) });
  log.append([
    {
      stream: 'evaluations',
      payload: {
        kind: 'evaluation', set, ...at,
        outcomes: rows.map(({ problem, rollout }) => ({ problemId: problem.id, tier: problem.tier, verdict: rollout.verdict.kind, finish: rollout.finish, tokens: rollout.tokenIds.length, form: rollout.form })),
        summary: JSON.parse(JSON.stringify(summary)),
      },
    },
  ]);
  return { outcomes: new Map(rows.map(({ problem, rollout }) => [problem.id, rollout.verdict.kind])), summary, promptTokens, sampledTokens };
}
