import { trimBlanks } from '../blanks.js';
import { refused } from '../flat-object.js';
import type { Parsed } from '../task.js';
import type { LadderProblem } from './problem.js';
import { solve } from './solve.js';

/** Longest answer that is read, in UTF-16 code units. */
const LONGEST = 400;

/**
 * The reply without the blanks and line ends around it, without one period at its end and one pair
 * of quotes around it.
 */
export function parseAnswer(text: string): Parsed<string> {
  const whole = trimBlanks(text).replace(/\.$/, '');
  const answer = /^(["'`])(.*)\1$/.exec(whole)?.[2] ?? whole;
  if (answer === '') return refused('The reply is empty.');
  if (answer.length > LONGEST) return refused(`The reply has more than ${LONGEST} characters.`);
  if (/[\n\r\u2028\u2029]/.test(answer)) return refused('The reply has more than one line.');
  return answer.isWellFormed()
    ? { ok: true, answer, form: 'line' }
    : refused('The reply holds half a character.');
}

const words = (text: string): string[] => text.match(/[\p{L}\p{N}]+/gu) ?? [];

/**
 * Whatever stands at the end of a line, or behind its last colon, equals sign or arrow, as many
 * words of it as an answer has; marks and quotes between the words are left out. The last lines
 * come first.
 */
export function readLeniently(text: string, problem: LadderProblem): string[] {
  const count = words(solve(problem)).length;
  const found = new Set<string>();
  for (const line of text
    .slice(-4 * LONGEST)
    .split(/\r?\n/)
    .reverse()) {
    const last = words(line);
    if (last.length === 0) continue;
    found.add(last.slice(-count).join(' '));
    found.add(
      words(line.split(/[:=→>]/).at(-1)!)
        .slice(0, count)
        .join(' '),
    );
    found.add(last.slice(0, count).join(' '));
  }
  found.delete('');
  return [...found];
}

/** GBNF of one line of words or numbers with one space between two of them. */
export const ANSWER_GRAMMAR =
  'root ::= item (" " item){0,11}\nitem ::= [A-Za-z]{1,20} | [0-9]{1,4}\n';
