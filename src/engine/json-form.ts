/** JSON form of results: typed arrays as lists of numbers. */

function plain(value: unknown): unknown {
  if (ArrayBuffer.isView(value)) return [...(value as unknown as Iterable<number>)];
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plain(member)]));
}

function toJSON(this: object): unknown {
  return plain({ ...this });
}

/**
 * The same result, whose arrays JSON.stringify writes as lists; those of a copy of its fields as
 * objects.
 */
export function withJson<Result extends object>(result: Result): Result {
  return Object.defineProperty(result, 'toJSON', { value: toJSON });
}
