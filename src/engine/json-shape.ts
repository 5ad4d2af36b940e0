/**
 * What is known of the values that a schema allows, so that alternatives of `oneOf` can be told
 * apart.
 */
import type { Json } from '../canonical-json.js';
import { isList } from './json-keywords.js';

export const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'] as const;
export type Type = (typeof TYPES)[number];

export interface Shape {
  readonly types: ReadonlySet<Type>;
  /** As `identity` has them, where they are listed. */
  readonly values: ReadonlySet<string> | null;
  /** Listed values of properties that every object has that is written. */
  readonly tags: ReadonlyMap<string, ReadonlySet<string>>;
  /** And of those that may be left out. */
  readonly optional: ReadonlyMap<string, ReadonlySet<string>>;
}

export const UNKNOWN: Shape = {
  types: new Set(TYPES),
  values: null,
  tags: new Map(),
  optional: new Map(),
};

export function typeOf(value: Json): Type {
  if (value === null) return 'null';
  if (isList(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value as 'object' | 'string' | 'boolean';
}

const overlap = (a: ReadonlySet<Type>, b: ReadonlySet<Type>): boolean =>
  [...a].some(
    (type) =>
      b.has(type) ||
      (type === 'integer' && b.has('number')) ||
      (type === 'number' && b.has('integer')),
  );
const intersect = (a: ReadonlySet<string>, b: ReadonlySet<string>): boolean =>
  [...a].some((value) => b.has(value));

export function disjoint(a: Shape, b: Shape): boolean {
  if (!overlap(a.types, b.types)) return true;
  if (a.values !== null && b.values !== null) return !intersect(a.values, b.values);
  return [...a.tags].some(
    ([name, values]) => b.tags.has(name) && !intersect(values, b.tags.get(name)!),
  );
}

/**
 * Whether all list their values, and no value is listed twice: told in one pass, where there may be
 * thousands.
 */
export function areListed(shapes: readonly Shape[]): boolean {
  const all = new Set<string>();
  let count = 0;
  for (const { values } of shapes) {
    if (values === null) return false;
    count += values.size;
    for (const value of values) all.add(value);
  }
  return all.size === count;
}

/** A property by which all alternatives that are objects are told apart once each has it. */
export function tagOf(shapes: readonly Shape[]): string | undefined {
  const objects = shapes.filter(({ types }) => types.has('object'));
  const valuesOf = (shape: Shape, name: string): ReadonlySet<string> | null =>
    shape.tags.get(name) ?? shape.optional.get(name) ?? null;
  const [first] = objects;
  if (first === undefined) return undefined;
  return [...first.tags.keys(), ...first.optional.keys()].find((name) =>
    areListed(objects.map((shape) => ({ ...UNKNOWN, values: valuesOf(shape, name) }))),
  );
}

export const withTag = (shape: Shape, name: string): Shape =>
  shape.optional.has(name)
    ? { ...shape, tags: new Map([...shape.tags, [name, shape.optional.get(name)!]]) }
    : shape;
