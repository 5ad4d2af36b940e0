import { Random } from '../../random.js';
import type { FieldKind } from './document.js';
import type { Extraction, ExtractProblem, Field, Value } from './problem.js';

const fill = (problem: ExtractProblem, value: (field: Field) => Value): Extraction =>
  Object.fromEntries(problem.schema.map((field) => [field.key, value(field)]));

/**
 * The first thing in the message that looks like a value of a kind, in its plain spelling alone.
 */
const PLAIN: Readonly<Record<FieldKind, RegExp>> = {
  text: /\b[A-Z]\w+ [A-Z]\w+/,
  integer: /(?<![\d.,:/-])\d+(?![\d.,:/-])/,
  amount: /\d+\.\d\d/,
  currency: /\b(?:EUR|USD|GBP)\b/,
  date: /\d{4}-\d{2}-\d{2}/,
  time: /\b\d\d:\d\d\b/,
  boolean: /\b(?:yes|no)\b/,
};

function read(kind: FieldKind, text: string): Value {
  if (kind === 'integer' || kind === 'amount') return Number(text);
  return kind === 'boolean' ? text === 'yes' : text;
}

/** Everything in the message of a field's kind, plainly spelled, in order. */
const candidates = ({ message }: ExtractProblem, kind: FieldKind): Value[] =>
  [...message.matchAll(new RegExp(PLAIN[kind], 'g'))].map(([text]) => read(kind, text));

/** Policies that do not read what a key means. */
export const POLICIES = {
  'empty-object': () => ({}),
  'all-null': (problem) => fill(problem, () => null),
  'first-of-kind': (problem) => fill(problem, ({ kind }) => candidates(problem, kind)[0] ?? null),
  'last-of-kind': (problem) =>
    fill(problem, ({ kind }) => candidates(problem, kind).at(-1) ?? null),
  'random-of-kind': (problem) => {
    const random = new Random(BigInt(`0x${problem.id.slice(0, 16)}`));
    return fill(problem, ({ kind }) => {
      const found = candidates(problem, kind);
      return found.length === 0 ? null : found[random.nextInteger(0, found.length - 1)]!;
    });
  },
  'whole-message': (problem) => fill(problem, () => problem.message),
} as const satisfies Record<string, (problem: ExtractProblem) => Extraction>;

export const POLICY_NOTES: Readonly<Record<string, string>> = {
  'first-of-kind':
    'right wherever the message holds one value of a kind, plainly spelled; what is above it was read',
};
