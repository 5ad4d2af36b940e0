/**
 * One job in its own process (worker.ts). The process receives an operation and its settings over a
 * channel, and reports progress and its result over it.
 *
 * Why a process: a job that runs out of memory or crashes ends alone, and the server continues. The
 * thread that answers requests computes nothing. A job that was killed resumes as its command does.
 *
 * Why a channel: a process whose queue is gone notices it at once and ends, so a queue that starts
 * again finds no writer on a run. Keys go over it, too, and not into the environment, which
 * everything that the job starts would inherit.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { startChild } from '../child-process.js';
import { IsoproError } from '../errors.js';
import { childEnvironment } from '../keys.js';
import { handedTo } from './handed-keys.js';
import { EVENT_TYPES, type EventType, type JobError } from './job.js';
import type { Answer, Work } from './worker.js';

const WORKER = fileURLToPath(new URL('./worker.js', import.meta.url));

/** Milliseconds that a job has to end after an interrupt. */
const GRACE_MS = 15_000;
/**
 * Milliseconds that the output of an ended job has to arrive: a process that the job started may
 * keep its pipes open for ever.
 */
const DRAIN_MS = 2000;

export interface Told {
  readonly type: EventType;
  readonly data: unknown;
}

export interface ProcessOptions {
  readonly work: Work;
  /** Module of the process. Default: worker.js. */
  readonly worker?: string | undefined;
  readonly onEvent: (told: Told) => void;
}

export type Outcome =
  | { readonly kind: 'result'; readonly result: unknown }
  /** The job was interrupted, and ended. */
  | { readonly kind: 'interrupted' }
  | { readonly kind: 'failed'; readonly error: JobError };

const isTold = (message: unknown): message is Told =>
  typeof message === 'object' &&
  message !== null &&
  (EVENT_TYPES as readonly unknown[]).includes((message as { type?: unknown }).type);

const isAnswer = (message: unknown): message is Answer =>
  typeof message === 'object' &&
  message !== null &&
  ['result', 'error'].includes(String((message as { type?: unknown }).type));

export class JobProcess {
  readonly pid: number | null;
  readonly outcome: Promise<Outcome>;
  readonly #child: ChildProcess;
  readonly #work: Work;
  #answer: Answer | undefined;
  #told = false;
  #timer: NodeJS.Timeout | undefined;

  /** @throws IsoproError SYSTEM_LIMIT */
  constructor({ work, worker = WORKER, onEvent }: ProcessOptions) {
    this.#work = work;
    this.#child = startChild(() =>
      spawn(process.execPath, [worker], {
        env: childEnvironment({ NO_COLOR: '1' }),
        stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
        // a Ctrl-C at the server's terminal is the server's, which ends its jobs itself
        detached: true,
        windowsHide: true,
      }),
    );
    this.pid = this.#child.pid ?? null;
    this.#child.on('message', (message) => {
      if (isTold(message)) onEvent(message);
      else if (isAnswer(message)) this.#answer = message;
    });
    this.outcome = this.#follow();
  }

  /** Sends the work, once it is on record which process does it. */
  admit(): void {
    const handed = handedTo(this.#work.settings);
    this.#child.send({ ...this.#work, ...handed }, () => {}); // whom it does not reach has ended
  }

  /** Interrupts the job as Ctrl-C does, and kills it if it does not end; harmless when repeated. */
  interrupt(graceMs = GRACE_MS): void {
    if (this.#told) return;
    this.#told = true;
    this.#child.kill('SIGINT');
    this.#timer = setTimeout(() => this.#kill(), graceMs);
  }

  /** Kills the process and all that it has started. */
  #kill(): void {
    if (this.pid === null) return;
    try {
      process.kill(process.platform === 'win32' ? this.pid : -this.pid, 'SIGKILL');
    } catch {
      // it has ended meanwhile
    }
  }

  async #follow(): Promise<Outcome> {
    const child = this.#child;
    child.stdout!.resume(); // whatever prints there is not waited for
    const [code, signal, failure] = await new Promise<
      [number | null, NodeJS.Signals | null, Error | null]
    >((resolve) => {
      child.on('error', (error) => this.pid === null && resolve([null, null, error]));
      child.once('exit', () => {
        // what had arrived before the time was over is read first, however long this thread was
        // held up
        const drained = setTimeout(
          () =>
            setImmediate(() => {
              child.stdout!.destroy();
            }),
          DRAIN_MS,
        );
        child.once('close', () => clearTimeout(drained));
      });
      child.once('close', (exitCode, by) => resolve([exitCode, by, null]));
    });
    clearTimeout(this.#timer);
    if (failure !== null)
      return {
        kind: 'failed',
        error: errorOf('SYSTEM_LIMIT', `cannot start the process of the job: ${failure.message}`),
      };
    const answer = this.#answer;
    if (answer?.type === 'result') return { kind: 'result', result: answer.result };
    if (answer?.type === 'error' && !this.#told)
      return { kind: 'failed', error: answer.error as JobError };
    if (this.#told) return { kind: 'interrupted' };
    const how =
      code === 0
        ? 'without a result'
        : signal === null
          ? `with exit code ${code} and no message`
          : `on signal ${signal} with no message`;
    return { kind: 'failed', error: errorOf('JOB_ENDED', `the job's process ended ${how}`) };
  }
}

/** Error of a job in the form that a command prints. */
export const errorOf = (
  ...[code, message]: [code: ConstructorParameters<typeof IsoproError>[0], message: string]
): JobError => new IsoproError(code, message).toJSON();
