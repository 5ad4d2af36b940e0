/**
 * Judge of a run: derives every record and every score again, from the log alone. It executes
 * nothing that the run supplied.
 */
import { ZodError } from 'zod';
import type { Json } from '../../canonical-json.js';
import { IsoproError, type ErrorCode } from '../../errors.js';
import { encodePayload } from '../../log/payload.js';
import { verifyRun, type RunVerification } from '../../log/local-trust.js';
import { LogReader } from '../../log/read.js';
import { jsonDifferences } from '../../run-folder/manifest.js';
import { statedBeliefs, type AskedReading } from '../beliefs/verbal-belief.js';
import { WORDINGS } from '../beliefs/readout.js';
import { overWordings } from '../beliefs/belief.js';
import { opening } from '../modes/asking.js';
import { REASONING_MODES } from '../modes/mode.js';
import { digestOf } from '../domains/domain.js';
import type { Domains } from '../domains/user-domain.js';
import { needsBeliefs, STRATEGIES } from '../strategies/strategy.js';
import { observed } from '../strategies/worlds.js';
import { trajectory as trajectoryOf } from '../trajectory.js';
import { capitulationsOf, evaluate, rangeOf } from './evaluate.js';
import { domainsOf, readTruthManifest, truthPaths, type TruthStart } from './folder.js';
import { areDrawn, isRatedAsDrawn, type PeerAnswer } from './trial-check.js';
import { answerOf } from './measure.js';
import { plannedProblems, plannedSetups, systemText, trajectorySeed } from './plan.js';
import {
  newRecord,
  readTruthRecord,
  setupKey,
  TRUTH_STREAMS,
  type BeliefsRecord,
  type ProblemRecord,
  type Reader,
  type RecordOf,
  type ResultRecord,
  type TrajectoryRecord,
  type TruthRecord,
} from './records.js';
import { PROBES, readerId } from './reader.js';
import { digestOfRecord, readerOfResult, replacing, TruthState } from './state.js';
import { plainIn, type Plain } from './run-context.js';
import { LOCAL_WORLDS } from './worlds.js';

export interface TruthJudgeOptions {
  readonly folder: string;
  /** Public key of the witness that has to have signed; default: this machine's own. */
  readonly keyFile?: string;
  /** Files with signed heads that were kept elsewhere. */
  readonly headFiles?: readonly string[];
  readonly home?: string;
  readonly signal?: AbortSignal;
}

export interface TruthJudgement {
  readonly format: 'isopro.truth-judge.v1';
  readonly folder: string;
  readonly runId: string | null;
  readonly verdict: 'pass' | 'not_ended' | 'hard_fail';
  readonly failure: string | null;
  /** Records that were read, and of them what was derived again and found the same. */
  readonly records: number;
  readonly trajectories: number;
  readonly readouts: number;
  readonly results: number;
  readonly trust: {
    readonly key: string;
    readonly ownedByThisUser: boolean;
    readonly signer: string | null;
  };
}

class Fails extends Error {}
class NotEnded extends Error {}

function fail(what: string): never {
  throw new Fails(what);
}

/** True if two records are equal in a log. */
const same = (a: TruthRecord, b: TruthRecord): boolean =>
  encodePayload(newRecord(a).payload) === encodePayload(newRecord(b).payload);

/** True if a score follows from the records so far. */
function isWhatRecordsGive(record: ResultRecord, state: TruthState): boolean {
  const { setup, strategy, details, replaces, reader } = record;
  const found = evaluate(state, setup, strategy, readerOfResult(record), capitulationsOf(details));
  return same({ ...found, replaces, ...(reader === undefined && { reader }) }, record);
}

/** Problems and setups that the configuration asks for, and the checks of records against them. */
class Asked {
  readonly #problems: ReadonlyMap<string, ProblemRecord>;
  readonly #setups: ReadonlySet<string>;
  /** Current trajectories by id; null after a new one. */
  #plain: ReadonlyMap<string, Plain> | null = null;
  /** Scores that their records do not give, by digest. */
  readonly #wrong = new Map<string, string>();

  constructor(
    readonly start: TruthStart,
    domains: Domains,
  ) {
    for (const { id, sha256 } of start.domains)
      if (digestOf(domains.named(id)) !== sha256)
        fail(
          `the domain ${id} has changed since the run, so another version of isopro-native made the run`,
        );
    this.#problems = new Map(
      plannedProblems(start.config, domains).map((each) => [each.problem.id, each]),
    );
    this.#setups = new Set(plannedSetups(start.config).map(setupKey));
  }

  check(record: TruthRecord, state: TruthState): void {
    switch (record.kind) {
      case 'problem': {
        const own = this.#problems.get(record.problem.id);
        if (own === undefined || !same(own, record))
          fail('the problem is not one that the configuration asks');
        break;
      }
      case 'failure':
        if (!this.#setups.has(setupKey(record.setup)) || !state.problems.has(record.problemId))
          fail('the failure record refers to an unknown setup or problem');
        break;
      case 'trajectory':
        this.#trajectory(record, state);
        break;
      case 'beliefs':
        checkBeliefs(record, state);
        break;
      case 'result': {
        const reader = readerOfResult(record);
        if (reader !== null && state.reader(reader) === null)
          fail(`the score of ${record.strategy} names an unknown reader`);
        // one that another takes the place of is claimed no more, such as one that an earlier
        // version of this program computed
        const there = state.before(record);
        if (there !== null) this.#wrong.delete(digestOfRecord(there));
        if (!isWhatRecordsGive(record, state))
          this.#wrong.set(digestOfRecord(record), record.strategy);
        break;
      }
      case 'reader':
        this.#reader(record);
        break;
      case 'complete':
        if (
          record.trajectories !== state.trajectories.length ||
          record.failures !== state.failures.length ||
          record.readouts !== state.readouts ||
          record.results !== state.results.length ||
          record.trajectoriesSha256 !== state.trajectoriesSha256
        )
          fail('its record counts are wrong');
        break;
      case 'observations':
        checkObservations(record, state);
        break;
      case 'peer':
        if (record.trajectory.policyId === this.start.policy.id)
          fail('the record should come from a peer, but it comes from the evaluated policy itself');
        this.#trajectory(record, state, record.trajectory.policyId);
        break;
      case 'mutual_trials':
        this.#trials(record, state);
        break;
      case 'forecasts':
        checkForecasts(record, state);
        break;
      case 'rating':
        this.#rating(record, state);
        break;
    }
    if (record.kind === 'trajectory') this.#plain = null;
    checkReplaced(record, state);
  }

  /** Strategies that the run had to score, and those that it scored. */
  #strategies(state: TruthState): string[] {
    const scored = state.results.map(({ strategy }) => strategy);
    return [...new Set([...this.start.config.eval, ...scored])];
  }

  /** A policy that the run began with is what it was then. */
  #reader({ id, reader }: RecordOf<'reader'>): void {
    if (id !== readerId(reader)) fail('the id of a reader does not match its content');
    const { policy, predictor, judge } = this.start;
    const own = [policy, predictor, judge ?? null].find((each) => each?.id === reader.policy.id);
    if (own && jsonDifferences(own.identity as Json, reader.policy.identity).length > 0)
      fail('a reader has the id of a different policy');
  }

  /** After the last record. */
  checkScores(): void {
    const [strategy] = this.#wrong.values();
    if (strategy !== undefined) fail(`the score of ${strategy} does not match its records`);
  }

  /**
   * Checks of an ended run that every current score uses all its records, and names a reader if
   * there are beliefs.
   */
  checkLastScores(state: TruthState): void {
    for (const record of state.results) {
      const hidden = !record.reader && needsBeliefs([record.strategy]) && state.readers.length > 0;
      if (hidden || !isWhatRecordsGive(record, state))
        fail(`the score of ${record.strategy} does not match all the records of the run`);
    }
  }

  /**
   * Checks of an ended run that no score mixes measurements of several raters, forecasters or
   * predictors, or different numbers of gradings.
   */
  checkOneMeasures(state: TruthState): void {
    const plain = state.setups
      .flatMap((setup) => state.of(setup, 'plain'))
      .map(({ trajectory: { id } }) => id);
    const some = <T>(of: (id: string) => T | null): T[] =>
      plain.map(of).filter((each) => each !== null);
    for (const strategy of this.#strategies(state)) {
      const asked = STRATEGIES.parse(strategy);
      const ratings = some((id) => state.rating(strategy, id));
      const predictors = some((id) => state.trials(strategy, id)).flatMap(({ trials }) =>
        trials.map(({ predictorId }) => predictorId),
      );
      const most =
        asked.name === 'mutual-predictability' && asked.predictor === 'random-any' ? 2 : 1;
      const kinds: readonly (readonly [of: readonly (string | number)[], most: number])[] = [
        [ratings.map(({ raterId }) => raterId), 1],
        [some((id) => state.forecasts(strategy, id)).map(({ forecasterId }) => forecasterId), 1],
        [predictors, most],
        [asked.name === 'qualitative-judge' ? ratings.map(({ gradings }) => gradings) : [], 1],
      ];
      if (kinds.some(([of, limit]) => new Set(of).size > limit))
        fail(`the score of ${strategy} mixes measurements by different models`);
    }
  }

  /**
   * Number of requested trajectories and scores that are missing: a run that omits unwanted results
   * has not ended.
   */
  missing(state: TruthState): number {
    return plannedSetups(this.start.config).flatMap((setup) => [
      ...[...this.#problems.values()].filter(
        ({ domain, problem }) => domain === setup.domain && state.at(setup, problem.id) === null,
      ),
      ...this.#strategies(state).flatMap((strategy) => {
        const readers =
          needsBeliefs([strategy]) && state.readers.length > 0 ? state.readers : [null];
        return readers.filter((reader) => state.result(setup, strategy, reader) === null);
      }),
    ]).length;
  }

  /** Number of trajectories that lack measurements which others have. */
  unmeasured(state: TruthState): number {
    const all = state.trajectories;
    const plain = all.filter(
      ({ trajectory: { problemId } }) => state.problems.get(problemId)?.framed === undefined,
    );
    const left = (of: readonly TrajectoryRecord[], has: (id: string) => boolean): number => {
      const without = of.filter(({ trajectory: { id } }) => !has(id)).length;
      return without === of.length ? 0 : without;
    };
    const binary = all.filter(
      ({ trajectory: { problemId } }) => state.problem(problemId)?.kind === 'binary',
    );
    const seen = plain.filter(
      ({ trajectory: { id, problemId } }) =>
        state.observations(id) !== null || observed(state.problem(problemId)!) !== null,
    );
    return [
      ...state.readers.map((reader) => left(binary, (id) => state.beliefs(id, reader) !== null)),
      ...this.#strategies(state).flatMap((strategy) => [
        left(plain, (id) => state.rating(strategy, id) !== null),
        left(plain, (id) => state.trials(strategy, id) !== null),
        left(seen, (id) => state.forecasts(strategy, id) !== null),
      ]),
    ].reduce((sum, count) => sum + count, 0);
  }

  #trials(
    { strategy, trajectoryId, trials, unmeasured }: RecordOf<'mutual_trials'>,
    state: TruthState,
  ): void {
    const own = state.trajectory(trajectoryId);
    if (own === undefined) fail('it measures a missing trajectory');
    const asked = STRATEGIES.parse(strategy);
    const isOwn = ({ predictedId }: { readonly predictedId: string }): boolean =>
      predictedId === this.start.policy.id;
    if (
      asked.name !== 'mutual-predictability' ||
      (asked.predicted === undefined && !trials.every(isOwn))
    )
      fail('its trials belong to another strategy or policy');
    if (trials.length + unmeasured.length !== asked.trials)
      fail('it has a different number of trials than its strategy requires');
    if (
      asked.target === 'evaluated-question' &&
      trials.some((trial) => isOwn(trial) && trial.answer !== answerOf(own))
    )
      fail('it predicts an answer that the trajectory does not give');
    const plain = this.#plainOf(trajectoryId, state);
    if (
      !areDrawn(
        { trials, unmeasured },
        plain,
        asked,
        this.start.config.seed,
        peerAnswers(plain, state),
      )
    )
      fail('its trials do not follow from the seed of the run');
  }

  #rating(record: RecordOf<'rating'>, state: TruthState): void {
    if (state.trajectory(record.trajectoryId) === undefined) fail('it rates a missing trajectory');
    checkRating(record);
    const asked = STRATEGIES.parse(record.strategy);
    if (asked.name !== 'mutual-predictability') return;
    const plain = this.#plainOf(record.trajectoryId, state);
    const others = { peer: peerAnswers(plain, state), policies: state.peers };
    if (!isRatedAsDrawn(record, plain, asked, this.start.config.seed, others))
      fail('its trials do not follow from the seed of the run');
  }

  #plainOf(trajectoryId: string, state: TruthState): Plain {
    this.#plain ??= new Map(plainIn(state).map((each) => [each.record.trajectory.id, each]));
    return (
      this.#plain.get(trajectoryId) ?? fail('it measures a trajectory that is no longer current')
    );
  }

  #trajectory(
    { setup, trajectory }: Pick<TrajectoryRecord, 'setup' | 'trajectory'>,
    state: TruthState,
    policyId = this.start.policy.id,
  ): void {
    const asked = state.problems.get(trajectory.problemId);
    if (asked === undefined || asked.domain !== setup.domain || !this.#setups.has(setupKey(setup)))
      fail('it reasons about a problem that its configuration does not ask');
    const own = {
      ...trajectory,
      policyId,
      modeId: setup.mode,
      seed: trajectorySeed(this.start.config, setup, asked).toString(),
      prompt: opening(
        asked.problem,
        REASONING_MODES.parse(setup.mode),
        systemText(setup),
        this.start.config.belief === 'stated',
      ),
    };
    const differences = jsonDifferences(
      trajectoryOf(own) as unknown as Json,
      trajectory as unknown as Json,
    );
    if (differences.length > 0)
      fail(`a trajectory differs from its configuration in ${differences.join(', ')}`);
  }
}

const peerAnswers =
  ({ setup }: Plain, state: TruthState): PeerAnswer =>
  (policyId, problemId) => {
    const said = state.peer(policyId, setup, problemId);
    return said === null ? null : answerOf(said.trajectory);
  };

function checkBeliefs({ reader: id, readout }: BeliefsRecord, state: TruthState): void {
  if (id !== undefined) {
    checkReader(state.reader(id), readout);
    checkMeasurements(state.reader(id)!, readout);
  }
  const trajectory = state.trajectory(readout.trajectoryId);
  if (trajectory === undefined || trajectory.problemId !== readout.problemId)
    fail('it reads beliefs of a missing trajectory');
  const problem = state.problem(readout.problemId);
  const isStated =
    (id !== undefined && state.reader(id)?.source === 'stated') ||
    readout.readings.some(({ belief }) => belief?.source === 'stated');
  if (isStated && problem?.kind === 'binary') {
    type Read = BeliefsRecord['readout']['readings'][number] | AskedReading;
    const whatOf = (each: Read): number | string =>
      each.belief === null ? each.reason : each.belief.p0;
    const said = statedBeliefs(problem, trajectory).readings.map(whatOf);
    if (readout.readings.some((each, i) => whatOf(each) !== said[i]))
      fail('its beliefs differ from those that its reasoning states');
  }
  if (readout.readings.length !== trajectory.steps.length + 1)
    fail('it needs one belief before the first step and one after each');
  for (const reading of readout.readings) {
    if (reading.belief === null) continue;
    const own = overWordings(reading.byWording);
    if (own.p0 !== reading.belief.p0 || own.error !== reading.belief.error)
      fail('a belief is not the mean of its measurements');
  }
}

/** Checks that beliefs belong to their reader; a judge that judges itself has the source `self`. */
function checkReader(
  reader: Reader | null,
  { policyId, beliefSystem, readings }: BeliefsRecord['readout'],
): void {
  if (reader === null) fail('it names an unknown reader');
  const kind = (source: string): string => (source === 'self' ? 'judge' : source);
  const isOther = readings.some(
    ({ belief }) => belief !== null && kind(belief.source) !== kind(reader.source),
  );
  if (
    isOther ||
    beliefSystem !== reader.beliefSystem ||
    (reader.source !== 'stated' && policyId !== reader.policy.id)
  )
    fail('its beliefs do not belong to the reader that it names');
}

/**
 * Checks the number of measurements of each belief; stated ones may lack those that could not be
 * read.
 */
function checkMeasurements(
  { source, probes, measurements }: Reader,
  { readings }: BeliefsRecord['readout'],
): void {
  const counts = new Set(
    readings.flatMap((each) => (each.belief === null ? [] : [each.byWording.length])),
  );
  const most =
    source === 'logprob'
      ? probes === PROBES
        ? WORDINGS.length
        : undefined
      : source === 'stated'
        ? 1
        : measurements;
  const isExact = source === 'logprob' || source === 'stated';
  if (
    counts.size > 1 ||
    (most !== undefined && [...counts].some((count) => (isExact ? count !== most : count > most)))
  )
    fail('a belief has a different number of measurements than its reader makes');
}

/** Checks observations of local worlds by observing them again. */
function checkObservations(record: RecordOf<'observations'>, state: TruthState): void {
  const trajectory = state.trajectory(record.trajectoryId);
  if (trajectory === undefined) fail('it observes the world of a missing trajectory');
  if (record.investigator !== LOCAL_WORLDS.id) return;
  const own = observed(state.problem(trajectory.problemId)!)?.observations ?? [];
  if (
    !same(
      { ...record, observations: own.map(({ question, outcome }) => ({ question, outcome })) },
      record,
    )
  )
    fail('its observations differ from what happened in the local world');
}

function checkForecasts(record: RecordOf<'forecasts'>, state: TruthState): void {
  const seen = state.observations(record.trajectoryId);
  if (seen === null || digestOfRecord(seen) !== record.observations)
    fail('it forecasts observations that are not recorded');
  if (record.forecasts.length + record.unmeasured.length !== seen.observations.length)
    fail('it lacks a forecast of an outcome');
}

/** Checks that a rating is possible. */
function checkRating({ strategy, score, error, gradings, failed }: RecordOf<'rating'>): void {
  const asked = STRATEGIES.parse(strategy);
  const [low, high] = rangeOf(asked);
  if (score !== null && (score < low || score > high))
    fail(`a rating is not between ${low} and ${high}`);
  if (error !== null && error < 0) fail('a rating has an error below 0');
  const without = Object.values(failed).reduce((sum, count) => sum + count, 0);
  if (asked.name === 'mutual-predictability') {
    // trials that nobody could be asked about fail, too
    const isNone = gradings === 0 || without >= asked.trials;
    if (gradings > asked.trials || (score === null) !== isNone)
      fail('its rating does not fit its trials');
    return;
  }
  if ((score === null) !== without >= gradings) fail('its rating does not fit its gradings');
  const isOnce =
    asked.name === 'grader' || (asked.name === 'qualitative-judge' && asked.order !== 'permuted');
  const rounds = asked.name === 'qualitative-judge' ? asked.rounds : 1;
  if (isOnce ? gradings !== rounds : gradings === 0 || gradings % rounds !== 0)
    fail('it has a different number of gradings than its strategy requires');
}

/** Checks that a record names the digest of the one it replaces. */
function checkReplaced(record: TruthRecord, state: TruthState): void {
  if (!('replaces' in record)) return;
  if (record.replaces !== replacing(state, record).replaces)
    fail('it names the wrong record as the one it replaces');
}

/** Error codes that hostile records can cause in parsers. */
const OF_RECORDS: readonly ErrorCode[] = [
  ...(['LOG_UNREADABLE', 'INVALID_ARGUMENT', 'PROBLEM_INVALID'] as const),
  ...(['DATA_INVALID', 'FILE_UNREADABLE'] as const),
];

function requireIntact({ outcome, disagreement, records, signedRecords }: RunVerification): void {
  // a run is open for further measurements, so that no head of it is the final one
  if (outcome !== 'ok' && outcome !== 'unterminated')
    fail(`the log is ${outcome}: ${disagreement?.reason ?? ''}`);
  if (signedRecords < records)
    throw new NotEnded(
      `${records - signedRecords} records are not signed: the run was interrupted`,
    );
}

function judgeRecords(
  folder: string,
  start: TruthStart,
  seen: { state: TruthState; records: number },
): void {
  const { state } = seen;
  const asked = new Asked(start, domainsOf(folder, start));
  const reader = new LogReader(truthPaths(folder).log, TRUTH_STREAMS);
  try {
    for (const each of reader.records()) {
      seen.records++;
      if (each.payload.kind === 'session_start') {
        const differences = jsonDifferences(
          each.payload.runConfig as Json,
          start as unknown as Json,
        );
        if (differences.length > 0)
          fail(`truth.json and the log differ in ${differences.join(', ')}`);
      }
      const record = readTruthRecord(each);
      if (record === null) continue;
      try {
        asked.check(record, state);
      } catch (error) {
        if (error instanceof Fails) throw new Fails(`record ${each.gseq}: ${error.message}`);
        throw error;
      }
      state.apply(record);
    }
  } finally {
    reader.close();
  }
  asked.checkScores();
  if (state.complete === null) throw new NotEnded('the run has not ended');
  asked.checkLastScores(state);
  asked.checkOneMeasures(state);
  const missing = asked.missing(state);
  if (missing > 0)
    throw new NotEnded(
      `${missing} trajectories or scores that its configuration requires are missing`,
    );
  const unmeasured = asked.unmeasured(state);
  if (unmeasured > 0)
    throw new NotEnded(`${unmeasured} trajectories lack beliefs or measurements that others have`);
}

/**
 * Checks a run against its configuration: draws problems, prompts and seeds again, and recomputes
 * every id, belief and score.
 * @throws IsoproError where the check cannot be made (RUN_NOT_FOUND, LOG_NOT_FOUND,
 *   WITNESS_KEY_MISSING, ABORTED, …); what the run itself got wrong is a verdict
 */
export async function judgeTruthRun(options: TruthJudgeOptions): Promise<TruthJudgement> {
  const { folder, ...trust } = options;
  const { runId, start } = readTruthManifest(folder);
  const verification = await verifyRun(folder, { streams: TRUTH_STREAMS, runId, ...trust });
  const seen = { state: new TruthState(), records: 0 };
  let failure: Error | null = null;
  try {
    requireIntact(verification);
    judgeRecords(folder, start, seen);
  } catch (error) {
    const own = error instanceof Fails || error instanceof NotEnded;
    const known = error instanceof IsoproError && OF_RECORDS.includes(error.code);
    if (error instanceof ZodError)
      failure = new Fails('the figures that follow from its records are invalid');
    else if (own || known) failure = error as Error;
    else throw error;
  }
  const { state, records } = seen;
  return {
    format: 'isopro.truth-judge.v1',
    folder,
    runId: verification.runId,
    verdict: failure === null ? 'pass' : failure instanceof NotEnded ? 'not_ended' : 'hard_fail',
    failure: failure === null ? null : failure.message.replace(/\s*\n\s*/g, '; ').slice(0, 300),
    records,
    trajectories: state.trajectories.length,
    readouts: state.readouts,
    results: state.results.length,
    trust: {
      key: verification.key.text,
      ownedByThisUser: verification.key.ownedByThisUser,
      signer: verification.signer,
    },
  };
}
