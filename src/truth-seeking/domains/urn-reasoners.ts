/** Scripted reasoners about urns, whose beliefs are known. */
import type { Reasoner } from '../reasoner.js';
import { binaryProblem, type BinaryProblem } from '../problem.js';
import { scriptedReasoner } from '../scripted-reasoner.js';
import { trajectory, type Trajectory } from '../trajectory.js';

import { posteriors, type Colour, type Urns } from './urns.js';

const DRAWN = /^Drawn, and put back: (red|blue)\.$/gm;

/** Question before any draw; the draws are steps of a trajectory. */
export const urnQuestion = ({ redInA, redInB, prior }: Urns): BinaryProblem =>
  binaryProblem({
    question: `A ball is red with probability ${redInA} from urn A, ${redInB} from urn B; it is urn A with probability ${prior}. Is it?`,
    options: ['Yes', 'No'],
    correctOption: null,
    about: { urns: { redInA, redInB, prior } },
  });

/** Trajectory with one step per draw, none of which is trained on. */
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
 * Answers Yes with the probability of urn A, with the log-odds of each draw multiplied by `weight`.
 * 1 is Bayes' rule; below 1 is a stubborn reasoner, whose belief keeps moving the same way; above 1
 * is an over-correcting one, whose belief has to move back.
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
