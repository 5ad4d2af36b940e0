/**
 * The one generator: xoshiro256** (Blackman and Vigna 2018, https://prng.di.unimi.it) seeded through splitmix64.
 * `native/support/random.h` is its twin; `test/random.vectors.json` holds the vectors that both must reproduce.
 * Nothing in this project draws from a global generator or from the clock.
 */
import { createHash } from 'node:crypto';
import { canonicalJson } from './canonical-json.js';

const MASK = (1n << 64n) - 1n;
const rotateLeft = (x: bigint, k: bigint): bigint => ((x << k) | (x >> (64n - k))) & MASK;

/** splitmix64 (Steele, Lea, Flood 2014): returns a function that yields successive 64-bit outputs. */
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

/** xoshiro256**; 256 bits of state filled by splitmix64(seed). Same numbers on every platform. */
export class Random {
  #s0: bigint;
  #s1: bigint;
  #s2: bigint;
  #s3: bigint;

  constructor(seed: bigint) {
    const next = splitmix64(seed);
    this.#s0 = next();
    this.#s1 = next();
    this.#s2 = next();
    this.#s3 = next();
  }

  /** Uniform over the 64-bit unsigned integers. */
  nextUint64(): bigint {
    const result = (rotateLeft((this.#s1 * 5n) & MASK, 7n) * 9n) & MASK;
    const t = (this.#s1 << 17n) & MASK;
    this.#s2 ^= this.#s0;
    this.#s3 ^= this.#s1;
    this.#s1 ^= this.#s2;
    this.#s0 ^= this.#s3;
    this.#s2 ^= t;
    this.#s3 = rotateLeft(this.#s3, 45n);
    return result;
  }

  /** Uniform in [0, 1): the top 53 bits over 2^53. */
  nextDouble(): number {
    return Number(this.nextUint64() >> 11n) / 2 ** 53;
  }

  /**
   * Uniform integer in [low, high], both included, without modulo bias: draws below 2^64 mod range are rejected.
   * @throws RangeError unless low and high are safe integers with low <= high
   */
  nextInteger(low: number, high: number): number {
    if (!Number.isSafeInteger(low) || !Number.isSafeInteger(high) || low > high) {
      throw new RangeError(`nextInteger needs safe integers with low <= high, got ${low} and ${high}`);
    }
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

/** What a draw is for; with the run's seed it determines the draw's own seed. */
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
  const text = canonicalJson([key.runSeed.toString(), key.purpose, key.iteration, key.problemId, key.sample]);
  return createHash('sha256').update(text, 'utf8').digest().readBigUInt64BE(0);
}
