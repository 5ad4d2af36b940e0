import { hash } from 'node:crypto';
import { canonicalJson, type Json } from '../canonical-json.js';

export const DIGEST_BYTES = 32;
export const RUN_ID_BYTES = 16;

const DOMAIN = Buffer.from('isopro.log.v1', 'latin1');
const RUN_ID_AT = 1 + DOMAIN.length;
const STREAM_AT = RUN_ID_AT + RUN_ID_BYTES;
const GSEQ_AT = STREAM_AT + 1;
const SSEQ_AT = GSEQ_AT + 8;
const TIME_AT = SSEQ_AT + 8;
const PREV_AT = TIME_AT + 8;
const LENGTH_AT = PREV_AT + DIGEST_BYTES;
const PAYLOAD_AT = LENGTH_AT + 4;

/** Positions of a record, all integers; `timeUs` is microseconds since 1970. */
export interface LeafPosition {
  readonly stream: number;
  readonly gseq: number;
  readonly sseq: number;
  readonly timeUs: number;
}

function writeUint64(buffer: Buffer, value: number, at: number): void {
  buffer.writeUInt32BE(Math.floor(value / 2 ** 32), at);
  buffer.writeUInt32BE(value % 2 ** 32, at + 4);
}

/**
 * Hashes the records of one run. A leaf is
 * SHA-256(0x00 ‖ "isopro.log.v1" ‖ runId[16] ‖ u8 stream ‖ u64 gseq ‖ u64 sseq ‖ u64 timeUs ‖
 * prev[32] ‖ u32 length ‖ payload), integers big-endian. All fields before the payload have a fixed
 * width, so no two records share their bytes; the leading 0x00 makes it the RFC 6962 leaf hash of
 * the rest. Digests are 64 hex digits: a string costs less than the Buffer object around 32 bytes.
 */
export class LeafHasher {
  #scratch: Buffer;

  constructor(runId: Buffer) {
    this.#scratch = Buffer.alloc(PAYLOAD_AT + 4096);
    DOMAIN.copy(this.#scratch, 1);
    runId.copy(this.#scratch, RUN_ID_AT);
  }

  #header(position: LeafPosition, prev: string, payloadBytes: number): Buffer {
    const size = PAYLOAD_AT + payloadBytes;
    if (size > this.#scratch.length) {
      const grown = Buffer.alloc(size * 2);
      this.#scratch.copy(grown, 0, 0, GSEQ_AT);
      this.#scratch = grown;
    }
    const scratch = this.#scratch;
    scratch[STREAM_AT] = position.stream;
    writeUint64(scratch, position.gseq, GSEQ_AT);
    writeUint64(scratch, position.sseq, SSEQ_AT);
    writeUint64(scratch, position.timeUs, TIME_AT);
    scratch.write(prev, PREV_AT, 'hex');
    scratch.writeUInt32BE(payloadBytes, LENGTH_AT);
    return scratch;
  }

  /** Returns the leaf hash of a payload's stored bytes. */
  ofBytes(position: LeafPosition, prev: string, payload: Buffer): string {
    const scratch = this.#header(position, prev, payload.length);
    payload.copy(scratch, PAYLOAD_AT);
    return hash('sha256', scratch.subarray(0, PAYLOAD_AT + payload.length), 'hex');
  }

  /** Returns the leaf hash of a payload's text. */
  ofText(position: LeafPosition, prev: string, payload: string): string {
    const bytes = Buffer.byteLength(payload);
    const scratch = this.#header(position, prev, bytes);
    scratch.write(payload, PAYLOAD_AT, 'utf8');
    return hash('sha256', scratch.subarray(0, PAYLOAD_AT + bytes), 'hex');
  }
}

/**
 * Digests that a run commits to before its first record: files in hex by name (config, playbook,
 * model, …).
 */
export type RunDigests = { readonly [name: string]: string };

/**
 * Returns `prev` of record 0: SHA-256("isopro.genesis.v1" ‖ runId[16] ‖ nonceCommitment[32] ‖
 * SHA-256(RFC 8785 of the digests)).
 */
export function genesis(runId: Buffer, nonceCommitment: Buffer, digests: RunDigests): string {
  const committed = hash('sha256', canonicalJson(digests as Json), 'buffer');
  return hash(
    'sha256',
    Buffer.concat([Buffer.from('isopro.genesis.v1', 'latin1'), runId, nonceCommitment, committed]),
    'hex',
  );
}
