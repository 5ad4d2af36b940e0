import { z } from 'zod';
import { dictionary } from './dictionary.js';

/** As `z.record(z.string(), value)`, which leaves a member called `__proto__` out. */
export const dictionaryOf = <S extends z.ZodType>(
  value: S,
): z.ZodType<Record<string, z.output<S>>, Record<string, z.input<S>>> =>
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
        else
          for (const issue of parsed.error.issues)
            context.addIssue({ ...issue, path: [name, ...issue.path] } as never);
      }
      return read;
    });
