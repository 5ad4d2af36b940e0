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
  type ProblemRecord,
  type RatingRecord,
  type ResultRecord,
  type Setup,
  type TrajectoryRecord,
  type TruthRecord,
} from './records.js';

/** What `replaces` names. */
export const digestOfRecord = (record: TruthRecord): string => hash('sha256', encodePayload(newRecord(record).payload));

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
      case 'beliefs':
        this.#beliefs.set(record.readout.trajectoryId, record);
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
        this.#results.set(`${record.strategy} ${setupKey(record.setup)}`, record);
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

  get readouts(): number {
    return this.trajectories.filter(({ trajectory: { id } }) => this.#beliefs.has(id)).length;
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

  beliefs(trajectoryId: string): BeliefsRecord | null {
    return this.#beliefs.get(trajectoryId) ?? null;
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

  result(of: Setup, strategy: string): ResultRecord | null {
    return this.#results.get(`${strategy} ${setupKey(of)}`) ?? null;
  }

  /** In the order of their first trajectory. */
  get setups(): readonly Setup[] {
    const found = new Map<string, Setup>();
    for (const { setup } of [...this.#trajectories.values(), ...this.#failures.values()])
      if (!found.has(setupKey(setup))) found.set(setupKey(setup), setup);
    return [...found.values()];
  }

  /** Trajectories of a setup; of problems as they are, or those that a user asks who has an opinion. */
  of(setup: Setup, asked: 'plain' | 'framed'): readonly TrajectoryRecord[] {
    const key = setupKey(setup);
    return this.trajectories.filter(
      (each) =>
        setupKey(each.setup) === key && (this.problems.get(each.trajectory.problemId)?.framed !== undefined) === (asked === 'framed'),
    );
  }
}

const placeOf = (setup: Setup, problemId: string): string => `${problemId} ${setupKey(setup)}`;
