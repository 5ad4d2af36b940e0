/** Jobs, as docs/jobs.md describes them. */
import { ApiError, events, get, part, post, type JobRecord, type JobRecordEvent } from './api.ts';

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

export interface Job extends Omit<JobRecord, 'settings' | 'progress'> {
  readonly settings: Readonly<Record<string, unknown>>;
  readonly progress: JobProgress | null;
}

export interface JobEvent extends JobRecordEvent {
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

/** The part of JSON Schema that the form reads. */
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
  /** Which of the server's lists of names the field takes one of. */
  readonly names?: string;
  /** Position among the fields that come first. */
  readonly first?: number;
}

export interface Estimate {
  readonly settings: Readonly<Record<string, unknown>>;
  readonly command: string;
  readonly memoryBytes: number;
  readonly measured: unknown;
}

export const waitText = (waitingFor: Job['waitingFor']): string =>
  waitingFor === 'turn' ? 'its turn' : (waitingFor ?? '');

export const isOver = ({ state }: Pick<Job, 'state'>): boolean =>
  ['succeeded', 'failed', 'cancelled'].includes(state);

export const kinds = async (signal?: AbortSignal): Promise<readonly JobKind[]> =>
  (await get<{ data: readonly JobKind[] }>('/api/jobs/kinds', signal)).data;
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
): Promise<Estimate> => post('/api/jobs/estimate', { kind, settings, measure }, { signal });

/** Idempotency key of one request. `crypto.randomUUID` exists over HTTPS and on localhost only. */
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
    { kind, settings, name: name === '' ? null : name },
    { headers: { 'idempotency-key': key } },
  );

/** The job that makes a run; null if there is none, or the server has jobs disabled. */
export async function jobOfRun(run: string, signal?: AbortSignal): Promise<Job | null> {
  try {
    return await getJob(run, signal);
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 400)) return null;
    throw error;
  }
}

/**
 * Yields every event of a job from its first one until the job has ended. After a broken connection
 * it continues with the next event.
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
