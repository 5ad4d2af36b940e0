import { z } from 'zod';
import { readContent, type ProblemOf } from '../built-in.js';

/** What is to be done with the items; `position` counts from 1, where the operation has one. */
export const OPERATIONS = [
  'upper',
  'drop',
  'swap',
  'largest',
  'smallest',
  'item',
  'ascending',
  'descending',
  'reverse',
  'sum',
  'ask',
] as const;
export type Operation = (typeof OPERATIONS)[number];

export const RELATIONS = ['lives', 'likes', 'has', 'wears'] as const;
export type Relation = (typeof RELATIONS)[number];

const WITH_POSITION: ReadonlySet<Operation> = new Set(['upper', 'drop', 'swap', 'item']);
const NUMERIC: ReadonlySet<Operation> = new Set(['largest', 'smallest', 'ascending', 'descending']);

const word = z.string().regex(/^[A-Za-z]{1,20}$/);
const fact = z.object({ who: word, relation: z.enum(RELATIONS), what: word });
const schema = z.object({
  id: z.string().optional(),
  task: z.string(),
  tier: z.string(),
  operation: z.enum(OPERATIONS),
  /** Of `upper`, `drop`, `swap` (with the one after it) and `item`; else null. */
  position: z.int().min(1).nullable(),
  /**
   * Words or numbers; of a sum its terms, each with its sign from the second on (`+ 3`, `- 2`);
   * empty where there is a context.
   */
  items: z.array(z.string().regex(/^([a-z]{1,20}|([+-] )?\d{1,4})$/)).max(12),
  /** Of `ask`: the sentences, and whose what is asked for. */
  facts: z.array(fact).max(12),
  question: fact.pick({ who: true, relation: true }).nullable(),
});

/** The answer is not in it: `solve` derives it. */
export type LadderProblem = ProblemOf<typeof schema>;
/** One sentence of a context. */
export type Fact = LadderProblem['facts'][number];

/**
 * Checks a problem that came from outside: shape, what its operation needs, and that `id`, where
 * given, is the content hash.
 * @throws IsoproError PROBLEM_INVALID
 */
export const readLadderProblem = (task: string, value: unknown): LadderProblem =>
  readContent(`a problem of ${task}`, task, schema, value, (content, invalid) => {
    const { operation, position, items, facts, question } = content;
    if (operation === 'ask') {
      if (facts.length === 0 || question === null || items.length > 0)
        invalid('the operation ask needs facts and a question, and no items');
      if (new Set(facts.map(({ who, relation }) => `${who} ${relation}`)).size < facts.length)
        invalid('two facts answer the same question');
    } else {
      if (facts.length > 0 || question !== null)
        invalid('only the operation ask has facts or a question');
      if (items.length < 2) invalid('it needs at least two items');
    }
    if (WITH_POSITION.has(operation) !== (position !== null))
      invalid(
        `the operation ${operation} ${position === null ? 'needs a position' : 'has no position'}`,
      );
    if (position !== null && position > items.length - (operation === 'swap' ? 1 : 0))
      invalid(
        `the operation ${operation} cannot use position ${position} of ${items.length} items`,
      );
    if (NUMERIC.has(operation) && !items.every((item) => /^\d+$/.test(item)))
      invalid('its items must be numbers');
    if (
      operation === 'sum' &&
      !items.every((item, at) => (at === 0 ? /^\d+$/ : /^[+-] \d+$/).test(item))
    )
      invalid('each term of a sum after the first must have a sign');
    if (operation !== 'sum' && items.some((item) => item.includes(' ')))
      invalid('only terms of a sum have signs');
  });
