import { IsoproError } from '../errors.js';
import type { RuleConfig } from './rules.js';

/**
 * Exponential moving average, seeded with its first value: v₀ = x₀, v_t = α·x_t + (1−α)·v_{t−1}.
 */
export class Ema {
  #value: number | null = null;

  /** @throws IsoproError INVALID_ARGUMENT unless 0 < alpha ≤ 1 */
  constructor(readonly alpha: number) {
    if (!(alpha > 0 && alpha <= 1))
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `a smoothing factor must be greater than 0 and at most 1, not ${alpha}`,
      );
  }

  /** Current average; null before the first value. */
  get value(): number | null {
    return this.#value;
  }

  update(x: number): number {
    this.#value = this.#value === null ? x : this.alpha * x + (1 - this.alpha) * this.#value;
    return this.#value;
  }

  /** The next value seeds it again. */
  reset(): void {
    this.#value = null;
  }
}

/**
 * Returns the running average over values; empty for no values.
 * @throws IsoproError INVALID_ARGUMENT
 */
export function smooth(values: readonly number[], alpha: number): number[] {
  const ema = new Ema(alpha);
  return values.map((x) => ema.update(x));
}

/** Reports a condition that held n times in a row, until it fails. */
export class Persistence {
  #held = 0;

  /** @throws IsoproError INVALID_ARGUMENT unless n is a whole number from 1 */
  constructor(readonly n: number) {
    if (!Number.isSafeInteger(n) || n < 1)
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `persistence must be a whole number of at least 1, not ${n}`,
      );
  }

  update(condition: boolean): boolean {
    this.#held = condition ? this.#held + 1 : 0;
    return this.#held >= this.n;
  }

  reset(): void {
    this.#held = 0;
  }
}

/** A signal smoothed as log10 with a persistence on each side. */
export class LogBand {
  readonly #ema: Ema;
  readonly #high: Persistence;
  readonly #low: Persistence;

  constructor(
    { alpha, persistence }: Pick<RuleConfig, 'alpha' | 'persistence'>,
    readonly low: number | null,
    readonly high: number | null,
  ) {
    this.#ema = new Ema(alpha);
    this.#high = new Persistence(persistence);
    this.#low = new Persistence(persistence);
  }

  update(x: number): { side: 'high' | 'low' | 'none'; value: number; threshold: number | null } {
    const value = 10 ** this.#ema.update(Math.log10(x));
    const high = this.#high.update(this.high !== null && value > this.high);
    const low = this.#low.update(this.low !== null && value < this.low);
    return {
      side: high ? 'high' : low ? 'low' : 'none',
      value,
      threshold: high ? this.high : low ? this.low : (this.high ?? this.low),
    };
  }

  get value(): number | null {
    return this.#ema.value === null ? null : 10 ** this.#ema.value;
  }

  reset(): void {
    this.#ema.reset();
    this.#high.reset();
    this.#low.reset();
  }
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return NaN;
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

export function mean(values: readonly number[]): number {
  return values.length === 0 ? NaN : values.reduce((sum, x) => sum + x, 0) / values.length;
}
