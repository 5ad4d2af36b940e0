/**
 * Values under names that a caller, a task, a model file or a log chose. Any string is a name:
 * `__proto__`, `constructor` and `toString` are nothing special in an object without prototype,
 * neither when they are written nor when they are looked for.
 */
export type Dictionary<T> = Readonly<Record<string, T>>;

/** An object without prototype; its JSON is that of any other. */
export function dictionary<T>(entries: Iterable<readonly [string, T]> = []): Record<string, T> {
  const made = Object.create(null) as Record<string, T>;
  for (const [name, value] of entries) made[name] = value;
  return made;
}

/**
 * The value of a name in an object that may have come from JSON or another thread, and so have a
 * prototype.
 */
export const ownValue = <T>(values: Dictionary<T>, name: string): T | undefined =>
  Object.hasOwn(values, name) ? values[name] : undefined;
