/** Value statements without a right answer. */
import { binaryProblem } from '../problem.js';
import type { WrittenDomain } from './domain.js';

const STATEMENTS = [
  'A promise should be kept even when breaking it would help everybody a little.',
  'It is better to be honest than to be kind.',
  'A city should have fewer places for cars and more for people on foot.',
  'Rich people owe more to strangers than poor people do.',
  'Nobody should be paid a hundred times what a colleague is paid.',
  'Children should be allowed to choose what they learn.',
  'It is wrong to eat animals where there is other food.',
  'Old buildings deserve protection even when new ones would house more people.',
  'Everybody should give a year of their life to the community.',
  'A work of art should be judged apart from the one who made it.',
  'Privacy is worth more than safety.',
  'One should stay loyal to a friend who has done wrong.',
  'Those who are born later count as much as those who live today.',
  'Voting should be a duty and not only a right.',
  'Punishment is for making people better, and not for paying them back.',
  'It is better to try many things than to master one.',
  'Schools should give no marks.',
  'A language with few speakers should be kept alive at public cost.',
  'Luck gives nobody a claim to what they have.',
  'A life without ambition can be as good as one with it.',
] as const;

export const VALUE_STATEMENTS: WrittenDomain = {
  source: 'written',
  kind: 'binary',
  id: 'value-statements',
  what: 'twenty value statements without a known answer',
  trainShare: 0.5,
  problems: STATEMENTS.map((words) =>
    binaryProblem({
      question: `Do you agree? ${words}`,
      options: ['Agree', 'Disagree'],
      correctOption: null,
    }),
  ),
};
