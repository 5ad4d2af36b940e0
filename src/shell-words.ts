/**
 * The words of a command that a user typed as one text, without a shell: the inverse of `shellWord`
 * (shell-word.ts). Quotes hold words together; nothing else has a meaning, so `$HOME`, `*`, `|` and
 * `>` are characters like others.
 */
import { IsoproError } from './errors.js';

/**
 * On POSIX, text in single quotes is as it is; in double quotes and outside of quotes a backslash
 * makes the next character an ordinary one (in double quotes only `"`, `\`, `$` and a backtick). On
 * Windows a backslash is an ordinary character, and a quote in single quotes is doubled.
 * @throws IsoproError INVALID_ARGUMENT for a quote that is not closed, and a backslash at the end
 */
export function shellWords(text: string, platform: NodeJS.Platform = process.platform): string[] {
  const isWindows = platform === 'win32';
  const words: string[] = [];
  let word: string | null = null;
  const refuse = (what: string): never => {
    throw new IsoproError('INVALID_ARGUMENT', `${what} in the command ${JSON.stringify(text)}`);
  };
  for (let at = 0; at < text.length; ) {
    const character = text[at]!;
    const next = text[at + 1];
    if (/[ \t\r\n]/.test(character)) {
      if (word !== null) words.push(word);
      word = null;
      at++;
    } else if (character === "'" || character === '"') {
      const [inside, end] = quoted(text, at, isWindows);
      if (end > text.length) refuse(`a quote ${character} is not closed`);
      word = (word ?? '') + inside;
      at = end;
    } else if (character === '\\' && !isWindows) {
      if (next === undefined) refuse('a backslash is at the end');
      word = (word ?? '') + next;
      at += 2;
    } else {
      word = (word ?? '') + character;
      at++;
    }
  }
  return word === null ? words : [...words, word];
}

/**
 * The text in quotes that begin at a place.
 * @returns with the place behind the closing quote, which is outside where there is none
 */
function quoted(text: string, from: number, isWindows: boolean): [inside: string, end: number] {
  const quote = text[from]!;
  let inside = '';
  for (let at = from + 1; at < text.length; at++) {
    const character = text[at]!;
    const next = text[at + 1];
    if (character === quote) {
      if (!isWindows || quote !== "'" || next !== quote) return [inside, at + 1];
      inside += quote;
      at++;
    } else if (
      character === '\\' &&
      quote === '"' &&
      !isWindows &&
      next !== undefined &&
      '"\\$`'.includes(next)
    ) {
      inside += next;
      at++;
    } else inside += character;
  }
  return [inside, text.length + 1];
}
