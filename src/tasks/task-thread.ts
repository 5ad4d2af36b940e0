import type { EventEmitter } from 'node:events';
import type { Worker } from 'node:worker_threads';
import { offAbort, onAbort } from '../abort.js';
import { abortError, IsoproError } from '../errors.js';
import { startThread } from '../thread.js';
import { PythonProcess } from './python-process.js';
import type { AskModel } from './data/checkers.js';
import type { TaskDescription } from './task-shape.js';
import type {
  ThreadTask,
  WorkerAbort,
  WorkerAnswer,
  WorkerCall,
  WorkerReply,
} from './thread-messages.js';
import { tooLate, VERIFY_SECONDS } from './time-limit.js';

/**
 * Longest time that one call of a task may take, but for its verifier, which has a limit of its
 * own.
 */
const CALL_SECONDS = 5;
/**
 * Starting the thread, which is not the task's code, and loading one that imports much on a busy
 * machine.
 */
const START_SECONDS = 60;
/** A verifier that was told to stop may put away what it has open; then its thread ends. */
const GRACE_MS = 500;
const MEMORY_LIMIT_MB = 512;

/** Starts that may fail one after the other; a task that was lost so often is not started again. */
const MOST_FAILED_STARTS = 3;

/**
 * Where a task is run: a thread for JavaScript, a process for Python. Both are told and say the
 * same.
 */
type Holder = EventEmitter &
  Pick<Worker, 'postMessage' | 'ref' | 'unref' | 'terminate'> & {
    /** What it took meanwhile beside time, to be said behind that; empty: nothing that is known. */
    readonly tookBeside?: string;
  };

/** @throws IsoproError SYSTEM_LIMIT */
const startHolder = (task: ThreadTask): Holder =>
  task.kind === 'python'
    ? new PythonProcess(task.program, task.clockAhead)
    : startThread(new URL('./task-worker.js', import.meta.url), {
        resourceLimits: { maxOldGenerationSizeMb: MEMORY_LIMIT_MB },
      });

export class CallTimeout extends Error {
  /** @param loading the task itself, and not one of its members, took too long */
  constructor(
    message: string,
    readonly loading: boolean,
  ) {
    super(message);
  }
}
export class ThreadLost extends Error {}

/** A user's code may post messages of its own from its thread, which are nothing to us. */
const isReply = (message: unknown): message is WorkerReply =>
  typeof message === 'object' &&
  message !== null &&
  ('started' in message || 'ask' in message || 'call' in message);

/** Of what an `error` or `exit` came with. */
const asLoss = (cause: unknown, otherwise: string): Error =>
  cause instanceof IsoproError
    ? cause
    : new ThreadLost(cause instanceof Error ? cause.message : otherwise);

export const invalidMember = (name: string, member: string, message: string): IsoproError =>
  new IsoproError('TASK_INVALID', `${name}: member "${member}" ${message}`);

/** Milliseconds, and what is said when they are over. */
interface Limit {
  readonly ms: number;
  readonly seconds: number;
}

/**
 * The thread, or the process, that runs a task; replaced after a call that hangs or brings it down.
 */
export class TaskThread {
  readonly #task: ThreadTask;
  readonly #ask: AskModel | undefined;
  #worker: Holder | undefined;
  #started: Promise<{ readonly worker: Holder; readonly description: TaskDescription }> | undefined;
  #queue: Promise<unknown> = Promise.resolve();
  #calls = 0;
  #failedStarts = 0;
  #disposed = false;

  /** @param ask answers what the thread asks of the model of a check */
  constructor(task: ThreadTask, ask?: AskModel) {
    this.#task = task;
    this.#ask = ask;
  }

  /** @throws ThreadLost, CallTimeout, IsoproError TASK_INVALID, SYSTEM_LIMIT */
  async describe(): Promise<TaskDescription> {
    return (await this.#running()).description;
  }

  /**
   * One call at a time.
   * @throws CallTimeout, ThreadLost, IsoproError TASK_INVALID, SYSTEM_LIMIT, ABORTED
   */
  call(
    method: Exclude<WorkerCall['method'], 'load'>,
    args: readonly unknown[],
    signal?: AbortSignal,
  ): Promise<unknown> {
    const result = this.#queue.then(async () => {
      const { worker, description } = await this.#running();
      const { verifySeconds = VERIFY_SECONDS } = description.limits;
      // in a thread there is a clock of the verifier's own, which tells it to stop
      const verifying = 1000 * verifySeconds + (this.#task.kind === 'python' ? 0 : GRACE_MS);
      const calling = 1000 * CALL_SECONDS;
      const limit =
        method === 'judge' || method === 'judgeLeniently'
          ? { ms: verifying, seconds: verifySeconds }
          : method === 'policy'
            ? { ms: calling + verifying, seconds: CALL_SECONDS + verifySeconds }
            : { ms: calling, seconds: CALL_SECONDS };
      return this.#send(worker, method, args, limit, signal);
    });
    this.#queue = result.catch(() => undefined);
    return result;
  }

  /** Ends it; calls that wait, and further ones, are OBJECT_DISPOSED. */
  async dispose(): Promise<void> {
    this.#disposed = true;
    await this.#end(this.#worker);
  }

  #running(): Promise<{ readonly worker: Holder; readonly description: TaskDescription }> {
    if (this.#started !== undefined) return this.#started;
    const started = this.#start();
    this.#started = started;
    started.catch(() => this.#started === started && (this.#started = undefined));
    return started;
  }

  async #start(): Promise<{ readonly worker: Holder; readonly description: TaskDescription }> {
    if (this.#disposed) throw new IsoproError('OBJECT_DISPOSED', `${this.#name} was disposed`);
    if (this.#failedStarts >= MOST_FAILED_STARTS)
      throw new ThreadLost(
        `it failed to start ${MOST_FAILED_STARTS} times in a row and is not started again`,
      );
    this.#failedStarts++; // until it has
    const worker = startHolder(this.#task);
    this.#worker = worker;
    worker.on('error', () => undefined); // each call listens for itself
    worker.once('exit', () => void this.#end(worker));
    worker.on('message', (reply: unknown) => {
      if (!isReply(reply) || !('ask' in reply)) return;
      const answered = this.#ask?.(reply.messages).then((graded) =>
        worker.postMessage({ answer: reply.ask, graded } satisfies WorkerAnswer),
      );
      answered?.catch(() => undefined); // who asked waits no longer than its time
    });
    try {
      await new Promise<void>((started, failed) => {
        const lost = (cause?: unknown): void =>
          failed(asLoss(cause, 'it ended while it was starting'));
        const timer = setTimeout(
          () => failed(new ThreadLost('it did not start')),
          1000 * START_SECONDS,
        );
        worker.on('message', (reply: unknown) => {
          if (!isReply(reply) || !('started' in reply)) return;
          clearTimeout(timer);
          started();
        });
        worker.once('error', (error) => {
          clearTimeout(timer);
          lost(error);
        });
        worker.once('exit', () => {
          clearTimeout(timer);
          lost();
        });
      });
      const loading = { ms: 1000 * START_SECONDS, seconds: START_SECONDS };
      const description = (await this.#send(
        worker,
        'load',
        [this.#task],
        loading,
      )) as TaskDescription;
      this.#failedStarts = 0;
      return { worker, description };
    } catch (error) {
      void this.#end(worker);
      throw error;
    }
  }

  /** The next call starts another thread. */
  async #end(worker: Holder | undefined): Promise<void> {
    if (this.#worker === worker) this.#worker = this.#started = undefined;
    await worker?.terminate();
  }

  #send(
    worker: Holder,
    method: WorkerCall['method'],
    args: readonly unknown[],
    limit: Limit,
    signal?: AbortSignal,
  ): Promise<unknown> {
    const call = ++this.#calls;
    const aborted = (): IsoproError => abortError('judging a reply was cancelled', signal);
    return new Promise((done, failed) => {
      if (signal?.aborted === true) throw aborted();
      const settle = (finish: () => void): void => {
        clearTimeout(timer);
        offAbort(signal, abort);
        worker.off('message', receive).off('error', lost).off('exit', lost);
        // one that is ending keeps the process until it has
        if (this.#worker === worker) worker.unref();
        finish();
      };
      const receive = (reply: unknown): void => {
        if (!isReply(reply) || !('call' in reply) || reply.call !== call) return;
        settle(() => {
          if (signal?.aborted === true) failed(aborted());
          else if ('error' in reply) failed(reply.error);
          else if ('member' in reply)
            failed(invalidMember(this.#name, reply.member, reply.message));
          else done(reply.value);
        });
      };
      const lost = (cause?: unknown): void => {
        void this.#end(worker);
        settle(() => failed(asLoss(cause, 'its thread ended')));
      };
      const give = (failure: Error): void => {
        void this.#end(worker);
        settle(() => failed(failure));
      };
      const tooLong = (): CallTimeout =>
        new CallTimeout(`${tooLate(limit.seconds)}${worker.tookBeside ?? ''}`, method === 'load');
      let timer = setTimeout(() => give(tooLong()), limit.ms);
      const abort = (): void => {
        worker.postMessage({ abort: call } satisfies WorkerAbort);
        clearTimeout(timer);
        timer = setTimeout(() => give(aborted()), GRACE_MS);
      };
      onAbort(signal, abort);
      worker.on('message', receive).on('error', lost).on('exit', lost);
      worker.ref();
      worker.postMessage({ call, method, args } satisfies WorkerCall);
    });
  }

  get #name(): string {
    if (this.#task.kind === 'python') return this.#task.program.specifier;
    if (this.#task.kind === 'data') return this.#task.program.path;
    return this.#task.kind === 'bundle' ? this.#task.path : this.#task.id;
  }
}
