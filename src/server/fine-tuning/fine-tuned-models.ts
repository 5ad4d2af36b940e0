/**
 * The adapters that fine-tuning jobs have made, as models of the server under names of their own.
 */
import type { Job } from '../../jobs/job.js';
import type { JobQueue } from '../../jobs/queue.js';
import { IsoproError } from '../../errors.js';
import { commonestFailure, reasonShown } from '../../text/failures.js';
import type { Failures } from '../../tasks/failures.js';
import type { ServedModels } from '../openai/models.js';
import { readNote } from './note.js';

/**
 * Error of a run that had no rollout to train on, whose adapter is not a model; null if it was
 * trained.
 */
function nothingTrained({ result }: Job): IsoproError | null {
  const { accepted, failures } = (result ?? {}) as {
    readonly accepted?: number;
    readonly failures?: { readonly rollouts: Failures };
  };
  if (accepted !== 0) return null;
  const cause = failures === undefined ? null : commonestFailure(failures.rollouts);
  const why =
    cause === null
      ? ''
      : `; most replies (${cause.count} of ${failures!.rollouts.replies}): ${cause.kind}, ${reasonShown(cause)}`;
  return new IsoproError(
    'NOTHING_TRAINED',
    `nothing was trained, because no correct reply could be trained on${why}`,
  );
}

export class FineTunedModels {
  readonly #models: ServedModels;
  readonly #queue: JobQueue;
  readonly #report: (error: unknown) => void;
  /** Outcome by the id of the job: served, or the error. */
  readonly #outcomes = new Map<string, 'served' | IsoproError>();
  readonly #loading = new Set<string>();

  constructor(models: ServedModels, queue: JobQueue, report: (error: unknown) => void) {
    this.#models = models;
    this.#queue = queue;
    this.#report = report;
  }

  /** `ft:BASE:OWNER:SUFFIX:ID`, as OpenAI names them. */
  nameOf({ id, owner }: Job): string {
    const { suffix } = readNote(this.#queue.note(id))!;
    return `ft:${this.#models.base}:${owner.replace(/[^\w.-]/g, '-')}:${suffix ?? ''}:${id.slice('job-'.length, 'job-'.length + 8)}`;
  }

  /** Outcome of an ended job; null while its adapter is being loaded. */
  outcomeOf({ id }: Job): 'served' | IsoproError | null {
    return this.#outcomes.get(id) ?? null;
  }

  /** Serves the adapters of jobs that ended earlier. */
  async serveAll(): Promise<void> {
    for (let after: string | undefined, hasMore = true; hasMore; ) {
      const read = this.#queue.list({ isNoted: true, state: 'succeeded', limit: 100, after });
      for (const job of read.jobs) await this.serve(job.id);
      after = read.jobs.at(-1)?.id;
      hasMore = read.hasMore;
    }
  }

  /** Serves the adapter of an ended fine-tuning job; harmless for other jobs. */
  async serve(id: string): Promise<void> {
    // it may end while those that had ended before are loaded
    if (this.#outcomes.has(id) || this.#loading.has(id)) return;
    this.#loading.add(id);
    try {
      const job = this.#queue.get(id);
      if (job?.state !== 'succeeded' || readNote(this.#queue.note(id)) === null) return;
      const untrained = nothingTrained(job);
      if (untrained !== null) return void this.#outcomes.set(id, untrained);
      const file = this.#queue.adapterOf(job);
      if (file === null)
        throw new IsoproError('FILE_UNREADABLE', `the adapter of ${id} no longer exists`);
      await this.#models.add(this.nameOf(job), file);
      this.#outcomes.set(id, 'served');
    } catch (error) {
      this.#outcomes.set(
        id,
        error instanceof IsoproError
          ? error
          : new IsoproError('ADAPTER_CORRUPT', (error as Error).message),
      );
      this.#report(error);
    } finally {
      this.#loading.delete(id);
    }
  }
}
