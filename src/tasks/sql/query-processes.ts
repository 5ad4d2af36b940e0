/**
 * Processes that run the statements of replies; one that is over its limits, or says what it should
 * not, is ended and another started.
 */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { offAbort, onAbort } from '../../abort.js';
import { startChild } from '../../child-process.js';
import type { ProgramReply } from './query-program.js';
import type { QueryRequest } from './query-thread.js';

/** The process, not the statement, failed. */
export interface Lost {
  readonly lost: string;
}

export type Outcome = ProgramReply | Lost;

export interface QueryProcessesOptions {
  /** Processes at once. */
  readonly processes?: number;
  /**
   * Seconds by the clock after which a process that says nothing is given up: a statement is over
   * its own limit long before.
   */
  readonly seconds?: number;
  /** Other than our own, in tests. */
  readonly program?: string;
}

const PROGRAM = fileURLToPath(new URL('./query-program.js', import.meta.url));
const MAX_LINE_CHARACTERS = 100_000;
/** Characters of a written result. */
const MAX_WRITTEN = 20_000;
const NODE_FLAGS = ['--max-old-space-size=128'];

const request = z.int();
const count = z.int().min(0);
const results = z.strictObject({
  found: z.string().max(MAX_WRITTEN),
  expected: z.string().max(MAX_WRITTEN),
});
const reply = z.union([
  z.strictObject({ request, same: z.literal(true), results }),
  z.strictObject({
    request,
    difference: z.enum(['columns', 'rows', 'values', 'order']),
    found: count,
    expected: count,
    results,
  }),
  z.strictObject({ request, error: z.string(), results }),
  z.strictObject({ request, limit: z.enum(['rows', 'memory', 'time']) }),
  z.strictObject({ request, broken: z.string() }),
]);

function readReply(line: string): ProgramReply | null {
  try {
    const result = reply.safeParse(JSON.parse(line));
    return result.success ? result.data : null;
  } catch {
    return null;
  }
}

/** Its handles keep this process alive only while it is asked something. */
class QueryProcess {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #seconds: number;
  #asked:
    | {
        readonly number: number;
        readonly settle: (outcome: Outcome) => void;
        readonly timer: NodeJS.Timeout;
      }
    | undefined;
  #number = 0;
  #text = '';
  ended = false;

  constructor(program: string, seconds: number) {
    this.#seconds = seconds;
    this.#child = startChild(() =>
      spawn(process.execPath, [...NODE_FLAGS, program], {
        cwd: tmpdir(),
        env: {}, // what runs statements of a model gets nothing, keys included
        windowsHide: true,
      }),
    );
    this.#child.on('error', (error) => this.#end(`its process did not start: ${error.message}`));
    this.#child.on('exit', (code, signal) =>
      this.#end(`its process ended (${signal ?? `code ${code}`})`),
    );
    this.#child.stdin.on('error', () => this.#end('its process stopped reading'));
    this.#child.stdout.setEncoding('utf8').on('data', (chunk: string) => this.#read(chunk));
    this.#child.stderr.resume();
    this.#hold(false);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** One request at a time. */
  ask(asked: QueryRequest, signal: AbortSignal | undefined): Promise<Outcome> {
    return new Promise((done) => {
      const number = ++this.#number;
      const abort = (): void => this.#end('no one waits for it any more');
      const settle = (outcome: Outcome): void => {
        clearTimeout(timer);
        offAbort(signal, abort);
        this.#asked = undefined;
        this.#hold(false);
        done(outcome);
      };
      const timer = setTimeout(
        () => this.#end(`its process wrote nothing for ${this.#seconds} seconds`),
        1000 * this.#seconds,
      );
      this.#asked = { number, settle, timer };
      this.#hold(true);
      if (this.ended) return settle({ lost: 'its process had ended' });
      if (signal?.aborted === true) return abort();
      onAbort(signal, abort);
      this.#child.stdin.write(`${JSON.stringify({ request: number, ...asked })}\n`);
    });
  }

  end(): void {
    this.#end('its process was ended');
  }

  #read(chunk: string): void {
    this.#text += chunk;
    for (let at = this.#text.indexOf('\n'); at >= 0 && !this.ended; at = this.#text.indexOf('\n')) {
      const found = readReply(this.#text.slice(0, at));
      this.#text = this.#text.slice(at + 1);
      if (found === null || found.request !== this.#asked?.number) {
        this.#end('its process wrote something that is not a reply');
        return;
      }
      const { settle } = this.#asked;
      // the statement may still run: the reply's where it met a limit, the problem's own
      if (('limit' in found && found.limit !== 'rows') || 'broken' in found) this.#kill();
      settle(found);
    }
    if (this.#text.length > MAX_LINE_CHARACTERS)
      this.#end('its process wrote something that is not a reply');
  }

  #end(why: string): void {
    this.#kill();
    this.#asked?.settle({ lost: why });
  }

  #kill(): void {
    this.ended = true;
    this.#child.kill('SIGKILL');
  }

  #hold(busy: boolean): void {
    const streams = [this.#child.stdin, this.#child.stdout, this.#child.stderr] as unknown as {
      ref?(): void;
      unref?(): void;
    }[];
    for (const handle of [this.#child, ...streams]) busy ? handle.ref?.() : handle.unref?.();
  }
}

export class QueryProcesses {
  readonly #options: Required<QueryProcessesOptions>;
  readonly #all = new Set<QueryProcess>();
  /** The one that was asked last on top: it knows the problem. */
  readonly #idle: QueryProcess[] = [];
  readonly #waiting: (() => void)[] = [];
  #busy = 0;

  constructor({ processes = 2, seconds = 120, program = PROGRAM }: QueryProcessesOptions = {}) {
    this.#options = { processes, seconds, program };
  }

  /** Ids of the processes there are. */
  get pids(): readonly number[] {
    return [...this.#all].flatMap(({ pid }) => pid ?? []);
  }

  /**
   * What comes of a statement; never rejected. Begins another process where there is none that
   * waits.
   */
  async run(asked: QueryRequest, signal?: AbortSignal): Promise<Outcome> {
    while (this.#busy >= this.#options.processes)
      await new Promise<void>((go) => this.#waiting.push(go));
    this.#busy++;
    try {
      const one = this.#take();
      const outcome = await one.ask(asked, signal);
      if (one.ended) this.#all.delete(one);
      else this.#idle.push(one);
      return outcome;
    } catch (error) {
      return { lost: `its process did not start: ${(error as Error).message}` };
    } finally {
      this.#busy--;
      this.#waiting.shift()?.();
    }
  }

  /** Ends every process; the next statement begins another. */
  dispose(): void {
    for (const one of this.#all) one.end();
    this.#all.clear();
    this.#idle.length = 0;
  }

  #take(): QueryProcess {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (!idle.ended) return idle;
      this.#all.delete(idle);
    }
    const { program, seconds } = this.#options;
    const one = new QueryProcess(program, seconds);
    this.#all.add(one);
    return one;
  }
}
