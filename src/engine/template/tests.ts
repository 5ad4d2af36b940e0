/** Tests (`x is …`) as jinja2 3.1 has them. */
import { bound } from './arguments.js';
import { operation } from './arithmetic.js';
import type { Budget } from './budget.js';
import { NotCovered, TemplateError } from './failures.js';
import { FILTER_NAMES, isSame } from './filters.js';
import { isLower, isUpper } from './letters.js';
import { str } from './python-text.js';
import {
  Callable,
  COMPARES,
  Dict,
  equal,
  Items,
  numeric,
  textOf,
  Undefined,
  type Given,
  type Value,
} from './values.js';

type Test = (of: Value, given: Given, budget: Budget) => boolean;

const alone =
  (holds: (of: Value, budget: Budget) => boolean): Test =>
  (of, given, budget) => {
    bound('the test', [], given);
    return holds(of, budget);
  };
const withOne =
  (holds: (of: Value, other: Value, budget: Budget) => boolean): Test =>
  (of, given, budget) => {
    const [other] = bound('the test', ['other'], given);
    if (other === undefined) throw new TemplateError('a test needs a value to compare with');
    return holds(of, other, budget);
  };
const isRemainder = (of: Value, by: bigint, rest: bigint, budget: Budget): boolean =>
  equal(operation('%', of, by, budget), rest, budget);

const { 'not in': _, ...compares } = COMPARES;
const { '==': eq, '!=': ne, '<': lt, '<=': le, '>': gt, '>=': ge } = compares;
const aliases = { eq, equalto: eq, ne, lt, lessthan: lt, le, gt, greaterthan: gt, ge };
const TESTS: Readonly<Record<string, Test>> = {
  ...Object.fromEntries(
    Object.entries({ ...compares, ...aliases }).map(([name, holds]) => [name, withOne(holds)]),
  ),
  boolean: alone((of) => typeof of === 'boolean'),
  callable: alone((of) => of instanceof Callable),
  defined: alone((of) => !(of instanceof Undefined)),
  divisibleby: withOne((of, by, budget) => equal(operation('%', of, by, budget), 0n, budget)),
  even: alone((of, budget) => isRemainder(of, 2n, 0n, budget)),
  false: alone((of) => of === false),
  filter: alone((of) => FILTER_NAMES.has(textOf(of, 'the name of a filter'))),
  float: alone((of) => typeof of === 'number'),
  integer: alone((of) => typeof of === 'bigint'),
  iterable: alone(
    (of) =>
      typeof of === 'string' ||
      Array.isArray(of) ||
      of instanceof Items ||
      of instanceof Dict ||
      of instanceof Undefined,
  ),
  lower: alone((of, budget) => isLower(str(of, budget))),
  mapping: alone((of) => of instanceof Dict),
  none: alone((of) => of === null),
  number: alone((of) => numeric(of) !== null),
  odd: alone((of, budget) => isRemainder(of, 2n, 1n, budget)),
  sameas: withOne(isSame),
  sequence: alone(
    (of) =>
      typeof of === 'string' ||
      Array.isArray(of) ||
      of instanceof Dict ||
      of instanceof Undefined ||
      (of instanceof Items && (of.kind === 'tuple' || of.kind === 'range')),
  ),
  string: alone((of) => typeof of === 'string'),
  test: alone((of) => TEST_NAMES.has(textOf(of, 'the name of a test'))),
  true: alone((of) => of === true),
  undefined: alone((of) => of instanceof Undefined),
  upper: alone((of, budget) => isUpper(str(of, budget))),
};

export const TEST_NAMES: ReadonlySet<string> = new Set(Object.keys(TESTS));

/** What a test that is not covered is called; null: it is. */
export const uncoveredTest = (name: string): string | null =>
  TEST_NAMES.has(name) ? null : `the test "${name}"`;

/** @throws NotCovered, TemplateError */
export function tested(name: string, of: Value, given: Given, budget: Budget): boolean {
  const uncovered = uncoveredTest(name);
  if (uncovered !== null) throw new NotCovered(uncovered);
  return TESTS[name]!(of, given, budget);
}
