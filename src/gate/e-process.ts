/**
 * E-processes: evidence that may be checked after every problem. Each is a non-negative process
 * that starts at 1 and does not grow on average under its null hypothesis, so the chance that it
 * ever reaches 1 / alpha is at most alpha (Ville 1939), however often it is checked. Values are
 * logarithms, so nothing overflows.
 */

/**
 * ln of the mixture e-value on discordant pairs: 2^(n+1) times the integral of p^wins (1-p)^losses
 * over p in [1/2, 1], n = wins + losses, for the hypothesis that a discordant pair is won with a
 * chance of at most 1/2. It is (sum over k <= wins of C(n+1, k)) / ((n+1) C(n, wins)), here summed
 * from its last term down: all terms are positive, so that nothing cancels.
 */
export function logDiscordant(wins: number, losses: number): number {
  if (!Number.isSafeInteger(wins) || !Number.isSafeInteger(losses) || wins < 0 || losses < 0)
    throw new RangeError(`wins and losses must be whole numbers, got ${wins} and ${losses}`);
  let [term, sum, log] = [1, 1, -Math.log(losses + 1)];
  for (let j = 0; j < wins; j++) {
    const ratio = (wins - j) / (losses + 2 + j);
    term *= ratio;
    sum += term;
    if (ratio < 1 && term < sum * 1e-18) break;
    if (sum > 2 ** 500) {
      term *= 2 ** -500;
      sum *= 2 ** -500;
      log += 500 * Math.LN2;
    }
  }
  return log + Math.log(sum);
}

/**
 * Fractions of the wealth that are bet, with the part of the wealth that each begins with; the
 * parts add up to 1.
 */
export interface Bets {
  readonly fractions: Float64Array;
  readonly weights: Float64Array;
}

/** One fraction in [0, 1] for all bets. */
export const fixedBet = (fraction: number): Bets => ({
  fractions: Float64Array.of(fraction),
  weights: Float64Array.of(1),
});

/**
 * Gauss-Legendre nodes on [0, 1]: the uniform mixture over all fractions. Their weights are
 * positive and add up to 1, so the sum is an e-process itself, not an approximation of one. Up to
 * 255 differences it also equals the integral, because a product of n terms 1 + fraction ×
 * difference is a polynomial of degree n, which 128 nodes integrate exactly up to degree 255.
 */
export const uniformBets = (): Bets => (uniform ??= gaussLegendre(128));
/** Made at the first use: most commands decide nothing. */
let uniform: Bets | undefined;

function gaussLegendre(nodes: number): Bets {
  const fractions = new Float64Array(nodes);
  const weights = new Float64Array(nodes);
  for (let i = 0; i < nodes; i++) {
    let x = Math.cos((Math.PI * (i + 0.75)) / (nodes + 0.5));
    let slope = 0;
    // Newton's method doubles the digits in each round; six rounds are twice what the first guess
    // needs
    for (let round = 0; round < 6; round++) {
      let [before, at] = [1, x];
      for (let k = 2; k <= nodes; k++)
        [before, at] = [at, ((2 * k - 1) * x * at - (k - 1) * before) / k];
      slope = (nodes * (before - x * at)) / (1 - x * x);
      x -= at / slope;
    }
    fractions[i] = (1 + x) / 2;
    weights[i] = 1 / ((1 - x * x) * slope * slope);
  }
  return { fractions, weights };
}

/**
 * Differences that are multiplied before a logarithm is taken: the product stays far within the
 * doubles (1 - fraction >= 8e-5).
 */
const CHUNK = 32;

/**
 * The bounded betting e-process (Waudby-Smith and Ramdas 2024): wealth is multiplied by 1 +
 * fraction × difference. For differences in [-1, 1], and the hypothesis that none has a mean above
 * 0 given those before it. On differences of -1, 0 and 1 the uniform mixture is `logDiscordant`.
 * The order of the differences does not matter.
 */
export class BettingProcess {
  readonly #bets: Bets;
  readonly #logs: Float64Array;
  readonly #products: Float64Array;
  #pending = 0;

  constructor(bets: Bets = uniformBets()) {
    this.#bets = bets;
    this.#logs = bets.weights.map(Math.log);
    this.#products = new Float64Array(bets.weights.length).fill(1);
  }

  add(difference: number): void {
    requireDifference(difference);
    const { fractions } = this.#bets;
    const products = this.#products;
    for (let i = 0; i < products.length; i++) products[i]! *= 1 + fractions[i]! * difference;
    if (++this.#pending === CHUNK) this.#settle();
  }

  #settle(): void {
    for (let i = 0; i < this.#logs.length; i++) this.#logs[i]! += Math.log(this.#products[i]!);
    this.#products.fill(1);
    this.#pending = 0;
  }

  /** ln of the e-value; -Infinity where an all-in bet was lost. */
  logE(): number {
    this.#settle();
    return logSum(this.#logs);
  }
}

/**
 * The betting e-process for a change that comes some day: a part 1 / (j (j + 1)) of the wealth
 * begins to bet with the j-th difference, the rest waits, so that good days before it use up only
 * what was there for them. The order of the differences is that of time.
 */
export class RestartingProcess {
  readonly #bets: Bets;
  /** Wealth of each fraction: `#values` × e^`#logs`. */
  readonly #values: Float64Array;
  readonly #logs: Float64Array;
  /**
   * e^-`#logs`, the scale of wealth that starts to bet. It may underflow next to a large wealth,
   * and never exceeds the waiting wealth.
   */
  readonly #scales: Float64Array;
  #count = 0;

  constructor(bets: Bets = uniformBets()) {
    this.#bets = bets;
    this.#values = new Float64Array(bets.weights.length);
    this.#logs = new Float64Array(bets.weights.length);
    this.#scales = new Float64Array(bets.weights.length).fill(1);
  }

  add(difference: number): void {
    requireDifference(difference);
    this.#count++;
    const { fractions, weights } = this.#bets;
    const start = 1 / (this.#count * (this.#count + 1));
    for (let i = 0; i < weights.length; i++)
      this.#values[i] =
        (this.#values[i]! + start * weights[i]! * this.#scales[i]!) *
        (1 + fractions[i]! * difference);
    if (this.#count % CHUNK !== 0) return;
    for (let i = 0; i < weights.length; i++) {
      this.#logs[i]! += Math.log(this.#values[i]!);
      this.#values[i] = 1;
      this.#scales[i] = Math.exp(-this.#logs[i]!);
    }
  }

  /** ln of the e-value, what waits included. */
  logE(): number {
    return logAdd(
      logSum(this.#logs.map((log, i) => log + Math.log(this.#values[i]!))),
      -Math.log(this.#count + 1),
    );
  }
}

function requireDifference(difference: number): void {
  if (!(difference >= -1 && difference <= 1))
    throw new RangeError(`a difference must be in [-1, 1], got ${difference}`);
}

/** ln(e^a + e^b), where at least one of the two is finite. */
function logAdd(a: number, b: number): number {
  const [large, small] = a > b ? [a, b] : [b, a];
  return large + Math.log1p(Math.exp(small - large));
}

function logSum(logs: Float64Array): number {
  let largest = -Infinity;
  for (const log of logs) if (log > largest) largest = log;
  if (largest === -Infinity) return -Infinity;
  let sum = 0;
  for (const log of logs) sum += Math.exp(log - largest);
  return largest + Math.log(sum);
}
