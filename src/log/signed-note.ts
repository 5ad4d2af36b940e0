import { createPrivateKey, createPublicKey, hash, sign, verify, type KeyObject } from 'node:crypto';
import { IsoproError } from '../errors.js';

/**
 * Signed notes as in https://c2sp.org/signed-note: a text that ends in a newline, an empty line,
 * then one line `— <key name> <base64(key id[4] ‖ signature)>` for each signature. Ed25519 has
 * algorithm byte 1; other kinds use 0xff with a name of their own.
 */
export const ED25519 = 0x01;
const MARK = '— ';
const MAX_NOTE_BYTES = 16 * 1024;

export interface NoteSignature {
  readonly keyName: string;
  readonly keyId: Buffer;
  readonly signature: Buffer;
}

export interface SignedNote {
  /** Signed text with its last newline. */
  readonly text: string;
  readonly signatures: readonly NoteSignature[];
}

const isKeyName = (name: string): boolean => name !== '' && !/[\s+]/u.test(name);

/** Decodes base64 with padding; null if the text is not the canonical encoding. */
export function decodeBase64(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : null;
}

/**
 * Returns the first four bytes of SHA-256(name ‖ 0x0A ‖ key material). `material` begins with the
 * algorithm byte.
 */
export function keyId(name: string, material: Buffer): Buffer {
  return hash('sha256', Buffer.concat([Buffer.from(`${name}\n`), material]), 'buffer').subarray(
    0,
    4,
  );
}

/** Parses a signed note. @throws IsoproError CHECKPOINT_INVALID if the text is not one */
export function parseNote(note: string): SignedNote {
  const refuse = (reason: string): never => {
    throw new IsoproError('CHECKPOINT_INVALID', `not a signed note: ${reason}`);
  };
  if (Buffer.byteLength(note) > MAX_NOTE_BYTES) refuse(`longer than ${MAX_NOTE_BYTES} bytes`);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: forbidden by the specification
  if (/[\u0000-\u0009\u000b-\u001f\u007f\ufffd]/.test(note))
    refuse('it contains a control character');
  if (!note.endsWith('\n')) refuse('its last line does not end with a line feed');
  const split = note.lastIndexOf('\n\n');
  if (split < 0) refuse('it has no empty line before the signatures');
  const lines = note.slice(split + 2, -1).split('\n');
  const signatures = lines.map((line): NoteSignature => {
    const match = /^— (\S+) (\S+)$/u.exec(line);
    const blob = match === null ? null : decodeBase64(match[2] as string);
    if (match === null || blob === null || blob.length < 5 || !isKeyName(match[1] as string))
      return refuse('a signature line is malformed');
    return { keyName: match[1] as string, keyId: blob.subarray(0, 4), signature: blob.subarray(4) };
  });
  return { text: note.slice(0, split + 1), signatures };
}

/** Appends signature lines to a text. */
export function formatNote(text: string, signatures: readonly NoteSignature[]): string {
  const lines = signatures.map(
    ({ keyName, keyId: id, signature }) =>
      `${MARK}${keyName} ${Buffer.concat([id, signature]).toString('base64')}\n`,
  );
  return `${text}\n${lines.join('')}`;
}

const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');

/** A raw ed25519 public key of 32 bytes. */
export interface Ed25519PublicKey {
  readonly bytes: Buffer;
  readonly key: KeyObject;
}

/**
 * Makes a public key of its bytes.
 * @throws IsoproError WITNESS_KEY_INVALID unless there are 32 bytes
 */
export function ed25519PublicKey(bytes: Buffer): Ed25519PublicKey {
  if (bytes.length !== 32)
    throw new IsoproError(
      'WITNESS_KEY_INVALID',
      `an ed25519 public key has 32 bytes, not ${bytes.length}`,
    );
  return {
    bytes,
    key: createPublicKey({ key: Buffer.concat([SPKI_PREFIX, bytes]), format: 'der', type: 'spki' }),
  };
}

/** The signing side of a key whose 32-byte seed is given. */
export class Ed25519Signer {
  readonly publicKey: Ed25519PublicKey;
  readonly #key: KeyObject;

  constructor(seed: Buffer) {
    if (seed.length !== 32)
      throw new IsoproError(
        'WITNESS_KEY_INVALID',
        `an ed25519 seed has 32 bytes, not ${seed.length}`,
      );
    this.#key = createPrivateKey({
      key: Buffer.concat([PKCS8_PREFIX, seed]),
      format: 'der',
      type: 'pkcs8',
    });
    const spki = createPublicKey(this.#key).export({ format: 'der', type: 'spki' });
    this.publicKey = ed25519PublicKey(Buffer.from(spki.subarray(SPKI_PREFIX.length)));
  }

  /**
   * Signs under a key name; in a checkpoint that is its origin (https://c2sp.org/tlog-checkpoint).
   */
  sign(text: string, keyName: string): NoteSignature {
    return {
      keyName,
      keyId: ed25519KeyId(keyName, this.publicKey),
      signature: sign(null, Buffer.from(text), this.#key),
    };
  }
}

export function ed25519KeyId(name: string, publicKey: Ed25519PublicKey): Buffer {
  return keyId(name, Buffer.concat([Buffer.of(ED25519), publicKey.bytes]));
}

/** Returns true if the note has a valid signature of this key under this name. */
export function isSignedBy(note: SignedNote, name: string, publicKey: Ed25519PublicKey): boolean {
  const id = ed25519KeyId(name, publicKey);
  return note.signatures.some(
    (each) =>
      each.keyName === name &&
      each.keyId.equals(id) &&
      each.signature.length === 64 &&
      verify(null, Buffer.from(note.text), publicKey.key, each.signature),
  );
}

/**
 * Returns `<name>+<key id in hex>+<base64(algorithm ‖ key)>`, the form in which keys are published.
 */
export function formatVerifierKey(name: string, material: Buffer): string {
  return `${name}+${keyId(name, material).toString('hex')}+${material.toString('base64')}`;
}

/** @throws IsoproError WITNESS_KEY_INVALID */
export function parseVerifierKey(text: string): { name: string; material: Buffer } {
  const match = /^([^\s+]+)\+([0-9a-f]{8})\+(\S+)$/u.exec(text.trim());
  const material = match === null ? null : decodeBase64(match[3] as string);
  if (match === null || material === null || material.length < 2) {
    throw new IsoproError('WITNESS_KEY_INVALID', 'a verifier key has the form name+keyid+base64');
  }
  const name = match[1] as string;
  if (keyId(name, material).toString('hex') !== match[2])
    throw new IsoproError('WITNESS_KEY_INVALID', `the key ${name} does not match its id`);
  return { name, material };
}
