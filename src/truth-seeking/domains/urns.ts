/**
 * Balls drawn from one of two urns, in words: the only domain with a known right belief after every
 * step, so that a Bayesian reasoner is an exact martingale.
 */
import { Random } from '../../random.js';
import { binaryProblem, type BinaryProblem } from '../problem.js';

export type Colour = 'red' | 'blue';

export interface Urns {
  /** Part of red balls in urn A and in urn B, in (0, 1). */
  readonly redInA: number;
  readonly redInB: number;
  /** Probability that it is urn A before any draw. */
  readonly prior: number;
}

/** P(urn A) before the first draw and after each, by Bayes' rule. */
export function posteriors({ redInA, redInB, prior }: Urns, draws: readonly Colour[]): number[] {
  let [a, b] = [prior, 1 - prior];
  return [
    a / (a + b),
    ...draws.map((colour) => {
      a *= colour === 'red' ? redInA : 1 - redInA;
      b *= colour === 'red' ? redInB : 1 - redInB;
      return a / (a + b);
    }),
  ];
}

/** Probability of a sequence of draws, whichever the urn. */
export function probabilityOf({ redInA, redInB, prior }: Urns, draws: readonly Colour[]): number {
  const given = (red: number): number =>
    draws.reduce((product, colour) => product * (colour === 'red' ? red : 1 - red), 1);
  return prior * given(redInA) + (1 - prior) * given(redInB);
}

export interface UrnProblem {
  readonly problem: BinaryProblem;
  readonly urns: Urns;
  readonly draws: readonly Colour[];
}

const PER_CENT = [20, 30, 40, 60, 70, 80] as const;

/** A problem in which the balls of `draws` were seen; which urn they came from was drawn first. */
export function urnProblem(seed: bigint, count: number): UrnProblem {
  const random = new Random(seed);
  const [first, second] = random.shuffle(PER_CENT) as [number, number];
  const urns: Urns = { redInA: first / 100, redInB: second / 100, prior: 0.5 };
  const isA = random.nextInteger(0, 1) === 0;
  const red = isA ? first : second;
  const draws = Array.from(
    { length: count },
    (): Colour => (random.nextInteger(1, 100) <= red ? 'red' : 'blue'),
  );
  const seen =
    count === 0
      ? 'No ball was drawn yet.'
      : `Balls drawn so far, each put back: ${draws.join(', ')}.`;
  const problem = binaryProblem({
    question:
      `Urn A holds ${first} red and ${100 - first} blue balls, urn B ${second} red and ${100 - second} blue ones. ` +
      `One of them was chosen by the toss of a fair coin. ${seen} Is it urn A?`,
    options: ['Yes', 'No'],
    correctOption: isA ? 0 : 1,
    about: { urns: { ...urns }, draws },
  });
  return { problem, urns, draws };
}
