import type { ChatMessage } from '../task.js';
import type { Fact, LadderProblem, Operation, Relation } from './problem.js';
import { ABSTAIN, solve } from './solve.js';

const SENTENCES: Readonly<Record<Relation, (who: string, what: string) => string>> = {
  lives: (who, what) => `${who} lives in ${what}.`,
  likes: (who, what) => `${who} likes ${what}.`,
  has: (who, what) => `${who} has a ${what}.`,
  wears: (who, what) => `${who} wears ${what} shoes.`,
};
const QUESTIONS: Readonly<Record<Relation, (who: string) => string>> = {
  lives: (who) => `Where does ${who} live?`,
  likes: (who) => `What food does ${who} like?`,
  has: (who) => `What animal does ${who} have?`,
  wears: (who) => `What color are the shoes of ${who}?`,
};

/** What is asked, without the rules of the answer. */
export function questionText({
  operation,
  position,
  items,
  facts,
  question,
}: LadderProblem): string {
  const list = items.join(' ');
  switch (operation) {
    case 'upper':
      return `Write the words with word ${position} in capital letters:\n${list}`;
    case 'drop':
      return `Write the words without word ${position}:\n${list}`;
    case 'swap':
      return `Write the words with words ${position} and ${position! + 1} swapped:\n${list}`;
    case 'item':
      return `Write number ${position} of the list:\n${list}`;
    case 'largest':
    case 'smallest':
      return `Write the ${operation} of the numbers:\n${list}`;
    case 'ascending':
      return `Sort the numbers from smallest to largest:\n${list}`;
    case 'descending':
      return `Sort the numbers from largest to smallest:\n${list}`;
    case 'reverse':
      return `Write the words in reverse order:\n${list}`;
    case 'sum':
      return `What is ${list}?`;
    case 'ask': {
      const context = facts
        .map(({ who, relation, what }) => SENTENCES[relation](who, what))
        .join(' ');
      return `${context}\n${QUESTIONS[question!.relation](question!.who)} One word, or ${ABSTAIN}.`;
    }
  }
}

/** The rules of the answer. */
const ruleOf = (operation: Operation): string =>
  operation === 'ask'
    ? `Reply with one word, as the text writes it, or with ${ABSTAIN} if the text does not say.`
    : operation === 'sum' ||
        operation === 'largest' ||
        operation === 'smallest' ||
        operation === 'item'
      ? 'Reply with the number only, in digits.'
      : 'Reply with the result only, on one line, with one space between two of them.';

const example = (
  operation: Operation,
  items: string,
  position: number | null = null,
): LadderProblem => ({
  id: '',
  task: 'ladder',
  tier: '',
  operation,
  position,
  items: items === '' ? [] : items.split(',').map((item) => item.trim()),
  facts: [],
  question: null,
});
const CONTEXT: readonly Fact[] = [
  { who: 'Ivy', relation: 'lives', what: 'Rome' },
  { who: 'Bob', relation: 'likes', what: 'tea' },
];
const asked = (who: string, relation: Relation): LadderProblem => ({
  ...example('ask', ''),
  facts: CONTEXT,
  question: { who, relation },
});

/**
 * Worked examples, the same before every question of an operation; in words, and lists of numbers,
 * that no problem has.
 */
const EXAMPLES: Readonly<Record<Operation, readonly LadderProblem[]>> = {
  upper: [example('upper', 'sun, tree, moon, cup', 3), example('upper', 'box, pear, nut', 1)],
  drop: [example('drop', 'sun, tree, moon, cup', 3), example('drop', 'box, pear, nut', 1)],
  swap: [example('swap', 'sun, tree, moon, cup', 3), example('swap', 'box, pear, nut', 1)],
  largest: [example('largest', '11, 48, 30, 25'), example('largest', '62, 14, 27')],
  smallest: [example('smallest', '48, 11, 30, 25'), example('smallest', '62, 27, 14')],
  item: [example('item', '48, 11, 30, 25', 3), example('item', '62, 27, 14', 1)],
  ascending: [example('ascending', '48, 11, 30'), example('ascending', '25, 62, 14')],
  descending: [example('descending', '11, 48, 30'), example('descending', '25, 14, 62')],
  reverse: [example('reverse', 'sun, tree, moon'), example('reverse', 'box, pear, nut, cup')],
  sum: [example('sum', '40, + 20'), example('sum', '50, - 30')],
  ask: [asked('Ivy', 'lives'), asked('Bob', 'lives')],
};

/**
 * Two worked examples and the question; every rule of the verifier stands before the first. The
 * same in both styles.
 */
export function ladderPrompt(problem: LadderProblem): ChatMessage[] {
  const turns = EXAMPLES[problem.operation].flatMap((solved): ChatMessage[] => [
    { role: 'user', content: questionText(solved) },
    { role: 'assistant', content: solve(solved) },
  ]);
  const [first, ...others] = [...turns, { role: 'user', content: questionText(problem) } as const];
  return [
    { role: 'user', content: `${ruleOf(problem.operation)}\n\n${first!.content}` },
    ...others,
  ];
}
