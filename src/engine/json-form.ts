/** How a result is written as JSON: 64-bit seeds as decimal strings, typed arrays as lists of numbers. */

function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (ArrayBuffer.isView(value)) return [...(value as unknown as Iterable<number>)];
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plain(member)]));
}

function toJSON(this: object): unknown {
  return plain({ ...this });
}

/** The same result, which JSON.stringify takes; a copy of its fields is one that it does not. */
export function withJson<Result extends object>(result: Result): Result {
  return Object.defineProperty(result, 'toJSON', { value: toJSON });
}
