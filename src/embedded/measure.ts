/**
 * What a model that names heuristics does on a frozen set: accuracy, parsing, the heuristics that
 * it names.
 */
import { sampleAndJudge } from '../evaluation/answers.js';
import { localBackend } from '../backends/local.js';
import type { Model } from '../engine/model.js';
import { frozenSet, type SetName } from '../tasks/frozen-sets.js';
import { openTask } from '../tasks/open-task.js';
import { parseAnswer } from '../tasks/scheduling/answer.js';
import { TIERS } from '../tasks/scheduling/generate.js';
import type { SchedulingProblem } from '../tasks/scheduling/problem.js';
import { mean, wilsonInterval } from '../statistics/index.js';
import { resolveSettings } from '../training/settings.js';
import { followHeuristic, namedHeuristic } from './heuristics.js';

export interface TierMeasurement {
  readonly problems: number;
  readonly replies: number;
  readonly passed: number;
  /** 95 % interval of the share that passes, replies taken as independent. */
  readonly interval: readonly [low: number, high: number];
  /** Problems with a reply that passes. */
  readonly solved: number;
}

export interface HeuristicMeasurement {
  /** That name it. */
  readonly replies: number;
  readonly passed: number;
  /** Whose every step is the heuristic's. */
  readonly exact: number;
}

export interface Measurement {
  readonly set: SetName;
  readonly temperature: number;
  readonly samplesPerProblem: number;
  /** Mean over T0 to T5 of the share of replies that pass; T4 is the mean of its three kinds. */
  readonly mean: number;
  readonly byTier: Readonly<Record<string, TierMeasurement>>;
  readonly replies: number;
  /** That end by themselves with one well-formed answer block. */
  readonly parsed: number;
  readonly byHeuristic: Readonly<Record<string, HeuristicMeasurement>>;
  readonly promptTokens: number;
  readonly sampledTokens: number;
}

export interface MeasureOptions {
  /** 0: greedy. */
  readonly temperature: number;
  readonly samplesPerProblem?: number;
  readonly seed?: bigint;
  /** Problems of each tier, the first in file order; default all. */
  readonly perTier?: number;
}

/** @throws IsoproError as Model.generate */
export async function measure(
  model: Model,
  set: SetName,
  { temperature, samplesPerProblem = 1, seed = 1n, perTier = Infinity }: MeasureOptions,
): Promise<Measurement> {
  await using task = await openTask('scheduling');
  const {
    sampling: { style, maxTokens },
    model: { maxSequences },
  } = resolveSettings({}); // so that `run` begins with the same figures
  const all = frozenSet<SchedulingProblem, unknown>('scheduling', set).problems.map(
    ({ problem }) => problem,
  );
  const problems = TIERS.flatMap(({ id }) =>
    all.filter(({ tier }) => tier === id).slice(0, perTier),
  );
  const byHeuristic: Record<string, { replies: number; passed: number; exact: number }> = {};
  let [parsed, promptTokens, sampledTokens] = [0, 0, 0];
  const { judged } = await sampleAndJudge(
    localBackend(model),
    task,
    problems,
    {
      style,
      maxTokens,
      maxSequences,
      onReply: ({
        problem,
        rollout: { text, finish, sampleIndex, promptIds, tokenIds },
        judgement,
      }) => {
        if (sampleIndex === 0) promptTokens += promptIds.length;
        sampledTokens += tokenIds.length;
        if (finish === 'stop' && parseAnswer(text).ok) parsed++;
        const heuristic = namedHeuristic(text);
        const row = (byHeuristic[heuristic ?? 'none'] ??= { replies: 0, passed: 0, exact: 0 });
        row.replies++;
        if (judgement.verdict.kind === 'pass') row.passed++;
        if (
          heuristic !== null &&
          followHeuristic(heuristic, problem as SchedulingProblem).text === text
        )
          row.exact++;
      },
    },
    { samples: samplesPerProblem, temperature, seed },
  );
  const passes = judged.map((answers) => answers.filter(({ kind }) => kind === 'pass').length);
  const byTier: Record<string, TierMeasurement> = {};
  const groups = new Map<string, number[]>();
  for (const { id, group = id } of TIERS) {
    const own = passes.filter((_, index) => problems[index]!.tier === id);
    const [passed, replies] = [
      own.reduce((sum, count) => sum + count, 0),
      own.length * samplesPerProblem,
    ];
    const { low, high } = wilsonInterval(passed, replies);
    byTier[id] = {
      problems: own.length,
      replies,
      passed,
      interval: [low, high],
      solved: own.filter((count) => count > 0).length,
    };
    groups.set(group, [...(groups.get(group) ?? []), passed / replies]);
  }
  return {
    set,
    temperature,
    samplesPerProblem,
    mean: mean([...groups.values()].map(mean)),
    byTier,
    replies: problems.length * samplesPerProblem,
    parsed,
    byHeuristic,
    promptTokens,
    sampledTokens,
  };
}
