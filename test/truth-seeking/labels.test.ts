/**
 * Labels of real problems by a policy whose beliefs a program gives: what is found, its worth, and
 * how it is held against answers.
 */
import { expect, test } from '@jest/globals';
import { NEGATION_PAIRS } from '../../src/truth-seeking/domains/negation-pairs.js';
import type { Reasoner } from '../../src/truth-seeking/reasoner.js';
import { binaryProblem, type BinaryProblem } from '../../src/truth-seeking/problem.js';
import { scriptedReasoner } from '../../src/truth-seeking/scripted-reasoner.js';
import {
  labelProblems,
  linkedProblems,
} from '../../src/truth-seeking/strategies/label-problems.js';

/** Four statements, each with its negation and a paraphrase. */
const problems = NEGATION_PAIRS.problems.slice(0, 12) as BinaryProblem[];
const truth = new Map(
  problems.map(({ question, options, correctOption }) => [question, options[correctOption!]]),
);

/**
 * Holds an answer to be right as far as the answers before it were: it goes with whatever it is
 * shown, the truth or its opposite.
 */
function follower(): { policy: Reasoner; asked: () => number } {
  const policy = scriptedReasoner({
    name: 'follower',
    answers: (text) => {
      const turns = [...text.matchAll(/user: (.*)\n\n.*\nassistant: (True|False)/g)].map(
        ([, question, answer]) => ({
          question: question!,
          answer,
        }),
      );
      const before = turns.slice(0, -1);
      const agreeing = before.filter(
        ({ question, answer }) => truth.get(question) === answer,
      ).length;
      const right = (agreeing + 1.2) / (before.length + 2);
      const own = truth.get(turns.at(-1)!.question)!;
      return { [own]: right, [own === 'True' ? 'False' : 'True']: 1 - right };
    },
  });
  let asked = 0;
  const score: Reasoner['score'] = (...given) => {
    asked++;
    return policy.score(...given);
  };
  return { policy: { ...policy, score }, asked: () => asked };
}

test('labels hang together, U is what their definition gives, and every question is asked once', async () => {
  const { policy, asked } = follower();
  const found = await labelProblems(policy, problems, { steps: 120, seed: 3n });
  const right = found.labels.filter((label, i) => label === problems[i]!.correctOption).length;
  expect([0, 12]).toContain(right);
  expect(found).toMatchObject({
    contradictions: 0,
    evaluations: asked(),
    accuracy: { right, n: 12 },
    alone: { right: 12, n: 12 },
  });
  // eleven others that all agree with it, or all do not
  const each = Math.log((right === 12 ? 11 + 1.2 : 2 - 1.2 + 11) / 13);
  expect(found.utility).toBeCloseTo(50 * 12 * each, 9);
  const again = follower();
  expect(await labelProblems(again.policy, problems, { steps: 120, seed: 3n })).toEqual(found);
});

test('a statement and its negation contradict each other, a paraphrase does not', () => {
  expect(linkedProblems(problems.slice(0, 3))).toEqual([
    { pair: [0, 1], same: false },
    { pair: [0, 2], same: true },
    { pair: [1, 2], same: false },
  ]);
  expect(
    linkedProblems(problems).filter(
      ({ pair: [a, b] }) => problems[a]!.group !== problems[b]!.group,
    ),
  ).toEqual([]);
});

test('what nobody knows counts for nothing; what cannot be read is an error, not a label', async () => {
  const { policy } = follower();
  const unknown = problems
    .slice(0, 3)
    .map(({ kind: _, id: __, ...problem }) => binaryProblem({ ...problem, correctOption: null }));
  expect(await labelProblems(policy, unknown, { steps: 4 })).toMatchObject({
    accuracy: null,
    alone: null,
  });
  const alike = binaryProblem({
    question: 'Is it so?',
    options: ['Yes', 'Yes and no'],
    correctOption: 0,
  });
  await expect(labelProblems(policy, [alike, problems[0]!])).rejects.toMatchObject({
    code: 'PROBLEM_INVALID',
  });
  const mute = scriptedReasoner({ name: 'mute' });
  await expect(labelProblems(mute, problems)).rejects.toMatchObject({ code: 'BACKEND_INCAPABLE' });
});
