/**
 * Writes GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Header and tensor
 * table are plain data until they are encoded, so that a test can change any one of them first.
 */
/** Ids of the value types that a metadata entry or the elements of its array can have. */
export const VALUE_TYPE = {
  uint8: 0,
  int8: 1,
  uint16: 2,
  int16: 3,
  uint32: 4,
  int32: 5,
  float32: 6,
  bool: 7,
  string: 8,
  array: 9,
  uint64: 10,
  int64: 11,
  float64: 12,
} as const;

export type ScalarType = Exclude<keyof typeof VALUE_TYPE, 'array'>;

export type MetadataValue =
  | { readonly type: ScalarType; readonly value: Scalar | string | Uint8Array }
  | {
      readonly type: 'array';
      readonly of: ScalarType;
      readonly value: readonly (Scalar | string | Uint8Array)[];
    };

export interface MetadataEntry {
  readonly key: string;
  readonly value: MetadataValue;
}

/**
 * One row of the tensor table. `dimensions[0]` is the length of a row; `offset` is relative to the
 * data section.
 */
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
export const arrayOf = (of: ScalarType, value: readonly (number | string)[]): MetadataValue => ({
  type: 'array',
  of,
  value,
});

export const DEFAULT_ALIGNMENT = 32;

export const alignUp = (size: number, alignment: number): number =>
  Math.ceil(size / alignment) * alignment;

type Scalar = number | bigint | boolean;

const SCALARS: Readonly<
  Record<
    Exclude<ScalarType, 'string'>,
    { bytes: number; write: (out: Buffer, value: Scalar, at: number) => void }
  >
> = {
  uint8: { bytes: 1, write: (out, value, at) => out.writeUInt8(Number(value), at) },
  int8: { bytes: 1, write: (out, value, at) => out.writeInt8(Number(value), at) },
  bool: { bytes: 1, write: (out, value, at) => out.writeUInt8(Number(value), at) },
  uint16: { bytes: 2, write: (out, value, at) => out.writeUInt16LE(Number(value), at) },
  int16: { bytes: 2, write: (out, value, at) => out.writeInt16LE(Number(value), at) },
  uint32: { bytes: 4, write: (out, value, at) => out.writeUInt32LE(Number(value), at) },
  int32: { bytes: 4, write: (out, value, at) => out.writeInt32LE(Number(value), at) },
  float32: { bytes: 4, write: (out, value, at) => out.writeFloatLE(Number(value), at) },
  uint64: {
    bytes: 8,
    write: (out, value, at) => out.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)), at),
  },
  int64: { bytes: 8, write: (out, value, at) => out.writeBigInt64LE(BigInt(value), at) },
  float64: { bytes: 8, write: (out, value, at) => out.writeDoubleLE(Number(value), at) },
};

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

  scalar(type: ScalarType, value: Scalar | string | Uint8Array): void {
    if (type === 'string') {
      this.string(value as string | Uint8Array);
      return;
    }
    const { bytes, write } = SCALARS[type];
    const at = this.#reserve(bytes);
    write(this.#bytes, value as Scalar, at);
  }

  string(value: string | Uint8Array): void {
    const encoded = typeof value === 'string' ? Buffer.from(value, 'utf8') : value;
    this.scalar('uint64', encoded.length);
    this.raw(encoded);
  }

  raw(value: Uint8Array): void {
    const at = this.#reserve(value.length);
    this.#bytes.set(value, at);
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
  tensors: readonly {
    readonly name: string;
    readonly dimensions: readonly number[];
    readonly typeId: number;
    readonly bytes: number;
  }[],
  alignment = DEFAULT_ALIGNMENT,
): TensorInfo[] {
  let offset = 0;
  return tensors.map(({ name, dimensions, typeId, bytes }) => {
    const info = { name, dimensions, typeId, offset };
    offset = alignUp(offset + bytes, alignment);
    return info;
  });
}
