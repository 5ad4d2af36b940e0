/** Jobs as docs/jobs.md has them. */
import { ApiError, events, get, part, post } from './api.ts';

export type JobState = 'queued' | 'running' | 'paused' | 'succeeded' | 'failed' | 'cancelled';

export interface JobProgress {
  readonly stage: string;
  readonly done: number;
  readonly total: number;
  readonly iteration?: number;
  readonly iterations?: number;
  readonly tokens?: number;
  readonly hits?: Readonly<Record<string, { readonly passed: number; readonly decided: number }>>;
  readonly loss?: number | null;
}

export interface Job {
  readonly id: string;
  readonly kind: string;
  readonly name: string | null;
  readonly owner: string;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly state: JobState;
  readonly waitingFor: string | null;
  readonly progress: JobProgress | null;
  readonly command: string;
  readonly run: string | null;
  readonly memoryBytes: number;
  readonly attempts: number;
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly result: unknown;
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly remedy: string;
  } | null;
}

export interface JobEvent {
  readonly id: number;
  readonly at: string;
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface JobKind {
  readonly kind: string;
  readonly title: string;
  readonly button: string;
  readonly measures: boolean;
  readonly schema: Schema;
  readonly names: Readonly<Record<string, readonly string[]>>;
}

/** JSON Schema, as far as the form reads it. */
export interface Schema {
  readonly type?: string | readonly string[];
  readonly title?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  /** Of which of the server's names it takes one. */
  readonly names?: string;
  /** The place among the fields that come first. */
  readonly first?: number;
}

export interface Estimate {
  readonly settings: Readonly<Record<string, unknown>>;
  readonly command: string;
  readonly memoryBytes: number;
  readonly measured: unknown;
}

export const isOver = ({ state }: Pick<Job, 'state'>): boolean =>
  ['succeeded', 'failed', 'cancelled'].includes(state);

export const kinds = async (signal?: AbortSignal): Promise<readonly JobKind[]> =>
  (await get<{ data: readonly JobKind[] }>('/api/jobs/kinds', signal)).data;
/** Names of kinds that this key may ask for; none where the server takes no jobs. */
export async function jobKinds(signal?: AbortSignal): Promise<readonly string[]> {
  try {
    return (await kinds(signal)).map(({ kind }) => kind);
  } catch (error) {
    if (error instanceof ApiError && error.status < 500) return [];
    throw error;
  }
}
export const listJobs = (
  signal?: AbortSignal,
): Promise<{ readonly data: readonly Job[]; readonly hasMore: boolean }> =>
  get('/api/jobs?limit=100', signal);
export const getJob = (id: string, signal?: AbortSignal): Promise<Job> =>
  get(`/api/jobs/${part(id)}`, signal);
export const tell = (id: string, what: 'cancel' | 'pause' | 'resume'): Promise<Job> =>
  post(`/api/jobs/${part(id)}/${what}`, {});
export const estimate = (
  kind: string,
  settings: unknown,
  measure: boolean,
  signal?: AbortSignal,
): Promise<Estimate> =>
  post('/api/jobs/estimate', { kind, settings, ...(measure ? { measure: true } : {}) }, { signal });

/**
 * For one thing that is asked for. `crypto.randomUUID` is there over HTTPS and on the machine
 * itself alone.
 */
export const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('');

export const createJob = (
  kind: string,
  settings: unknown,
  name: string,
  key: string,
): Promise<Job> =>
  post(
    '/api/jobs',
    { kind, settings, ...(name === '' ? {} : { name }) },
    { headers: { 'idempotency-key': key } },
  );

/** The job that makes a run; null where none does, or this server takes no jobs. */
export async function jobOfRun(run: string, signal?: AbortSignal): Promise<Job | null> {
  try {
    return await getJob(run, signal);
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 400)) return null;
    throw error;
  }
}

/**
 * Every event of a job, those that were before too, until it has ended; after a broken connection
 * it goes on where it was.
 */
export async function* follow(
  id: string,
  signal: AbortSignal,
): AsyncGenerator<JobEvent, void, undefined> {
  let after = 0;
  while (!signal.aborted) {
    try {
      for await (const event of events<JobEvent>(`/api/jobs/${part(id)}/events?after=${after}`, {
        signal,
      })) {
        after = event.id;
        yield event;
      }
      if (isOver(await getJob(id, signal))) return;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}
