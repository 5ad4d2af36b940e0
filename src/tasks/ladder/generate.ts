import type { Random } from '../../random.js';
import { problemId } from '../problem-id.js';
import type { Tier } from '../task.js';
import {
  RELATIONS,
  type Fact,
  type LadderProblem,
  type Operation,
  type Relation,
} from './problem.js';
import { VOCABULARIES, type Part, type Vocabulary } from './vocabulary.js';

type Family = 'copy' | 'pick' | 'sort' | 'reverse' | 'sum' | 'abstain';

export interface TierShape extends Tier {
  readonly group: Family;
  readonly operations: readonly Operation[];
  /** Words, numbers, terms or sentences: the knob. */
  readonly length: number;
}

const level = (
  family: Family,
  step: number,
  length: number,
  operations: readonly Operation[],
  title: string,
): TierShape => ({
  id: `${family}-${step}`,
  title,
  trains: true,
  group: family,
  operations,
  length,
});

/** Six families, each in an easier and a harder level. */
export const TIERS: readonly TierShape[] = [
  level('copy', 1, 3, ['upper', 'drop'], '3 words, one in capitals or left out'),
  level(
    'copy',
    2,
    5,
    ['upper', 'drop', 'swap'],
    '5 words, one in capitals or left out, or two swapped',
  ),
  level('pick', 1, 3, ['largest', 'smallest'], 'largest or smallest of 3 digits'),
  level('pick', 2, 6, ['largest', 'smallest', 'item'], 'largest, smallest or k-th of 6 digits'),
  level('sort', 1, 3, ['ascending'], '3 digits from smallest to largest'),
  level('sort', 2, 4, ['ascending', 'descending'], '4 digits, either way'),
  level('reverse', 1, 3, ['reverse'], '3 words in reverse order'),
  level('reverse', 2, 4, ['reverse'], '4 words in reverse order'),
  level('sum', 1, 2, ['sum'], 'a digit added to a number below 20, or taken away'),
  level('sum', 2, 4, ['sum'], '4 digits added or taken away'),
  level('abstain', 1, 2, ['ask'], 'a question to 2 sentences, answered or not'),
  level('abstain', 2, 5, ['ask'], 'a question to 5 sentences, answered or not'),
];

const pick = <T>(random: Random, items: readonly T[]): T =>
  items[random.nextInteger(0, items.length - 1)]!;
const DIGITS = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'];
const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

type Content = Omit<LadderProblem, 'id' | 'task' | 'tier' | 'operation'>;
const ofItems = (items: readonly string[], position: number | null = null): Content => ({
  position,
  items,
  facts: [],
  question: null,
});

/** Terms whose sums from the left on are 0 or more; the first of two may have two digits. */
function drawTerms(random: Random, length: number): string[] {
  let sum = random.nextInteger(0, length === 2 ? 19 : 9);
  const terms = [String(sum)];
  while (terms.length < length) {
    const term = random.nextInteger(0, 9);
    const minus = term <= sum && random.nextInteger(0, 1) === 1;
    sum += minus ? -term : term;
    terms.push(`${minus ? '-' : '+'} ${term}`);
  }
  return terms;
}

const poolOf = (words: Vocabulary, relation: Relation): readonly string[] =>
  ({ lives: words.cities, likes: words.foods, has: words.animals, wears: words.colors })[relation];

/**
 * Sentences of which no two answer one question. Half of the questions are answered by one of them;
 * of the others the person and the relation both stand there, of different sentences.
 */
function drawContext(random: Random, length: number, words: Vocabulary): Content {
  const answered = random.nextInteger(0, 1) === 1;
  for (;;) {
    const people = random.shuffle(words.people).slice(0, Math.ceil(length / 2) + 1);
    const facts: Fact[] = [];
    for (const index of range(length)) {
      const relation = pick(random, RELATIONS);
      facts.push({
        who: index < people.length ? people[index]! : pick(random, people),
        relation,
        what: pick(random, poolOf(words, relation)),
      });
    }
    if (new Set(facts.map(({ who, relation }) => `${who} ${relation}`)).size < length) continue;
    if (new Set(facts.map(({ what }) => what)).size < length) continue;
    const shuffled = random.shuffle(facts);
    const open = shuffled.flatMap(({ who }) =>
      shuffled
        .filter(
          ({ relation }) => !facts.some((fact) => fact.who === who && fact.relation === relation),
        )
        .map(({ relation }) => ({ who, relation })),
    );
    const { who, relation } = answered || open.length === 0 ? shuffled[0]! : pick(random, open);
    if (!answered && open.length === 0) continue;
    return { position: null, items: [], facts: random.shuffle(facts), question: { who, relation } };
  }
}

function drawContent(
  random: Random,
  operation: Operation,
  length: number,
  words: Vocabulary,
): Content {
  switch (operation) {
    case 'upper':
    case 'drop':
      return ofItems(random.shuffle(words.words).slice(0, length), random.nextInteger(1, length));
    case 'swap':
      return ofItems(
        random.shuffle(words.words).slice(0, length),
        random.nextInteger(1, length - 1),
      );
    case 'reverse':
      return ofItems(random.shuffle(words.words).slice(0, length));
    case 'item':
      return ofItems(random.shuffle(DIGITS).slice(0, length), random.nextInteger(1, length));
    case 'largest':
    case 'smallest':
      return ofItems(random.shuffle(DIGITS).slice(0, length));
    case 'ascending':
    case 'descending':
      for (;;) {
        const items = random.shuffle(DIGITS).slice(0, length);
        const order = operation === 'ascending' ? 1 : -1;
        if (items.some((item, at) => at > 0 && order * (Number(item) - Number(items[at - 1])) < 0))
          return ofItems(items);
      }
    case 'sum':
      return ofItems(drawTerms(random, length));
    case 'ask':
      return drawContext(random, length, words);
  }
}

/** Draws one problem; what is to be sorted is not sorted yet. */
export function drawProblem(
  task: string,
  { id: tier, operations, length }: TierShape,
  random: Random,
  part: Part,
): LadderProblem {
  const operation = pick(random, operations);
  const content = {
    task,
    tier,
    operation,
    ...drawContent(random, operation, length, VOCABULARIES[part]),
  };
  return { id: problemId(content), ...content };
}
