import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { isRunId } from './checkpoint.js';
import { witnessFolder } from './home.js';

/** One JSON object a line each way. A request line may have this many bytes; a proof needs 64 digests of 64 hex digits. */
export const MAX_LINE_BYTES = 64 * 1024;

const runId = z.string().refine(isRunId);
const size = z.number().int().min(1).max(Number.MAX_SAFE_INTEGER);
const digest = z.string().regex(/^[0-9a-f]{64}$/);

export const witnessRequest = z.discriminatedUnion('do', [
  z.strictObject({ id: z.number().int(), do: z.literal('key') }),
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
  z.object({ id: z.number().nullable(), error: z.object({ code: z.string(), message: z.string() }) }),
]);

/**
 * Address of a home's witness: a socket in its folder, or, where that path is longer than sockets may have (104 bytes on macOS), one in the
 * temporary folder.
 */
export function witnessAddress(home: string): string {
  const name = hash('sha256', home).slice(0, 24);
  if (process.platform === 'win32') return `\\\\.\\pipe\\isopro-witness-${name}`;
  const path = join(witnessFolder(home), 'socket');
  return Buffer.byteLength(path) < 100 ? path : join(tmpdir(), `isopro-witness-${name}`);
}

/** Where the witness that has the home's lock says which process it is. For people, never acted on: the number may be another's by now. */
export const witnessProcessFile = (home: string): string => join(witnessFolder(home), 'process');

export function witnessProcess(home: string): number | null {
  try {
    const pid = Number(readFileSync(witnessProcessFile(home), 'utf8'));
    return Number.isSafeInteger(pid) && pid > 0 ? pid : null;
  } catch {
    return null;
  }
}
