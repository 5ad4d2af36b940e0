/**
 * The e-processes against exact fractions, against every sequence there is, and against Ville's
 * inequality.
 */
import { describe, expect, test } from '@jest/globals';
import {
  BettingProcess,
  fixedBet,
  logDiscordant,
  RestartingProcess,
  uniformBets,
} from '../../src/gate/e-process.js';
import { Random } from '../../src/random.js';
import { discordant, toNumber, uniformMixture } from '../models/fractions.js';

const near = (actual: number, expected: number, relative: number): void =>
  expect(Math.abs(actual - expected)).toBeLessThanOrEqual(
    relative * Math.max(1, Math.abs(expected)),
  );
const logOf = (
  differences: readonly number[],
  process: BettingProcess | RestartingProcess = new BettingProcess(),
): number => {
  for (const difference of differences) process.add(difference);
  return process.logE();
};

describe('the mixture on discordant pairs', () => {
  test.each([
    [7, 0, 31.9],
    [18, 5, 20.7],
    [20, 5, 48.5],
    [6, 0, 18.1],
    [15, 5, 6.4],
    [8, 0, 56.8],
  ])('%i-%i is %f', (wins, losses, e) => {
    expect(Number(Math.exp(logDiscordant(wins, losses)).toFixed(1))).toBe(e);
  });

  test('is the integral, as exact fractions have it, for all numbers up to 30', () => {
    for (let wins = 0; wins <= 30; wins++)
      for (let losses = 0; losses <= 30; losses++)
        near(Math.exp(logDiscordant(wins, losses)), toNumber(discordant(wins, losses)), 1e-13);
  });

  test('grows with every win and falls with every loss', () => {
    for (let wins = 0; wins <= 60; wins++)
      for (let losses = 0; losses <= 60; losses++) {
        const log = logDiscordant(wins, losses);
        if (logDiscordant(wins + 1, losses) > log && logDiscordant(wins, losses + 1) < log)
          continue;
        throw new Error(`${wins}-${losses} is out of order`);
      }
  });

  test('100,000 pairs neither overflow nor lose digits', () => {
    // without a loss (2^(b+1) - 1) / (b+1); without a win 1 / (c+1); and in the middle Simpson's
    // rule around the peak
    near(logDiscordant(100_000, 0), 100_001 * Math.LN2 - Math.log(100_001), 1e-14);
    near(logDiscordant(0, 100_000), -Math.log(100_001), 1e-14);
    for (const [wins, losses] of [
      [52_000, 48_000],
      [60_000, 40_000],
      [99_000, 1_000],
    ] as const) {
      const peak = wins / (wins + losses);
      const width = 15 * Math.sqrt((peak * (1 - peak)) / (wins + losses));
      const [from, to] = [Math.max(0.5, peak - width), Math.min(1, peak + width)];
      const log = (p: number): number => wins * Math.log(p) + losses * Math.log1p(-p);
      const steps = 4_000;
      let sum = 0;
      for (let i = 0; i <= steps; i++)
        sum +=
          (i === 0 || i === steps ? 1 : i % 2 === 1 ? 4 : 2) *
          Math.exp(log(from + ((to - from) * i) / steps) - log(peak));
      near(
        logDiscordant(wins, losses),
        (wins + losses + 1) * Math.LN2 + log(peak) + Math.log((sum * (to - from)) / steps / 3),
        1e-10,
      );
    }
  });

  test('over all sequences of fair coins: its mean stays 1, and it reaches 1/alpha with a chance of at most alpha', () => {
    const flips = 60;
    for (const alpha of [0.5, 0.2, 0.05, 0.03]) {
      // chances of each number of wins among sequences that have not crossed
      let open = [1];
      let crossed = 0;
      for (let n = 1; n <= flips; n++) {
        const next = new Array<number>(n + 1).fill(0);
        open.forEach((chance, wins) => {
          next[wins]! += chance / 2;
          next[wins + 1]! += chance / 2;
        });
        const values = next.map((_, wins) => logDiscordant(wins, n - wins));
        values.forEach((log, wins) => {
          if (log < -Math.log(alpha)) return;
          crossed += next[wins]!;
          next[wins] = 0;
        });
        open = next;
      }
      expect(crossed).toBeLessThanOrEqual(alpha);
      expect(crossed).toBeGreaterThan(alpha / 4); // and it does spend it
    }
    for (let n = 1; n <= 30; n++) {
      let [mean, ways] = [0, 1];
      for (let wins = 0; wins <= n; wins++) {
        mean += (ways * Math.exp(logDiscordant(wins, n - wins))) / 2 ** n;
        ways = (ways * (n - wins)) / (wins + 1);
      }
      near(mean, 1, 1e-12);
    }
  });

  test.each([
    [-1, 0],
    [0.5, 1],
    [1, NaN],
    [Infinity, 0],
  ])('refuses %f wins and %f losses', (wins, losses) => {
    expect(() => logDiscordant(wins, losses)).toThrow(RangeError);
  });
});

describe('the bounded betting process', () => {
  test('its parts add up to 1 and lie within (0, 1)', () => {
    near(
      uniformBets().weights.reduce((sum, weight) => sum + weight, 0),
      1,
      1e-14,
    );
    for (const each of uniformBets().fractions) expect(each > 0 && each < 1).toBe(true);
    for (const each of uniformBets().weights) expect(each).toBeGreaterThan(0);
  });

  test('on -1, 0 and 1 it is the mixture on discordant pairs, up to 255 of them', () => {
    const random = new Random(3n);
    for (let trial = 0; trial < 40; trial++) {
      const differences = Array.from({ length: random.nextInteger(0, 400) }, () =>
        random.nextInteger(-1, 1),
      );
      const count = (value: number): number =>
        differences.filter((difference) => difference === value).length;
      if (count(1) + count(-1) > 255) continue;
      near(logOf(differences), logDiscordant(count(1), count(-1)), 1e-11);
    }
  });

  test('on tenths it is the integral, as exact fractions have it, in any order', () => {
    const random = new Random(4n);
    for (let trial = 0; trial < 20; trial++) {
      const tenths = Array.from({ length: random.nextInteger(1, 60) }, () =>
        random.nextInteger(-10, 10),
      );
      const log = logOf(tenths.map((each) => each / 10));
      near(log, Math.log(toNumber(uniformMixture(tenths))), 1e-11);
      near(logOf(random.shuffle(tenths).map((each) => each / 10)), log, 1e-11);
    }
  });

  test('one fraction of the wealth: 1.6^14 × 0.4^2, 1.5^12 × 0.5, and all in loses all', () => {
    const won = (wins: number, losses: number): number[] => [
      ...new Array<number>(wins).fill(1),
      ...new Array<number>(losses).fill(-1),
    ];
    expect(Math.exp(logOf(won(14, 2), new BettingProcess(fixedBet(0.6))))).toBeCloseTo(115.292, 3);
    expect(Math.exp(logOf(won(12, 1), new BettingProcess(fixedBet(0.5))))).toBeCloseTo(64.873, 3);
    expect(logOf(won(14, 1), new BettingProcess(fixedBet(1)))).toBe(-Infinity);
    expect(logOf(won(14, 0), new BettingProcess(fixedBet(1)))).toBeCloseTo(14 * Math.LN2, 12);
  });

  test('a larger difference is never worth less, and 100,000 of the largest neither overflow nor vanish', () => {
    const random = new Random(5n);
    const differences = Array.from({ length: 50 }, () => 2 * random.nextDouble() - 1);
    const log = logOf(differences);
    for (let i = 0; i < differences.length; i++)
      expect(logOf(differences.with(i, Math.min(1, differences[i]! + 0.1)))).toBeGreaterThanOrEqual(
        log,
      );
    const many = new Array<number>(100_000).fill(1);
    // all wealth stays with the largest fraction of the 128, a little below 1
    const rate = logOf(many) / 100_000;
    expect(rate).toBeGreaterThan(0.9998 * Math.LN2);
    expect(rate).toBeLessThanOrEqual(Math.LN2);
    expect(Number.isFinite(logOf(many.map(() => -1)))).toBe(true);
  });

  test.each([1.0000001, -1.1, NaN, Infinity])('refuses the difference %f', (difference) => {
    expect(() => new BettingProcess().add(difference)).toThrow(RangeError);
    expect(() => new RestartingProcess().add(difference)).toThrow(RangeError);
  });

  test('Ville: rare extremes, means of 0 that follow what came before; few paths ever reach 20', () => {
    let crossed = 0;
    const paths = 300;
    for (let path = 0; path < paths; path++) {
      const random = new Random(BigInt(path));
      const process = new BettingProcess();
      let [last, reached] = [0, false];
      for (let i = 0; i < 100 && !reached; i++) {
        const gain = last > 0 ? 0.02 : 0.3; // bolder after a loss
        last = random.nextDouble() < gain / (1 + gain) ? -1 : gain;
        process.add(last);
        reached = process.logE() >= Math.log(20);
      }
      if (reached) crossed++;
    }
    expect(crossed / paths).toBeLessThanOrEqual(0.05 + 3 * Math.sqrt((0.05 * 0.95) / paths));
  });
});

describe('the process that waits for a change', () => {
  const E = (differences: readonly number[]): number =>
    Math.exp(logOf(differences, new RestartingProcess()));

  test('is what waits, and a mixture begun at every difference', () => {
    const random = new Random(6n);
    const tenths = Array.from({ length: 40 }, () => random.nextInteger(-10, 10));
    let expected = 1 / (tenths.length + 1);
    tenths.forEach((_, start) => {
      expected += toNumber(uniformMixture(tenths.slice(start))) / ((start + 1) * (start + 2));
    });
    near(E(tenths.map((each) => each / 10)), expected, 1e-11);
    expect(new RestartingProcess().logE()).toBe(0);
  });

  test('over all sequences of 10 fair coins: its mean is 1, and it reaches 1/alpha in at most alpha of them', () => {
    const length = 10;
    let [mean, crossed] = [0, 0];
    for (let bits = 0; bits < 2 ** length; bits++) {
      const process = new RestartingProcess();
      let largest = 0;
      for (let i = 0; i < length; i++) {
        process.add((bits >> i) % 2 === 1 ? 1 : -1);
        largest = Math.max(largest, process.logE());
      }
      mean += Math.exp(process.logE()) / 2 ** length;
      if (largest >= Math.log(5)) crossed++;
    }
    near(mean, 1, 1e-11);
    expect(crossed / 2 ** length).toBeLessThanOrEqual(0.2);
    expect(crossed).toBeGreaterThan(0);
  });

  test('sees a fall after 500 good days long before a process that began with them', () => {
    const days = [...new Array<number>(500).fill(-0.5), ...new Array<number>(40).fill(1)];
    expect(E(days)).toBeGreaterThan(20);
    expect(Math.exp(logOf(days))).toBeLessThan(1);
  });
});
