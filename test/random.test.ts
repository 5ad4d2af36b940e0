import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { deriveSeed, Random, splitmix64 } from '../src/random.js';

const vectors = JSON.parse(
  readFileSync(new URL('./random.vectors.json', import.meta.url), 'utf8'),
) as {
  splitmix64: { seed: string; outputs: string[] }[];
  xoshiro256starstar: { seed: string; outputs: string[]; doubles: number[] }[];
};

describe('the generator', () => {
  test('splitmix64 gives its published outputs', () => {
    const next = splitmix64(1234567n);
    expect([next(), next(), next()]).toEqual([
      6457827717110365317n,
      3203168211198807973n,
      9817491932198370423n,
    ]);
  });

  test.each(vectors.splitmix64)(
    'splitmix64 seed $seed reproduces the shared vectors',
    ({ seed, outputs }) => {
      const next = splitmix64(BigInt(seed));
      expect(outputs.map(() => next().toString())).toEqual(outputs);
    },
  );

  test.each(vectors.xoshiro256starstar)(
    'xoshiro256** seed $seed reproduces the shared vectors',
    ({ seed, outputs, doubles }) => {
      const integers = new Random(BigInt(seed));
      expect(outputs.map(() => integers.nextUint64().toString())).toEqual(outputs);
      const reals = new Random(BigInt(seed));
      expect(doubles.map(() => reals.nextDouble())).toEqual(doubles);
    },
  );

  test('integers are uniform over ranges that do not divide 2^64', () => {
    const random = new Random(7n);
    const counts = new Array<number>(6).fill(0);
    for (let i = 0; i < 60_000; i++) counts[random.nextInteger(1, 6) - 1]!++;
    const chiSquare = counts.reduce((sum, count) => sum + (count - 10_000) ** 2 / 10_000, 0);
    expect(chiSquare).toBeLessThan(20.5); // 99.9 % quantile of chi-square with 5 degrees of freedom
  });

  test('integers are the remainders of whole 64-bit draws, whatever the range', () => {
    const [random, draws, ranges] = [new Random(8n), new Random(8n), new Random(9n)];
    for (let i = 0; i < 20_000; i++) {
      const range = ranges.nextInteger(1, 2 ** ranges.nextInteger(0, 22));
      const rejected = 2n ** 64n % BigInt(range);
      let draw = draws.nextUint64();
      while (draw < rejected) draw = draws.nextUint64();
      expect(random.nextInteger(0, range - 1)).toBe(Number(draw % BigInt(range)));
    }
  });

  test('integers reach both ends and refuse bad ranges', () => {
    const random = new Random(1n);
    expect(new Set(Array.from({ length: 200 }, () => random.nextInteger(-1, 1)))).toEqual(
      new Set([-1, 0, 1]),
    );
    expect(() => random.nextInteger(2, 1)).toThrow(RangeError);
    expect(() => random.nextInteger(0, 0.5)).toThrow(RangeError);
    expect(
      Number.isSafeInteger(random.nextInteger(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)),
    ).toBe(true);
  });

  test('shuffle permutes without touching its argument', () => {
    const items = [1, 2, 3, 4, 5, 6, 7, 8];
    const shuffled = new Random(3n).shuffle(items);
    expect(items).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect([...shuffled].sort()).toEqual(items);
    expect(new Random(3n).shuffle(items)).toEqual(shuffled);
  });

  test('the seed of a draw is the first 8 bytes of SHA-256 over the canonical JSON of its key', () => {
    const key = { runSeed: 42n, purpose: 'rollout', iteration: 0, problemId: 'p', sample: 1 };
    expect(deriveSeed(key)).toBe(12726306314288573032n);
    expect(deriveSeed({ ...key, sample: 2 })).not.toBe(deriveSeed(key));
  });
});
