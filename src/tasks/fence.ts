/**
 * Fences of code in replies, read in one way by every task: a name of a language in whatever case,
 * blanks around it.
 */
import { trimBlanks } from './blanks.js';

const OPENING = /^[ \t]*```[ \t]*([\w+#.-]*)[ \t\r]*$/;

/**
 * The language that a line opens a block of, in lower case, empty where it names none; null where
 * the line is no fence.
 */
export const fenceLanguage = (line: string): string | null =>
  OPENING.exec(line)?.[1]?.toLowerCase() ?? null;

/**
 * What stands in the one block that is the whole of a text, blanks around aside.
 * @param languages that it may be of, in lower case; default: any
 * @returns null where the text is no such block
 */
export function fenced(text: string, languages?: readonly string[]): string | null {
  const whole = trimBlanks(text);
  const line = whole.indexOf('\n');
  if (line < 0 || line > whole.length - 4 || !whole.endsWith('```')) return null;
  const language = fenceLanguage(whole.slice(0, line));
  return language === null || languages?.includes(language) === false
    ? null
    : whole.slice(line + 1, -3);
}
