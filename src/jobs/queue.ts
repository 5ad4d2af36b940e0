/**
 * Queue of jobs in the order of their requests, a few at a time, each in a process of its own. The
 * order and the results are on disk: a queue that was killed continues when it is opened again, and
 * a job that was running resumes as its command does.
 */
import { createHash, randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { offAbort, onAbort } from '../abort.js';
import { canonicalJson, type Json } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import { hasEnded, isFolder, makeFolder, unwritable } from '../files.js';
import { given } from '../given.js';
import { runFolders, runName } from '../lookup/runs.js';
import { shellWord } from '../shell-word.js';
import { errorOf, JobProcess, type Outcome } from './job-process.js';
import { hasEndedAs, type EventType, type Job, type JobEvent } from './job.js';
import type { Place } from '../operations/operation.js';
import { JOB_KINDS, type JobKind, type Prepared } from './kinds.js';
import { Names, type AllowedNames } from '../operations/names.js';
import { NotAllowed } from '../operations/not-allowed.js';
import { JobStore, MARK, type Events, type JobChange, type JobFilter } from './store.js';
import { Uploads } from './uploads.js';
import type { Work } from './worker.js';

/** Text of all settings of a job: they become words of a command line. */
const LONGEST_SETTINGS = 64 * 1024;
/** Milliseconds that the jobs of a killed server have to end. */
const GONE_MS = 10_000;
/** Folder of the files of callers. */
const FILES = 'files';
/** Changes that are kept while nothing can be written. */
const MOST_UNWRITTEN = 10_000;

const DEFAULTS = {
  atOnce: 1,
  /** Bytes that the system and the limit of a container leave. */
  availableMemory: (): number => process.availableMemory(),
  totalMemory: (): number => Math.min(os.totalmem(), process.constrainedMemory() || Infinity),
  againMs: 2000,
};

export interface JobQueueOptions {
  readonly allowed: AllowedNames;
  /** The module that jobs of operations are run by. Default: our own. */
  readonly worker?: string | undefined;
  /** Jobs at once. Default 1: two that compute take each other's time and caches. */
  readonly atOnce?: number;
  /** Bytes that may be taken now. */
  readonly availableMemory?: () => number;
  /** Bytes of memory of the machine. */
  readonly totalMemory?: () => number;
  /**
   * Milliseconds between two looks at memory, and between two attempts to write what could not be;
   * default 2,000.
   */
  readonly againMs?: number;
  /** Receives the id of each job that has ended. */
  readonly onEnded?: (id: string) => void;
  /** Receives errors outside of a job. */
  readonly report: (error: unknown) => void;
}

export interface Asked {
  readonly kind: string;
  readonly settings: unknown;
  readonly name?: string | null | undefined;
  readonly idempotencyKey?: string | undefined;
  /** What must be equal if the key is; default: kind, settings and name. */
  readonly request?: unknown;
  /** Data for the caller, kept with the job. */
  readonly note?: unknown;
}

export interface Estimate extends Pick<Prepared, 'memoryBytes'> {
  readonly settings: unknown;
  readonly command: string;
}

/** Caller of the queue, who does not see jobs, files and runs of others. */
export interface Asker {
  readonly name: string;
  /** Sees those of all. */
  readonly isAdmin: boolean;
}

interface Running {
  /** Null until the process starts. */
  process: JobProcess | null;
  /** State of the job after it was interrupted. */
  endsAs: 'cancelled' | 'paused' | 'queued';
  isTold: boolean;
  readonly memoryBytes: number;
}

const newRunning = (
  endsAs: Running['endsAs'],
  { memoryBytes }: Pick<Prepared, 'memoryBytes'>,
): Running => ({ process: null, endsAs, isTold: false, memoryBytes });

interface Unwritten {
  readonly id: string;
  readonly change: JobChange;
  readonly write: () => void;
}

const interrupt = (running: Running): void => {
  running.isTold = true;
  running.process?.interrupt();
};

const now = (): string => new Date().toISOString();
const limited = (text: string): boolean =>
  text.length > LONGEST_SETTINGS || text.includes('\\u0000');

export class JobQueue {
  readonly folder: string;
  readonly uploads: Uploads;
  readonly #options: JobQueueOptions & typeof DEFAULTS;
  readonly #store: JobStore;
  readonly #running = new Map<string, Running>();
  readonly #works = new Set<Promise<void>>();
  /** Changes that could not be written yet, in their order. */
  readonly #unwritten: Unwritten[] = [];
  #isStuckTold = false;
  /** Emits the id of a job when one of its events was written. */
  readonly #written = new EventEmitter().setMaxListeners(0);
  readonly #waiting: string[] = [];
  #timer: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;
  #ready = false;

  private constructor(options: JobQueueOptions, folder: string, store: JobStore) {
    this.#options = { ...DEFAULTS, ...given(options) };
    this.folder = folder;
    this.#store = store;
    this.uploads = new Uploads(path.join(folder, FILES), store);
  }

  /**
   * Opens the queue of a runs folder, and continues its jobs.
   * @throws IsoproError JOBS_UNREADABLE where its file is damaged, JOBS_BUSY where another server
   *   has it, WRITE_FAILED
   */
  static open(options: JobQueueOptions): JobQueue {
    const folder = path.join(options.allowed.runs, '.jobs');
    try {
      makeFolder(folder, 0o700);
    } catch (cause) {
      throw new IsoproError(
        'WRITE_FAILED',
        `cannot create the folder ${folder}: ${(cause as Error).message}`,
        { cause },
      );
    }
    const queue = new JobQueue(
      options,
      folder,
      JobStore.open(path.join(folder, 'jobs.sqlite'), { traces: tracesIn(folder) }),
    );
    void queue.#goOn();
    return queue;
  }

  /**
   * @throws IsoproError INVALID_ARGUMENT, OUT_OF_MEMORY, CONFLICT for a key of another request;
   *   NotAllowed; as JobStore.add
   */
  async create(
    asker: Asker,
    asked: Asked,
  ): Promise<{ readonly job: Job; readonly isNew: boolean }> {
    const {
      kind: kindId,
      settings,
      name = null,
      idempotencyKey = null,
      note = null,
      request = [kindId, settings, name],
    } = asked;
    const id = `job-${randomBytes(12).toString('hex')}`;
    const { kind, prepared } = await this.#prepare(asker, kindId, settings, id);
    const total = this.#options.totalMemory();
    if (prepared.memoryBytes > total)
      throw new IsoproError(
        'OUT_OF_MEMORY',
        `the job may need ${prepared.memoryBytes} bytes of memory, but this machine has ${total}`,
      );
    this.#requireOpen();
    const digest = createHash('sha256')
      .update(canonicalJson(request as Json))
      .digest('hex');
    const { args, run, memoryBytes } = prepared;
    const { job, isNew } = this.#store.add(
      {
        id,
        kind: kind.id,
        name,
        owner: asker.name,
        isOfAdmin: asker.isAdmin,
        settings,
        command: commandOf(args),
        run,
        memoryBytes,
        idempotencyKey,
        asked: digest,
        note,
      },
      now(),
    );
    if (isNew) {
      this.#waiting.push(job.id);
      this.#pump();
    }
    return { job: this.get(job.id) ?? job, isNew };
  }

  /** Estimates a job without creating it. @throws as create */
  async estimate(asker: Asker, kindId: string, settings: unknown): Promise<Estimate> {
    const { prepared } = await this.#prepare(asker, kindId, settings, 'JOB');
    return {
      settings: prepared.resolved,
      command: commandOf(prepared.args),
      memoryBytes: prepared.memoryBytes,
    };
  }

  /**
   * Tries the work for some seconds, as --dry-run does; only where nothing else computes.
   * @throws as create; IsoproError INVALID_ARGUMENT where the kind cannot, JOBS_BUSY while jobs run
   */
  async measure(
    asker: Asker,
    kindId: string,
    settings: unknown,
    signal: AbortSignal,
  ): Promise<unknown> {
    const { kind, prepared } = await this.#prepare(asker, kindId, settings, 'JOB');
    if (kind.measure === undefined)
      throw new IsoproError('INVALID_ARGUMENT', `jobs of the kind ${kind.id} cannot be measured`);
    this.#requireOpen();
    if (this.#running.size >= this.#options.atOnce)
      throw new IsoproError('JOBS_BUSY', 'cannot measure while a job is running', {
        remedy: 'Repeat the request when the job has ended.',
      });
    const running = newRunning('cancelled', prepared);
    const { worker } = this.#options;
    const process = (running.process = new JobProcess({
      worker,
      work: withMore(prepared.work, kind.measure),
      onEvent: () => {},
    }));
    const key = randomBytes(6).toString('hex');
    process.admit();
    this.#running.set(key, running);
    const stop = (): void => interrupt(running);
    onAbort(signal, stop);
    if (signal.aborted) stop();
    try {
      const outcome = await process.outcome;
      if (outcome.kind === 'result') return outcome.result;
      if (outcome.kind === 'interrupted')
        throw new IsoproError('ABORTED', 'the measurement was cancelled');
      const { code, message, remedy } = outcome.error;
      throw new IsoproError(
        code === 'USAGE' ? 'INVALID_ARGUMENT' : code,
        message,
        remedy === undefined ? {} : { remedy },
      );
    } finally {
      offAbort(signal, stop);
      this.#running.delete(key);
      this.#pump();
    }
  }

  /** Returns true if settings of a job that has not failed name the upload. */
  isInUse(uploadId: string): boolean {
    return this.#store.isInUse(uploadId);
  }

  /** Current state of a job, including changes that are not written yet. */
  get(id: string): Job | undefined {
    const written = this.#store.get(id);
    return written && this.#asItIs(written);
  }

  note(id: string): unknown {
    return this.#store.note(id);
  }

  list(filter: JobFilter): { readonly jobs: Job[]; readonly hasMore: boolean } {
    const { jobs, hasMore } = this.#store.list(filter);
    const asTheyAre = jobs.map((job) => this.#asItIs(job));
    return {
      jobs: asTheyAre.filter(({ state }) => filter.state === undefined || state === filter.state),
      hasMore,
    };
  }

  events(...asked: Parameters<JobStore['events']>): Events {
    return this.#store.events(...asked);
  }

  /** The newest of some types first, before the event `before`. */
  latest(...asked: Parameters<JobStore['latest']>): Events {
    return this.#store.latest(...asked);
  }

  /**
   * Yields events from the one after `after`, until the job has ended, the queue is closed, or the
   * signal is aborted.
   */
  async *follow(
    id: string,
    after: number,
    signal: AbortSignal,
  ): AsyncGenerator<JobEvent, void, undefined> {
    let last = after;
    while (!signal.aborted && this.#closed === undefined) {
      const { events } = this.events(id, last, 500);
      for (const event of events) {
        yield event;
        last = event.id;
      }
      if (events.length > 0) continue;
      const job = this.#store.get(id); // the event of its end comes when that is written
      if (job === undefined || hasEndedAs(job.state)) return;
      await once(this.#written, id, { signal }).catch(() => undefined); // aborted: seen above
    }
  }

  /** Cancels a job; harmless for one that has ended. @returns undefined if there is no such job */
  cancel(id: string): Job | undefined {
    return this.#end(id, 'cancelled');
  }

  /**
   * Ends a running job so that it can resume.
   * @throws IsoproError INVALID_ARGUMENT for a job that has ended
   */
  pause(id: string): Job | undefined {
    this.#requireGoing(id, 'paused');
    return this.#end(id, 'paused');
  }

  /** @throws IsoproError INVALID_ARGUMENT for one that has ended */
  resume(id: string): Job | undefined {
    const job = this.#requireGoing(id, 'resumed');
    if (job?.state !== 'paused') {
      const running = this.#running.get(id);
      // it is on its way out, and comes back
      if (running?.endsAs === 'paused') running.endsAs = 'queued';
      return job;
    }
    this.#queue(id);
    this.#pump();
    return this.get(id);
  }

  /** Kinds that a caller may ask for. */
  kinds({ isAdmin }: Asker): readonly JobKind[] {
    return JOB_KINDS.filter((kind) => isAdmin || kind.isForAdmin !== true);
  }

  /** Names that the settings of a caller may use. */
  catalogue(asker: Asker): {
    readonly names: Readonly<
      Record<'models' | 'tasks' | 'backends' | 'adapters' | 'runs', readonly string[]>
    >;
  } {
    const { allowed } = this.#options;
    const { jobs } = this.list({
      limit: 1000,
      state: 'succeeded',
      ...(!asker.isAdmin && { owner: asker.name }),
    });
    return {
      names: {
        models: [...allowed.models.keys()],
        tasks: this.names(asker).tasks(),
        backends: this.names(asker).backends(),
        adapters: [
          ...allowed.adapters.keys(),
          ...jobs.filter((job) => this.adapterOf(job) !== null).map(({ id }) => id),
        ],
        runs: this.#runsOf(asker),
      },
    };
  }

  /** Runs that the caller may name, whoever made them. */
  #runsOf(asker: Asker): string[] {
    const [{ runs }, names] = [this.#options.allowed, this.names(asker)];
    const mayBeNamed = (name: string): boolean => {
      try {
        return names.run(name, 'run') !== '';
      } catch (error) {
        if (error instanceof NotAllowed) return false;
        throw error;
      }
    };
    return runFolders(runs)
      .map((folder) => runName(folder, runs))
      .filter(mayBeNamed);
  }

  names(asker: Asker): Names {
    return new Names(this.#options.allowed, {
      isAdmin: asker.isAdmin,
      adapterOf: (name) => this.#adapterOf(asker, name),
      mayRead: (run) => this.mayRead(asker, run),
      fileOf: (id) => this.uploads.pathOf(asker.name, id),
    });
  }

  /**
   * Returns true if a run belongs to a job of the asker, or is in its folder as `JOB/NAME`; a key
   * with full access reads all runs.
   */
  mayRead(asker: Asker, run: string): boolean {
    return asker.isAdmin || this.#isOf(asker, run.split('/', 1)[0]!);
  }

  /** The adapter that an ended job made: its file; null where it made none. */
  adapterOf({ kind, state, result }: Job): string | null {
    if (state !== 'succeeded') return null;
    const file = JOB_KINDS.find(({ id }) => id === kind)?.adapterOf?.(result) ?? null;
    return file !== null && existsSync(file) ? file : null;
  }

  /** Files of a job that are no run. */
  folderOf(id: string): string {
    return path.join(this.folder, id);
  }

  /**
   * Ends running jobs so that they continue when the queue is opened again; harmless when repeated.
   */
  close(): Promise<void> {
    this.#closed ??= (async () => {
      clearTimeout(this.#timer);
      // `once` listens to 'error' too
      const followed = this.#written.eventNames().filter((name) => name !== 'error');
      for (const id of followed) this.#written.emit(id);
      for (const running of this.#running.values()) interrupt(running);
      await Promise.all(this.#works);
      this.#flush();
      this.#store.close();
    })();
    return this.#closed;
  }

  #requireOpen(): void {
    if (this.#closed !== undefined)
      throw new IsoproError('OBJECT_DISPOSED', 'the queue of jobs has been closed');
  }

  async #prepare(
    asker: Asker,
    kindId: string,
    settings: unknown,
    id: string,
  ): Promise<{ kind: JobKind; prepared: Prepared }> {
    const kind = JOB_KINDS.find((each) => each.id === kindId);
    if (kind === undefined)
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `kind: there is no ${JSON.stringify(kindId)}; use one of ${JOB_KINDS.map((each) => each.id).join(', ')}`,
      );
    if (kind.isForAdmin === true && !asker.isAdmin)
      throw new NotAllowed(
        'kind_not_allowed',
        'kind',
        `${kind.id}: it affects other users and needs a key with full access`,
      );
    if (limited(JSON.stringify(settings ?? {})))
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `settings: they are longer than ${LONGEST_SETTINGS} characters or contain a NUL`,
      );
    return {
      kind,
      prepared: await kind.prepare(kind.read(settings ?? {}), this.#placeOf(asker, id)),
    };
  }

  #placeOf(asker: Asker, id: string): Place {
    return { names: this.names(asker), id, folder: this.folderOf(id) };
  }

  #isOf(asker: Asker, id: string): boolean {
    const job = this.get(id);
    return job !== undefined && (asker.isAdmin || job.owner === asker.name);
  }

  #adapterOf(asker: Asker, id: string): string | null {
    return this.#isOf(asker, id) ? this.adapterOf(this.get(id)!) : null;
  }

  #requireGoing(id: string, what: string): Job | undefined {
    const job = this.get(id);
    if (job !== undefined && hasEndedAs(job.state))
      throw new IsoproError('INVALID_ARGUMENT', `${id} is ${job.state} and cannot be ${what}`);
    return job;
  }

  #end(id: string, state: 'cancelled' | 'paused'): Job | undefined {
    const job = this.get(id);
    if (job === undefined || hasEndedAs(job.state) || job.state === state) return job;
    const running = this.#running.get(id);
    if (running !== undefined) {
      // one that is cancelled is not only paused
      if (running.endsAs !== 'cancelled') running.endsAs = state;
      interrupt(running);
      return this.get(id);
    }
    const at = this.#waiting.indexOf(id);
    if (at >= 0) this.#waiting.splice(at, 1);
    this.#setState(id, { state, pid: null, ...(state === 'cancelled' && { endedAt: now() }) });
    if (state === 'cancelled') this.#options.onEnded?.(id);
    return this.get(id);
  }

  /** Queues the jobs that an earlier queue left, and starts them when its processes are gone. */
  async #goOn(): Promise<void> {
    try {
      const left = this.#store.unended();
      for (const { job } of left) {
        if (job.state === 'running') this.#queue(job.id, {});
        else if (job.state === 'queued') this.#waiting.push(job.id);
      }
      // They heard that their queue was gone; others that have their ids by now are not waited for
      // long.
      const begun = performance.now();
      for (const { pid } of left)
        while (
          pid !== null &&
          !hasEnded(pid) &&
          this.#closed === undefined &&
          performance.now() - begun < GONE_MS
        )
          await sleep(20);
    } catch (error) {
      this.#options.report(error);
    }
    this.#ready = true;
    this.#pump();
  }

  /** @param process that it ran in: its id stays with a job that is not known to be out of it */
  #queue(id: string, process: Pick<JobChange, 'pid'> = { pid: null }): void {
    this.#waiting.push(id);
    this.#setState(id, { state: 'queued', waitingFor: 'turn', ...process });
  }

  /**
   * Begins what there is room for, in the order in which it was asked for: a large job is not
   * overtaken for ever by small ones.
   */
  #pump(): void {
    if (!this.#ready || this.#closed !== undefined) return;
    while (this.#running.size < this.#options.atOnce) {
      const [id] = this.#waiting;
      if (id === undefined) return;
      let job: Job | undefined;
      try {
        job = this.get(id);
      } catch (error) {
        this.#options.report(error);
        this.#pumpLater();
        return;
      }
      if (job === undefined) {
        this.#waiting.shift();
        continue;
      }
      // what others were promised counts as taken twice once they have it: rather too late than
      // together too much
      const promised = [...this.#running.values()].reduce(
        (sum, { memoryBytes }) => sum + memoryBytes,
        0,
      );
      if (job.memoryBytes + promised > this.#options.availableMemory()) {
        if (job.waitingFor !== 'memory')
          this.#setState(id, { state: 'queued', waitingFor: 'memory' });
        this.#pumpLater();
        return;
      }
      this.#waiting.shift();
      void this.#begin(job);
    }
  }

  #pumpLater(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#flush();
      this.#pump();
    }, this.#options.againMs).unref();
  }

  async #begin(job: Job): Promise<void> {
    const { id } = job;
    const running = newRunning('queued', job);
    const work = this.#work(job, running)
      .catch((error: unknown): Outcome => {
        const said =
          error instanceof IsoproError
            ? error.toJSON()
            : errorOf('INVALID_ARGUMENT', (error as Error).message);
        return { kind: 'failed', error: said };
      })
      .then((outcome) => {
        this.#running.delete(id);
        this.#settle(id, outcome, running.endsAs);
        this.#pump();
      });
    this.#running.set(id, running);
    this.#works.add(work);
    await work;
    this.#works.delete(work);
  }

  async #work(
    { id, owner, kind: kindId, settings, attempts, startedAt }: Job,
    running: Running,
  ): Promise<Outcome> {
    // Names are resolved again: permissions may have changed, and files may be gone.
    const asker = { name: owner, isAdmin: this.#store.isOfAdmin(id) };
    const { kind, prepared } = await this.#prepare(asker, kindId, settings, id);
    try {
      makeFolder(this.folderOf(id), 0o700);
    } catch (cause) {
      throw unwritable(this.folderOf(id), cause);
    }
    if (running.isTold) return { kind: 'interrupted' };
    running.process = new JobProcess({
      worker: this.#options.worker,
      work: withMore(prepared.work, kind.again?.(this.#placeOf(asker, id))),
      onEvent: ({ type, data }) =>
        this.#change(id, type === 'progress' ? { progress: data } : {}, type, data),
    });
    this.#setState(id, {
      state: 'running',
      attempts: attempts + 1,
      pid: running.process.pid,
      startedAt: startedAt ?? now(),
    });
    running.process.admit();
    return running.process.outcome;
  }

  #settle(id: string, outcome: Outcome, endsAs: Running['endsAs']): void {
    if (outcome.kind === 'interrupted' && endsAs === 'queued') {
      this.#queue(id);
      return;
    }
    const state =
      outcome.kind === 'result' ? 'succeeded' : outcome.kind === 'failed' ? 'failed' : endsAs;
    const error = outcome.kind === 'failed' ? outcome.error : null;
    const hasEnded = state !== 'paused';
    this.#setState(id, {
      state,
      pid: null,
      ...(hasEnded && { endedAt: now() }),
      // the last progress says nothing about a job that is done
      ...(outcome.kind === 'result' && { result: outcome.result, progress: null }),
      ...(error !== null && { error }),
    });
    if (hasEnded) this.#options.onEnded?.(id);
  }

  #setState(id: string, change: JobChange & Pick<Job, 'state'>): void {
    const { state, waitingFor = null, error = null } = change;
    this.#change(id, { waitingFor, ...change }, 'state', { waitingFor, error, state });
  }

  /** Writes a change and its event, now or as soon as possible. */
  #change(id: string, change: JobChange, type: EventType, data: unknown): void {
    const at = now();
    if (type === 'progress' && this.#unwritten.length > 0) return; // the next one says more
    if (this.#unwritten.length < MOST_UNWRITTEN || type === 'state')
      this.#unwritten.push({
        id,
        change,
        write: () => {
          this.#store.change(id, change, type, data, at);
          this.#written.emit(id);
        },
      });
    this.#flush();
  }

  #asItIs(written: Job): Job {
    const changes = this.#unwritten
      .filter(({ id }) => id === written.id)
      .map(({ change: { pid: _, ...change } }) => change);
    return Object.assign({}, written, ...changes) as Job;
  }

  #flush(): void {
    for (let next = this.#unwritten[0]; next !== undefined; next = this.#unwritten[0]) {
      try {
        next.write();
        this.#isStuckTold = false;
      } catch (error) {
        if (!this.#isStuckTold) this.#options.report(error);
        // each try would say the same again, into a log that may be on the same disk
        this.#isStuckTold = true;
        this.#pumpLater();
        return;
      }
      this.#unwritten.shift();
    }
  }
}

/**
 * Finds a trace that only an earlier queue can have left: its mark, a folder of a job, or a file of
 * a caller.
 */
function tracesIn(folder: string): string | null {
  if (existsSync(path.join(folder, MARK))) return MARK;
  const job = readdirSync(folder).find((name) => /^job-[0-9a-f]{24}$/.test(name));
  if (job !== undefined) return job;
  const files = path.join(folder, FILES);
  const [file] = isFolder(files) ? readdirSync(files) : [];
  return file === undefined ? null : path.join(FILES, file);
}

const withMore = (work: Work, more: object = {}): Work => ({
  ...work,
  settings: { ...(work.settings as object), ...more },
});

const commandOf = (args: readonly string[]): string =>
  ['npx isopro-native', ...args.map(shellWord)].join(' ');
