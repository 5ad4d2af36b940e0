import type { LadderProblem } from './problem.js';
import { ABSTAIN } from './solve.js';

/** The numbers of a list or a sum, from the smallest to the largest. */
const sorted = ({ items }: LadderProblem): string[] =>
  items
    .map((item) => item.replace(/^[+-] /, ''))
    .sort((a, b) => Number(a) - Number(b) || (a < b ? -1 : 1));

/**
 * Policies that look at only part of a problem; each is the right one for one operation at most.
 */
export const POLICIES = {
  unchanged: ({ items }) => items.join(' '),
  'first-item': ({ items }) => items[0] ?? '',
  'last-item': ({ items }) => items.at(-1) ?? '',
  'always-largest': (problem) => sorted(problem).at(-1) ?? '',
  'always-ascending': (problem) => sorted(problem).join(' '),
  'always-drop-first': ({ items }) => items.slice(1).join(' '),
  'always-ten': () => '10',
  'always-abstain': () => ABSTAIN,
  'first-value': ({ facts }) => facts[0]?.what ?? '',
  'value-of-person': ({ facts, question }) =>
    facts.find(({ who }) => who === question?.who)?.what ?? '',
  'value-of-relation': ({ facts, question }) =>
    facts.find(({ relation }) => relation === question?.relation)?.what ?? '',
} as const satisfies Record<string, (problem: LadderProblem) => string>;

export const POLICY_NOTES: Readonly<Record<string, string>> = {
  'always-largest': 'exact solver of half of pick-1, which asks for the largest or the smallest',
  'always-ascending': 'exact solver of sort-1, which asks for nothing else',
  'always-abstain': 'right on the half of the questions of abstain that the text does not answer',
  'value-of-person': 'right on the half of the questions of abstain-1 that the text answers',
  'value-of-relation': 'right on the half of the questions of abstain-1 that the text answers',
};
