/** How a reply is read, and when it is right, by check. They run in the thread of the task. */
import { canonicalJson, type Json } from '../../canonical-json.js';
import type { GivenVerdict } from '../define-task.js';
import type { ChatMessage, Parsed } from '../task.js';
import { compileSchema, regexOf, type Check } from './check.js';
import type { Checker } from './checker.js';
import type { DataProblem } from './data-problem.js';
import { lastNumber, readNumber } from './number.js';
import { programChecker } from './program-checkers.js';
import { askedOf, verdictOf, type Graded } from './score-model.js';

const read = <A>(answer: A): Parsed<A> => ({ ok: true, answer, form: 'answer' });
const unreadable = (detail: string): Parsed<never> => ({ ok: false, category: 'format', detail });

const verdict = (right: boolean, detail = 'The answer is not the right one.'): GivenVerdict =>
  right ? { kind: 'pass' } : { kind: 'fail', violations: [{ category: 'wrong', detail }] };

/** A reply without anything in it is no answer. */
const readText = (text: string): Parsed<string> => (text.trim() === '' ? unreadable('The reply is empty.') : read(text.trim()));

const expected = ({ answer }: DataProblem): string => answer as string;

/** Letter case, kinds of blanks, quotes around and a mark at the end make no other answer; signs and points within one do. */
export const normalised = (text: string): string =>
  text
    .normalize('NFKC')
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
    .join(' ')
    .replace(/^["'`\u2018\u2019\u201c\u201d*_]+/, '')
    .replace(/["'`\u2018\u2019\u201c\u201d*_.,;:!?\s]+$/, '');

/** What stands in a fenced block, where a reply is one. */
function unfenced(text: string): string {
  const lines = text.trim().split('\n');
  return lines.length > 2 && /^```\w*\s*$/.test(lines[0]!) && lines.at(-1)!.trim() === '```' ? lines.slice(1, -1).join('\n') : text;
}

function readJson(text: string): Parsed<{ readonly value: Json; readonly canonical: string }> {
  try {
    const value = JSON.parse(unfenced(text)) as Json;
    return read({ value, canonical: canonicalJson(value) });
  } catch {
    return unreadable('The reply is not one JSON value.');
  }
}

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');

/** The labels that a text names as words of their own, the longest first; a single letter counts as it is written, `a` is an article. */
function namedChoices(text: string, choices: readonly string[]): string[] {
  const labels = [...choices].sort((a, b) => b.length - a.length || (a < b ? -1 : 1));
  const words = new RegExp(`(?<![\\p{L}\\p{N}])(?:${labels.map(escaped).join('|')})(?![\\p{L}\\p{N}])`, 'giu');
  const found = new Set<string>();
  for (const [word] of text.matchAll(words)) {
    const label =
      labels.find((each) => each === word) ?? labels.find((each) => each.length > 1 && each.toLowerCase() === word.toLowerCase());
    if (label !== undefined) found.add(label);
  }
  return [...found];
}

function numberChecker({ tolerance, relative }: Check & { readonly kind: 'number' }): Checker<number> {
  return {
    read: (text) => {
      const found = lastNumber(text);
      return found === null ? unreadable('There is no number in the reply.') : read(found);
    },
    verify: (problem, answer) => {
      const right = readNumber(expected(problem))!;
      const allowed = relative ? tolerance * Math.abs(right) : tolerance;
      // 2 - 1.99 is more than 0.01 in floating point
      const rounding = allowed === 0 ? 0 : 4 * Number.EPSILON * Math.max(Math.abs(answer), Math.abs(right));
      return verdict(Math.abs(answer - right) <= allowed + rounding);
    },
  };
}

function jsonChecker({ schema }: Check & { readonly kind: 'json' }): Checker<{ readonly value: Json; readonly canonical: string }> {
  const complaintOf = schema === null ? null : compileSchema(schema);
  return {
    read: readJson,
    verify: ({ answer }, { value, canonical }) => {
      const complaint = complaintOf?.(value) ?? null;
      if (complaint !== null) return { kind: 'fail', violations: [{ category: 'schema', detail: `${complaint}.` }] };
      return verdict(answer === null || canonical === canonicalJson(answer));
    },
  };
}

/** Asks the model of a check, which is not in this thread. */
export type AskModel = (messages: readonly ChatMessage[]) => Promise<Graded>;

/** @param ask of a check that is a model */
export function checkerOf(check: Check, ask?: AskModel): Checker {
  const text = (right: (problem: DataProblem, answer: string) => boolean): Checker =>
    ({ read: readText, verify: (problem, answer) => verdict(right(problem, answer)) }) satisfies Checker<string> as Checker;
  switch (check.kind) {
    case 'exact':
      return text((problem, answer) => answer === expected(problem));
    case 'normalised':
      return text((problem, answer) => normalised(answer) === normalised(expected(problem)));
    case 'contains':
      return text((problem, answer) => answer.includes(expected(problem)));
    case 'regex':
      return text((problem, answer) => regexOf(expected(problem)).test(answer));
    case 'choice':
      return {
        read: (reply, { choices = [] }) => {
          const found = namedChoices(reply, choices);
          return found.length === 1
            ? read(found[0]!)
            : unreadable(found.length === 0 ? 'The reply names none of the choices.' : 'The reply names more than one of the choices.');
        },
        verify: (problem, answer) => verdict(answer === expected(problem)),
      };
    case 'number':
      return numberChecker(check) as Checker;
    case 'json':
      return jsonChecker(check) as Checker;
    case 'model':
      return {
        read: readText,
        verify: async (problem, reply) => {
          if (ask === undefined) throw new Error('there is nobody to ask the model');
          return verdictOf(check.grading, await ask(askedOf(check.grading, problem, reply)));
        },
      } satisfies Checker<string> as Checker;
    default:
      return programChecker(check);
  }
}
