/**
 * An offline run of Weights & Biases, for `wandb sync`: a log of LevelDB's framing (blocks of 32
 * kB; checksum, length, kind, data), each record a `Record` of wandb's own protocol buffers
 * (wandb_internal.proto): num 1, history 2, run 17, exit 18, header 21.
 */
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { integer, message, text } from './protobuf.js';
import type { Metrics, TrackedRun, Tracker } from './tracker.js';

// ":W&B", 0xbee1, version 0
const FILE_HEADER = Buffer.from([0x3a, 0x57, 0x26, 0x42, 0xe1, 0xbe, 0x00]);
const BLOCK = 32_768;
const PIECE_HEADER = 7;
const [FULL, FIRST, MIDDLE, LAST] = [1, 2, 3, 4] as const;

/** The pieces of a record from a place in the file on. */
function framed(data: Uint8Array, at: number): Buffer {
  const pieces: Uint8Array[] = [];
  let [place, from] = [at, 0];
  do {
    const left = BLOCK - (place % BLOCK);
    if (left < PIECE_HEADER) {
      pieces.push(Buffer.alloc(left));
      place += left;
      continue;
    }
    const piece = data.subarray(from, from + left - PIECE_HEADER);
    const [first, last] = [from === 0, from + piece.length === data.length];
    const kind = first ? (last ? FULL : FIRST) : last ? LAST : MIDDLE;
    const header = Buffer.alloc(PIECE_HEADER);
    header.writeUInt32LE(crc32(piece, crc32(Uint8Array.of(kind))));
    header.writeUInt16LE(piece.length, 4);
    header.writeUInt8(kind, 6);
    pieces.push(header, piece);
    place += PIECE_HEADER + piece.length;
    from += piece.length;
  } while (from < data.length);
  return Buffer.concat(pieces);
}

export function wandbTracker({ folder, project, name, id, config, now }: TrackedRun): Tracker {
  const began = now();
  const stamp = new Date(began).toISOString().replace(/[-:]/g, '').replace('T', '_').slice(0, 15);
  const run = path.join(folder, `offline-run-${stamp}-${id}`);
  mkdirSync(path.join(run, 'files'), { recursive: true });
  const file = path.join(run, `run-${id}.wandb`);
  writeFileSync(file, FILE_HEADER);
  let [size, number] = [FILE_HEADER.length, 0];
  const write = (...parts: readonly Buffer[]): void => {
    const bytes = framed(Buffer.concat([integer(1, ++number), ...parts]), size);
    appendFileSync(file, bytes);
    size += bytes.length;
  };
  const valued = (field: number, key: string, value: unknown): Buffer =>
    message(1, text(field, key), text(16, JSON.stringify(value)));
  const seconds = (): number => (now() - began) / 1000;

  write(message(21, message(1, text(1, 'isopro-native'), text(2, '0.70.0'))));
  const settings = Object.entries(config).map(([key, value]) => valued(1, key, value));
  const start = [integer(1, Math.floor(began / 1000)), integer(2, (began % 1000) * 1_000_000)];
  write(
    message(
      17,
      text(1, id),
      text(3, project),
      message(4, ...settings),
      text(8, name),
      message(17, ...start),
    ),
  );
  return {
    log(step, metrics) {
      const all: Metrics = {
        ...metrics,
        _timestamp: now() / 1000,
        _runtime: seconds(),
        _step: step,
      };
      // names whole, in the member for nested ones: "train/loss" is one key
      write(
        message(
          2,
          ...Object.entries(all).map(([key, value]) => valued(2, key, value)),
          message(2, integer(1, step)),
        ),
      );
    },
    end: (status) =>
      write(
        message(18, integer(1, status === 'finished' ? 0 : 1), integer(2, Math.round(seconds()))),
      ),
  };
}
