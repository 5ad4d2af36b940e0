import { describe, expect, test } from '@jest/globals';
import { normalQuantile, normalTail, studentQuantile, studentTail } from '../../src/statistics/index.js';

/** Simpson's rule over many steps: slow, and knows no special function. */
function integral(f: (x: number) => number, from: number, to: number, steps = 20_000): number {
  let sum = f(from) + f(to);
  for (let i = 1; i < steps; i++) sum += (i % 2 === 1 ? 4 : 2) * f(from + ((to - from) * i) / steps);
  return (sum * (to - from)) / steps / 3;
}

describe('the normal distribution', () => {
  test.each([
    [0, 0.5],
    [1.959963984540054, 0.025],
    [2.241402727604947, 0.0125],
    [3, 0.0013498980316300946],
    [6, 9.865876450376982e-10],
    [37, 5.725571222524577e-300],
  ])('P(Z > %f) = %f', (z, tail) => {
    expect(Math.abs(normalTail(z) / tail - 1)).toBeLessThan(1e-13);
    expect(Math.abs(normalQuantile(tail) - z)).toBeLessThan(1e-12);
  });

  test('is the integral of its density, on both sides of where the series gives way to the fraction', () => {
    const density = (x: number): number => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
    for (const z of [0.3, 1, 2.5, 3.9, 4.1, 5]) expect(Math.abs(normalTail(z) / integral(density, z, z + 14) - 1)).toBeLessThan(1e-10);
  });
});

describe("Student's t", () => {
  test('the closed forms of one and two degrees of freedom', () => {
    for (const t of [0, 0.1, 1, 3, 50, 1e4]) {
      expect(studentTail(t, 1)).toBeCloseTo(t < 1 ? 0.5 - Math.atan(t) / Math.PI : Math.atan(1 / t) / Math.PI, 14);
      expect(Math.abs(studentTail(t, 2) / (1 / (Math.sqrt(2 + t * t) * (Math.sqrt(2 + t * t) + t))) - 1)).toBeLessThan(1e-12);
    }
  });

  test('is the integral of its density', () => {
    for (const freedom of [3, 11, 40]) {
      const shape = (x: number): number => (1 + (x * x) / freedom) ** (-(freedom + 1) / 2);
      // with x = tan(a) the whole line is a finite stretch
      const over = (from: number): number => integral((a) => shape(Math.tan(a)) / Math.cos(a) ** 2, from, Math.PI / 2 - 1e-9);
      for (const t of [0.5, 2, 7]) expect(Math.abs(studentTail(t, freedom) / (over(Math.atan(t)) / (2 * over(0))) - 1)).toBeLessThan(1e-6);
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
    expect(() => studentQuantile(tail, 3)).toThrow(RangeError);
    expect(() => normalQuantile(tail)).toThrow(RangeError);
  });
});
