import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { durable } from '../durable.js';
import { IsoproError } from '../errors.js';
import { makeFolder, readText } from '../files.js';
import { isoproHome, witnessFolder } from './home.js';
import { Ed25519Signer } from './signed-note.js';
import { formatTrustedKey, parseTrustedKey, type TrustedKey } from './trusted-key.js';

const secretFile = (home: string): string => join(witnessFolder(home), 'key.secret');
/** Returns the file of the public key, for `--key`. */
export const publicKeyFile = (home = isoproHome()): string => join(witnessFolder(home), 'key.pub');
/** Returns the file of tickets and heads. */
export const witnessFile = (home = isoproHome()): string =>
  join(witnessFolder(home), 'witness.sqlite');

/** Writes a file atomically and keeps an existing one. */
function createOnce(path: string, text: string, mode: number): void {
  if (existsSync(path)) return;
  const temporary = `${path}.${process.pid}`;
  const file = openSync(temporary, 'wx', mode);
  try {
    writeSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  try {
    linkSync(temporary, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    unlinkSync(temporary);
  }
  durable('witness.key');
}

/**
 * The witness's signing key, made on first use. Its folder is for its user only.
 * @throws IsoproError WITNESS_UNAVAILABLE, WITNESS_KEY_INVALID
 */
export function openWitnessKey(home = isoproHome()): Ed25519Signer {
  try {
    makeFolder(witnessFolder(home), 0o700);
    chmodSync(witnessFolder(home), 0o700);
    createOnce(secretFile(home), `${randomBytes(32).toString('hex')}\n`, 0o600);
    const text = readFileSync(secretFile(home), 'utf8').trim();
    if (!/^[0-9a-f]{64}$/.test(text))
      throw new IsoproError('WITNESS_KEY_INVALID', `${secretFile(home)} does not contain a key`);
    const signer = new Ed25519Signer(Buffer.from(text, 'hex'));
    createOnce(
      publicKeyFile(home),
      `${formatTrustedKey({ signer: 'witness', publicKey: signer.publicKey })}\n`,
      0o644,
    );
    return signer;
  } catch (error) {
    if (error instanceof IsoproError) throw error;
    throw new IsoproError(
      'WITNESS_UNAVAILABLE',
      `cannot use the witness folder ${witnessFolder(home)}: ${(error as Error).message}`,
      {
        cause: error,
      },
    );
  }
}

/**
 * Reads a key file. @throws IsoproError WITNESS_KEY_MISSING, WITNESS_KEY_INVALID
 */
export function readTrustedKey(path: string): TrustedKey {
  return parseTrustedKey(readText(path, 'WITNESS_KEY_MISSING'));
}
