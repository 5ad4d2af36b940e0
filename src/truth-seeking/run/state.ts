/** State of a run, folded from its records: the newest of each, with what they refer to. */
import { hash } from 'node:crypto';
import { encodePayload } from '../../log/payload.js';
import type { Problem } from '../problem.js';
import {
  newRecord,
  setupKey,
  type BeliefsRecord,
  type FailureRecord,
  type PeerRecord,
  type ProblemRecord,
  type Reader,
  type RecordOf,
  type ReplacingRecord,
  type ResultRecord,
  type Setup,
  type TrajectoryRecord,
  type TruthRecord,
} from './records.js';
import { readerId, readerOfReadout } from './reader.js';

/** Digest of a record, which `replaces` names. */
export const digestOfRecord = (record: TruthRecord): string =>
  hash('sha256', encodePayload(newRecord(record).payload));

type Unreplacing<R> = R extends ReplacingRecord ? Omit<R, 'replaces'> : never;

/** Adds the digest of the replaced record to a record. */
export function replacing<R extends Unreplacing<ReplacingRecord>>(
  state: TruthState,
  record: R,
): R & { readonly replaces: string | null } {
  const there = state.before(record);
  return { ...record, replaces: there === null ? null : digestOfRecord(there) };
}

/** Measurements of a trajectory other than beliefs. */
type Measured = RecordOf<'mutual_trials' | 'observations' | 'forecasts' | 'rating'>;

/** @param strategy empty of what is measured for all of them */
const measuredKey = (kind: Measured['kind'], strategy: string, trajectoryId: string): string =>
  `${kind} ${strategy} ${trajectoryId}`;
const keyOfMeasured = (record: Unreplacing<Measured>): string =>
  measuredKey(record.kind, 'strategy' in record ? record.strategy : '', record.trajectoryId);

const keyOf = (by: string, of: string): string => `${by} ${of}`;

/** A fold over records in their order. */
export class TruthState {
  /** By id. */
  readonly problems = new Map<string, ProblemRecord>();
  readonly #trajectories = new Map<string, TrajectoryRecord>();
  /** Trajectories by id, replaced ones included. */
  readonly #byId = new Map<string, TrajectoryRecord['trajectory']>();
  readonly #failures = new Map<string, FailureRecord>();
  readonly #beliefs = new Map<string, BeliefsRecord>();
  readonly #readers = new Map<string, Reader>();
  /** Readers with beliefs, in order of their first one. */
  readonly #readBy = new Set<string>();
  readonly #peers = new Map<string, PeerRecord>();
  readonly #measured = new Map<string, Measured>();
  readonly #results = new Map<string, ResultRecord>();
  #complete: RecordOf<'complete'> | null = null;

  apply(record: TruthRecord): void {
    // whatever follows the end of a run makes it one that goes on
    this.#complete = record.kind === 'complete' ? record : null;
    switch (record.kind) {
      case 'problem':
        this.problems.set(record.problem.id, record);
        break;
      case 'trajectory':
        this.#trajectories.set(placeOf(record.setup, record.trajectory.problemId), record);
        this.#byId.set(record.trajectory.id, record.trajectory);
        this.#failures.delete(placeOf(record.setup, record.trajectory.problemId));
        break;
      case 'failure':
        this.#failures.set(placeOf(record.setup, record.problemId), record);
        break;
      case 'reader':
        this.#readers.set(record.id, record.reader);
        break;
      case 'beliefs': {
        const id = this.readerIdOf(record);
        if (record.reader === undefined) this.#readers.set(id, readerOfReadout(record.readout));
        this.#readBy.add(id);
        this.#beliefs.set(keyOf(id, record.readout.trajectoryId), record);
        break;
      }
      case 'peer':
        this.#peers.set(
          keyOf(record.trajectory.policyId, placeOf(record.setup, record.trajectory.problemId)),
          record,
        );
        break;
      case 'mutual_trials':
      case 'observations':
      case 'forecasts':
      case 'rating':
        this.#measured.set(keyOfMeasured(record), record);
        break;
      case 'result':
        // what was found before there were beliefs, or named no reader, is replaced by the first
        // reader's
        if (record.reader) this.#results.delete(resultKey(record.setup, record.strategy, null));
        this.#results.set(resultKey(record.setup, record.strategy, readerOfResult(record)), record);
        break;
      case 'complete':
        break;
    }
  }

  /** In the order in which their places were first filled. */
  get trajectories(): readonly TrajectoryRecord[] {
    return [...this.#trajectories.values()];
  }

  get failures(): readonly FailureRecord[] {
    return [...this.#failures.values()];
  }

  get results(): readonly ResultRecord[] {
    return [...this.#results.values()];
  }

  /** The end of the run, where nothing follows it. */
  get complete(): RecordOf<'complete'> | null {
    return this.#complete;
  }

  /** Over all readers. */
  get readouts(): number {
    const made = this.trajectories.map(({ trajectory: { id } }) => id);
    return this.readers.reduce(
      (sum, reader) => sum + made.filter((id) => this.#beliefs.has(keyOf(reader, id))).length,
      0,
    );
  }

  /** Ids of those of whom there are beliefs, the first one first. */
  get readers(): readonly string[] {
    return [...this.#readBy];
  }

  /** Returns a reader by id; null if there is none. */
  reader(id: string): Reader | null {
    return this.#readers.get(id) ?? null;
  }

  readerIdOf({ reader, readout }: Pick<BeliefsRecord, 'reader' | 'readout'>): string {
    return reader ?? readerId(readerOfReadout(readout));
  }

  /** SHA-256 over the ids of all trajectories, in order. */
  get trajectoriesSha256(): string {
    return hash('sha256', this.trajectories.map(({ trajectory: { id } }) => `${id}\n`).join(''));
  }

  problem(id: string): Problem | undefined {
    return this.problems.get(id)?.problem;
  }

  /** A trajectory by its id, also one that another took the place of. */
  trajectory(trajectoryId: string): TrajectoryRecord['trajectory'] | undefined {
    return this.#byId.get(trajectoryId);
  }

  /** Null where it was not made. */
  at(of: Setup, problemId: string): TrajectoryRecord | FailureRecord | null {
    const place = placeOf(of, problemId);
    return this.#trajectories.get(place) ?? this.#failures.get(place) ?? null;
  }

  /** @param reader by its id; default: the first of the run */
  beliefs(trajectoryId: string, reader = this.readers[0]): BeliefsRecord | null {
    return (
      (reader === undefined ? undefined : this.#beliefs.get(keyOf(reader, trajectoryId))) ?? null
    );
  }

  /** Returns the answer of another reasoner at the same place. */
  peer(policyId: string, of: Setup, problemId: string): PeerRecord | null {
    return this.#peers.get(keyOf(policyId, placeOf(of, problemId))) ?? null;
  }

  /** Ids of policies that said something at places of the run which is not theirs. */
  get peers(): readonly string[] {
    return [...new Set([...this.#peers.values()].map(({ trajectory: { policyId } }) => policyId))];
  }

  /** Returns the record that this one replaces; null if there is none. */
  before(record: Unreplacing<ReplacingRecord>): ReplacingRecord | null {
    switch (record.kind) {
      case 'beliefs':
        return this.beliefs(record.readout.trajectoryId, this.readerIdOf(record));
      case 'result':
        return this.result(record.setup, record.strategy, readerOfResult(record));
      default:
        return this.#measured.get(keyOfMeasured(record)) ?? null;
    }
  }

  #measurement<Kind extends Measured['kind']>(
    kind: Kind,
    strategy: string,
    trajectoryId: string,
  ): RecordOf<Kind> | null {
    const found = this.#measured.get(measuredKey(kind, strategy, trajectoryId));
    return (found as RecordOf<Kind> | undefined) ?? null;
  }

  trials(strategy: string, trajectoryId: string): RecordOf<'mutual_trials'> | null {
    return this.#measurement('mutual_trials', strategy, trajectoryId);
  }

  observations(trajectoryId: string): RecordOf<'observations'> | null {
    return this.#measurement('observations', '', trajectoryId);
  }

  forecasts(strategy: string, trajectoryId: string): RecordOf<'forecasts'> | null {
    return this.#measurement('forecasts', strategy, trajectoryId);
  }

  rating(strategy: string, trajectoryId: string): RecordOf<'rating'> | null {
    return this.#measurement('rating', strategy, trajectoryId);
  }

  /**
   * @param reader by its id; default: the first of the run. Without one of that reader's the one
   * that names none, which it would replace.
   */
  result(
    of: Setup,
    strategy: string,
    reader: string | null = this.readers[0] ?? null,
  ): ResultRecord | null {
    return (
      this.#results.get(resultKey(of, strategy, reader)) ??
      this.#results.get(resultKey(of, strategy, null)) ??
      null
    );
  }

  /** In the order of their first trajectory. */
  get setups(): readonly Setup[] {
    const found = new Map<string, Setup>();
    for (const { setup } of [...this.#trajectories.values(), ...this.#failures.values()])
      if (!found.has(setupKey(setup))) found.set(setupKey(setup), setup);
    return [...found.values()];
  }

  /**
   * Returns the trajectories of a setup, on plain problems or on those framed by a user's opinion.
   */
  of(setup: Setup, asked: 'plain' | 'framed'): readonly TrajectoryRecord[] {
    const key = setupKey(setup);
    return this.trajectories.filter(
      (each) =>
        setupKey(each.setup) === key &&
        (this.problems.get(each.trajectory.problemId)?.framed !== undefined) ===
          (asked === 'framed'),
    );
  }
}

/** Id of the reader of a result; null if it names none. */
export const readerOfResult = ({ reader }: Pick<ResultRecord, 'reader'>): string | null =>
  reader ? readerId(reader) : null;

const resultKey = (of: Setup, strategy: string, reader: string | null): string =>
  `${strategy} ${reader ?? ''} ${setupKey(of)}`;

const placeOf = (setup: Setup, problemId: string): string => `${problemId} ${setupKey(setup)}`;
