/**
 * A process that speaks lines: one a question on its standard input, one an answer on its standard
 * output. It leads a process group, so that what it has started ends with it, and it ends with this
 * process. What it writes is bounded.
 */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { startChild } from './child-process.js';

/** Time to read the remaining output of a process that has ended. */
const LAST_WORDS_MS = 500;

/** Running processes, which end with this one. */
const running = new Set<LineProcess>();
process.on('exit', () => {
  for (const each of running) each.killGroup();
});

export interface LineProcessOptions {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** Most bytes of one line of its output. */
  readonly mostBytes: number;
  /** One line, without its end. */
  readonly onLine: (line: Buffer) => void;
  /** A line of more bytes than allowed; nothing further is read. */
  readonly onLongLine: () => void;
  readonly onStderr: (chunk: Buffer) => void;
  /** It could not be started. */
  readonly onUnstarted: (cause: Error) => void;
  /**
   * It has ended, and all of its output was read.
   * @param how `code 1`, or the signal
   * @param rest a line without its end
   */
  readonly onEnd: (how: string, rest: Buffer) => void;
}

export class LineProcess {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #options: LineProcessOptions;
  /** Exit code, once it has ended. */
  readonly ended: Promise<number>;
  #line: Buffer[] = [];
  #lineBytes = 0;
  #isDeaf = false;

  /**
   * @throws IsoproError SYSTEM_LIMIT if the system starts no further process; INVALID_ARGUMENT for
   *   arguments that no process can be given
   */
  constructor(options: LineProcessOptions) {
    this.#options = options;
    this.#child = startChild(() =>
      spawn(options.program, [...options.args], {
        env: options.env,
        detached: process.platform !== 'win32', // a group, so that what it has started ends with it
        windowsHide: true,
      }),
    );
    const child = this.#child;
    running.add(this);
    child.on('exit', () => {
      this.killGroup(); // what it has started
      running.delete(this);
      // what has left the group may hold the pipes open
      setTimeout(() => {
        for (const pipe of [child.stdin, child.stdout, child.stderr]) pipe.destroy();
      }, LAST_WORDS_MS).unref();
    });
    this.ended = new Promise((done) => {
      child.on('error', (cause) => {
        if (child.pid === undefined) {
          running.delete(this);
          if (!this.#isDeaf) options.onUnstarted(cause);
        }
        done(1);
      });
      child.on('close', (code, signal) => {
        if (child.pid !== undefined && !this.#isDeaf)
          options.onEnd(signal ?? `code ${code}`, Buffer.concat(this.#line));
        done(code ?? 1);
      });
    });
    child.stdin.on('error', () => undefined); // it has ended, and that is heard
    child.stdout.on('data', (chunk: Buffer) => this.#hear(chunk));
    child.stderr.on('data', (chunk: Buffer) => {
      if (!this.#isDeaf) options.onStderr(chunk);
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Writes one line. */
  say(line: string): void {
    this.#child.stdin.write(`${line}\n`);
  }

  /** Whether it keeps this process alive. */
  hold(busy: boolean): void {
    const { stdin, stdout, stderr } = this.#child;
    for (const handle of [this.#child, stdin, stdout, stderr] as unknown as {
      ref?(): void;
      unref?(): void;
    }[])
      busy ? handle.ref?.() : handle.unref?.();
  }

  /** Ends it with all that it has started, at once. Nothing of it is heard from then on. */
  kill(): void {
    this.#isDeaf = true;
    this.killGroup();
  }

  /**
   * Closes its input, so that it can end by itself, and kills it where it does not. Nothing of it
   * is heard from then on.
   */
  async end(graceMs: number): Promise<void> {
    this.#isDeaf = true;
    this.hold(true);
    this.#child.stdin.end();
    const late = setTimeout(() => this.killGroup(), graceMs);
    await this.ended;
    clearTimeout(late);
  }

  /** Kills it with its group, without waiting for that; its last words are still heard. */
  killGroup(): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      if (process.platform === 'win32') this.#child.kill('SIGKILL');
      else process.kill(-pid, 'SIGKILL');
    } catch {
      // the group has ended
    }
  }

  #hear(chunk: Buffer): void {
    let from = 0;
    for (let at = chunk.indexOf(10); at >= 0 && !this.#isDeaf; at = chunk.indexOf(10, from)) {
      const line = Buffer.concat([...this.#line, chunk.subarray(from, at)]);
      this.#line = [];
      this.#lineBytes = 0;
      from = at + 1;
      if (line.length > this.#options.mostBytes) this.#tooLong();
      else this.#options.onLine(line);
    }
    if (this.#isDeaf) return;
    this.#line.push(chunk.subarray(from));
    this.#lineBytes += chunk.length - from;
    if (this.#lineBytes > this.#options.mostBytes) this.#tooLong();
  }

  #tooLong(): void {
    this.kill();
    this.#line = [];
    this.#options.onLongLine();
  }
}
