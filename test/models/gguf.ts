/**
 * Writes GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Header and tensor table are plain data
 * until they are encoded, so that a test can change any one of them first.
 */
import { closeSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';

/** Ids of the value types that a metadata entry or the elements of its array can have. */
export const VALUE_TYPE = {
  uint8: 0, int8: 1, uint16: 2, int16: 3, uint32: 4, int32: 5, float32: 6, bool: 7, string: 8, array: 9, uint64: 10, int64: 11, float64: 12,
} as const;

export type ScalarType = Exclude<keyof typeof VALUE_TYPE, 'array'>;

export type MetadataValue =
  | { readonly type: ScalarType; readonly value: number | bigint | boolean | string | Uint8Array }
  | { readonly type: 'array'; readonly of: ScalarType; readonly value: readonly (number | bigint | boolean | string | Uint8Array)[] };

export interface MetadataEntry {
  readonly key: string;
  readonly value: MetadataValue;
}

/** One row of the tensor table. `dimensions[0]` is the length of a row; `offset` is relative to the data section. */
export interface TensorInfo {
  readonly name: string;
  readonly dimensions: readonly number[];
  /** ggml_type id */
  readonly typeId: number;
  readonly offset: number;
}

export const text = (value: string): MetadataValue => ({ type: 'string', value });
export const uint32 = (value: number): MetadataValue => ({ type: 'uint32', value });
export const float32 = (value: number): MetadataValue => ({ type: 'float32', value });
export const bool = (value: boolean): MetadataValue => ({ type: 'bool', value });
export const arrayOf = (of: ScalarType, value: readonly (number | string)[]): MetadataValue => ({ type: 'array', of, value });

export const DEFAULT_ALIGNMENT = 32;

export const alignUp = (size: number, alignment: number): number => Math.ceil(size / alignment) * alignment;

/** Grows as it is written to; everything little-endian. */
class ByteWriter {
  #bytes = Buffer.alloc(1 << 16);
  #length = 0;

  #reserve(count: number): number {
    const at = this.#length;
    if (at + count > this.#bytes.length) {
      const larger = Buffer.alloc(Math.max(this.#bytes.length * 2, at + count));
      this.#bytes.copy(larger, 0, 0, at);
      this.#bytes = larger;
    }
    this.#length += count;
    return at;
  }

  scalar(type: ScalarType, value: number | bigint | boolean | string | Uint8Array): void {
    switch (type) {
      case 'uint8': this.#bytes.writeUInt8(Number(value), this.#reserve(1)); break;
      case 'int8': this.#bytes.writeInt8(Number(value), this.#reserve(1)); break;
      case 'bool': this.#bytes.writeUInt8(Number(value), this.#reserve(1)); break;
      case 'uint16': this.#bytes.writeUInt16LE(Number(value), this.#reserve(2)); break;
      case 'int16': this.#bytes.writeInt16LE(Number(value), this.#reserve(2)); break;
      case 'uint32': this.#bytes.writeUInt32LE(Number(value), this.#reserve(4)); break;
      case 'int32': this.#bytes.writeInt32LE(Number(value), this.#reserve(4)); break;
      case 'float32': this.#bytes.writeFloatLE(Number(value), this.#reserve(4)); break;
      case 'uint64': this.#bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value as bigint)), this.#reserve(8)); break;
      case 'int64': this.#bytes.writeBigInt64LE(BigInt(value as bigint), this.#reserve(8)); break;
      case 'float64': this.#bytes.writeDoubleLE(Number(value), this.#reserve(8)); break;
      case 'string': this.string(value as string | Uint8Array); break;
    }
  }

  string(value: string | Uint8Array): void {
    const encoded = typeof value === 'string' ? Buffer.from(value, 'utf8') : Buffer.from(value);
    this.scalar('uint64', encoded.length);
    encoded.copy(this.#bytes, this.#reserve(encoded.length));
  }

  raw(value: Uint8Array): void {
    Buffer.from(value).copy(this.#bytes, this.#reserve(value.length));
  }

  get length(): number {
    return this.#length;
  }

  finish(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }
}

/** Magic, version, counts, metadata and tensor table, padded to the start of the data section. */
export function encodeHeader(
  metadata: readonly MetadataEntry[],
  tensors: readonly TensorInfo[],
  { version = 3, alignment = DEFAULT_ALIGNMENT }: { version?: number; alignment?: number } = {},
): Buffer {
  const out = new ByteWriter();
  out.raw(Buffer.from('GGUF', 'latin1'));
  out.scalar('uint32', version);
  out.scalar('uint64', tensors.length);
  out.scalar('uint64', metadata.length);
  for (const { key, value } of metadata) {
    out.string(key);
    out.scalar('uint32', VALUE_TYPE[value.type]);
    if (value.type === 'array') {
      out.scalar('uint32', VALUE_TYPE[value.of]);
      out.scalar('uint64', value.value.length);
      for (const element of value.value) out.scalar(value.of, element);
    } else {
      out.scalar(value.type, value.value);
    }
  }
  for (const { name, dimensions, typeId, offset } of tensors) {
    out.string(name);
    out.scalar('uint32', dimensions.length);
    for (const dimension of dimensions) out.scalar('uint64', dimension);
    out.scalar('uint32', typeId);
    out.scalar('uint64', offset);
  }
  out.raw(Buffer.alloc(alignUp(out.length, alignment) - out.length));
  return out.finish();
}

/** Gives tensors their offsets in order, each aligned. */
export function layOut(
  tensors: readonly { readonly name: string; readonly dimensions: readonly number[]; readonly typeId: number; readonly bytes: number }[],
  alignment = DEFAULT_ALIGNMENT,
): TensorInfo[] {
  let offset = 0;
  return tensors.map(({ name, dimensions, typeId, bytes }) => {
    const info = { name, dimensions, typeId, offset };
    offset = alignUp(offset + bytes, alignment);
    return info;
  });
}

/** Writes the chunks one after the other under a temporary name, then renames: never a half file under `path`. */
export function writeAtomically(path: string, chunks: Iterable<Uint8Array>): void {
  const temporary = `${path}.${process.pid}.partial`;
  const file = openSync(temporary, 'w');
  try {
    try {
      for (const chunk of chunks) {
        for (let at = 0; at < chunk.length; ) at += writeSync(file, chunk, at);
      }
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}
