/**
 * Scripted policies that reason about urns: whose beliefs are known, and whether they move as they
 * should.
 */
import type { Reasoner } from '../reasoner.js';
import { binaryProblem, type BinaryProblem } from '../problem.js';
import { scriptedReasoner } from '../scripted-reasoner.js';
import { trajectory, type Trajectory } from '../trajectory.js';

import { posteriors, type Colour, type Urns } from './urns.js';

const DRAWN = /^Drawn, and put back: (red|blue)\.$/gm;

/** Before any draw; what is drawn stands in the steps of a trajectory. */
export const urnQuestion = ({ redInA, redInB, prior }: Urns): BinaryProblem =>
  binaryProblem({
    question: `A ball is red with probability ${redInA} from urn A, ${redInB} from urn B; it is urn A with probability ${prior}. Is it?`,
    options: ['Yes', 'No'],
    correctOption: null,
    about: { urns: { redInA, redInB, prior } },
  });

/** A step a draw, which nobody is trained on. */
export const drawsAsSteps = (
  problem: BinaryProblem,
  reasoner: Reasoner,
  draws: readonly Colour[],
): Trajectory =>
  trajectory({
    problemId: problem.id,
    policyId: reasoner.id,
    modeId: 'given',
    seed: '0',
    prompt: [{ role: 'user', content: problem.question }],
    steps: draws.map((colour) => ({
      content: `Drawn, and put back: ${colour}.`,
      trainable: false,
    })),
  });

/**
 * Answers Yes with the probability of urn A, its log-odds moved by `weight` times what a draw says.
 * 1 is Bayes' rule; below 1 a stubborn reasoner, who goes on changing his mind the way that he has
 * gone; above 1 one who over-corrects, and has to go back.
 */
export function urnReasoner(urns: Urns, weight: number): Reasoner {
  const { prior } = urns;
  return scriptedReasoner({
    name: `urns ${urns.redInA} ${urns.redInB} ${prior} ${weight}`,
    answers: (text) => {
      const draws = [...text.replace('assistant: ', '\n').matchAll(DRAWN)].map(
        ([, colour]) => colour as Colour,
      );
      const bayes = posteriors(urns, draws).at(-1)!;
      const odds =
        (prior / (1 - prior)) * ((bayes / (1 - bayes)) * ((1 - prior) / prior)) ** weight;
      return { Yes: odds / (1 + odds), No: 1 / (1 + odds) };
    },
  });
}
