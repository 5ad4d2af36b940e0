/**
 * Runs truth-seeking from the first problem to the last score; each part can be repeated without
 * the one before it.
 */
import { given } from '../../given.js';
import { codeVersion, machineClass } from '../../run-folder/machine.js';
import { digestOf } from '../domains/domain.js';
import { Domains, domainId, fileName } from '../domains/user-domain.js';
import { needsBeliefs, STRATEGIES } from '../strategies/strategy.js';
import { readTruthConfig, type TruthConfig, type TruthConfigInput } from './config.js';
import { believerOf, type Believer } from './belief-source.js';
import { evaluate } from './evaluate.js';
import { domainsOf, type TruthRun, type TruthStart } from './folder.js';
import { measureAll } from './measurements.js';
import { computing, type NamedReasoner, type TruthReasoners } from './reasoners.js';
import { interviewQuestions, plannedProblems, plannedSetups } from './plan.js';
import { readerId, readerOfBeliefs } from './reader.js';
import { readRatedRows } from './rating.js';
import { reasonAt, type Place } from './reasoning.js';
import { setupKey, type Reader, type TruthRecord } from './records.js';
import { together } from '../joint-sampling.js';
import { TruthSession, type SessionOptions } from './session.js';
import { digestOfRecord, replacing } from './state.js';
import {
  answerIn,
  RECOMPUTE_DEFAULTS,
  step,
  type Open,
  type RecomputeRules,
  type TruthProgress,
  type Work,
} from './run-context.js';
import { LOCAL_WORLDS, type Investigator } from './worlds.js';

export type { NamedReasoner, TruthReasoners } from './reasoners.js';
export {
  RECOMPUTE,
  WORLD_RECOMPUTE,
  type Recompute,
  type RecomputeRules,
  type TruthProgress,
  type WorldRecompute,
} from './run-context.js';

interface MeasuringOptions extends SessionOptions {
  readonly recompute?: Partial<RecomputeRules>;
  readonly investigator?: Investigator;
  readonly onProgress?: (progress: TruthProgress) => void;
}

export interface RunTruthOptions extends MeasuringOptions {
  readonly out?: string;
  readonly policies: TruthReasoners;
}

export type TruthResult = TruthRun;

const identified = ({ id, identity }: NamedReasoner): TruthStart['policy'] => ({
  id,
  identity: { ...identity } as never,
});

const FILES = ['model', 'adapter', 'predictor', 'judge', 'examples'] as const;

/** Replaces file paths by file names, so that folders do not identify a run. */
function withoutFolders(config: TruthConfig): TruthConfig {
  const names = FILES.flatMap((member) => {
    const file = config[member];
    return file === undefined ? [] : [[member, fileName(file)]];
  });
  return { ...config, domain: config.domain.map(domainId), ...Object.fromEntries(names) };
}

const runOf = ({ runId, folder, start, state }: TruthSession): TruthRun => ({
  ...{ runId, folder, start, state },
});

/** Everything that determines a run. */
export async function truthStart(
  config: TruthConfig,
  { evaluated, predictor, judge = null }: TruthReasoners,
  domains = new Domains(config.domain),
): Promise<TruthStart> {
  return {
    code: await codeVersion('beliefs'),
    machine: machineClass(computing({ evaluated, predictor, judge })),
    policy: identified(evaluated),
    predictor: predictor === null ? null : identified(predictor),
    ...(judge === null ? {} : { judge: identified(judge) }),
    ...(config.examples === undefined ? {} : { examples: readRatedRows(config.examples).sha256 }),
    domains: config.domain.map(domainId).map((id) => ({ id, sha256: digestOf(domains.named(id)) })),
    config: withoutFolders(config),
  };
}

/**
 * Reasons once about every problem of each setup's domain; problems that are sampled together are
 * written together.
 */
async function reasonAll(work: Work): Promise<void> {
  const { session, config, policies, recompute, domains } = work;
  const { state } = session;
  const problems = plannedProblems(config, domains);
  const places = plannedSetups(config).flatMap((setup) =>
    problems
      .filter(({ domain }) => domain === setup.domain)
      .map((asked): Place => ({ setup, asked })),
  );
  const questions = new Map(
    plannedSetups(config).map((setup) => [
      setupKey(setup),
      interviewQuestions(config, setup, domains),
    ]),
  );
  const most = policies.evaluated.inferMany === undefined ? 1 : config.batch;
  const isMissing = ({ setup, asked }: Place): boolean =>
    recompute.trajectories === 'always' || state.at(setup, asked.problem.id) === null;
  // by their places in the whole, so that a run that is gone on with samples the same ones together
  for (let done = 0; recompute.trajectories !== 'never' && done < places.length; done += most) {
    step(work, 'trajectories', done, places.length);
    const due = places.slice(done, done + most).filter(isMissing);
    const made = await together(policies.evaluated, due.length, (reasoner, i) =>
      reasonAt(work, reasoner, due[i]!, questions.get(setupKey(due[i]!.setup))!),
    );
    const known = new Set(state.problems.keys());
    const records = due.flatMap(({ setup, asked }, i): TruthRecord[] => {
      const there = state.at(setup, asked.problem.id);
      if (there !== null && digestOfRecord(there) === digestOfRecord(made[i]!)) return [];
      const news = known.has(asked.problem.id) ? [] : [asked];
      known.add(asked.problem.id);
      return [...news, made[i]!];
    });
    await session.write(...records);
  }
  step(work, 'trajectories', places.length, places.length);
}

/** Reads the beliefs of every trajectory on a two-option question. */
async function readAll(work: Work, believer: Believer, reader: Reader): Promise<void> {
  const { session, recompute, options } = work;
  const { state } = session;
  if (recompute.beliefs === 'never') return;
  const id = readerId(reader);
  const all = state.trajectories;
  for (const [done, record] of all.entries()) {
    step(work, 'beliefs', done, all.length);
    const { problem, trajectory } = answerIn(state, record);
    const there = state.beliefs(trajectory.id, id);
    if (problem.kind !== 'binary' || (there !== null && recompute.beliefs === 'missing')) continue;
    const readout = await believer(problem, trajectory, options.signal);
    const news = state.reader(id) === null ? [{ kind: 'reader' as const, id, reader }] : [];
    await session.write(...news, replacing(state, { kind: 'beliefs', reader: id, readout }));
  }
  step(work, 'beliefs', all.length, all.length);
}

/**
 * Scores every setup under all requested strategies, current and earlier; only changed scores are
 * written.
 */
async function scoreAll(work: Open, strategies: readonly string[]): Promise<void> {
  const { session } = work;
  const { state } = session;
  const all = [...new Set([...state.results.map(({ strategy }) => strategy), ...strategies])];
  const readers = state.readers.length === 0 ? [null] : state.readers;
  const places = state.setups.flatMap((setup) =>
    all.flatMap((strategy) =>
      (needsBeliefs([strategy]) ? readers : [null]).map((reader) => ({ setup, strategy, reader })),
    ),
  );
  for (const [done, { setup, strategy, reader }] of places.entries()) {
    step(work, 'results', done, places.length);
    const found = replacing(state, evaluate(state, setup, strategy, reader));
    const there = state.result(setup, strategy, reader);
    // the same finding again is no news
    if (there !== null && digestOfRecord({ ...found, replaces: there.replaces }) === found.replaces)
      continue;
    await session.write(found);
  }
  if (state.complete === null)
    await session.write({
      kind: 'complete',
      trajectories: state.trajectories.length,
      failures: state.failures.length,
      readouts: state.readouts,
      results: state.results.length,
      trajectoriesSha256: state.trajectoriesSha256,
    });
  await session.sign();
  step(work, 'results', places.length, places.length);
}

/**
 * Runs everything, or continues an interrupted run: what is in the log is reused unless `recompute`
 * says otherwise.
 * @throws IsoproError INVALID_ARGUMENT for a wrong configuration, BACKEND_INCAPABLE if beliefs are
 *   required and no model has log-probabilities, RUN_DIFFERS, LOG_BUSY, LOG_TAMPERED, ABORTED;
 *   errors of the reasoners except CONTEXT_OVERFLOW, which is counted
 */
export async function runTruth(
  settings: TruthConfigInput,
  options: RunTruthOptions,
): Promise<TruthResult> {
  const { out, policies, recompute, investigator = LOCAL_WORLDS, ...rest } = options;
  const asked = readTruthConfig(settings);
  const domains = new Domains(asked.domain);
  const config = { ...asked, domain: asked.domain.map(domainId) };
  // before anything is written
  const believer = needsBeliefs(config.eval) ? believerOf(policies, config) : null;
  await using session = await TruthSession.open(
    await truthStart(config, policies, domains),
    out,
    rest,
    domains.files,
  );
  const rules = { ...RECOMPUTE_DEFAULTS, ...recompute };
  const work: Work = { session, config, policies, domains, recompute: rules, options: rest };
  await reasonAll(work);
  if (believer !== null) await readAll(work, believer, await readerOfBeliefs(policies, config));
  await measureAll(work, config.eval, investigator);
  await scoreAll(work, config.eval);
  return runOf(session);
}

export interface AgainOptions extends MeasuringOptions {
  readonly folder: string;
  /** Null if nothing must be measured. */
  readonly policies: TruthReasoners | null;
  /** Further strategies. */
  readonly eval?: readonly string[];
  /** File of the ratings before a judge, of which a run's folder has the name alone. */
  readonly examples?: string;
  /** Source of the beliefs. Default: the run's own. */
  readonly beliefs?: Partial<Pick<TruthConfig, 'belief' | 'measurements' | 'beliefSystem'>>;
}

/**
 * Measures or scores an existing run with any reasoners; its trajectories stay unchanged.
 * @throws IsoproError RUN_NOT_FOUND; as runTruth
 */
export async function measureAgain({
  folder,
  policies,
  recompute,
  investigator = LOCAL_WORLDS,
  ...options
}: AgainOptions): Promise<TruthResult> {
  const { eval: more = [], beliefs = {}, examples, ...rest } = options;
  const strategies = more.map((each) => STRATEGIES.format(STRATEGIES.parse(each)));
  await using session = await TruthSession.open(null, folder, rest);
  const config = { ...session.start.config, ...given({ examples }) };
  const rules = { ...RECOMPUTE_DEFAULTS, ...recompute, trajectories: 'never' as const };
  if (policies !== null) {
    const domains = domainsOf(session.folder, session.start);
    const work: Work = { session, config, policies, domains, recompute: rules, options: rest };
    const asked = [...config.eval, ...strategies];
    const how = { ...config, ...beliefs };
    if (rules.beliefs !== 'never' && needsBeliefs(asked))
      await readAll(work, believerOf(policies, how), await readerOfBeliefs(policies, how));
    await measureAll(work, asked, investigator);
  }
  await scoreAll({ session, options: rest }, strategies);
  return runOf(session);
}
