/**
 * Values under names that a caller, a task, a model file or a log chose. Any string is a name: `__proto__`, `constructor` and `toString`
 * are nothing special in an object without prototype, neither when they are written nor when they are looked for.
 */
import { z } from 'zod';

export type Dictionary<T> = Readonly<Record<string, T>>;

/** An object without prototype; its JSON is that of any other. */
export function dictionary<T>(entries: Iterable<readonly [string, T]> = []): Record<string, T> {
  const made = Object.create(null) as Record<string, T>;
  for (const [name, value] of entries) made[name] = value;
  return made;
}

/** The value of a name in an object that may have come from JSON or another thread, and so have a prototype. */
export const valueOf = <T>(values: Dictionary<T>, name: string): T | undefined => (Object.hasOwn(values, name) ? values[name] : undefined);

/** As `z.record(z.string(), value)`, which leaves a member called `__proto__` out. */
export const dictionaryOf = <S extends z.ZodType>(value: S): z.ZodType<Record<string, z.output<S>>, Record<string, z.input<S>>> =>
  z
    .custom<Record<string, z.input<S>>>(
      (given) => typeof given === 'object' && given !== null && !Array.isArray(given),
      'expected an object',
    )
    .transform((given, context) => {
      const read = dictionary<z.output<S>>();
      for (const [name, member] of Object.entries(given)) {
        const parsed = value.safeParse(member);
        if (parsed.success) read[name] = parsed.data;
        else for (const issue of parsed.error.issues) context.addIssue({ ...issue, path: [name, ...issue.path] } as never);
      }
      return read;
    });
