/** What zod finds wrong, in words for whoever wrote the value. */
import { z } from 'zod';
import { didYouMean } from './nearest.js';

const LONGEST = 40;

/** A value that was given, as it is written; nothing where that would be long. */
function given(input: unknown): string {
  if (typeof input === 'bigint') return `, not ${input}`;
  if (!['number', 'string', 'boolean'].includes(typeof input) && input !== null) return '';
  const text = typeof input === 'number' ? String(input) : JSON.stringify(input);
  return text.length > LONGEST ? '' : `, not ${text}`;
}

const TYPES: Readonly<Record<string, string>> = {
  int: 'a whole number',
  number: 'a number',
  string: 'a text',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
};

type Bounded = Extract<z.core.$ZodRawIssue, { code: 'too_small' | 'too_big' }>;

function ofBounds(issue: Bounded): string | undefined {
  const [bound, words] =
    issue.code === 'too_small' ? [issue.minimum, ['at least', 'more than']] : [issue.maximum, ['at most', 'less than']];
  const limit = `${issue.inclusive === false ? words[1] : words[0]} ${bound}`;
  switch (issue.origin) {
    case 'int':
    case 'number':
    case 'bigint':
      return `takes ${limit}${given(issue.input)}`;
    case 'string':
      return bound === 1 && issue.code === 'too_small' ? 'is empty' : `takes ${limit} characters`;
    case 'array':
      return bound === 1 && issue.code === 'too_small' ? 'is empty' : `takes ${limit} members`;
    default:
      return undefined;
  }
}

/** For `safeParse(value, { error: plainWords })`: a schema's own words go before these, zod's come after them. */
export function plainWords(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code === 'too_small' || issue.code === 'too_big') return ofBounds(issue);
  if (issue.code !== 'invalid_type') return undefined;
  const type = TYPES[issue.expected];
  if (type === undefined) return undefined;
  return issue.input === undefined ? `is missing: ${type}` : `takes ${type}${given(issue.input)}`;
}

interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>;
}

/** The members that a schema takes, as far as they can be named. */
function shapeOf(schema: z.ZodType): Shape {
  try {
    return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Shape;
  } catch {
    return {};
  }
}

/** Of a key that its object does not have: where it belongs, or the nearest one there is. */
export function strangeKeys(schema: z.ZodType, path: readonly PropertyKey[], keys: readonly string[]): string[] {
  const shape = path.reduce<Shape | undefined>((of, key) => of?.properties?.[String(key)], shapeOf(schema));
  const known = Object.entries(shape?.properties ?? {});
  return keys.map((key) => {
    const parts = known.flatMap(([part, { properties = {} }]) => (Object.hasOwn(properties, key) ? [part] : []));
    const elsewhere = parts.length === 0 ? '' : `; it belongs in ${parts.join(' or ')}: { ${parts[0]}: { ${key} } }`;
    return `there is no ${JSON.stringify(key)}${
      elsewhere ||
      didYouMean(
        key,
        known.map(([name]) => name),
      )
    }`;
  });
}
