/**
 * Generators that a scenario may name. Ours is xoshiro256** of `random.ts`; the others are there so
 * that scores that were published with them come out again.
 */
import { Random } from '../../random.js';

export interface Generator {
  /** In [0, 1). */
  next(): number;
  /** Uniform over the integers from low to high, both included; fewer than 2^31 of them. */
  integer(low: number, high: number): number;
}

export const GENERATOR_NAMES = ['xoshiro256**', 'mt19937', 'mulberry32'] as const;
export type GeneratorName = (typeof GENERATOR_NAMES)[number];

const N = 624;
const M = 397;

/**
 * MT19937 (Matsumoto and Nishimura 1998, with the seeding `init_by_array` of 2002), doubles of 53
 * bits, integers by rejection of high bits: what CPython's `random.Random(seed)` draws.
 */
class MersenneTwister implements Generator {
  readonly #state = new Uint32Array(N);
  #at = N;

  /** @param seed a safe integer from 0 on */
  constructor(seed: number) {
    const key = seed < 2 ** 32 ? [seed] : [seed % 2 ** 32, Math.floor(seed / 2 ** 32)];
    const state = this.#state;
    const mixed = (i: number): number => state[i - 1]! ^ (state[i - 1]! >>> 30);
    state[0] = 19650218;
    for (let i = 1; i < N; i++) state[i] = Math.imul(1812433253, mixed(i)) + i;
    let i = 1;
    const step = (): void => {
      if (++i < N) return;
      state[0] = state[N - 1]!;
      i = 1;
    };
    for (let k = 0, j = 0; k < N; k++, j = (j + 1) % key.length) {
      state[i] = (state[i]! ^ Math.imul(mixed(i), 1664525)) + key[j]! + j;
      step();
    }
    for (let k = 1; k < N; k++) {
      state[i] = (state[i]! ^ Math.imul(mixed(i), 1566083941)) - i;
      step();
    }
    state[0] = 0x80000000;
  }

  #word(): number {
    const state = this.#state;
    if (this.#at === N) {
      for (let i = 0; i < N; i++) {
        const y = (state[i]! & 0x80000000) | (state[(i + 1) % N]! & 0x7fffffff);
        state[i] = state[(i + M) % N]! ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
      }
      this.#at = 0;
    }
    let y = state[this.#at++]!;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  next(): number {
    const high = this.#word() >>> 5;
    return (high * 2 ** 26 + (this.#word() >>> 6)) / 2 ** 53;
  }

  integer(low: number, high: number): number {
    const range = high - low + 1;
    const bits = 32 - Math.clz32(range);
    let drawn = this.#word() >>> (32 - bits);
    while (drawn >= range) drawn = this.#word() >>> (32 - bits);
    return low + drawn;
  }
}

/** mulberry32 (T. Ettinger 2017): 32 bits of state, the seed modulo 2^32. */
export function mulberry32(seed: number): () => number {
  let state = (seed % 2 ** 32) | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** @param seed a safe integer from 0 on */
export function openGenerator(name: GeneratorName, seed: number): Generator {
  if (name === 'mt19937') return new MersenneTwister(seed);
  if (name === 'mulberry32') {
    const next = mulberry32(seed);
    return { next, integer: (low, high) => low + Math.floor(next() * (high - low + 1)) };
  }
  const random = new Random(BigInt(seed));
  return { next: () => random.nextDouble(), integer: (low, high) => random.nextInteger(low, high) };
}

/**
 * To so many decimals; what lies exactly between two goes to the even one, as in IEEE 754 and in
 * Python.
 */
export function roundTo(value: number, decimals: number): number {
  const rounded = Number(value.toFixed(decimals));
  if (!/^50*$/.test(value.toFixed(decimals + 30).slice(-30))) return rounded;
  const unit = 10 ** -decimals;
  return Math.round(rounded / unit) % 2 === 0
    ? rounded
    : Number((rounded - Math.sign(value) * unit).toFixed(decimals));
}
