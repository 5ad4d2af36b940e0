/**
 * One job in a process of its own: our own command line, which tells what goes on over a channel
 * and prints its result with --json.
 *
 * Why a process: a job that needs more memory than there is, or that ends by a defect, ends alone,
 * and the server answers on; the thread that answers requests computes nothing; what a job does is
 * what its command line does, so that a person can do it again without a server; and whatever it
 * was, a job that is killed is gone on with as the command is.
 *
 * Why a channel: a process whose queue is gone hears it at once and ends, so that a queue that
 * begins again finds no writer at work on a run (src/cli/job-channel.ts).
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { startChild } from '../child-process.js';
import { IsoproError } from '../errors.js';
import { EVENT_TYPES, type EventType, type JobError } from './job.js';
import { JOB_VARIABLE } from './job-variable.js';
import type { Answer, Work } from './worker.js';

const WORKER = fileURLToPath(new URL('./worker.js', import.meta.url));

/** What only the server is to know. */
const SECRETS = ['ISOPRO_API_KEY', 'ISOPRO_ADMIN_KEY'];

const LONGEST_OUTPUT = 64 * 2 ** 20;
const LONGEST_COMPLAINT = 64 * 1024;
/** Until a job that was told to end is ended. */
const GRACE_MS = 15_000;
/**
 * That what an ended job printed has to arrive: something that it started may hold its pipes open
 * for ever.
 */
const DRAIN_MS = 2000;

export interface Told {
  readonly type: EventType;
  readonly data: unknown;
}

export interface ProcessOptions {
  /** The program's entry, as node runs it. */
  readonly program: string;
  /** Without --json. */
  readonly args: readonly string[];
  /** What a worker is given, in place of the command line. */
  readonly work?: Work | undefined;
  /** Its module. Default: our own. */
  readonly worker?: string | undefined;
  /** Whether an exit code other than 0 is a result too, such as that of a judge who says no. */
  readonly isResult?: ((exitCode: number) => boolean) | undefined;
  /** The output is lines of JSON: each but the last is an event of this type. */
  readonly lines?: EventType | undefined;
  readonly onEvent: (told: Told) => void;
}

export type Outcome =
  | { readonly kind: 'result'; readonly result: unknown }
  /** It was told to end, and did. */
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

/** The last line on stderr that is an error with --json. */
function complaintOf(text: string): JobError | null {
  for (const line of text.trimEnd().split('\n').reverse()) {
    if (!line.startsWith('{"error"')) continue;
    try {
      const { error } = JSON.parse(line) as { error: Partial<JobError> };
      if (typeof error?.code === 'string' && typeof error.message === 'string')
        return error as JobError;
    } catch {
      // not the whole of it is here
    }
  }
  return null;
}

export class JobProcess {
  readonly pid: number | null;
  readonly outcome: Promise<Outcome>;
  readonly #child: ChildProcess;
  readonly #work: Work | undefined;
  #answer: Answer | undefined;
  #told = false;
  #timer: NodeJS.Timeout | undefined;

  /**
   * @throws IsoproError INVALID_ARGUMENT for arguments that no process can be given, SYSTEM_LIMIT
   */
  constructor({
    program,
    args,
    work,
    worker = WORKER,
    isResult = () => false,
    lines,
    onEvent,
  }: ProcessOptions) {
    this.#work = work;
    const env = { ...process.env, [JOB_VARIABLE]: '1', NO_COLOR: '1' };
    for (const secret of SECRETS) delete (env as Record<string, unknown>)[secret];
    this.#child = startChild(() =>
      spawn(process.execPath, work === undefined ? [program, ...args, '--json'] : [worker], {
        env,
        stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
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
    this.outcome = this.#follow(isResult, lines, onEvent);
  }

  /** Lets it begin: it is written down which process it is. */
  admit(): void {
    this.#child.send(this.#work ?? { type: 'admitted' }, () => {}); // whom it does not reach has ended
  }

  /** Tells it to end as Ctrl-C does, and ends it where it does not; harmless when repeated. */
  interrupt(graceMs = GRACE_MS): void {
    if (this.#told) return;
    this.#told = true;
    this.#child.kill('SIGINT');
    this.#timer = setTimeout(() => this.#kill(), graceMs);
  }

  /** With all that it has started. */
  #kill(): void {
    if (this.pid === null) return;
    try {
      process.kill(process.platform === 'win32' ? this.pid : -this.pid, 'SIGKILL');
    } catch {
      // it has ended meanwhile
    }
  }

  async #follow(
    isResult: (code: number) => boolean,
    lines: EventType | undefined,
    onEvent: ProcessOptions['onEvent'],
  ): Promise<Outcome> {
    const child = this.#child;
    let [output, complaint, last] = ['', '', ''];
    let isTooLong = false;
    const take = (line: string): void => {
      if (last !== '') {
        try {
          onEvent({ type: lines!, data: JSON.parse(last) });
        } catch {
          // a line that is none of its events
        }
      }
      last = line;
    };
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (lines !== undefined) {
        const parts = output.split('\n');
        output = parts.pop()!;
        parts.filter((line) => line !== '').forEach(take);
      }
      if (output.length <= LONGEST_OUTPUT || isTooLong) return;
      isTooLong = true;
      this.#kill();
    });
    child
      .stderr!.setEncoding('utf8')
      .on('data', (text: string) => (complaint = `${complaint}${text}`.slice(-LONGEST_COMPLAINT)));
    const [code, signal, failure] = await new Promise<
      [number | null, NodeJS.Signals | null, Error | null]
    >((resolve) => {
      child.on('error', (error) => this.pid === null && resolve([null, null, error]));
      child.once('exit', () => {
        const pipes = [child.stdout!, child.stderr!];
        // what had arrived before the time was over is read first, however long this thread was
        // held up
        const drained = setTimeout(
          () =>
            setImmediate(() => {
              for (const pipe of pipes) pipe.destroy();
            }),
          DRAIN_MS,
        );
        child.once('close', () => clearTimeout(drained));
      });
      child.once('close', (exitCode, by) => resolve([exitCode, by, null]));
    });
    clearTimeout(this.#timer);
    if (lines !== undefined && output.trim() !== '') take(output); // a last line that has no end
    if (failure !== null)
      return {
        kind: 'failed',
        error: errorOf(
          'SYSTEM_LIMIT',
          `the job's process could not be started: ${failure.message}`,
        ),
      };
    const answer = this.#answer;
    if (answer?.type === 'result') return { kind: 'result', result: answer.result };
    if (answer?.type === 'error' && !this.#told)
      return { kind: 'failed', error: answer.error as JobError };
    if (this.#work === undefined && code !== null && (code === 0 || isResult(code))) {
      try {
        return {
          kind: 'result',
          result: JSON.parse(lines === undefined ? output : last) as unknown,
        };
      } catch {
        if (!this.#told)
          return { kind: 'failed', error: errorOf('JOB_ENDED', 'the job ended without a result') };
      }
    }
    if (this.#told) return { kind: 'interrupted' };
    if (isTooLong)
      return {
        kind: 'failed',
        error: errorOf('JOB_ENDED', `the job printed more than ${LONGEST_OUTPUT} characters`),
      };
    const said = complaintOf(complaint);
    if (said !== null) return { kind: 'failed', error: said };
    const how = signal === null ? `with exit code ${code}` : `by the signal ${signal}`;
    return {
      kind: 'failed',
      error: errorOf('JOB_ENDED', `the job's process ended ${how}, without saying why`),
    };
  }
}

/** As a command would say it. */
export const errorOf = (
  ...[code, message]: [code: ConstructorParameters<typeof IsoproError>[0], message: string]
): JobError => new IsoproError(code, message).toJSON();
