import { describe, expect, test } from '@jest/globals';
import { incompleteBeta, logGamma } from '../../src/statistics/student.js';
import {
  normalQuantile,
  normalTail,
  studentQuantile,
  studentTail,
} from '../../src/statistics/index.js';

/** Simpson's rule over many steps: slow, and knows no special function. */
function integral(f: (x: number) => number, from: number, to: number, steps = 20_000): number {
  let sum = f(from) + f(to);
  for (let i = 1; i < steps; i++)
    sum += (i % 2 === 1 ? 4 : 2) * f(from + ((to - from) * i) / steps);
  return (sum * (to - from)) / steps / 3;
}

describe('the normal distribution', () => {
  test.each([
    [0, 0.5],
    [1.959963984540054, 0.025],
    [2.241402727604947, 0.0125],
    [3, 0.0013498980316300946],
    [6, 9.86587645037698e-10],
    [37, 5.725571222524577e-300],
  ])('P(Z > %f) = %f', (z, tail) => {
    expect(Math.abs(normalTail(z) / tail - 1)).toBeLessThan(1e-13);
    expect(Math.abs(normalQuantile(tail) - z)).toBeLessThan(1e-12);
  });

  test('is the integral of its density, on both sides of where the series gives way to the fraction', () => {
    const density = (x: number): number => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
    for (const z of [0.3, 1, 2.5, 3.9, 4.1, 5])
      expect(Math.abs(normalTail(z) / integral(density, z, z + 14) - 1)).toBeLessThan(1e-10);
  });
});

describe("Student's t", () => {
  test('the closed forms of one and two degrees of freedom', () => {
    for (const t of [0, 0.1, 1, 3, 50, 1e4]) {
      expect(studentTail(t, 1)).toBeCloseTo(
        t < 1 ? 0.5 - Math.atan(t) / Math.PI : Math.atan(1 / t) / Math.PI,
        14,
      );
      expect(
        Math.abs(studentTail(t, 2) / (1 / (Math.sqrt(2 + t * t) * (Math.sqrt(2 + t * t) + t))) - 1),
      ).toBeLessThan(1e-12);
    }
  });

  test('is the integral of its density', () => {
    for (const freedom of [3, 11, 40]) {
      const shape = (x: number): number => (1 + (x * x) / freedom) ** (-(freedom + 1) / 2);
      // with x = tan(a) the whole line is a finite stretch
      const over = (from: number): number =>
        integral((a) => shape(Math.tan(a)) / Math.cos(a) ** 2, from, Math.PI / 2 - 1e-9);
      for (const t of [0.5, 2, 7])
        expect(
          Math.abs(studentTail(t, freedom) / (over(Math.atan(t)) / (2 * over(0))) - 1),
        ).toBeLessThan(1e-6);
    }
  });

  test('quantiles undo tails, and reach the normal ones', () => {
    expect(studentQuantile(0.00555509 / 2, 3)).toBeCloseTo(7.18508, 4);
    for (const freedom of [1, 2, 5, 30, 799])
      for (const tail of [0.5, 0.3, 0.025, 1e-6, 1e-60]) {
        const back = studentTail(studentQuantile(tail, freedom), freedom);
        expect(Math.abs(back / tail - 1)).toBeLessThan(1e-10);
      }
    expect(studentQuantile(0.025, 1e7)).toBeCloseTo(normalQuantile(0.025), 6);
  });

  test.each([0, -1, 0.6, NaN])('the tail %f is refused', (tail) => {
    const words = `an upper tail must be in (0, 0.5], got ${tail}`;
    expect(() => studentQuantile(tail, 3)).toThrow(words);
    expect(() => normalQuantile(tail)).toThrow(words);
  });

  test.each([
    [-1, 3],
    [NaN, 3],
    [1, 0],
    [1, NaN],
  ])('of t = %f with freedom %f there is no tail', (t, freedom) => {
    expect(() => studentTail(t, freedom)).toThrow(
      `needs t >= 0 and freedom > 0, got ${t} and ${freedom}`,
    );
    if (!(t >= 0)) expect(() => normalTail(t)).toThrow(`an upper tail needs z >= 0, got ${t}`);
  });
});

describe('the functions behind them', () => {
  const relative = (actual: number, expected: number): number => Math.abs(actual / expected - 1);

  test('the incomplete beta function has its closed forms, and is that of the other side turned round', () => {
    for (const x of [1e-6, 0.1, 0.4, 0.75, 0.999])
      for (const a of [0.5, 1, 3, 40]) {
        expect(relative(incompleteBeta(x, 1 - x, a, 1), x ** a)).toBeLessThan(1e-12);
        expect(1 - incompleteBeta(x, 1 - x, 1, a)).toBeCloseTo((1 - x) ** a, 12);
        expect(incompleteBeta(x, 1 - x, a, 2.5) + incompleteBeta(1 - x, x, 2.5, a)).toBeCloseTo(
          1,
          13,
        );
      }
    // the arcsine law, and a chance of at least 3 of 5
    expect(incompleteBeta(0.3, 0.7, 0.5, 0.5)).toBeCloseTo(
      (2 / Math.PI) * Math.asin(Math.sqrt(0.3)),
      13,
    );
    expect(incompleteBeta(0.3, 0.7, 3, 3)).toBeCloseTo(
      10 * 0.3 ** 3 * 0.7 ** 2 + 5 * 0.3 ** 4 * 0.7 + 0.3 ** 5,
      13,
    );
    expect([
      incompleteBeta(0, 1, 2, 3),
      incompleteBeta(1, 0, 2, 3),
      incompleteBeta(-0.1, 1.1, 2, 3),
      incompleteBeta(1.1, -0.1, 2, 3),
    ]).toEqual([0, 1, 0, 1]);
  });

  test('the gamma function is a factorial, and by halves a root of pi', () => {
    let [whole, half] = [1, Math.sqrt(Math.PI)];
    for (let n = 1; n <= 40; n++) {
      expect(Math.abs(logGamma(n) - Math.log(whole))).toBeLessThan(
        3e-14 * Math.max(1, Math.log(whole)),
      );
      expect(Math.abs(logGamma(n - 0.5) - Math.log(half))).toBeLessThan(
        3e-14 * Math.max(1, Math.log(half)),
      );
      whole *= n;
      half *= n - 0.5;
    }
    // 11! and 12!, where nothing but the series counts
    expect(Math.abs(logGamma(12) - 17.502307845873887)).toBeLessThan(1.5e-14);
    expect(Math.abs(logGamma(13) - 19.987214495661885)).toBeLessThan(1.5e-14);
    expect(relative(Math.exp(logGamma(0.1)), 9.51350769866873)).toBeLessThan(1e-13);
  });
});
