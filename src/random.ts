/**
 * The one generator: xoshiro256** (Blackman and Vigna 2018, https://prng.di.unimi.it) seeded
 * through splitmix64. `native/support/random.h` is its twin; `test/random.vectors.json` holds the
 * vectors that both must reproduce. Nothing in this project draws from a global generator or from
 * the clock.
 */
import { hash } from 'node:crypto';
import { canonicalJson } from './canonical-json.js';

const { isSafeInteger } = Number;
const MASK = (1n << 64n) - 1n;

/**
 * splitmix64 (Steele, Lea, Flood 2014): returns a function that yields successive 64-bit outputs.
 */
export function splitmix64(seed: bigint): () => bigint {
  let state = BigInt.asUintN(64, seed);
  return () => {
    state = (state + 0x9e3779b97f4a7c15n) & MASK;
    let z = state;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
    return z ^ (z >> 31n);
  };
}

/**
 * `x % range` of whole numbers from 0 to below 2^52: V8 calls the C library for it, which takes
 * several times as long. The quotient is too large by one at most, where it was rounded up.
 */
function remainder(x: number, range: number): number {
  const rest = x - Math.floor(x / range) * range;
  return rest < 0 ? rest + range : rest;
}

/**
 * xoshiro256**; 256 bits of state filled by splitmix64(seed). Same numbers on every platform. The
 * state is eight 32-bit halves because BigInt arithmetic costs 20 times as much and problem
 * generation draws hundreds of integers.
 */
export class Random {
  /** s0 high, s0 low, s1 high, … */
  readonly #s = new Int32Array(8);
  /** Halves of the latest output, as unsigned integers. */
  #high = 0;
  #low = 0;
  /** The last range below 2^21 that was drawn from, and what follows from it. */
  #range = 1;
  #power = 0;
  #threshold = 0;

  constructor(seed: bigint) {
    const next = splitmix64(seed);
    for (let word = 0; word < 4; word++) {
      const value = next();
      this.#s[2 * word] = Number(value >> 32n);
      this.#s[2 * word + 1] = Number(value & 0xffffffffn);
    }
  }

  #step(): void {
    const s = this.#s as unknown as [
      number,
      number,
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    const h1 = s[2],
      l1 = s[3];
    // rotl(s1 * 5, 7) * 9, with x * 5 = (x << 2) + x and x * 9 = (x << 3) + x
    let low = ((l1 << 2) >>> 0) + (l1 >>> 0);
    let high = (((h1 << 2) | (l1 >>> 30)) + h1 + (low > 0xffffffff ? 1 : 0)) | 0;
    low |= 0;
    const rotatedHigh = (high << 7) | (low >>> 25);
    const rotatedLow = (low << 7) | (high >>> 25);
    low = ((rotatedLow << 3) >>> 0) + (rotatedLow >>> 0);
    high =
      (((rotatedHigh << 3) | (rotatedLow >>> 29)) + rotatedHigh + (low > 0xffffffff ? 1 : 0)) | 0;
    this.#high = high >>> 0;
    this.#low = low >>> 0;

    const shiftedHigh = (h1 << 17) | (l1 >>> 15);
    const shiftedLow = l1 << 17;
    s[4] ^= s[0];
    s[5] ^= s[1];
    s[6] ^= h1;
    s[7] ^= l1;
    s[2] ^= s[4];
    s[3] ^= s[5];
    s[0] ^= s[6];
    s[1] ^= s[7];
    s[4] ^= shiftedHigh;
    s[5] ^= shiftedLow;
    const h3 = s[6],
      l3 = s[7]; // rotl by 45 = swap halves, then rotl by 13
    s[6] = (l3 << 13) | (h3 >>> 19);
    s[7] = (h3 << 13) | (l3 >>> 19);
  }

  /** Uniform over the 64-bit unsigned integers. */
  nextUint64(): bigint {
    this.#step();
    return (BigInt(this.#high) << 32n) | BigInt(this.#low);
  }

  /** Uniform in [0, 1): the top 53 bits over 2^53. */
  nextDouble(): number {
    this.#step();
    return (this.#high * 2 ** 21 + (this.#low >>> 11)) / 2 ** 53;
  }

  /**
   * Uniform integer in [low, high], both included, without modulo bias: draws below 2^64 mod range
   * are rejected.
   * @throws RangeError unless low and high are safe integers with low <= high
   */
  nextInteger(low: number, high: number): number {
    if (!isSafeInteger(low) || !isSafeInteger(high) || low > high) {
      throw new RangeError(
        `nextInteger needs safe integers with low <= high, got ${low} and ${high}`,
      );
    }
    const range = high - low + 1;
    if (range > 2 ** 21) return this.#nextWideInteger(low, high);
    if (range !== this.#range) {
      this.#range = range;
      this.#power = remainder(2 ** 32, range); // every product below stays under 2^53
      this.#threshold = remainder(this.#power * this.#power, range);
    }
    do this.#step();
    while (this.#high === 0 && this.#low < this.#threshold);
    return low + remainder(remainder(this.#high, range) * this.#power + this.#low, range);
  }

  #nextWideInteger(low: number, high: number): number {
    const range = BigInt(high) - BigInt(low) + 1n;
    const threshold = (1n << 64n) % range;
    let draw = this.nextUint64();
    while (draw < threshold) draw = this.nextUint64();
    return Number(BigInt(low) + (draw % range));
  }

  /** Fisher-Yates from the end; returns a new array. */
  shuffle<T>(items: readonly T[]): T[] {
    const result = [...items];
    for (let i = result.length - 1; i > 0; i--) {
      const j = this.nextInteger(0, i);
      [result[i], result[j]] = [result[j] as T, result[i] as T];
    }
    return result;
  }
}

/** Key of a draw; with the run's seed it determines the draw's own seed. */
export interface DrawKey {
  readonly runSeed: bigint;
  readonly purpose: string;
  readonly iteration: number;
  readonly problemId: string;
  readonly sample: number;
}

/**
 * Seed of a draw: the first 8 bytes, big-endian, of SHA-256 over the RFC 8785 JSON of
 * [runSeed, purpose, iteration, problemId, sample]. Seeds are decimal strings in JSON.
 */
export function deriveSeed(key: DrawKey): bigint {
  const text = canonicalJson([
    key.runSeed.toString(),
    key.purpose,
    key.iteration,
    key.problemId,
    key.sample,
  ]);
  return hash('sha256', text, 'buffer').readBigUInt64BE(0);
}

/** Returns the generator of one draw of a run, for the problem if there is one. */
export const seededRandom = (
  runSeed: bigint,
  purpose: string,
  iteration: number,
  problemId = '',
): Random => new Random(deriveSeed({ runSeed, purpose, iteration, problemId, sample: 0 }));
