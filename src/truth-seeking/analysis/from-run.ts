/** What analyzers read, of the folder of a run. */
import { STRATEGIES } from '../strategies/strategy.js';
import type { TruthRun } from '../run/folder.js';
import type { TrajectoryRecord } from '../run/records.js';
import { textOf } from '../trajectory.js';
import type { ScoredRun } from './scored-run.js';

/** How a run names no system prompt. */
export const NO_PROMPT = 'none';

/** What people call who reasons: the file names of model and adapter. */
export function policyName({ start: { config } }: Pick<TruthRun, 'start'>): string {
  const fileOf = (name: string): string => name.split(/[/\\]/).at(-1)!;
  if (config.policy === 'human') return 'human';
  return config.adapter === undefined ? fileOf(config.model) : `${fileOf(config.model)} + ${fileOf(config.adapter)}`;
}

const featuresOf = ({ trajectory, sampledTokens, cutOff }: TrajectoryRecord): Record<string, number> => ({
  steps: trajectory.steps.length,
  characters: textOf(trajectory).length,
  tokens: sampledTokens,
  'cut off': cutOff,
});

/** One for each result: a strategy over the trajectories of a setup. */
export function scoredRuns(run: TruthRun): ScoredRun[] {
  const { runId, start, state } = run;
  const trajectories = new Map(state.trajectories.map((record) => [record.trajectory.id, record]));
  return state.results.map(({ setup, strategy, direction, value, interval, n, skipped, perTrajectory }): ScoredRun => {
    const { name } = STRATEGIES.parse(strategy);
    return {
      runId,
      policyId: start.policy.id,
      policy: policyName(run),
      seed: start.config.seed,
      setup: { strategy: name, config: strategy, domain: setup.domain, mode: setup.mode, systemPrompt: setup.systemPrompt ?? NO_PROMPT },
      direction,
      value,
      interval,
      n,
      skipped: { ...skipped },
      aggregate: name === 'martingale' ? 'sum' : 'mean',
      scores: perTrajectory.flatMap(([trajectoryId, score]) => {
        const record = trajectories.get(trajectoryId);
        return record === undefined ? [] : [{ trajectoryId, problemId: record.trajectory.problemId, score, features: featuresOf(record) }];
      }),
    };
  });
}
