import { unlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { IsoproError } from '../errors.js';
import { isoproHome, witnessFolder } from './home.js';
import { OwnerLock } from './owner-lock.js';
import { formatNote, type Ed25519Signer } from './signed-note.js';
import { WITNESS_KEY_NAME } from './trusted-key.js';
import { openWitnessKey, witnessFile } from './witness-key.js';
import {
  identityText,
  MAX_LINE_BYTES,
  witnessAddress,
  witnessProcessFile,
  witnessRequest,
  type WitnessRequest,
} from './witness-protocol.js';
import { requireKept, WitnessStore } from './witness-store.js';

export interface WitnessOptions {
  readonly home?: string;
  /** Milliseconds to wait for a first run, and for another one after the last has gone. */
  readonly idleMs?: number;
  readonly signal?: AbortSignal;
  readonly onListening?: (address: string) => void;
}

function answer(
  store: WitnessStore,
  signer: Ed25519Signer,
  request: WitnessRequest,
): string | string[] {
  switch (request.do) {
    case 'identify': {
      const text = identityText(request.challenge);
      return formatNote(text, [signer.sign(text, WITNESS_KEY_NAME)]);
    }
    case 'ticket':
      return store.issueTicket(request.runId);
    case 'sign':
      return store.signHead(request);
    case 'reveal':
      return store.reveal(request.runId, request.size);
    case 'draw':
      return store.draw(request.runId, request.size);
    case 'heads':
      return store.heads(request.runId);
  }
}

/**
 * Reads lines from a socket and answers each. A line that is not a request gets an error; an
 * endless one ends the connection.
 */
function serve(socket: Socket, store: WitnessStore, signer: Ed25519Signer): void {
  let pending = '';
  socket.setEncoding('utf8');
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk: string) => {
    pending += chunk;
    for (let end = pending.indexOf('\n'); end >= 0; end = pending.indexOf('\n')) {
      const line = pending.slice(0, end);
      pending = pending.slice(end + 1);
      let id: number | null = null;
      let reply: unknown;
      try {
        const parsed = witnessRequest.safeParse(JSON.parse(line));
        if (!parsed.success)
          throw new IsoproError('INVALID_ARGUMENT', 'not a request to a witness');
        id = parsed.data.id;
        reply = { id, result: answer(store, signer, parsed.data) };
      } catch (error) {
        const failure =
          error instanceof IsoproError
            ? error
            : new IsoproError('INVALID_ARGUMENT', (error as Error).message);
        reply = { id, error: { code: failure.code, message: failure.message } };
      }
      socket.write(`${JSON.stringify(reply)}\n`);
    }
    if (pending.length > MAX_LINE_BYTES) socket.destroy();
  });
}

function openStore(home: string, signer: Ed25519Signer, lock: OwnerLock): WitnessStore {
  try {
    requireKept(home);
    const store = new WitnessStore(witnessFile(home), (text, keyName) =>
      signer.sign(text, keyName),
    );
    // after the tables: it says that they were there
    writeFileSync(witnessProcessFile(home), `${process.pid}\n`);
    return store;
  } catch (error) {
    lock.release();
    throw error;
  }
}

/**
 * Runs the witness until its last run has gone. Resolves `busy` at once where this home has one
 * already.
 * @throws IsoproError WITNESS_UNAVAILABLE
 */
export async function runWitness(
  options: WitnessOptions = {},
): Promise<'idle' | 'busy' | 'stopped'> {
  const home = options.home ?? isoproHome();
  const idleMs = options.idleMs ?? 5000;
  const signer = openWitnessKey(home);
  // the only witness of a home
  const lock = OwnerLock.take(join(witnessFolder(home), 'lock.sqlite'));
  if (lock === null) return 'busy';
  const store = openStore(home, signer, lock);
  const address = witnessAddress(home);
  try {
    // a socket file of a killed witness; the lock shows that no process listens on it
    if (process.platform !== 'win32') unlinkSync(address);
  } catch {
    // there was none
  }
  const sockets = new Set<Socket>();
  let server: Server | undefined;
  try {
    return await new Promise<'idle' | 'stopped'>((resolve, reject) => {
      let idle = setTimeout(() => resolve('idle'), idleMs);
      server = createServer((socket) => {
        clearTimeout(idle);
        sockets.add(socket);
        socket.on('close', () => {
          sockets.delete(socket);
          if (sockets.size === 0) idle = setTimeout(() => resolve('idle'), Math.min(idleMs, 250));
        });
        serve(socket, store, signer);
      });
      server.on('error', (error) =>
        reject(
          new IsoproError(
            'WITNESS_UNAVAILABLE',
            `the witness cannot listen at ${address}: ${error.message}`,
            { cause: error },
          ),
        ),
      );
      server.listen(address, () => options.onListening?.(address));
      options.signal?.addEventListener('abort', () => resolve('stopped'), { once: true });
      if (options.signal?.aborted === true) resolve('stopped');
    });
  } finally {
    for (const socket of sockets) socket.destroy();
    server?.close();
    store.close();
    lock.release();
  }
}
