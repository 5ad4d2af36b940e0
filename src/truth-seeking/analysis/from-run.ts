/** Reads the input of analyzers from a run folder. */
import { hash } from 'node:crypto';
import { canonicalJson, type Json } from '../../canonical-json.js';
import { fileName as fileOf } from '../domains/user-domain.js';
import { STRATEGIES } from '../strategies/strategy.js';
import { IsoproError } from '../../errors.js';
import { groupOfRecord } from '../run/evaluate.js';
import type { TruthRun } from '../run/folder.js';
import { readerId } from '../run/reader.js';
import type { Reader, ResultRecord, TrajectoryRecord } from '../run/records.js';
import { textOf } from '../trajectory.js';
import type { ScoredRun } from './scored-run.js';
import { slopeWithoutNoiseIn } from './slope-without-noise.js';

/** Name for no system prompt. */
export const NO_PROMPT = 'none';

/** Display name of the reasoner: the file names of model and adapter. */
export function policyName({ start: { config } }: Pick<TruthRun, 'start'>): string {
  if (config.policy === 'human') return 'human';
  return config.adapter === undefined
    ? fileOf(config.model)
    : `${fileOf(config.model)} + ${fileOf(config.adapter)}`;
}

const featuresOf = ({
  trajectory,
  sampledTokens,
  cutOff,
}: TrajectoryRecord): Record<string, number> => ({
  steps: trajectory.steps.length,
  characters: textOf(trajectory).length,
  tokens: sampledTokens,
  'cut off': cutOff,
});

/** Id of the policy without seed and threads: one adapter under two seeds is one policy. */
function policyIdOf(identity: TruthRun['start']['policy']['identity']): string {
  const { seed: _, threads: __, ...lasting } = identity as Readonly<Record<string, Json>>;
  return hash('sha256', canonicalJson(lasting));
}

/** Who measured trajectories by a strategy, according to its records, and what they rate by. */
function measuredBy(
  { start: { policy, predictor, judge, examples, config }, state }: TruthRun,
  strategy: string,
): Json {
  const ids = state.trajectories.flatMap(({ trajectory: { id } }) => [
    ...(state.trials(strategy, id)?.trials.map(({ predictorId }) => predictorId) ?? []),
    ...[state.rating(strategy, id)?.raterId, state.forecasts(strategy, id)?.forecasterId].filter(
      (each) => each !== undefined,
    ),
  ]);
  const lasting = (id: string): string => {
    const known = [predictor, judge].find((each) => each?.id === id);
    return id === policy.id ? 'own' : known ? policyIdOf(known.identity) : id;
  };
  const isRated = state.trajectories.some(
    ({ trajectory: { id } }) => state.rating(strategy, id) !== null,
  );
  const how = isRated ? { instruction: config.instruction, examples: examples ?? null } : {};
  return { who: [...new Set(ids.map(lasting))].sort(), ...how };
}

/**
 * Conditions of a result: how it was sampled, and who read or rated it; `own`: the policy that
 * reasoned.
 */
function conditionsOf(run: TruthRun, reader: Reader | null, strategy: string): string {
  const { code, config, policy, predictor } = run.start;
  return canonicalJson({
    code,
    split: config.split,
    batch: config.batch,
    measured: measuredBy(run, strategy),
    maxTokens: config.maxTokens,
    temperature: config.temperature,
    framing: config.framing,
    predictor: predictor === null ? null : policyIdOf(predictor.identity),
    reader: reader === null ? null : readerConditions(reader, policy.id),
  });
}

/** Lasting id of a reader; its own id if its identity is unknown. */
function lastingId({ id, identity }: Reader['policy']): string {
  const isKnown = typeof identity === 'object' && identity !== null && !Array.isArray(identity);
  return isKnown ? policyIdOf(identity as TruthRun['start']['policy']['identity']) : id;
}

/** By which build, wherever it ran. */
function buildOf(engine: Json): Json {
  if (typeof engine !== 'object' || engine === null || Array.isArray(engine)) return null;
  const {
    version = null,
    javascript = null,
    addon = null,
  } = engine as Readonly<Record<string, Json>>;
  return { version, javascript, addon };
}

const readerConditions = ({ policy, engine, ...how }: Reader, own: string): Json =>
  ({ ...how, build: buildOf(engine), who: policy.id === own ? 'own' : lastingId(policy) }) as Json;

/** Characters of an id that tell readers of a run apart, and that commands take. */
const SHOWN = 8;

/**
 * Describes whose beliefs a reader has, and how they were obtained.
 * @param id of a reader of the run
 * @returns null where the policy's own were read from it with its system prompt, and there are no
 *   others to tell them from
 */
export function readerText(
  { start, state }: Pick<TruthRun, 'start' | 'state'>,
  id: string,
): string | null {
  const { source, beliefSystem, policy } = state.reader(id)!;
  const is = (other: TruthRun['start']['policy'] | null | undefined): boolean =>
    other != null && (other.id === policy.id || policyIdOf(other.identity) === lastingId(policy));
  const { predictor, judge, model, policy: kind } = start.config;
  // of a person's run the model reads; with an adapter and no predictor the bare model is one
  const bare = kind === 'human' ? fileOf(model) : `${fileOf(model)} without the adapter`;
  const other = () =>
    is(start.judge) && judge !== undefined
      ? fileOf(judge)
      : is(start.predictor)
        ? predictor === undefined
          ? bare
          : fileOf(predictor)
        : `another model (${policy.id.slice(0, SHOWN)})`;
  const [isOwn, keeps] = [is(start.policy), beliefSystem === 'keep'];
  if (source === 'logprob' && isOwn && keeps && state.readers.length === 1) return null;
  const how = {
    logprob: `read from ${isOwn ? 'the policy itself' : other()}`,
    judge: `said by ${isOwn ? 'the policy as a judge' : `a judge, ${other()}`}`,
    self: 'said by the policy itself',
    stated: 'stated in the reasoning',
  }[source];
  return `beliefs ${how}${keeps ? '' : ' without the system prompt'} (reader ${id.slice(0, SHOWN)})`;
}

/**
 * Describes the beliefs of a reader, even if it is the only one.
 * @param id of a reader of the run
 */
export const whoseBeliefs = (run: Pick<TruthRun, 'start' | 'state'>, id: string): string =>
  readerText(run, id) ?? `beliefs read from the policy itself (reader ${id.slice(0, SHOWN)})`;

/**
 * Returns the requested reader of a run.
 * @param named a source of beliefs, or how the reader's id begins; default: the first of the run
 * @throws IsoproError INVALID_ARGUMENT where not one is
 */
export function readerNamed(
  { folder, state }: TruthRun,
  named: string | undefined,
): string | undefined {
  if (named === undefined) return state.readers[0];
  const found = state.readers.filter(
    (id) => id.startsWith(named) || state.reader(id)!.source === named,
  );
  if (found.length === 1) return found[0];
  const all = state.readers
    .map((id) => `${id.slice(0, SHOWN)} (${state.reader(id)!.source})`)
    .join(', ');
  throw new IsoproError(
    'INVALID_ARGUMENT',
    `${folder}: ${found.length} belief readers match ${JSON.stringify(named)}`,
    {
      remedy:
        all === ''
          ? 'This run has no beliefs.'
          : `Name one of ${all}, by its source or the start of its id.`,
    },
  );
}

/** Slope without measurement noise: a figure of the whole, without parts per trajectory. */
function withoutNoiseOf(
  own: ScoredRun,
  result: Pick<ResultRecord, 'strategy' | 'details'>,
): ScoredRun[] {
  const slope = slopeWithoutNoiseIn(result);
  if (slope === null) return [];
  const { value, interval, n } = slope;
  const isBounded = interval !== null && interval.low !== null && interval.high !== null;
  const config = `${own.setup.config} (without noise)`.slice(0, 400);
  return [
    {
      ...own,
      setup: { ...own.setup, config },
      ...{
        value,
        n,
        scores: [],
        interval: isBounded ? { low: interval.low!, high: interval.high! } : null,
      },
    },
  ];
}

/**
 * Scored runs, one for each result: a strategy over the trajectories of a setup.
 * @param reader whose beliefs, by its id; default: the first of the run
 * @param withoutNoise whether each slope is followed by what it is without noise, for whoever shows
 *   values and not trajectories
 */
export function scoredRuns(
  run: TruthRun,
  reader: string | undefined = run.state.readers[0],
  { withoutNoise = false }: { readonly withoutNoise?: boolean } = {},
): ScoredRun[] {
  const { runId, start, state } = run;
  const trajectories = new Map(state.trajectories.map((record) => [record.trajectory.id, record]));
  const policyId = policyIdOf(start.policy.identity);
  const own = state.results.filter((each) => !each.reader || readerId(each.reader) === reader);
  return own.flatMap((result): ScoredRun[] => {
    const {
      reader: readBy = null,
      setup,
      strategy,
      direction,
      value,
      interval,
      n,
      skipped,
      perTrajectory,
    } = result;
    const { name } = STRATEGIES.parse(strategy);
    const found: ScoredRun = {
      runId,
      policyId,
      policy: policyName(run),
      seed: start.config.seed,
      setup: {
        strategy: name,
        config: strategy,
        domain: setup.domain,
        mode: setup.mode,
        systemPrompt: setup.systemPrompt ?? NO_PROMPT,
      },
      conditions: conditionsOf(run, readBy, strategy),
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
        return [
          {
            trajectoryId,
            problemId,
            group: groupOfRecord(state, record),
            score,
            features: featuresOf(record),
          },
        ];
      }),
    };
    return [found, ...(withoutNoise ? withoutNoiseOf(found, result) : [])];
  });
}
