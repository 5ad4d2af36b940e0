/** Words for zod's issues, for the author of the value. */
import { z } from 'zod';
import { didYouMean } from './nearest.js';

const LONGEST = 40;

/** A value that was given, as it is written; nothing where that would be long. */
function given(input: unknown): string {
  if (typeof input === 'bigint') return `, not ${input}`;
  if (!['number', 'string', 'boolean'].includes(typeof input) && input !== null) return '';
  if (Number.isNaN(input)) return ''; // made of a text that is no number
  const text = typeof input === 'number' ? String(input) : JSON.stringify(input);
  return text.length > LONGEST ? '' : `, not ${text}`;
}

const TYPES: Readonly<Record<string, string>> = {
  int: 'a whole number',
  number: 'a number',
  string: 'a string',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

type Bounded = Extract<z.core.$ZodRawIssue, { code: 'too_small' | 'too_big' }>;

function ofBounds(issue: Bounded): string | undefined {
  const [bound, words] =
    issue.code === 'too_small'
      ? [issue.minimum, ['at least', 'more than']]
      : [issue.maximum, ['at most', 'less than']];
  const limit = `${issue.inclusive === false ? words[1] : words[0]} ${bound}`;
  switch (issue.origin) {
    case 'int':
    case 'number':
    case 'bigint':
      return `must be ${limit}${given(issue.input)}`;
    case 'string':
      return bound === 1 && issue.code === 'too_small'
        ? 'is empty'
        : `must have ${limit} characters`;
    case 'array':
      return bound === 1 && issue.code === 'too_small' ? 'is empty' : `must have ${limit} elements`;
    default:
      return undefined;
  }
}

/**
 * For `safeParse(value, { error: plainWords })`: a schema's own words go before these, zod's come
 * after them.
 */
export function plainWords(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code === 'too_small' || issue.code === 'too_big') return ofBounds(issue);
  if (issue.code === 'invalid_value') return taken(choice(issue.values), issue.input);
  if (issue.code === 'invalid_union' && Array.isArray(issue.options)) {
    const { discriminator, options, input } = issue as {
      readonly discriminator?: string;
      readonly options: unknown[];
      input?: unknown;
    };
    // left out, one of the forms is meant
    const named = options.filter((option) => option !== undefined && option !== null);
    return taken(choice(named), Object(input)[discriminator ?? '']);
  }
  if (issue.code !== 'invalid_type') return undefined;
  const type = TYPES[issue.expected];
  return type === undefined ? undefined : taken(type, issue.input);
}

const taken = (what: string, input: unknown): string =>
  input === undefined ? `is missing: ${what}` : `must be ${what}${given(input)}`;

/** `"a", "b" or "c"` */
function choice(values: readonly unknown[]): string {
  const words = values.map((value) =>
    typeof value === 'string' ? JSON.stringify(value) : String(value),
  );
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

type Issue = z.core.$ZodIssue;

/**
 * Of a value that is none of several forms: what is wrong with it as the one that it comes nearest
 * to, or what all of them take.
 */
export function plainIssue(issue: Issue): Issue {
  if (issue.code === 'invalid_key')
    return { ...issue, message: issue.issues[0]?.message ?? issue.message };
  if (issue.code !== 'invalid_union' || issue.errors.length === 0) return issue;
  const forms = issue.errors.map((issues) => {
    const first = plainIssue(issues[0]!);
    const isOfKind = !issues.some(({ code, path }) => code === 'invalid_value' && path.length > 0);
    const isOfType = first.code !== 'invalid_type' || first.path.length > 0;
    const near = [
      isOfType,
      isOfKind,
      first.path.length,
      first.code !== 'invalid_type',
      Number(first.path[0]) || 0,
    ].map(Number);
    return { first, near };
  });
  const isNearer = (a: readonly number[], b: readonly number[]): boolean => {
    const i = a.findIndex((value, at) => value !== b[at]);
    return i >= 0 && a[i]! > b[i]!;
  };
  const { first, near } = forms.reduce((best, form) =>
    isNearer(form.near, best.near) ? form : best,
  );
  const equals = forms
    .filter((form) => form.near.every((value, i) => value === near[i]))
    .map((form) => form.first);
  const path = [...issue.path, ...first.path];
  const taking = (what: string): Issue => ({
    ...first,
    path,
    message: first.message.replace(
      /^(must be|is missing:) .*?(, not .*)?$/,
      (_, verb: string, value = '') => `${verb} ${what}${value}`,
    ),
  });
  if (
    equals.every(
      (each) => each.code === 'invalid_value' && String(each.path) === String(first.path),
    )
  )
    return taking(
      choice([
        ...new Set(equals.flatMap((each) => (each.code === 'invalid_value' ? each.values : []))),
      ]),
    );
  if (first.path.length > 0 || !equals.every(({ code }) => code === 'invalid_type'))
    return { ...first, path };
  return taking(
    [
      ...new Set(
        equals.map((each) => TYPES[(each as { expected: string }).expected] ?? 'another value'),
      ),
    ].join(' or '),
  );
}

interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>;
}

/** Returns the members of a schema, as far as they can be named. */
function shapeOf(schema: z.ZodType): Shape {
  try {
    return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Shape;
  } catch {
    return {};
  }
}

/** Returns messages for unknown keys: where they belong, or the nearest known key. */
export function strangeKeys(
  schema: z.ZodType,
  path: readonly PropertyKey[],
  keys: readonly string[],
): string[] {
  const shape = path.reduce<Shape | undefined>(
    (of, key) => of?.properties?.[String(key)],
    shapeOf(schema),
  );
  const known = Object.entries(shape?.properties ?? {});
  return keys.map((key) => {
    const parts = known.flatMap(([part, { properties = {} }]) =>
      Object.hasOwn(properties, key) ? [part] : [],
    );
    const elsewhere =
      parts.length === 0
        ? ''
        : `; it belongs in ${parts.join(' or ')}: { ${parts[0]}: { ${key} } }`;
    return `there is no ${JSON.stringify(key)}${
      elsewhere ||
      didYouMean(
        key,
        known.map(([name]) => name),
      )
    }`;
  });
}
