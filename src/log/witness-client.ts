import { spawn } from 'node:child_process';
import { createConnection, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ERRORS, IsoproError, type ErrorCode } from '../errors.js';
import { isoproHome } from './home.js';
import type { LogSigner } from './signer.js';
import { parseTrustedKey, type TrustedKey } from './trusted-key.js';
import { witnessAddress, witnessReply, type WitnessRequest } from './witness-protocol.js';
import type { HeadRequest } from './witness-store.js';

type Unnumbered<T> = T extends unknown ? Omit<T, 'id'> : never;
type Result = string | string[];

const START_MS = 15_000;

function connect(address: string): Promise<Socket | null> {
  return new Promise((resolve) => {
    const socket = createConnection(address);
    socket.once('connect', () => resolve(socket));
    socket.once('error', () => resolve(null));
  });
}

/** Starts the witness as a process of its own: no shared terminal, so Ctrl-C reaches the run only, and it ends by itself. */
function startWitness(home: string): void {
  const program = fileURLToPath(new URL('../cli/main.js', import.meta.url));
  const child = spawn(process.execPath, [program, 'witness'], { detached: true, stdio: 'ignore', env: { ...process.env, ISOPRO_HOME: home } });
  child.on('error', () => undefined);
  child.unref();
}

/** The run's side of the witness process. The open connection is what keeps that process alive. */
export class WitnessClient implements LogSigner {
  readonly kind = 'witness';
  readonly #home: string;
  #socket: Socket | null = null;
  #nextId = 1;
  #received = '';
  readonly #waiting = new Map<number, { resolve: (result: Result) => void; reject: (error: Error) => void }>();

  private constructor(home: string) {
    this.#home = home;
  }

  /** Connects to this home's witness and starts one if there is none. @throws IsoproError WITNESS_UNAVAILABLE */
  static async open(home = isoproHome()): Promise<WitnessClient> {
    const client = new WitnessClient(home);
    await client.#connection();
    return client;
  }

  async #connection(): Promise<Socket> {
    if (this.#socket !== null) return this.#socket;
    const address = witnessAddress(this.#home);
    let socket = await connect(address);
    const deadline = performance.now() + START_MS;
    for (let attempt = 0; socket === null; attempt++) {
      if (performance.now() > deadline) throw new IsoproError('WITNESS_UNAVAILABLE', `no witness answers at ${address}`);
      if (attempt % 40 === 0) startWitness(this.#home); // again after 2 s: the one before may have lost the lock to one that was ending
      await delay(50);
      socket = await connect(address);
    }
    socket.setEncoding('utf8');
    socket.on('data', (chunk) => this.#receive(String(chunk)));
    const lose = (): void => this.#lose();
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
    for (const { reject } of this.#waiting.values()) reject(new IsoproError('WITNESS_UNAVAILABLE', 'the connection to the witness was lost'));
    this.#waiting.clear();
  }

  async #ask(request: Unnumbered<WitnessRequest>): Promise<Result> {
    for (let attempt = 0; ; attempt++) {
      const socket = await this.#connection();
      const id = this.#nextId++;
      try {
        return await new Promise<Result>((resolve, reject) => {
          this.#waiting.set(id, { resolve, reject });
          socket.write(`${JSON.stringify({ id, ...request })}\n`);
        });
      } catch (error) {
        // every request may be repeated: the witness answers the same again
        if (attempt === 2 || !(error instanceof IsoproError) || error.code !== 'WITNESS_UNAVAILABLE') throw error;
      }
    }
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
    const { runId, size, root, proof, final } = request;
    return this.#askText({ do: 'sign', runId, size, root, proof, final });
  }

  reveal(runId: string, size: number): Promise<string> {
    return this.#askText({ do: 'reveal', runId, size });
  }

  async heads(runId: string): Promise<string[]> {
    const result = await this.#ask({ do: 'heads', runId });
    return typeof result === 'string' ? [result] : [...result];
  }

  async close(): Promise<void> {
    const socket = this.#socket;
    this.#socket = null;
    socket?.end();
  }
}
