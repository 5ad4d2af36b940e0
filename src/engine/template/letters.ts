/** The case of letters, as Python's texts have it. */
import { characters } from './values.js';

export const lower = (text: string): string => text.toLowerCase();
export const upper = (text: string): string => text.toUpperCase();

export function capitalized(text: string): string {
  const first = characters(text)[0] ?? '';
  // a sigma is written by where in the word it stands
  return titleCase(first) + lower(text).slice(lower(first).length);
}

export const titled = (text: string): string => text.replace(/\p{Cased}+/gu, capitalized);

export const swapped = (text: string): string =>
  text.replace(/[\p{Uppercase}\p{Lowercase}]/gu, (character) =>
    /\p{Uppercase}/u.test(character) ? lower(character) : upper(character),
  );

export const isLower = (text: string): boolean =>
  /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
export const isUpper = (text: string): boolean =>
  /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);
export const isTitle = (text: string): boolean => /\p{Cased}/u.test(text) && titled(text) === text;

/** The few letters whose form at the head of a word is another than that of a capital. */
const titleCase = (character: string): string =>
  character === '\u00df'
    ? 'Ss'
    : /^[\u01c4-\u01cc\u01f1-\u01f3]$/.test(character)
      ? titleLetter(character)
      : upper(character);
function titleLetter(character: string): string {
  const [capital] = Array.from(upper(character));
  return (
    { '\u01c4': '\u01c5', '\u01c7': '\u01c8', '\u01ca': '\u01cb', '\u01f1': '\u01f2' }[capital!] ??
    capital!
  );
}
