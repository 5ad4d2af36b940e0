/**
 * Reference encoders of the tensor types that the synthetic models use: the plain rounding rule of
 * each block format, without the error-minimising searches of a real quantiser. Block layouts:
 * ggml/src/ggml-common.h of llama.cpp.
 */

export type TensorType =
  | 'F32'
  | 'F16'
  | 'Q4_0'
  | 'Q4_1'
  | 'Q5_0'
  | 'Q8_0'
  | 'Q4_K'
  | 'Q5_K'
  | 'Q6_K'
  | 'IQ4_XS'
  | 'MXFP4';

interface BlockFormat {
  /** ggml_type */
  readonly id: number;
  /** elements of a block */
  readonly elements: number;
  readonly bytes: number;
  /** Encodes x[from .. from + elements) into bytes [at .. at + bytes). */
  readonly encode: (x: Float32Array, from: number, out: DataView, at: number) => void;
}

const single = new Float32Array(1);
const singleBits = new Uint32Array(single.buffer);

/** IEEE 754 binary16 of x, rounded to nearest, ties to even; overflow becomes infinity. */
export function toHalf(x: number): number {
  single[0] = x;
  const bits = singleBits[0]!;
  const sign = (bits >>> 16) & 0x8000;
  const exponent = (bits >>> 23) & 0xff;
  const mantissa = bits & 0x7fffff;
  if (exponent === 0xff) return sign | 0x7c00 | (mantissa === 0 ? 0 : 0x200);
  const shifted = exponent - 127 + 15;
  if (shifted >= 31) return sign | 0x7c00;
  if (shifted < -10) return sign;
  // Below the normal range the leading one becomes explicit and the mantissa loses more bits.
  const drop = shifted <= 0 ? 14 - shifted : 13;
  const significand = shifted <= 0 ? mantissa | 0x800000 : mantissa;
  const kept = significand >>> drop;
  const rest = significand & ((1 << drop) - 1);
  const half = 1 << (drop - 1);
  const rounded = kept + (rest > half || (rest === half && (kept & 1) === 1) ? 1 : 0);
  // a carry runs into the exponent, as it should
  return sign | ((shifted <= 0 ? 0 : shifted << 10) + rounded);
}

/** The value of a binary16. */
export function fromHalf(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >>> 10) & 0x1f;
  const mantissa = half & 0x3ff;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  if (exponent === 31) return mantissa === 0 ? sign * Infinity : NaN;
  return sign * (1 + mantissa / 1024) * 2 ** (exponent - 15);
}

const clamp = (x: number, low: number, high: number): number => Math.min(high, Math.max(low, x));

/** The element of largest magnitude, with its sign. */
function extreme(x: Float32Array, from: number, count: number): number {
  let result = 0;
  for (let i = 0; i < count; i++)
    if (Math.abs(x[from + i]!) > Math.abs(result)) result = x[from + i]!;
  return result;
}

/**
 * Stores the scale as a half and returns its inverse as the decoder will see it, 0 for a block of
 * zeros.
 */
function putScale(out: DataView, at: number, scale: number): number {
  const half = toHalf(scale);
  out.setUint16(at, half, true);
  const stored = fromHalf(half);
  return stored === 0 ? 0 : 1 / stored;
}

function encodeQ40(x: Float32Array, from: number, out: DataView, at: number): void {
  const inverse = putScale(out, at, extreme(x, from, 32) / -8);
  for (let i = 0; i < 16; i++) {
    const low = clamp(Math.round(x[from + i]! * inverse) + 8, 0, 15);
    const high = clamp(Math.round(x[from + 16 + i]! * inverse) + 8, 0, 15);
    out.setUint8(at + 2 + i, low | (high << 4));
  }
}

/** x = d * q + m, q in 0..15. */
function encodeQ41(x: Float32Array, from: number, out: DataView, at: number): void {
  const part = x.subarray(from, from + 32);
  const low = Math.min(...part);
  const inverse = putScale(out, at, (Math.max(...part) - low) / 15);
  putScale(out, at + 2, low);
  const code = (i: number): number => clamp(Math.round((part[i]! - low) * inverse), 0, 15);
  for (let i = 0; i < 16; i++) out.setUint8(at + 4 + i, code(i) | (code(i + 16) << 4));
}

function encodeQ50(x: Float32Array, from: number, out: DataView, at: number): void {
  const inverse = putScale(out, at, extreme(x, from, 32) / -16);
  let fifthBits = 0;
  for (let i = 0; i < 16; i++) {
    const low = clamp(Math.round(x[from + i]! * inverse) + 16, 0, 31);
    const high = clamp(Math.round(x[from + 16 + i]! * inverse) + 16, 0, 31);
    fifthBits |= ((low >> 4) << i) | ((high >> 4) << (i + 16));
    out.setUint8(at + 6 + i, (low & 15) | ((high & 15) << 4));
  }
  out.setUint32(at + 2, fifthBits >>> 0, true);
}

function encodeQ80(x: Float32Array, from: number, out: DataView, at: number): void {
  const inverse = putScale(out, at, Math.abs(extreme(x, from, 32)) / 127);
  for (let i = 0; i < 32; i++)
    out.setInt8(at + 2 + i, clamp(Math.round(x[from + i]! * inverse), -127, 127));
}

/**
 * x = d * scale[j] * q - dmin * min[j], q in 0..15 for Q4_K and in 0..31 for Q5_K, scale and min in
 * 0..63; 8 sub-blocks of 32.
 */
function encodeWithMinimums(
  most: 15 | 31,
  x: Float32Array,
  from: number,
  out: DataView,
  at: number,
): void {
  const scales: number[] = [];
  const mins: number[] = [];
  for (let j = 0; j < 8; j++) {
    const part = x.subarray(from + 32 * j, from + 32 * j + 32);
    const low = Math.min(0, ...part);
    scales.push((Math.max(0, ...part) - low) / most);
    mins.push(-low);
  }
  const inverseD = putScale(out, at, Math.max(...scales) / 63);
  const inverseMin = putScale(out, at + 2, Math.max(...mins) / 63);
  const scaleCodes = scales.map((scale) => clamp(Math.round(scale * inverseD), 0, 63));
  const minCodes = mins.map((min) => clamp(Math.round(min * inverseMin), 0, 63));
  // Twelve bytes: the low 6 bits of 0..3 of each kind; the low 4 bits of 4..7 share bytes 8..11,
  // their top 2 bits sit above the codes of 0..3.
  for (let j = 0; j < 4; j++) {
    out.setUint8(at + 4 + j, scaleCodes[j]! | ((scaleCodes[j + 4]! >> 4) << 6));
    out.setUint8(at + 8 + j, minCodes[j]! | ((minCodes[j + 4]! >> 4) << 6));
    out.setUint8(at + 12 + j, (scaleCodes[j + 4]! & 15) | ((minCodes[j + 4]! & 15) << 4));
  }
  const code = (i: number): number => {
    const j = i >> 5;
    const scale = inverseD === 0 ? 0 : scaleCodes[j]! / inverseD;
    const min = inverseMin === 0 ? 0 : minCodes[j]! / inverseMin;
    return scale === 0 ? 0 : clamp(Math.round((x[from + i]! + min) / scale), 0, most);
  };
  const fifths = at + 16;
  const halves = fifths + (most === 31 ? 32 : 0);
  for (let i = 0; i < 32 && most === 31; i++) {
    const bits = Array.from({ length: 8 }, (_, j) => (code(32 * j + i) >> 4) << j);
    out.setUint8(
      fifths + i,
      bits.reduce((all, bit) => all | bit),
    );
  }
  for (let pair = 0; pair < 4; pair++) {
    for (let i = 0; i < 32; i++) {
      const [low, high] = [code(64 * pair + i) & 15, code(64 * pair + 32 + i) & 15];
      out.setUint8(halves + 32 * pair + i, low | (high << 4));
    }
  }
}

/** x = d * scale[j] * (q - 32), q in 0..63, scale an int8; 16 sub-blocks of 16. */
function encodeQ6K(x: Float32Array, from: number, out: DataView, at: number): void {
  const scales = Array.from({ length: 16 }, (_, j) => extreme(x, from + 16 * j, 16) / -32);
  const largest = scales.reduce(
    (best, scale) => (Math.abs(scale) > Math.abs(best) ? scale : best),
    0,
  );
  const inverseD = putScale(out, at + 208, largest / -128);
  const scaleCodes = scales.map((scale) => clamp(Math.round(scale * inverseD), -128, 127));
  scaleCodes.forEach((code, j) => {
    out.setInt8(at + 192 + j, code);
  });
  const code = (i: number): number => {
    const scale = inverseD === 0 ? 0 : scaleCodes[i >> 4]! / inverseD;
    return scale === 0 ? 32 : clamp(Math.round(x[from + i]! / scale), -32, 31) + 32;
  };
  for (let half = 0; half < 2; half++) {
    for (let i = 0; i < 32; i++) {
      const [a, b, c, d] = [0, 32, 64, 96].map((step) => code(128 * half + step + i)) as [
        number,
        number,
        number,
        number,
      ];
      out.setUint8(at + 64 * half + i, (a & 15) | ((c & 15) << 4));
      out.setUint8(at + 64 * half + 32 + i, (b & 15) | ((d & 15) << 4));
      out.setUint8(
        at + 128 + 32 * half + i,
        (a >> 4) | ((b >> 4) << 2) | ((c >> 4) << 4) | ((d >> 4) << 6),
      );
    }
  }
}

/** Of IQ4_XS, kvalues_iq4nl in ggml-common.h. */
const IQ4_VALUES = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/** Doubles of the values of e2m1. */
const MXFP4_VALUES = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

const nearest = (values: readonly number[], x: number): number =>
  values.reduce(
    (best, value, i) => (Math.abs(value - x) < Math.abs(values[best]! - x) ? i : best),
    0,
  );

/** The places in `values` of 32 elements divided by `scale`, two a byte. */
function putPlaces(
  values: readonly number[],
  x: Float32Array,
  from: number,
  scale: number,
  out: DataView,
  at: number,
): void {
  const place = (i: number): number => nearest(values, scale === 0 ? 0 : x[from + i]! / scale);
  for (let i = 0; i < 16; i++) out.setUint8(at + i, place(i) | (place(i + 16) << 4));
}

/** x = d * scale[j] * value[q], scale in -32..31; 8 sub-blocks of 32. */
function encodeIQ4XS(x: Float32Array, from: number, out: DataView, at: number): void {
  const scales = Array.from({ length: 8 }, (_, j) => extreme(x, from + 32 * j, 32) / -127);
  const largest = scales.reduce(
    (best, scale) => (Math.abs(scale) > Math.abs(best) ? scale : best),
    0,
  );
  const inverse = putScale(out, at, largest / -32);
  const codes = scales.map((scale) => clamp(Math.round(scale * inverse), -32, 31));
  const stored = codes.map((code) => code + 32);
  out.setUint16(
    at + 2,
    stored.reduce((bits, code, j) => bits | ((code >> 4) << (2 * j)), 0),
    true,
  );
  for (let j = 0; j < 8; j += 2)
    out.setUint8(at + 4 + j / 2, (stored[j]! & 15) | ((stored[j + 1]! & 15) << 4));
  codes.forEach((code, j) => {
    const scale = inverse === 0 ? 0 : code / inverse;
    putPlaces(IQ4_VALUES, x, from + 32 * j, scale, out, at + 8 + 16 * j);
  });
}

/** x = 2 ** (e - 128) * value[q]. */
function encodeMXFP4(x: Float32Array, from: number, out: DataView, at: number): void {
  const most = Math.abs(extreme(x, from, 32));
  const exponent = most === 0 ? 0 : clamp(Math.floor(Math.log2(most)) - 2 + 127, 0, 254);
  out.setUint8(at, exponent);
  putPlaces(MXFP4_VALUES, x, from, 2 ** (exponent - 128), out, at + 1);
}

export const BLOCK_FORMATS: Readonly<Record<TensorType, BlockFormat>> = {
  F32: {
    id: 0,
    elements: 1,
    bytes: 4,
    encode: (x, from, out, at) => out.setFloat32(at, x[from]!, true),
  },
  F16: {
    id: 1,
    elements: 1,
    bytes: 2,
    encode: (x, from, out, at) => out.setUint16(at, toHalf(x[from]!), true),
  },
  Q4_0: { id: 2, elements: 32, bytes: 18, encode: encodeQ40 },
  Q4_1: { id: 3, elements: 32, bytes: 20, encode: encodeQ41 },
  Q5_0: { id: 6, elements: 32, bytes: 22, encode: encodeQ50 },
  Q8_0: { id: 8, elements: 32, bytes: 34, encode: encodeQ80 },
  Q4_K: {
    id: 12,
    elements: 256,
    bytes: 144,
    encode: (x, from, out, at) => encodeWithMinimums(15, x, from, out, at),
  },
  Q5_K: {
    id: 13,
    elements: 256,
    bytes: 176,
    encode: (x, from, out, at) => encodeWithMinimums(31, x, from, out, at),
  },
  Q6_K: { id: 14, elements: 256, bytes: 210, encode: encodeQ6K },
  IQ4_XS: { id: 23, elements: 256, bytes: 136, encode: encodeIQ4XS },
  MXFP4: { id: 39, elements: 32, bytes: 17, encode: encodeMXFP4 },
};

/** Bytes of a tensor; the row length must be a multiple of the type's block. */
export function tensorBytes(type: TensorType, dimensions: readonly number[]): number {
  const { elements, bytes } = BLOCK_FORMATS[type];
  if (dimensions[0]! % elements !== 0)
    throw new RangeError(
      `rows of ${dimensions[0]} elements cannot be stored as ${type} (blocks of ${elements})`,
    );
  return (dimensions.reduce((product, dimension) => product * dimension, 1) / elements) * bytes;
}

/** Encodes x, rows of any multiple of the block length one after the other. */
export function quantise(type: TensorType, x: Float32Array): Uint8Array {
  const { elements, bytes, encode } = BLOCK_FORMATS[type];
  const result = new Uint8Array((x.length / elements) * bytes);
  const view = new DataView(result.buffer);
  for (let block = 0; block * elements < x.length; block++)
    encode(x, block * elements, view, block * bytes);
  return result;
}
