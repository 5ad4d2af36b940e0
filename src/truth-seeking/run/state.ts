/** A run as its records come to: the newest of each, with what they are about. */
import { hash } from 'node:crypto';
import { encodePayload } from '../../log/payload.js';
import type { Problem } from '../problem.js';
import {
  newRecord,
  setupKey,
  type BeliefsRecord,
  type CompleteRecord,
  type FailureRecord,
  type ForecastsRecord,
  type MutualTrialsRecord,
  type ObservationsRecord,
  type PeerRecord,
  type ProblemRecord,
  type RatingRecord,
  type Reader,
  type ResultRecord,
  type Setup,
  type TrajectoryRecord,
  type TruthRecord,
} from './records.js';
import { readerId, readerOfReadout } from './reader.js';

/** What `replaces` names. */
export const digestOfRecord = (record: TruthRecord): string =>
  hash('sha256', encodePayload(newRecord(record).payload));

const keyOf = (strategy: string, trajectoryId: string): string => `${strategy} ${trajectoryId}`;

/** A fold over records in their order. */
export class TruthState {
  /** By id. */
  readonly problems = new Map<string, ProblemRecord>();
  readonly #trajectories = new Map<string, TrajectoryRecord>();
  /** Those that another took the place of too. */
  readonly #byId = new Map<string, TrajectoryRecord['trajectory']>();
  readonly #failures = new Map<string, FailureRecord>();
  readonly #beliefs = new Map<string, BeliefsRecord>();
  readonly #readers = new Map<string, Reader>();
  /** Of whom there are beliefs, the first one first. */
  readonly #readBy = new Set<string>();
  readonly #peers = new Map<string, PeerRecord>();
  readonly #trials = new Map<string, MutualTrialsRecord>();
  readonly #observations = new Map<string, ObservationsRecord>();
  readonly #forecasts = new Map<string, ForecastsRecord>();
  readonly #ratings = new Map<string, RatingRecord>();
  readonly #results = new Map<string, ResultRecord>();
  #complete: CompleteRecord | null = null;

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
        this.#trials.set(keyOf(record.strategy, record.trajectoryId), record);
        break;
      case 'observations':
        this.#observations.set(record.trajectoryId, record);
        break;
      case 'forecasts':
        this.#forecasts.set(keyOf(record.strategy, record.trajectoryId), record);
        break;
      case 'rating':
        this.#ratings.set(keyOf(record.strategy, record.trajectoryId), record);
        break;
      case 'result':
        // what was found before there were beliefs, or named no reader, is replaced by the first
        // reader's
        if (record.reader) this.#results.delete(resultKey(record.setup, record.strategy, null));
        this.#results.set(
          resultKey(record.setup, record.strategy, record.reader ? readerId(record.reader) : null),
          record,
        );
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
  get complete(): CompleteRecord | null {
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

  /** By its id; null where there is none. */
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

  /** What another policy said at the same place. */
  peer(policyId: string, of: Setup, problemId: string): PeerRecord | null {
    return this.#peers.get(keyOf(policyId, placeOf(of, problemId))) ?? null;
  }

  /** Ids of policies that said something at places of the run which is not theirs. */
  get peers(): readonly string[] {
    return [...new Set([...this.#peers.values()].map(({ trajectory: { policyId } }) => policyId))];
  }

  trials(strategy: string, trajectoryId: string): MutualTrialsRecord | null {
    return this.#trials.get(keyOf(strategy, trajectoryId)) ?? null;
  }

  observations(trajectoryId: string): ObservationsRecord | null {
    return this.#observations.get(trajectoryId) ?? null;
  }

  forecasts(strategy: string, trajectoryId: string): ForecastsRecord | null {
    return this.#forecasts.get(keyOf(strategy, trajectoryId)) ?? null;
  }

  rating(strategy: string, trajectoryId: string): RatingRecord | null {
    return this.#ratings.get(keyOf(strategy, trajectoryId)) ?? null;
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
   * Trajectories of a setup; of problems as they are, or those that a user asks who has an opinion.
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

const resultKey = (of: Setup, strategy: string, reader: string | null): string =>
  `${strategy} ${reader ?? ''} ${setupKey(of)}`;

const placeOf = (setup: Setup, problemId: string): string => `${problemId} ${setupKey(setup)}`;
