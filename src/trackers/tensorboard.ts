/**
 * Event files of TensorBoard: records of TFRecord's framing, each an `Event`
 * (tensorflow/core/util/event.proto): wall_time 1, step 2, file_version 3, summary 5 of values 1
 * {tag 1, simple_value 2}.
 */
import { appendFileSync, mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { double, float, integer, message, text } from './protobuf.js';
import type { TrackedRun, Tracker } from './tracker.js';

/** CRC-32C (Castagnoli), reflected polynomial 0x82f63b78. */
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0x82f63b78 : rest >>> 1;
  return rest;
});

/** As TFRecord stores it: rotated and added to, so that a checksum of checksums differs from it. */
function maskedCrc(data: Uint8Array): Buffer {
  let rest = 0xffffffff;
  for (const byte of data) rest = (rest >>> 8) ^ TABLE[(rest ^ byte) & 0xff]!;
  const crc = ~rest >>> 0;
  const masked = Buffer.alloc(4);
  masked.writeUInt32LE((((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0);
  return masked;
}

/** Length, its checksum, data, their checksum. */
function record(data: Buffer): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(data.length));
  return Buffer.concat([length, maskedCrc(length), data, maskedCrc(data)]);
}

export function tensorboardTracker({ folder, name, resumed, now }: TrackedRun): Tracker {
  const logs = path.join(folder, name);
  if (!resumed) rmSync(logs, { recursive: true, force: true });
  mkdirSync(logs, { recursive: true });
  const wallTime = (): Buffer => double(1, now() / 1000);
  // TensorBoard takes the files of a folder in the order of their names
  const file = path.join(logs, `events.out.tfevents.${String(now()).padStart(16, '0')}.isopro`);
  appendFileSync(file, record(Buffer.concat([wallTime(), text(3, 'brain.Event:2')])));
  return {
    log(step, metrics) {
      const values = Object.entries(metrics).map(([tag, value]) =>
        message(1, text(1, tag), float(2, value)),
      );
      appendFileSync(
        file,
        record(Buffer.concat([wallTime(), integer(2, step), message(5, ...values)])),
      );
    },
    end: () => undefined,
  };
}
