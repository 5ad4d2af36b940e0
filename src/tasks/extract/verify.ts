import type { Verdict, Violation } from '../task.js';
import { KIND_TESTS, type Extraction, type ExtractProblem, type Value } from './problem.js';

const SHOWN = 60;
/** Keys that nobody asked for that are named one by one. */
const EXTRA_NAMED = 8;
const show = (value: Value): string => {
  const text = JSON.stringify(value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
};

const NAMES = {
  text: 'a text',
  integer: 'a whole number',
  amount: 'a number',
  currency: 'a code of three letters',
  date: 'a date as YYYY-MM-DD',
  time: 'a time as HH:MM',
  boolean: 'true or false',
} as const;

/**
 * Judges an object: all violations, of categories `missing` (a key is not there), `extra` (one that
 * nobody asked for), `type` and `value`. The score is the part of the schema's keys whose value is
 * right; one right key less for each extra key.
 */
export function verifyExtraction(
  { schema, expected }: ExtractProblem,
  answer: Extraction,
): Verdict {
  const violations: Violation[] = [];
  const violate = (category: string, key: string, detail: string): void => {
    violations.push({ category, jobs: [key.slice(0, SHOWN)], amount: 1, detail });
  };
  let right = 0;
  for (const { key, kind } of schema) {
    if (!Object.hasOwn(answer, key)) {
      violate('missing', key, `The key "${key}" is missing.`);
      continue;
    }
    const [value, wanted] = [answer[key]!, expected[key]!];
    if (value === wanted) right++;
    else if (value !== null && !KIND_TESTS[kind](value))
      violate('type', key, `"${key}" is ${show(value)}, which is not ${NAMES[kind]}.`);
    else if (value === null)
      violate('value', key, `"${key}" is null, but the message says what stands there.`);
    else violate('value', key, `"${key}" is ${show(value)}, which is not what the message says.`);
  }
  const asked = new Set(schema.map(({ key }) => key));
  const extra = Object.keys(answer).filter((key) => !asked.has(key));
  for (const key of extra.slice(0, EXTRA_NAMED))
    violate('extra', key, `The key ${show(key)} was not asked for.`);
  const unnamed = extra.length - EXTRA_NAMED;
  if (unnamed > 0)
    violations.push({
      category: 'extra',
      jobs: [],
      amount: unnamed,
      detail: `${unnamed} more keys were not asked for.`,
    });
  const score = Math.max(0, right - extra.length) / schema.length;
  return { kind: violations.length === 0 ? 'pass' : 'fail', violations, metrics: { right }, score };
}
