/**
 * What expressions of a template are worth, as Python has them. A text is a string, an integer a
 * bigint, a float a number, a list an array; what JavaScript has no form for is a class of its own.
 */
import type { Budget } from './budget.js';
import { NotCovered, TemplateError } from './failures.js';
import type { Comparison } from './syntax.js';

export type Value =
  | string
  | bigint
  | number
  | boolean
  | null
  | Value[]
  | Dict
  | Items
  | Undefined
  | Namespace
  | Callable
  | Loop;

/** What is not there; it prints as nothing, and fails where something is asked of it. */
export class Undefined {
  readonly what: string;

  constructor(what: string) {
    this.what = what;
  }

  fail(): never {
    throw new TemplateError(this.what);
  }
}

/** What is no list and is gone through as one. A generator is gone through once. */
export class Items {
  readonly kind: 'tuple' | 'range' | 'generator' | `dict_${'keys' | 'values' | 'items'}`;
  #members: readonly Value[];

  constructor(kind: Items['kind'], members: readonly Value[]) {
    this.kind = kind;
    this.#members = members;
  }

  get members(): readonly Value[] {
    return this.#members;
  }

  /** What is left. */
  take(): readonly Value[] {
    const members = this.#members;
    if (this.kind === 'generator') this.#members = [];
    return members;
  }
}

export const tuple = (...members: readonly Value[]): Items => new Items('tuple', members);

/** In the order in which keys came. 1, 1.0 and True are one key. */
export class Dict {
  readonly #entries = new Map<unknown, [Value, Value]>();

  constructor(entries: Iterable<readonly [Value, Value]> = []) {
    for (const [key, value] of entries) this.set(key, value);
  }

  static #keyOf(key: Value): unknown {
    if (key instanceof Items && key.kind === 'tuple')
      throw new NotCovered('a tuple as the key of a dict');
    if (typeof key === 'object' && key !== null)
      throw new TemplateError(`${typeName(key)} cannot be the key of a dict`);
    if (typeof key === 'boolean') return key ? 1n : 0n;
    return typeof key === 'number' && Number.isInteger(key) ? BigInt(key) : key;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: Value): Value | undefined {
    return this.#entries.get(Dict.#keyOf(key))?.[1];
  }

  set(key: Value, value: Value): void {
    const own = Dict.#keyOf(key);
    this.#entries.set(own, [this.#entries.get(own)?.[0] ?? key, value]);
  }

  keys(): Value[] {
    return [...this.#entries.values()].map(([key]) => key);
  }

  values(): Value[] {
    return [...this.#entries.values()].map(([, value]) => value);
  }

  entries(): [Value, Value][] {
    return [...this.#entries.values()];
  }
}

/** What `set` may change. */
export class Namespace {
  readonly members: Map<string, Value>;

  constructor(members: Iterable<readonly [string, Value]>) {
    this.members = new Map(members);
  }
}

export interface Given {
  readonly positional: readonly Value[];
  readonly keywords: ReadonlyMap<string, Value>;
}

export class Callable {
  readonly name: string;
  readonly call: (given: Given) => Value;

  constructor(name: string, call: (given: Given) => Value) {
    this.name = name;
    this.call = call;
  }
}

/** `loop`, by its members. */
export class Loop {
  readonly members: Readonly<Record<string, () => Value>>;
  readonly again: ((over: Value) => Value) | null;

  constructor(members: Loop['members'], again: Loop['again']) {
    this.members = members;
    this.again = again;
  }
}

/**
 * What the caller gives, as JSON has it. A whole number is an integer, since JavaScript knows no
 * other.
 */
export function toValue(given: unknown): Value {
  if (typeof given === 'number')
    return Number.isSafeInteger(given) && !Object.is(given, -0) ? BigInt(given) : given;
  if (Array.isArray(given)) return given.map(toValue);
  if (typeof given === 'object' && given !== null)
    return new Dict(
      Object.entries(given).flatMap(([name, member]) =>
        member === undefined ? [] : [[name, toValue(member)] as const],
      ),
    );
  return given as string | boolean | null;
}

export function typeName(value: Value): string {
  if (typeof value === 'string') return 'str';
  if (typeof value === 'bigint') return 'int';
  if (typeof value === 'number') return 'float';
  if (typeof value === 'boolean') return 'bool';
  if (value === null) return 'NoneType';
  if (Array.isArray(value)) return 'list';
  if (value instanceof Items) return value.kind;
  if (value instanceof Dict) return 'dict';
  if (value instanceof Undefined) return 'Undefined';
  return value instanceof Namespace
    ? 'Namespace'
    : value instanceof Loop
      ? 'LoopContext'
      : 'function';
}

export function truth(value: Value): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Dict) return value.size > 0;
  if (value instanceof Items) return value.kind === 'generator' || value.members.length > 0;
  if (typeof value === 'number') return value !== 0; // nan is true
  return typeof value === 'object'
    ? value !== null && !(value instanceof Undefined)
    : Boolean(value);
}

/** A text's characters, which are not JavaScript's: one that takes two of those is one. */
export const isWide = (text: string): boolean => /[\ud800-\udfff]/.test(text);
export const characters = (text: string): readonly string[] =>
  isWide(text) ? Array.from(text) : text.split('');
export const lengthOf = (text: string): number =>
  isWide(text) ? Array.from(text).length : text.length;

/** What is gone through. @throws TemplateError */
export function iterated(value: Value, budget: Budget): readonly Value[] {
  if (Array.isArray(value)) return value;
  if (value instanceof Items) return value.take();
  if (value instanceof Undefined) return [];
  if (typeof value === 'string') {
    budget.members(value.length);
    return characters(value);
  }
  if (value instanceof Dict) {
    budget.members(value.size);
    return value.keys();
  }
  throw new TemplateError(`${typeName(value)} cannot be iterated over`);
}

export type Numeric = bigint | number;
/** True and False are numbers too. */
export const numeric = (value: Value): Numeric | null =>
  typeof value === 'bigint' || typeof value === 'number'
    ? value
    : typeof value === 'boolean'
      ? value
        ? 1n
        : 0n
      : null;

export function equal(left: Value, right: Value, budget: Budget): boolean {
  budget.steps(1);
  const [a, b] = [numeric(left), numeric(right)];
  // biome-ignore lint/suspicious/noDoubleEquals: it alone compares a bigint with a number by value
  if (a !== null && b !== null) return a == b; // as Python does
  if (typeof left === 'string' && typeof right === 'string')
    budget.read(Math.min(left.length, right.length));
  if (Array.isArray(left) && Array.isArray(right)) return equalMembers(left, right, budget);
  if (
    left instanceof Items &&
    right instanceof Items &&
    left.kind === right.kind &&
    left.kind !== 'generator'
  )
    return equalMembers(left.members, right.members, budget);
  if (left instanceof Dict && right instanceof Dict) {
    if (left.size !== right.size) return false;
    return left.entries().every(([key, value]) => {
      const other = right.get(key);
      return other !== undefined && nested(budget, () => equal(value, other, budget));
    });
  }
  return left === right || (left instanceof Undefined && right instanceof Undefined);
}

const equalMembers = (left: readonly Value[], right: readonly Value[], budget: Budget): boolean =>
  left.length === right.length &&
  left.every((member, i) => nested(budget, () => equal(member, right[i]!, budget)));

function nested<T>(budget: Budget, compute: () => T): T {
  budget.enter();
  const found = compute();
  budget.leave();
  return found;
}

/**
 * Negative, zero or positive, as for sorting.
 * @throws TemplateError where Python knows no order of the two
 */
export function order(left: Value, right: Value, budget: Budget): number {
  budget.steps(1);
  const [a, b] = [numeric(left), numeric(right)];
  if (a !== null && b !== null) return a < b ? -1 : a > b ? 1 : a >= b ? 0 : NaN;
  if (typeof left === 'string' && typeof right === 'string') {
    budget.read(Math.min(left.length, right.length));
    return orderOfTexts(left, right);
  }
  const [x, y] = [membersInOrder(left), membersInOrder(right)];
  if (x === null || y === null || Array.isArray(left) !== Array.isArray(right)) {
    if (left instanceof Undefined) left.fail();
    if (right instanceof Undefined) right.fail();
    throw new TemplateError(`${typeName(left)} and ${typeName(right)} cannot be ordered`);
  }
  for (let i = 0; i < Math.min(x.length, y.length); i++)
    if (!equal(x[i]!, y[i]!, budget)) return nested(budget, () => order(x[i]!, y[i]!, budget));
  return x.length - y.length;
}

/** Comparisons by their operators. */
export const COMPARES: Readonly<
  Record<Comparison, (left: Value, right: Value, budget: Budget) => boolean>
> = {
  '==': equal,
  '!=': (left, right, budget) => !equal(left, right, budget),
  '<': (left, right, budget) => order(left, right, budget) < 0,
  '<=': (left, right, budget) => order(left, right, budget) <= 0,
  '>': (left, right, budget) => order(left, right, budget) > 0,
  '>=': (left, right, budget) => order(left, right, budget) >= 0,
  in: (left, right, budget) => contains(right, left, budget),
  'not in': (left, right, budget) => !contains(right, left, budget),
};

const membersInOrder = (value: Value): readonly Value[] | null =>
  Array.isArray(value)
    ? value
    : value instanceof Items && value.kind === 'tuple'
      ? value.members
      : null;

/** By code points: JavaScript's own order is another one beyond U+D800. */
function orderOfTexts(left: string, right: string): number {
  if (!isWide(left) && !isWide(right)) return left < right ? -1 : left > right ? 1 : 0;
  return Buffer.compare(Buffer.from(left, 'utf8'), Buffer.from(right, 'utf8'));
}

/** @throws TemplateError */
export function contains(container: Value, member: Value, budget: Budget): boolean {
  if (container instanceof Dict) return container.get(member) !== undefined;
  if (typeof container === 'string') {
    if (typeof member !== 'string') {
      if (member instanceof Undefined) member.fail();
      throw new TemplateError(`"in" on a string needs a string, not ${typeName(member)}`);
    }
    budget.search(container, member);
    return container.includes(member);
  }
  if (container instanceof Namespace || container instanceof Callable)
    throw new TemplateError(`${typeName(container)} cannot be searched with "in"`);
  return iterated(container, budget).some((one) => equal(one, member, budget));
}

/** The whole number that is meant. @throws TemplateError */
export function integerOf(value: Value, what: string): number {
  const number = typeof value === 'boolean' ? BigInt(value) : value;
  if (typeof number !== 'bigint') {
    if (value instanceof Undefined) value.fail();
    throw new TemplateError(`${what} must be an integer, not ${typeName(value)}`);
  }
  return Number(
    BigInt.asIntN(64, number) === number ? number : number < 0n ? -(2n ** 53n) : 2n ** 53n,
  );
}

/** @throws TemplateError */
export function textOf(value: Value | undefined, what: string): string {
  if (typeof value === 'string') return value;
  if (value instanceof Undefined) value.fail();
  throw new TemplateError(
    value === undefined ? `${what} is missing` : `${what} must be a string, not ${typeName(value)}`,
  );
}
