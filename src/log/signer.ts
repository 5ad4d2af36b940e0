import { join } from 'node:path';
import { hash } from 'node:crypto';
import { IsoproError } from '../errors.js';
import { makeFolder } from '../files.js';
import { ForwardMac, FORWARD_MAC_TYPE } from './forward-mac.js';
import { isoproHome, witnessFolder } from './home.js';
import { keyId, type NoteSignature } from './signed-note.js';
import { WITNESS_KEY_NAME, type SignerKind, type TrustedKey } from './trusted-key.js';
import { WitnessStore, type HeadRequest } from './witness-store.js';

/** Signs the heads of a run. The witness process is one; SingleProcessSigner is the fallback. */
export interface LogSigner {
  readonly kind: SignerKind;
  /** Returns the key that verifies what this signer signs for a run. */
  key(runId: string): Promise<TrustedKey>;
  /** Returns the run's ticket note, the same on every call. */
  ticket(runId: string): Promise<string>;
  /** Returns the signed note of a head. @throws IsoproError WITNESS_REFUSED */
  signHead(request: HeadRequest): Promise<string>;
  /** Returns the nonce in hex for the last signed head. @throws IsoproError WITNESS_REFUSED */
  reveal(runId: string, size: number): Promise<string>;
  /**
   * Returns the note of the nonce of a signed head (draw.ts).
   * @throws IsoproError WITNESS_REFUSED
   */
  draw(runId: string, size: number): Promise<string>;
  /** Returns every head signed for the run, oldest first. */
  heads(runId: string): Promise<string[]>;
  /** Forward-secure MAC of records, only without a second process. */
  readonly tags?: { begin(runId: string, records: number): void; tag(leaf: string): Buffer };
  close(): Promise<void>;
}

/** File of tickets, heads and keys of runs that had no witness. */
export const singleProcessFile = (home = isoproHome()): string =>
  join(witnessFolder(home), 'single-process.sqlite');

/**
 * Signer without a second process: heads have a forward-secure MAC whose k_0 is in the user's own
 * folder. It protects earlier records from a process that is taken over later, not from the user.
 * Reports say `single-process`.
 */
export class SingleProcessSigner implements LogSigner {
  readonly kind = 'single-process';
  readonly #store: WitnessStore;
  #run: { readonly runId: string; readonly mac: ForwardMac } | null = null;

  constructor(home = isoproHome()) {
    try {
      makeFolder(witnessFolder(home), 0o700);
    } catch (cause) {
      throw new IsoproError(
        'WITNESS_UNAVAILABLE',
        `cannot use the witness folder ${witnessFolder(home)}: ${(cause as Error).message}`,
        { cause },
      );
    }
    this.#store = new WitnessStore(singleProcessFile(home), (text, keyName, runId) =>
      this.#sign(text, keyName, runId),
    );
  }

  #sign(text: string, keyName: string, runId: string): NoteSignature {
    const master = this.#store.secret(runId);
    if (keyName === WITNESS_KEY_NAME) {
      // a ticket of one's own proves nothing; the line keeps the form of a note
      return {
        keyName,
        keyId: keyId(keyName, FORWARD_MAC_TYPE),
        signature: hash('sha256', Buffer.from(text), 'buffer'),
      };
    }
    if (this.#run?.runId !== runId)
      throw new IsoproError('WITNESS_REFUSED', `no log of run ${runId} is open`);
    return this.#run.mac.sign(text, keyName, master);
  }

  readonly tags = {
    begin: (runId: string, records: number): void => {
      const mac = new ForwardMac(this.#store.secret(runId));
      mac.skip(records);
      this.#run = { runId, mac };
    },
    tag: (leaf: string): Buffer => {
      if (this.#run === null) throw new IsoproError('WITNESS_REFUSED', 'no log is open');
      return this.#run.mac.tag(leaf);
    },
  };

  async key(runId: string): Promise<TrustedKey> {
    return { signer: 'single-process', master: this.#store.secret(runId) };
  }

  async ticket(runId: string): Promise<string> {
    return this.#store.issueTicket(runId);
  }

  async signHead(request: HeadRequest): Promise<string> {
    const covered = this.#run?.mac.records ?? 0;
    if (this.#run === null || covered !== request.size)
      throw new IsoproError(
        'WITNESS_REFUSED',
        `the requested head covers ${request.size} records, but the MAC covers ${covered}`,
      );
    return this.#store.signHead(request);
  }

  async reveal(runId: string, size: number): Promise<string> {
    return this.#store.reveal(runId, size);
  }

  async draw(runId: string, size: number): Promise<string> {
    return this.#store.draw(runId, size);
  }

  async heads(runId: string): Promise<string[]> {
    return this.#store.heads(runId);
  }

  async close(): Promise<void> {
    this.#run?.mac.erase();
    this.#store.close();
  }
}
