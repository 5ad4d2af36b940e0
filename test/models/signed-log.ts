import { hash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { witnessInProcess } from '../../bench/log.js';
import { EventLog } from '../../src/log/event-log.js';
import type { LogSigner } from '../../src/log/signer.js';
import type { TrustedKey } from '../../src/log/trusted-key.js';
import { RUN_STREAMS, type NewRunRecord } from '../../src/run-folder/streams.js';

/** A finished log as tests want it: the file's bytes, its key, and what the witness keeps. */
export interface SignedLog {
  readonly path: string;
  readonly bytes: Buffer;
  readonly runId: string;
  readonly key: TrustedKey;
  readonly heads: readonly string[];
  readonly records: number;
}

/** RFC 6962's leaf of any data, SHA-256(0x00 ‖ data); the log's own are `LeafHasher`'s. */
export const leafDigest = (data: Buffer): string =>
  hash('sha256', Buffer.concat([Buffer.of(0), data]), 'hex');

export function temporaryFolder(): { readonly path: string; readonly remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'isopro-log-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** Record i of a plausible run; several streams, some text beyond ASCII. */
export function exampleRecord(i: number): NewRunRecord {
  switch (i % 4) {
    case 0:
      return {
        stream: 'metrics',
        payload: {
          kind: 'step',
          step: i,
          loss: 1 / (i + 1),
          gradNorm: i % 8 === 0 ? NaN : i * 0.1,
        },
      };
    case 1:
      return {
        stream: 'rollouts',
        payload: {
          kind: 'rollout',
          text: `answer ${i} → “A: 0–3” \ufffd`,
          verdict: i % 3 === 0 ? 'pass' : 'fail',
        },
      };
    case 2:
      return {
        stream: 'rule_evals',
        payload: { kind: 'rule_eval', iteration: i, evals: { R1: false, R7: i % 5 === 0 } },
      };
    default:
      return {
        stream: 'decisions',
        payload: { kind: 'decision', iteration: i, cites: ['R7'], seed: 2n ** 60n },
      };
  }
}

export interface WriteOptions {
  readonly folder: string;
  readonly name: string;
  readonly runId: string;
  /** In all, the first and the last two among them. */
  readonly records: number;
  readonly headEvery: number;
  readonly signer?: LogSigner;
  /** Another run with the same shape. */
  readonly variant?: number;
}

/** Writes a log with a head every `headEvery` records, and ends it. */
export async function writeLog(options: WriteOptions): Promise<SignedLog> {
  const { folder, name, runId, records, headEvery, variant = 0 } = options;
  const signer = options.signer ?? witnessInProcess(folder);
  const path = join(folder, name);
  const log = await EventLog.create({
    streams: RUN_STREAMS,
    path,
    runId,
    signer,
    runConfig: { seed: '42', variant },
    digests: { config: 'ab'.repeat(32) },
  });
  while (log.size < records - 2) {
    log.append([exampleRecord(log.size + variant)]);
    if (log.size % headEvery === 0) await log.checkpoint();
  }
  await log.reveal();
  await log.finish({ reason: 'done' });
  const db = new Database(path, { readonly: true });
  const bytes = db.serialize();
  db.close();
  const result = {
    path,
    bytes,
    runId,
    key: await signer.key(runId),
    heads: await signer.heads(runId),
    records,
  };
  if (options.signer === undefined) await signer.close();
  return result;
}
