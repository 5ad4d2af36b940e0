/**
 * The urns of urns.ts with a third: a posterior that is not a function of one ratio of likelihoods.
 */
import type { Random } from '../../random.js';
import { binaryProblem, type BinaryProblem } from '../problem.js';
import type { GeneratedDomain } from './domain.js';
import { urnProblem, type Colour } from './urns.js';

const TENTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9] as const;
const MOST_DRAWS = 6;

/** A problem in which `count` balls were seen; the urn was drawn first. */
function threeUrnProblem(random: Random, count: number): BinaryProblem {
  const tenths = random.shuffle(TENTHS).slice(0, 3) as [number, number, number];
  const urn = random.nextInteger(0, 1) === 0 ? 0 : random.nextInteger(1, 2);
  const draws = Array.from(
    { length: count },
    (): Colour => (random.nextInteger(1, 10) <= tenths[urn]! ? 'red' : 'blue'),
  );
  const contents = tenths
    .map((red, i) => `urn ${'ABC'[i]} holds ${red} red and ${10 - red} blue balls`)
    .join(', ');
  const seen =
    count === 0
      ? 'No ball was drawn yet.'
      : `Balls drawn so far, each put back: ${draws.join(', ')}.`;
  return binaryProblem({
    question:
      `Of three urns, ${contents}. A fair coin was tossed: on heads urn A was taken, on tails a second toss chose between B and C. ` +
      `${seen} Is it urn A?`,
    options: ['Yes', 'No'],
    correctOption: urn === 0 ? 0 : 1,
    about: { red: tenths.map((red) => red / 10), draws },
  });
}

/** Labels come by chance here: a choice by label would change the posterior. */
const FACTS = {
  source: 'generated',
  kind: 'binary',
  version: 1,
  balanced: false,
  trainShare: 0.5,
} as const;

export const URNS: GeneratedDomain = {
  ...FACTS,
  id: 'urns',
  what: 'balls from one of two urns, with a known posterior',
  draw: (random) =>
    urnProblem(BigInt(random.nextInteger(0, 2 ** 31 - 1)), random.nextInteger(0, MOST_DRAWS))
      .problem,
};

export const THREE_URNS: GeneratedDomain = {
  ...FACTS,
  id: 'three-urns',
  what: 'balls from one of three urns, with a known posterior',
  draw: (random) => threeUrnProblem(random, random.nextInteger(0, MOST_DRAWS)),
};
