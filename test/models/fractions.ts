/** Exact fractions, as the oracle of what is computed in doubles. */
export interface Fraction {
  readonly over: bigint;
  readonly under: bigint;
}

export const fraction = (over: bigint, under = 1n): Fraction => ({ over, under });
export const plus = (a: Fraction, b: Fraction): Fraction => ({
  over: a.over * b.under + b.over * a.under,
  under: a.under * b.under,
});
export const times = (a: Fraction, b: Fraction): Fraction => ({
  over: a.over * b.over,
  under: a.under * b.under,
});

/** The nearest double, for fractions between 10^-20 and 10^280. */
export function toNumber({ over, under }: Fraction): number {
  return Number((over * 10n ** 40n) / under) / 1e40;
}

export function choose(n: number, k: number): bigint {
  let result = 1n;
  for (let i = 1n; i <= BigInt(k); i++) result = (result * (BigInt(n) - i + 1n)) / i;
  return result;
}

/**
 * 2^(n+1) times the integral of p^wins (1-p)^losses from 1/2 to 1, by expanding (1-p)^losses: terms
 * of both signs, exact.
 */
export function discordant(wins: number, losses: number): Fraction {
  let sum = fraction(0n);
  for (let k = 0; k <= losses; k++) {
    const power = wins + k + 1;
    const term = fraction(
      (k % 2 === 0 ? 1n : -1n) * choose(losses, k) * (2n ** BigInt(power) - 1n),
      BigInt(power) * 2n ** BigInt(power),
    );
    sum = plus(sum, term);
  }
  return times(sum, fraction(2n ** BigInt(wins + losses + 1)));
}

/**
 * The integral from 0 to 1 of the product of 1 + x tenths / 10, by multiplying the polynomial out.
 */
export function uniformMixture(tenths: readonly number[]): Fraction {
  let coefficients = [1n];
  for (const each of tenths) {
    const next = [...coefficients.map((coefficient) => 10n * coefficient), 0n];
    coefficients.forEach((coefficient, power) => {
      next[power + 1]! += BigInt(each) * coefficient;
    });
    coefficients = next;
  }
  const scale = 10n ** BigInt(tenths.length);
  return coefficients.reduce(
    (sum, coefficient, power) => plus(sum, fraction(coefficient, scale * BigInt(power + 1))),
    fraction(0n),
  );
}
