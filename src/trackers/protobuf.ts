/**
 * The few forms of protocol buffers that event files are written in (protobuf.dev, Encoding): tag,
 * then varint, bits or bytes.
 */

const VARINT = 0;
const BITS_64 = 1;
const BYTES = 2;
const BITS_32 = 5;

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(rest)]);
}

const tag = (field: number, kind: number): Buffer => varint(BigInt(field * 8 + kind));

/** A whole number of 0 or more. */
export const integer = (field: number, value: number): Buffer =>
  Buffer.concat([tag(field, VARINT), varint(BigInt(value))]);

export function double(field: number, value: number): Buffer {
  const bits = Buffer.alloc(8);
  bits.writeDoubleLE(value);
  return Buffer.concat([tag(field, BITS_64), bits]);
}

export function float(field: number, value: number): Buffer {
  const bits = Buffer.alloc(4);
  bits.writeFloatLE(value);
  return Buffer.concat([tag(field, BITS_32), bits]);
}

export function text(field: number, value: string): Buffer {
  return message(field, Buffer.from(value));
}

export function message(field: number, ...parts: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([tag(field, BYTES), varint(BigInt(body.length)), body]);
}
