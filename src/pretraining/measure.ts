/** What a model that names heuristics does on a frozen set: accuracy, parsing, the heuristics that it names. */
import type { Model } from '../engine/model.js';
import { frozenSet, type SetName } from '../tasks/frozen-sets.js';
import { parseAnswer } from '../tasks/scheduling/answer.js';
import { TIERS } from '../tasks/scheduling/generate.js';
import type { SchedulingProblem } from '../tasks/scheduling/problem.js';
import { schedulingPrompt } from '../tasks/scheduling/prompt.js';
import { verifySchedule } from '../tasks/scheduling/verify.js';
import { followHeuristic, namedHeuristic } from './heuristics.js';

/** Of the embedded model's profile: enough for the longest trace of ten jobs. */
export const MAX_TOKENS = 320;

export interface Measurement {
  readonly set: SetName;
  readonly temperature: number;
  readonly samples: number;
  /** Mean over T0 to T5 of the share of replies that pass, T4 being the mean of its three kinds. */
  readonly mean: number;
  readonly byTier: Readonly<Record<string, { readonly replies: number; readonly passed: number; readonly problems: number; readonly solvedOnce: number }>>;
  readonly replies: number;
  /** Replies that end with one well-formed answer block. */
  readonly parsed: number;
  /** Replies whose finish was `length`. */
  readonly cut: number;
  /** Heuristic to replies that name it, that pass, and whose steps are exactly the heuristic's; by tier. */
  readonly named: Readonly<Record<string, Readonly<Record<string, { readonly replies: number; readonly passed: number; readonly exact: number }>>>>;
  readonly promptTokens: number;
  readonly sampledTokens: number;
  readonly seconds: number;
}

export interface MeasureOptions {
  readonly temperature: number;
  /** Of each problem. Default 1. */
  readonly samples?: number;
  readonly seed?: bigint;
  /** Problems of each tier; default all. */
  readonly perTier?: number;
  readonly tiers?: readonly string[];
}

export async function measure(model: Model, set: SetName, { temperature, samples = 1, seed = 0n, perTier = Infinity, tiers = TIERS.map(({ id }) => id) }: MeasureOptions): Promise<Measurement> {
  const all = frozenSet<SchedulingProblem, unknown>('scheduling', set).problems.map(({ problem }) => problem);
  const problems = tiers.flatMap((tier) => all.filter((problem) => problem.tier === tier).slice(0, perTier));
  const byTier = Object.fromEntries(tiers.map((tier) => [tier, { replies: 0, passed: 0, problems: 0, solvedOnce: 0 }]));
  for (const { tier } of problems) byTier[tier]!.problems++;
  const named: Record<string, Record<string, { replies: number; passed: number; exact: number }>> = {};
  const solved = new Set<number>();
  let [replies, parsed, cut, promptTokens, sampledTokens] = [0, 0, 0, 0, 0];
  const since = performance.now();
  const prompts = problems.map((problem) => ({ id: problem.id, messages: schedulingPrompt(problem, 'cot') }));
  for await (const rollout of model.generate({ prompts, samples, maxTokens: MAX_TOKENS, sampling: { temperature, seed } })) {
    const problem = problems[rollout.promptIndex]!;
    const tier = byTier[problem.tier]!;
    const answer = parseAnswer(rollout.text);
    const complete = rollout.finish === 'stop' && answer.ok;
    const passed = complete && verifySchedule(problem, answer.answer).kind === 'pass';
    replies++;
    tier.replies++;
    promptTokens += rollout.promptIds.length;
    sampledTokens += rollout.tokenIds.length;
    if (complete) parsed++;
    if (rollout.finish === 'length') cut++;
    if (passed) {
      tier.passed++;
      if (!solved.has(rollout.promptIndex)) tier.solvedOnce++;
      solved.add(rollout.promptIndex);
    }
    const heuristic = namedHeuristic(rollout.text);
    const row = ((named[heuristic ?? 'none'] ??= {})[problem.tier] ??= { replies: 0, passed: 0, exact: 0 });
    row.replies++;
    if (passed) row.passed++;
    if (heuristic !== null && followHeuristic(heuristic, problem).text === rollout.text) row.exact++;
  }
  const groups = new Map<string, number[]>();
  for (const { id, group } of TIERS.filter((tier) => tiers.includes(tier.id))) {
    const { passed, replies: count } = byTier[id]!;
    groups.set(group ?? id, [...(groups.get(group ?? id) ?? []), passed / count]);
  }
  const average = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  const mean = average([...groups.values()].map(average));
  return { set, temperature, samples, mean, byTier, replies, parsed, cut, named, promptTokens, sampledTokens, seconds: (performance.now() - since) / 1e3 };
}
