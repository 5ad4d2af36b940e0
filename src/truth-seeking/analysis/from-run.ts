/** What analyzers read, of the folder of a run. */
import { hash } from 'node:crypto';
import { canonicalJson, type Json } from '../../canonical-json.js';
import { STRATEGIES } from '../strategies/strategy.js';
import { groupOfRecord } from '../run/evaluate.js';
import type { TruthRun } from '../run/folder.js';
import { readerId } from '../run/reader.js';
import type { Reader, TrajectoryRecord } from '../run/records.js';
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

/** Of what answers, without seed and threads: one adapter under two seeds is one policy. */
function policyIdOf(identity: TruthRun['start']['policy']['identity']): string {
  const { seed: _, threads: __, ...lasting } = identity as Readonly<Record<string, Json>>;
  return hash('sha256', canonicalJson(lasting));
}

/** How it was sampled and by whom its beliefs were read; `own`: by the policy that reasoned. */
function conditionsOf({ start: { config, policy, predictor } }: TruthRun, reader: Reader | null): string {
  return canonicalJson({
    maxTokens: config.maxTokens,
    temperature: config.temperature,
    framing: config.framing,
    predictor: predictor === null ? null : policyIdOf(predictor.identity),
    reader: reader === null ? null : readerConditions(reader, policy.id),
  });
}

function readerConditions({ policy, engine: _, ...how }: Reader, own: string): Json {
  const { identity } = policy;
  const isKnown = typeof identity === 'object' && identity !== null && !Array.isArray(identity);
  const who = policy.id === own ? 'own' : isKnown ? policyIdOf(identity as TruthRun['start']['policy']['identity']) : policy.id;
  return { ...how, who } as Json;
}

/**
 * One for each result: a strategy over the trajectories of a setup.
 * @param reader whose beliefs, by its id; default: the first of the run
 */
export function scoredRuns(run: TruthRun, reader: string | undefined = run.state.readers[0]): ScoredRun[] {
  const { runId, start, state } = run;
  const trajectories = new Map(state.trajectories.map((record) => [record.trajectory.id, record]));
  const policyId = policyIdOf(start.policy.identity);
  const own = state.results.filter((each) => !each.reader || readerId(each.reader) === reader);
  return own.map(({ reader: readBy = null, setup, strategy, direction, value, interval, n, skipped, perTrajectory }): ScoredRun => {
    const { name } = STRATEGIES.parse(strategy);
    return {
      runId,
      policyId,
      policy: policyName(run),
      seed: start.config.seed,
      setup: { strategy: name, config: strategy, domain: setup.domain, mode: setup.mode, systemPrompt: setup.systemPrompt ?? NO_PROMPT },
      conditions: conditionsOf(run, readBy),
      direction,
      value,
      interval,
      n,
      skipped: { ...skipped },
      aggregate: name === 'martingale' ? 'sum' : 'mean',
      scores: perTrajectory.flatMap(([trajectoryId, score]) => {
        const record = trajectories.get(trajectoryId);
        if (record === undefined) return [];
        const { problemId } = record.trajectory;
        return [{ trajectoryId, problemId, group: groupOfRecord(state, record), score, features: featuresOf(record) }];
      }),
    };
  });
}
