import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createConnection, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { offAbort, onAbort } from '../abort.js';
import { ERRORS, abortError, IsoproError, type ErrorCode } from '../errors.js';
import { LARGEST_TEXT } from '../files.js';
import { childEnvironment } from '../keys.js';
import { isoproHome } from './home.js';
import { isSignedBy, parseNote } from './signed-note.js';
import type { LogSigner } from './signer.js';
import { WITNESS_KEY_NAME, type TrustedKey } from './trusted-key.js';
import { publicKeyFile, readTrustedKey } from './witness-key.js';
import {
  identityText,
  witnessAddress,
  witnessProcess,
  witnessReply,
  type WitnessRequest,
} from './witness-protocol.js';
import { requireKept, type HeadRequest } from './witness-store.js';

type Unnumbered<T> = T extends unknown ? Omit<T, 'id'> : never;
type Result = string | string[];

const START_MS = 15_000;
/**
 * A witness answers within milliseconds. One that has not by then was stopped, or its disk hangs.
 */
const ANSWER_MS = 10_000;
const ATTEMPTS = 3;
/**
 * Milliseconds between two checks of a foreign process: a witness of an earlier home ends 250 ms
 * after its last connection.
 */
const STRANGER_MS = 500;
const STOPPED =
  'If it is stopped, continue it (`kill -CONT`) or end it (`kill -KILL`). Then run the same command again to resume.';
/** Milliseconds that a pending answer may still take after the run is cancelled. */
const CANCELLED_MS = 1000;

export interface WitnessClientOptions {
  /** Ends waiting for a witness that does not answer. */
  readonly signal?: AbortSignal;
  /** Told when the witness has not answered and is asked again. */
  readonly onNotice?: (text: string) => void;
  /** Milliseconds to wait for one answer. */
  readonly answerMs?: number;
  /** Milliseconds to wait for a witness to start. */
  readonly startMs?: number;
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

/** Returns the key of a home once its witness has made one; null before that. */
function keyOf(home: string): TrustedKey | null {
  try {
    return readTrustedKey(publicKeyFile(home));
  } catch (error) {
    if (error instanceof IsoproError && error.code === 'WITNESS_KEY_MISSING') return null;
    throw error;
  }
}

/** Returns true if an answer to a challenge proves that its sender has the key. */
function identifies(answer: Result, challenge: string, key: TrustedKey): boolean {
  if (typeof answer !== 'string' || key.signer !== 'witness') return false;
  try {
    const note = parseNote(answer);
    return (
      note.text === identityText(challenge) && isSignedBy(note, WITNESS_KEY_NAME, key.publicKey)
    );
  } catch {
    return false;
  }
}

/**
 * Starts the witness as a separate process: it shares no terminal, so Ctrl-C reaches only the run,
 * and it ends by itself.
 */
function startWitness(home: string): ChildProcess {
  const program = fileURLToPath(new URL('./witness-process.js', import.meta.url));
  const child = spawn(process.execPath, [program], {
    detached: true,
    stdio: 'ignore',
    env: childEnvironment({ ISOPRO_HOME: home }),
  });
  child.on('error', () => undefined);
  child.unref();
  return child;
}

/** No witness can be reached, and why. */
function unavailable(address: string, stranger: boolean): IsoproError {
  if (!stranger) return new IsoproError('WITNESS_UNAVAILABLE', `no witness answers at ${address}`);
  return new IsoproError(
    'WITNESS_UNAVAILABLE',
    `another process listens at ${address} and does not have the key of this ISOPRO_HOME`,
    {
      remedy:
        'Find the process that listens there and end it: only your own witness may use that address. ' +
        'Then run the same command again to resume.',
    },
  );
}

/**
 * No answer came: the witness says nothing, or the connection to it is gone. The same question may
 * be asked again.
 */
class Unanswered extends IsoproError {
  constructor(
    readonly why: 'silence' | 'loss',
    message: string,
  ) {
    super('WITNESS_UNAVAILABLE', message, why === 'silence' ? { remedy: STOPPED } : {});
  }
}

/** A socket behind which the home's witness is, and the key that it has shown to hold. */
interface Connection {
  readonly socket: Socket;
  readonly key: TrustedKey;
}

/** The run's side of the witness process. The open connection is what keeps that process alive. */
export class WitnessClient implements LogSigner {
  readonly kind = 'witness';
  readonly #home: string;
  readonly #options: WitnessClientOptions;
  readonly #answerMs: number;
  #started: ChildProcess[] = [];
  #socket: Socket | null = null;
  #connecting: Promise<Connection> | null = null;
  #nextId = 1;
  #received = '';
  readonly #waiting = new Map<
    number,
    { resolve: (result: Result) => void; reject: (error: Error) => void }
  >();

  private constructor(home: string, options: WitnessClientOptions) {
    this.#home = home;
    this.#options = options;
    this.#answerMs = options.answerMs ?? ANSWER_MS;
  }

  /**
   * Connects to this home's witness and starts one if there is none. A process without the key of
   * this home learns nothing.
   * @throws IsoproError WITNESS_UNAVAILABLE, WITNESS_KEY_INVALID, LOG_UNREADABLE, ABORTED
   */
  static async open(
    home = isoproHome(),
    options: WitnessClientOptions = {},
  ): Promise<WitnessClient> {
    const client = new WitnessClient(home, options);
    await client.#repeated(() => client.#connection());
    return client;
  }

  /** One connection for all who ask, also for those who ask while it is made. */
  #connection(): Promise<Connection> {
    if (this.#connecting !== null) return this.#connecting;
    const connecting = this.#connect();
    this.#connecting = connecting;
    connecting.catch(() => {
      if (this.#connecting === connecting) this.#connecting = null;
    });
    return connecting;
  }

  async #connect(): Promise<Connection> {
    const address = witnessAddress(this.#home);
    const deadline = performance.now() + (this.#options.startMs ?? START_MS);
    let stranger = false;
    for (let attempt = 0; ; ) {
      const socket = await connect(address);
      const connection = socket === null ? null : await this.#identified(socket);
      if (connection !== null) return connection;
      stranger = socket !== null;
      const isCancelled = this.#options.signal?.aborted === true;
      if (isCancelled || performance.now() > deadline) {
        this.#endStarted();
        throw isCancelled ? cancelled(this.#options.signal) : unavailable(address, stranger);
      }
      // retry after 2 s: the earlier one may have lost the lock to a witness that was ending
      if (!stranger && attempt++ % 40 === 0) {
        requireKept(this.#home); // checked here, where the reason can be reported
        this.#started.push(startWitness(this.#home));
      }
      await delay(stranger ? STRANGER_MS : 50);
    }
  }

  /**
   * Returns the connection over a socket if its other side proves that it has the home's key.
   * Otherwise returns null: another process has taken the address, or the witness of an earlier
   * home has not ended yet.
   */
  async #identified(socket: Socket): Promise<Connection | null> {
    const key = keyOf(this.#home);
    const challenge = randomBytes(32).toString('hex');
    this.#use(socket);
    if (key !== null) {
      const answer = await this.#exchange(socket, { do: 'identify', challenge }).catch(
        (error: unknown) => {
          if (
            error instanceof Unanswered
              ? error.why === 'silence'
              : (error as IsoproError).code === 'ABORTED'
          )
            throw error;
          return ''; // it does not know the question or is ending
        },
      );
      if (identifies(answer, challenge, key)) return { socket, key };
    }
    if (this.#socket === socket) this.#socket = null;
    socket.destroy();
    return null;
  }

  #use(socket: Socket): void {
    this.#received = '';
    socket.setEncoding('utf8');
    socket.on('data', (chunk) => this.#receive(String(chunk)));
    const lose = (): void => {
      // an abandoned socket may close when the next one is in use
      if (this.#socket === socket) this.#lose();
    };
    socket.on('error', lose);
    socket.on('close', lose);
    this.#socket = socket;
  }

  #receive(chunk: string): void {
    this.#received += chunk;
    if (this.#received.length > LARGEST_TEXT) {
      this.#lose();
      return;
    } // not an answer of a witness
    if (!chunk.includes('\n')) return; // a long line is searched once
    for (let end = this.#received.indexOf('\n'); end >= 0; end = this.#received.indexOf('\n')) {
      const line = this.#received.slice(0, end);
      this.#received = this.#received.slice(end + 1);
      let reply: ReturnType<typeof witnessReply.safeParse>;
      try {
        reply = witnessReply.safeParse(JSON.parse(line));
      } catch {
        this.#lose();
        return;
      }
      if (!reply.success || reply.data.id === null) {
        this.#lose();
        return;
      }
      const waiting = this.#waiting.get(reply.data.id);
      this.#waiting.delete(reply.data.id);
      if ('result' in reply.data) waiting?.resolve(reply.data.result);
      else {
        const { code, message } = reply.data.error;
        waiting?.reject(
          new IsoproError(
            Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : 'WITNESS_REFUSED',
            message,
          ),
        );
      }
    }
  }

  #lose(): void {
    this.#socket?.destroy();
    this.#socket = null;
    this.#connecting = null;
    this.#received = '';
    for (const { reject } of this.#waiting.values())
      reject(new Unanswered('loss', 'the connection to the witness was lost'));
    this.#waiting.clear();
  }

  /**
   * One question, one answer in time.
   * @throws IsoproError WITNESS_UNAVAILABLE, ABORTED, and what the witness refuses
   */
  async #exchange(socket: Socket, request: Unnumbered<WitnessRequest>): Promise<Result> {
    const id = this.#nextId++;
    const { signal } = this.#options;
    const giveUp = (): void => {
      const unanswered = new Unanswered(
        'silence',
        `the witness${this.#processOf()} has not answered for ${this.#answerMs / 1000} s`,
      );
      this.#waiting.get(id)?.reject(signal?.aborted === true ? cancelled(signal) : unanswered);
      this.#waiting.delete(id);
      this.#endStarted();
      this.#lose();
    };
    let timer = setTimeout(
      giveUp,
      signal?.aborted === true ? Math.min(CANCELLED_MS, this.#answerMs) : this.#answerMs,
    );
    const hurry = (): void => {
      clearTimeout(timer);
      timer = setTimeout(giveUp, Math.min(CANCELLED_MS, this.#answerMs));
    };
    onAbort(signal, hurry);
    try {
      return await new Promise<Result>((resolve, reject) => {
        this.#waiting.set(id, { resolve, reject });
        socket.write(`${JSON.stringify({ id, ...request })}\n`);
      });
    } finally {
      clearTimeout(timer);
      offAbort(signal, hurry);
    }
  }

  /**
   * Every request may be repeated: the witness answers the same again, also one that was started in
   * the place of another.
   */
  async #repeated<T>(request: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await request();
      } catch (error) {
        if (attempt === ATTEMPTS || !(error instanceof Unanswered)) throw error;
        this.#options.onNotice?.(
          `${error.message}; asking again (attempt ${attempt + 1} of ${ATTEMPTS})`,
        );
      }
    }
  }

  #ask(request: Unnumbered<WitnessRequest>): Promise<Result> {
    return this.#repeated(async () => this.#exchange((await this.#connection()).socket, request));
  }

  /**
   * A witness of this run's own that does not answer would outlive it, stopped. Everything that it
   * has signed is on the disk.
   */
  #endStarted(): void {
    for (const child of this.#started.splice(0)) child.kill('SIGKILL');
  }

  /** Process id of the witness for messages. */
  #processOf(): string {
    const pid = witnessProcess(this.#home);
    return pid === null ? '' : ` (process ${pid})`;
  }

  async #askText(request: Unnumbered<WitnessRequest>): Promise<string> {
    const result = await this.#ask(request);
    if (typeof result !== 'string')
      throw new IsoproError('WITNESS_UNAVAILABLE', 'the witness answered a different question');
    return result;
  }

  async key(): Promise<TrustedKey> {
    return (await this.#repeated(() => this.#connection())).key;
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
    this.#connecting = null;
    socket?.end();
    socket?.unref(); // a stopped witness never closes its side
  }
}
