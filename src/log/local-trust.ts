import { existsSync } from 'node:fs';
import { IsoproError } from '../errors.js';
import { readText } from '../files.js';
import { isoproHome } from './home.js';
import { logFileOf, LogReader } from './read.js';
import { singleProcessFile, SingleProcessSigner } from './signer.js';
import type { LogStreams } from './streams.js';
import { ed25519KeyId, type Ed25519PublicKey } from './signed-note.js';
import { parseTicket } from './ticket.js';
import { formatTrustedKey, WITNESS_KEY_NAME, type TrustedKey } from './trusted-key.js';
import { verifyLogFile, type Verification, type VerifyOptions } from './verify.js';
import { publicKeyFile, readTrustedKey, witnessFile } from './witness-key.js';
import { readWitnessHeads, requireKept } from './witness-store.js';

export interface RunVerification extends Verification {
  readonly path: string;
  /**
   * The key that the outcome is relative to, and whether it is this user's own, so that this user
   * could have signed anything.
   */
  readonly key: { readonly text: string; readonly ownedByThisUser: boolean };
}

export interface RunVerifyOptions extends Omit<VerifyOptions, 'key' | 'heads'> {
  /** A key file; without it, what this machine's own witness has. */
  readonly keyFile?: string;
  /** Files with heads that were kept elsewhere. */
  readonly headFiles?: readonly string[];
  readonly home?: string;
}

interface Claim {
  readonly runId: string;
  readonly signer: string;
  /**
   * Ids in hex of the witness keys that signed the ticket, as the ticket states them; empty if it
   * is unreadable.
   */
  readonly witnesses: readonly string[];
}

/** Returns the run and signer that the file claims; null if they are unreadable. */
function claims(path: string, streams: LogStreams): Claim | null {
  try {
    using reader = new LogReader(path, streams);
    for (const { payload } of reader.records()) {
      const { runId, signer, ticket } = payload;
      return typeof runId === 'string' && typeof signer === 'string'
        ? { runId, signer, witnesses: witnessesOf(ticket) }
        : null;
    }
    return null;
  } catch (error) {
    if (error instanceof IsoproError && error.code === 'LOG_UNREADABLE') return null;
    throw error;
  }
}

function witnessesOf(ticket: unknown): string[] {
  try {
    const { signatures } = parseTicket(String(ticket)).note;
    return signatures.flatMap(({ keyName, keyId }) =>
      keyName === WITNESS_KEY_NAME ? [keyId.toString('hex')] : [],
    );
  } catch {
    return []; // the verification reports it
  }
}

/**
 * Returns the heads that this machine's witness signed for a run.
 * @throws IsoproError WITNESS_UNAVAILABLE if its file is empty or missing
 */
function keptHeads(home: string, runId: string): string[] {
  requireKept(home);
  return readWitnessHeads(witnessFile(home), runId);
}

/**
 * Refuses to compare a run of another witness with this key, which would report an honest run as
 * tampered. If this witness knows the run, the run is its own and another signature is a forgery.
 */
function refuseStranger({ runId, witnesses }: Claim, key: Ed25519PublicKey, home: string): void {
  const own = ed25519KeyId(WITNESS_KEY_NAME, key).toString('hex');
  if (witnesses.length === 0 || witnesses.includes(own)) return;
  if (keptHeads(home, runId).length > 0) return;
  throw new IsoproError(
    'WITNESS_KEY_MISSING',
    `run ${runId} was signed by the witness with the key ${witnesses.join(', ')}, which is not this machine's ($ISOPRO_HOME)`,
    {
      remedy:
        'Give the public key of that witness: `isopro-native log verify RUN --key FILE`, or set ISOPRO_HOME to the ' +
        'folder that the run used.',
    },
  );
}

async function ownKey(claim: Claim | null, home: string): Promise<TrustedKey> {
  if (claim?.signer === 'single-process') {
    if (!existsSync(singleProcessFile(home)))
      throw new IsoproError(
        'WITNESS_KEY_MISSING',
        'the run had no witness, and its secret key is not on this machine',
      );
    const signer = new SingleProcessSigner(home);
    try {
      return await signer.key(claim.runId);
    } catch (error) {
      throw new IsoproError(
        'WITNESS_KEY_MISSING',
        `this machine has no key for run ${claim.runId}`,
        { cause: error },
      );
    } finally {
      await signer.close();
    }
  }
  const key = readTrustedKey(publicKeyFile(home));
  if (claim?.signer === 'witness' && key.signer === 'witness')
    refuseStranger(claim, key.publicKey, home);
  return key;
}

/**
 * Verifies a run folder or a log file with a given key or with this machine's own. If the key
 * belongs to this machine's witness, the heads that it keeps of the run are compared too.
 * @throws IsoproError LOG_NOT_FOUND, WITNESS_KEY_MISSING, WITNESS_KEY_INVALID, WITNESS_UNAVAILABLE
 *   if the witness's own file is missing, FILE_UNREADABLE, CHECKPOINT_INVALID, ABORTED
 */
export async function verifyRun(
  target: string,
  options: RunVerifyOptions,
): Promise<RunVerification> {
  const { keyFile, headFiles, home = isoproHome(), ...rest } = options;
  const path = logFileOf(target);
  if (!existsSync(path)) throw new IsoproError('LOG_NOT_FOUND', `there is no log at ${path}`);
  const claim = claims(path, options.streams);
  const key = keyFile === undefined ? await ownKey(claim, home) : readTrustedKey(keyFile);
  const own = existsSync(publicKeyFile(home))
    ? formatTrustedKey(readTrustedKey(publicKeyFile(home)))
    : null;
  const ownedByThisUser = key.signer === 'single-process' || own === formatTrustedKey(key);
  const runId = options.runId ?? claim?.runId;
  const kept =
    ownedByThisUser && runId !== undefined
      ? key.signer === 'witness'
        ? keptHeads(home, runId)
        : readWitnessHeads(singleProcessFile(home), runId)
      : [];
  const verification = await verifyLogFile(path, {
    ...rest,
    key,
    heads: [...kept, ...(headFiles ?? []).map((file) => readText(file))],
  });
  // a single-process key is a secret, so only its id is named
  const text = formatTrustedKey(key);
  return {
    ...verification,
    path,
    key: {
      text: key.signer === 'witness' ? text : text.split('+').slice(0, 2).join('+'),
      ownedByThisUser,
    },
  };
}
