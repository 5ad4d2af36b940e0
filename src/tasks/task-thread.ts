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

/** Time limit of a call, in seconds; the verifier has its own limit. */
const CALL_SECONDS = 5;
/**
 * Time limit for starting the thread and for loading the task, in seconds; imports may take long on
 * a busy machine.
 */
const START_SECONDS = 60;
/** Time for a stopped verifier to clean up before its thread ends. */
const GRACE_MS = 500;
const MEMORY_LIMIT_MB = 512;

/** Failed starts in a row after which a task is not started again. */
const MOST_FAILED_STARTS = 3;

/**
 * Place where a task runs: a thread for JavaScript, a process for Python, with the same messages.
 */
type Holder = EventEmitter &
  Pick<Worker, 'postMessage' | 'ref' | 'unref' | 'terminate'> & {
    /** Note to add to a timeout; empty: none. */
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

/** Recognises replies; a user's code may post other messages from its thread. */
const isReply = (message: unknown): message is WorkerReply =>
  typeof message === 'object' &&
  message !== null &&
  ('started' in message || 'ask' in message || 'call' in message);

/** Converts the argument of `error` or `exit` to an error. */
const asLoss = (cause: unknown, otherwise: string): Error =>
  cause instanceof IsoproError
    ? cause
    : new ThreadLost(cause instanceof Error ? cause.message : otherwise);

export const invalidMember = (name: string, member: string, message: string): IsoproError =>
  new IsoproError('TASK_INVALID', `${name}: member "${member}" ${message}`);

/** Time limit in milliseconds, and the seconds that a message names. */
interface Limit {
  readonly ms: number;
  readonly seconds: number;
}

/** Thread or process that runs a task; replaced after a call that hangs or ends it. */
export class TaskThread {
  readonly #task: ThreadTask;
  readonly #ask: AskModel | undefined;
  #worker: Holder | undefined;
  #started: Promise<{ readonly worker: Holder; readonly description: TaskDescription }> | undefined;
  #queue: Promise<unknown> = Promise.resolve();
  #calls = 0;
  #failedStarts = 0;
  #disposed = false;

  /** @param ask asks the model of a check, for the thread */
  constructor(task: ThreadTask, ask?: AskModel) {
    this.#task = task;
    this.#ask = ask;
  }

  /** @throws ThreadLost, CallTimeout, IsoproError TASK_INVALID, SYSTEM_LIMIT */
  async describe(): Promise<TaskDescription> {
    return (await this.#running()).description;
  }

  /**
   * Calls a method of the thread, one call at a time.
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

  /** Ends the thread; waiting and further calls fail with OBJECT_DISPOSED. */
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
          () => failed(new ThreadLost(`it did not start within ${START_SECONDS} seconds`)),
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
