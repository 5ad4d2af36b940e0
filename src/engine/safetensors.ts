/**
 * Safetensors files: eight bytes of header length, a JSON header {name: {dtype, shape,
 * data_offsets}}, then the tensors without gaps, little-endian
 * (https://huggingface.co/docs/safetensors). Everything that a file says is checked before it is
 * used.
 */
import { open } from 'node:fs/promises';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { requireFile, unreadable } from '../files.js';

export interface Float32Tensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

const LONGEST_HEADER = 1 << 24;
const ELEMENT_BYTES = { F32: 4, F16: 2, BF16: 2 } as const;
const size = z.int().min(0);
const entry = z.strictObject({
  dtype: z.enum(['F32', 'F16', 'BF16']),
  shape: z.array(size).max(8),
  data_offsets: z.tuple([size, size]),
});

/** The file's bytes, a tensor at a time. Tensors are written in the order given. */
export function* encodeSafetensors(tensors: readonly Float32Tensor[]): Generator<Uint8Array> {
  let end = 0;
  const entries = tensors.map(({ name, shape, values }) => {
    const begin = end;
    end += values.byteLength;
    return [name, { dtype: 'F32', shape, data_offsets: [begin, end] }] as const;
  });
  const json = Buffer.from(
    JSON.stringify({ __metadata__: { format: 'pt' }, ...Object.fromEntries(entries) }),
  );
  const header = Buffer.alloc(8 + Math.ceil(json.length / 8) * 8, ' ');
  header.writeBigUInt64LE(BigInt(header.length - 8));
  json.copy(header, 8);
  yield header;
  for (const { values } of tensors)
    yield new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/**
 * Every tensor as f32.
 * @throws IsoproError MODEL_NOT_FOUND, FILE_UNREADABLE, SYSTEM_LIMIT; ADAPTER_CORRUPT where the
 * file is malformed or holds another type than F32, F16 and
 *   BF16; NUMERIC_FAILURE where a value is not finite
 */
export async function readSafetensors(path: string): Promise<Float32Tensor[]> {
  const corrupt = (what: string): IsoproError =>
    new IsoproError('ADAPTER_CORRUPT', `${path}: ${what}`);
  requireFile(path, 'MODEL_NOT_FOUND');
  await using file = await open(path).catch((cause: unknown) => {
    throw unreadable(path, cause);
  });
  const status = await file.stat();
  const read = async (at: number, length: number): Promise<Buffer> => {
    if (length > status.size - at) throw corrupt('the file ends too early');
    const bytes = Buffer.alloc(length);
    for (let done = 0; done < length; ) {
      const { bytesRead } = await file.read(bytes, done, length - done, at + done);
      if (bytesRead === 0) throw corrupt('the file ends too early');
      done += bytesRead;
    }
    return bytes;
  };
  const headerBytes = (await read(0, 8)).readBigUInt64LE();
  if (headerBytes > BigInt(LONGEST_HEADER))
    throw corrupt(`the header is too long (${headerBytes} bytes)`);
  const start = 8 + Number(headerBytes);
  const infos = parseHeader(await read(8, Number(headerBytes)), corrupt).sort(
    (a, b) => a.begin - b.begin || a.end - b.end,
  );
  let position = 0;
  for (const { name, begin, end, dtype, shape } of infos) {
    if (begin !== position)
      throw corrupt(`the bytes of ${JSON.stringify(name)} overlap others or leave a gap`);
    if (
      shape.reduce((product, dimension) => product * dimension, ELEMENT_BYTES[dtype]) !==
      end - begin
    )
      throw corrupt(`the size of ${JSON.stringify(name)} does not match its shape`);
    position = end;
  }
  if (start + position !== status.size) throw corrupt('the file size does not match its tensors');

  const tensors: Float32Tensor[] = [];
  for (const { name, begin, end, dtype, shape } of infos) {
    const values = toFloats(dtype, await read(start + begin, end - begin));
    // A value that is not finite makes the sum of magnitudes so; no sum of finite f32 overflows a
    // double.
    let sum = 0;
    for (const value of values) sum += value < 0 ? -value : value;
    if (!Number.isFinite(sum))
      throw new IsoproError(
        'NUMERIC_FAILURE',
        `${path}: ${JSON.stringify(name)} contains a value that is not finite`,
      );
    tensors.push({ name, shape, values });
  }
  return tensors;
}

function parseHeader(
  bytes: Buffer,
  corrupt: (what: string) => IsoproError,
): {
  name: string;
  dtype: keyof typeof ELEMENT_BYTES;
  shape: number[];
  begin: number;
  end: number;
}[] {
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw corrupt('the header is not JSON');
  }
  if (typeof header !== 'object' || header === null || Array.isArray(header))
    throw corrupt('the header is not a JSON object');
  return Object.entries(header)
    .filter(([name]) => name !== '__metadata__')
    .map(([name, value]) => {
      const parsed = entry.safeParse(value);
      if (!parsed.success)
        throw corrupt(
          `${JSON.stringify(name.slice(0, 80))} is not a tensor of type F32, F16 or BF16`,
        );
      const {
        dtype,
        shape,
        data_offsets: [begin, end],
      } = parsed.data;
      return { name, dtype, shape, begin, end };
    });
}

function toFloats(dtype: keyof typeof ELEMENT_BYTES, bytes: Buffer): Float32Array {
  if (dtype === 'F32') return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  const halves = new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2);
  const bits = new Uint32Array(halves.length);
  if (dtype === 'BF16') {
    for (let i = 0; i < halves.length; i++) bits[i] = halves[i]! << 16;
    return new Float32Array(bits.buffer);
  }
  const floats = new Float32Array(halves.length);
  for (let i = 0; i < halves.length; i++) {
    const exponent = (halves[i]! >> 10) & 31;
    const mantissa = halves[i]! & 1023;
    const magnitude =
      exponent === 31
        ? mantissa === 0
          ? Infinity
          : NaN
        : exponent === 0
          ? mantissa * 2 ** -24
          : (1024 + mantissa) * 2 ** (exponent - 25);
    floats[i] = halves[i]! & 0x8000 ? -magnitude : magnitude;
  }
  return floats;
}
