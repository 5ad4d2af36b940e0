/**
 * What every template knows: jinja2's own names and transformers' `raise_exception`, but no clock.
 */
import { bound } from './arguments.js';
import type { Budget } from './budget.js';
import { TemplateError, TemplateLimit } from './failures.js';
import { str } from './python-text.js';
import { Scope } from './scope.js';
import {
  Callable,
  Dict,
  integerOf,
  Items,
  iterated,
  Namespace,
  Undefined,
  toValue,
  type Value,
} from './values.js';

/** Functions of jinja2 that are not covered. */
export const REFUSED_FUNCTIONS = new Set(['lipsum', 'cycler', 'joiner', 'self', 'super']);
/** As jinja2's sandbox has it. */
const LONGEST_RANGE = 100_000;

function range(given: readonly (Value | undefined)[], budget: Budget): Value {
  const [first, second, third = 1n] = given;
  const numbers = [second === undefined ? 0n : first, second ?? first, third].map((value) =>
    BigInt(integerOf(value ?? new Undefined('range needs an end'), 'a range bound')),
  );
  const [from, to, step] = numbers as [bigint, bigint, bigint];
  if (step === 0n) throw new TemplateError('the step of a range is 0');
  const distance = step > 0n ? to - from : from - to;
  const stride = step > 0n ? step : -step;
  const length = distance <= 0n ? 0n : (distance + stride - 1n) / stride;
  if (length > LONGEST_RANGE)
    throw new TemplateLimit(
      `a range has ${length} members, more than the ${LONGEST_RANGE} that jinja2 allows`,
    );
  budget.members(Number(length));
  return new Items(
    'range',
    Array.from({ length: Number(length) }, (_, i) => from + BigInt(i) * step),
  );
}

function dictOf(
  positional: readonly Value[],
  keywords: ReadonlyMap<string, Value>,
  budget: Budget,
): Dict {
  const [first, ...others] = positional;
  if (others.length > 0) throw new TemplateError('dict takes at most one positional argument');
  const entries =
    first === undefined
      ? []
      : first instanceof Dict
        ? first.entries()
        : iterated(first, budget).map((pair): [Value, Value] => {
            const [key, value, ...more] = iterated(pair, budget);
            if (key === undefined || value === undefined || more.length > 0)
              throw new TemplateError('dict needs a list of pairs');
            return [key, value];
          });
  budget.members(2 * (entries.length + keywords.size));
  return new Dict([...entries, ...keywords]);
}

/** @param variables of this rendering */
export function globals(variables: Readonly<Record<string, unknown>>, budget: Budget): Scope {
  const scope = new Scope(null);
  const define = (name: string, call: Callable['call']): void =>
    scope.set(name, new Callable(name, call));
  define('range', (given) => range(bound('range', ['start', 'stop', 'step'], given), budget));
  define('dict', ({ positional, keywords }) => dictOf(positional, keywords, budget));
  define('namespace', ({ positional, keywords }) => {
    const entries = dictOf(positional, keywords, budget).entries();
    return new Namespace(entries.map(([name, value]) => [str(name, budget), value]));
  });
  define('raise_exception', (given) => {
    throw new TemplateError(str(bound('raise_exception', ['message'], given)[0] ?? '', budget));
  });
  for (const name of REFUSED_FUNCTIONS) scope.refuse(name, `the function "${name}"`);
  for (const [name, value] of Object.entries(variables))
    if (value !== undefined) scope.set(name, toValue(value));
  return scope;
}
