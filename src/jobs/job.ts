/** A piece of work that is waited for, watched and ended by its id, whatever process does it. */
import type { ErrorCode } from '../errors.js';

export const JOB_STATES = [
  'queued',
  'running',
  'paused',
  'succeeded',
  'failed',
  'cancelled',
] as const;
export type JobState = (typeof JOB_STATES)[number];

const ENDED: ReadonlySet<JobState> = new Set(['succeeded', 'failed', 'cancelled']);
/** Returns true for a state that no other state follows. */
export const hasEndedAs = (state: JobState): boolean => ENDED.has(state);

/** Error in the form that a command prints with --json; USAGE for wrong usage. */
export interface JobError {
  readonly code: ErrorCode | 'USAGE';
  readonly message: string;
  readonly remedy?: string;
}

export interface Job {
  readonly id: string;
  readonly kind: string;
  /** The caller's own word for it. */
  readonly name: string | null;
  /** Name of the owner; the queue treats all owners alike. */
  readonly owner: string;
  /** Settings of the request. */
  readonly settings: unknown;
  readonly state: JobState;
  /** What a queued job waits for: other jobs, or memory. */
  readonly waitingFor: 'turn' | 'memory' | null;
  /** Data of the last event of that type. */
  readonly progress: unknown;
  /** Command that does the same without a server. */
  readonly command: string;
  /** Name of its folder below the runs folder; null where it makes none. */
  readonly run: string | null;
  /** Bytes that are reserved for the job before it starts. */
  readonly memoryBytes: number;
  /** Number of times that the job was started. */
  readonly attempts: number;
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  /** The document that the command prints with --json. */
  readonly result: unknown;
  readonly error: JobError | null;
}

export const EVENT_TYPES = ['state', 'progress', 'iteration', 'rule', 'step', 'notice'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export interface JobEvent {
  /** Number from 1 in each job, without gaps. */
  readonly id: number;
  readonly at: string;
  readonly type: EventType;
  readonly data: unknown;
}
