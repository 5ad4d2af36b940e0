import { createHmac, hash } from 'node:crypto';
import { keyId, type NoteSignature } from './signed-note.js';

/**
 * Forward-secure MAC of the single-process fallback (Bellare and Yee 1997; Schneier and Kelsey
 * 1998): record i has HMAC-SHA-256(k_i, leaf_i), then k_{i+1} = SHA-256("evolve" ‖ k_i) and k_i is
 * erased. An attacker who takes over the process later cannot forge earlier records without k_0; an
 * attacker who reads the stored k_0 can forge everything.
 */
const EVOLVE = Buffer.from('evolve', 'latin1');
const HEAD = Buffer.from('isopro.head.v1', 'latin1');
/**
 * Algorithm byte 0xff and name, as https://c2sp.org/signed-note asks of kinds it does not define.
 */
export const FORWARD_MAC_TYPE = Buffer.concat([
  Buffer.of(0xff),
  Buffer.from('isopro.forward-mac.v1', 'latin1'),
]);

/** Returns the key id of a run's MAC; it depends on k_0 only through a hash. */
export function forwardMacKeyId(name: string, master: Buffer): Buffer {
  return keyId(name, Buffer.concat([FORWARD_MAC_TYPE, hash('sha256', master, 'buffer')]));
}

export class ForwardMac {
  readonly #key: Buffer;
  #records = 0;

  /** @param master k_0, 32 bytes; the caller's buffer is copied */
  constructor(master: Buffer) {
    this.#key = Buffer.from(master);
  }

  /** Records tagged so far. */
  get records(): number {
    return this.#records;
  }

  #evolve(): void {
    const next = hash('sha256', Buffer.concat([EVOLVE, this.#key]), 'buffer');
    next.copy(this.#key);
    next.fill(0);
    this.#records++;
  }

  /** Tag of the next record, after which its key is gone. */
  tag(leaf: string): Buffer {
    const tag = createHmac('sha256', this.#key).update(leaf, 'hex').digest();
    this.#evolve();
    return tag;
  }

  /** Skips records that already have a tag. */
  skip(records: number): void {
    for (let i = 0; i < records; i++) this.#evolve();
  }

  /** Returns the MAC over a checkpoint's text with the key that the next record would use. */
  head(text: string): Buffer {
    return createHmac('sha256', this.#key).update(HEAD).update(text, 'utf8').digest();
  }

  /** Returns the head's MAC as a note signature. */
  sign(text: string, keyName: string, master: Buffer): NoteSignature {
    return { keyName, keyId: forwardMacKeyId(keyName, master), signature: this.head(text) };
  }

  erase(): void {
    this.#key.fill(0);
  }
}
