import { spawn, type ChildProcess } from 'node:child_process';
import { createConnection, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ERRORS, abortError, IsoproError, type ErrorCode } from '../errors.js';
import { isoproHome } from './home.js';
import type { LogSigner } from './signer.js';
import { parseTrustedKey, type TrustedKey } from './trusted-key.js';
import { witnessAddress, witnessProcess, witnessReply, type WitnessRequest } from './witness-protocol.js';
import type { HeadRequest } from './witness-store.js';

type Unnumbered<T> = T extends unknown ? Omit<T, 'id'> : never;
type Result = string | string[];

const START_MS = 15_000;
/** A witness answers within milliseconds. One that has not by then was stopped, or its disk hangs. */
const ANSWER_MS = 10_000;
const ATTEMPTS = 3;
const UNANSWERED = 'If it was stopped, continue it (`kill -CONT`) or end it (`kill -KILL`); then run the same command again: it resumes.';
/** What is under way when the run is cancelled may still be answered. */
const CANCELLED_MS = 1000;

export interface WitnessClientOptions {
  /** Ends waiting for a witness that does not answer. */
  readonly signal?: AbortSignal;
  /** Told when the witness has not answered and is asked again. */
  readonly onNotice?: (text: string) => void;
  /** How long to wait for one answer. */
  readonly answerMs?: number;
}

const cancelled = (signal: AbortSignal | undefined): IsoproError =>
  abortError('the run was cancelled while it waited for its witness', signal);

function connect(address: string): Promise<Socket | null> {
  return new Promise((resolve) => {
    const socket = createConnection(address);
    socket.once('connect', () => resolve(socket));
    socket.once('error', () => resolve(null));
  });
}

/** Starts the witness as a process of its own: no shared terminal, so Ctrl-C reaches the run only, and it ends by itself. */
function startWitness(home: string): ChildProcess {
  const program = fileURLToPath(new URL('./witness-process.js', import.meta.url));
  const child = spawn(process.execPath, [program], {
    detached: true,
    stdio: 'ignore',
    env: { ...process.env, ISOPRO_HOME: home },
  });
  child.on('error', () => undefined);
  child.unref();
  return child;
}

/** The run's side of the witness process. The open connection is what keeps that process alive. */
export class WitnessClient implements LogSigner {
  readonly kind = 'witness';
  readonly #home: string;
  readonly #options: WitnessClientOptions;
  readonly #answerMs: number;
  #started: ChildProcess[] = [];
  #socket: Socket | null = null;
  #nextId = 1;
  #received = '';
  readonly #waiting = new Map<number, { resolve: (result: Result) => void; reject: (error: Error) => void }>();

  private constructor(home: string, options: WitnessClientOptions) {
    this.#home = home;
    this.#options = options;
    this.#answerMs = options.answerMs ?? ANSWER_MS;
  }

  /** Connects to this home's witness and starts one if there is none. @throws IsoproError WITNESS_UNAVAILABLE, ABORTED */
  static async open(home = isoproHome(), options: WitnessClientOptions = {}): Promise<WitnessClient> {
    const client = new WitnessClient(home, options);
    await client.#connection();
    return client;
  }

  async #connection(): Promise<Socket> {
    if (this.#socket !== null) return this.#socket;
    const address = witnessAddress(this.#home);
    let socket = await connect(address);
    const deadline = performance.now() + START_MS;
    for (let attempt = 0; socket === null; attempt++) {
      const isCancelled = this.#options.signal?.aborted === true;
      if (isCancelled || performance.now() > deadline) {
        this.#endStarted();
        throw isCancelled ? cancelled(this.#options.signal) : new IsoproError('WITNESS_UNAVAILABLE', `no witness answers at ${address}`);
      }
      // again after 2 s: the one before may have lost the lock to one that was ending
      if (attempt % 40 === 0) this.#started.push(startWitness(this.#home));
      await delay(50);
      socket = await connect(address);
    }
    socket.setEncoding('utf8');
    socket.on('data', (chunk) => this.#receive(String(chunk)));
    const lose = (): void => {
      if (this.#socket === socket) this.#lose(); // one that was given up may close when the next is in use
    };
    socket.on('error', lose);
    socket.on('close', lose);
    this.#socket = socket;
    return socket;
  }

  #receive(chunk: string): void {
    this.#received += chunk;
    for (let end = this.#received.indexOf('\n'); end >= 0; end = this.#received.indexOf('\n')) {
      const line = this.#received.slice(0, end);
      this.#received = this.#received.slice(end + 1);
      let reply;
      try {
        reply = witnessReply.safeParse(JSON.parse(line));
      } catch {
        return this.#lose();
      }
      if (!reply.success || reply.data.id === null) return this.#lose();
      const waiting = this.#waiting.get(reply.data.id);
      this.#waiting.delete(reply.data.id);
      if ('result' in reply.data) waiting?.resolve(reply.data.result);
      else {
        const { code, message } = reply.data.error;
        waiting?.reject(new IsoproError(Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : 'WITNESS_REFUSED', message));
      }
    }
  }

  #lose(): void {
    this.#socket?.destroy();
    this.#socket = null;
    this.#received = '';
    for (const { reject } of this.#waiting.values())
      reject(new IsoproError('WITNESS_UNAVAILABLE', 'the connection to the witness was lost'));
    this.#waiting.clear();
  }

  /** One question, one answer in time. @throws IsoproError WITNESS_UNAVAILABLE, ABORTED, and what the witness refuses */
  async #askOnce(request: Unnumbered<WitnessRequest>): Promise<Result> {
    const socket = await this.#connection();
    const id = this.#nextId++;
    const { signal } = this.#options;
    const giveUp = (): void => {
      const silence = `the witness${this.#processOf()} has not answered for ${this.#answerMs / 1000} s`;
      const unanswered = new IsoproError('WITNESS_UNAVAILABLE', silence, { remedy: UNANSWERED });
      this.#waiting.get(id)?.reject(signal?.aborted === true ? cancelled(signal) : unanswered);
      this.#waiting.delete(id);
      this.#endStarted();
      this.#lose();
    };
    let timer = setTimeout(giveUp, signal?.aborted === true ? Math.min(CANCELLED_MS, this.#answerMs) : this.#answerMs);
    const hurry = (): void => {
      clearTimeout(timer);
      timer = setTimeout(giveUp, Math.min(CANCELLED_MS, this.#answerMs));
    };
    signal?.addEventListener('abort', hurry, { once: true });
    try {
      return await new Promise<Result>((resolve, reject) => {
        this.#waiting.set(id, { resolve, reject });
        socket.write(`${JSON.stringify({ id, ...request })}\n`);
      });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', hurry);
    }
  }

  /** Every request may be repeated: the witness answers the same again, also one that was started in the place of another. */
  async #ask(request: Unnumbered<WitnessRequest>): Promise<Result> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#askOnce(request);
      } catch (error) {
        if (attempt === ATTEMPTS || !(error instanceof IsoproError) || error.code !== 'WITNESS_UNAVAILABLE') throw error;
        this.#options.onNotice?.(`${error.message}; it is asked again (${attempt + 1} of ${ATTEMPTS})`);
      }
    }
  }

  /** A witness of this run's own that does not answer would outlive it, stopped. Everything that it has signed is on the disk. */
  #endStarted(): void {
    for (const child of this.#started.splice(0)) child.kill('SIGKILL');
  }

  /** For a person who wants to see what it does. */
  #processOf(): string {
    const pid = witnessProcess(this.#home);
    return pid === null ? '' : ` (process ${pid})`;
  }

  async #askText(request: Unnumbered<WitnessRequest>): Promise<string> {
    const result = await this.#ask(request);
    if (typeof result !== 'string') throw new IsoproError('WITNESS_UNAVAILABLE', 'the witness gave an answer to another question');
    return result;
  }

  async key(): Promise<TrustedKey> {
    return parseTrustedKey(await this.#askText({ do: 'key' }));
  }

  ticket(runId: string): Promise<string> {
    return this.#askText({ do: 'ticket', runId });
  }

  signHead(request: HeadRequest): Promise<string> {
    return this.#askText({ do: 'sign', ...request });
  }

  reveal(runId: string, size: number): Promise<string> {
    return this.#askText({ do: 'reveal', runId, size });
  }

  draw(runId: string, size: number): Promise<string> {
    return this.#askText({ do: 'draw', runId, size });
  }

  async heads(runId: string): Promise<string[]> {
    const result = await this.#ask({ do: 'heads', runId });
    return typeof result === 'string' ? [result] : [...result];
  }

  async close(): Promise<void> {
    const socket = this.#socket;
    this.#socket = null;
    socket?.end();
    socket?.unref(); // a stopped witness would never close its side
  }
}
