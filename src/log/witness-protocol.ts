import { hash } from 'node:crypto';
import { lstatSync, mkdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { isRunId } from './checkpoint.js';
import { witnessFolder } from './home.js';

/**
 * Bytes of a request line. Each line is one JSON object in either direction; a proof needs up to 64
 * digests of 64 hex digits.
 */
export const MAX_LINE_BYTES = 64 * 1024;

const runId = z.string().refine(isRunId);
const size = z.number().int().min(1).max(Number.MAX_SAFE_INTEGER);
const digest = z.string().regex(/^[0-9a-f]{64}$/);

export const witnessRequest = z.discriminatedUnion('do', [
  z.strictObject({ id: z.number().int(), do: z.literal('identify'), challenge: digest }),
  z.strictObject({ id: z.number().int(), do: z.literal('ticket'), runId }),
  z.strictObject({
    id: z.number().int(),
    do: z.literal('sign'),
    runId,
    size,
    root: digest,
    proof: z.array(digest).max(128).readonly(),
    final: z.boolean(),
    state: digest.optional(),
  }),
  z.strictObject({ id: z.number().int(), do: z.literal('reveal'), runId, size }),
  z.strictObject({ id: z.number().int(), do: z.literal('draw'), runId, size }),
  z.strictObject({ id: z.number().int(), do: z.literal('heads'), runId }),
]);
export type WitnessRequest = z.infer<typeof witnessRequest>;

/** Answer to the request with the same id. */
export const witnessReply = z.union([
  z.object({ id: z.number(), result: z.union([z.string(), z.array(z.string())]) }),
  z.object({
    id: z.number().nullable(),
    error: z.object({ code: z.string(), message: z.string() }),
  }),
]);

/**
 * Text that the witness signs under its key name to prove to a run that it has the key of this
 * home: the run draws the challenge. Its first line differs from those of tickets, draws and heads.
 */
export const identityText = (challenge: string): string =>
  `isopro-native/witness-identity/v1\n${challenge}\n`;

/** A socket's path may have 104 bytes on macOS, with the zero at its end. */
const LONGEST_SOCKET = 100;

/**
 * Returns this user's folder in the temporary folder, where no one else may put a socket.
 * @throws IsoproError WITNESS_UNAVAILABLE if something else has its name
 */
function userFolder(): string {
  const uid = process.getuid?.() ?? 0;
  const folder = join(tmpdir(), `isopro-native-${uid}`);
  try {
    mkdirSync(folder, 0o700);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST')
      throw new IsoproError(
        'WITNESS_UNAVAILABLE',
        `cannot create the folder ${folder}: ${(cause as Error).message}`,
        { cause },
      );
  }
  const status = lstatSync(folder); // lstat of the link itself: it may lead into another user's folder
  if (!status.isDirectory() || status.uid !== uid || (status.mode & 0o077) !== 0)
    throw new IsoproError(
      'WITNESS_UNAVAILABLE',
      `${folder} is not a folder that only you can use, so the witness's socket cannot be put there`,
      {
        remedy:
          'Set ISOPRO_HOME to a shorter path, or TMPDIR to a folder of your own. Then run the same command again.',
      },
    );
  return folder;
}

/**
 * Returns the address of a home's witness: a socket in its folder or, if that path is too long for
 * a socket, in the user's folder of the temporary folder, which is created. On Windows, a pipe.
 * @throws IsoproError WITNESS_UNAVAILABLE
 */
export function witnessAddress(home: string): string {
  const name = hash('sha256', home).slice(0, 24);
  if (process.platform === 'win32') return `\\\\.\\pipe\\isopro-witness-${name}`;
  const path = join(witnessFolder(home), 'socket');
  return Buffer.byteLength(path) < LONGEST_SOCKET ? path : join(userFolder(), `witness-${name}`);
}

/**
 * Returns the file with the process id of the witness that holds the home's lock. It is for people
 * only: the number may already belong to another process.
 */
export const witnessProcessFile = (home: string): string => join(witnessFolder(home), 'process');

export function witnessProcess(home: string): number | null {
  try {
    const pid = Number(readFileSync(witnessProcessFile(home), 'utf8'));
    return Number.isSafeInteger(pid) && pid > 0 ? pid : null;
  } catch {
    return null;
  }
}
