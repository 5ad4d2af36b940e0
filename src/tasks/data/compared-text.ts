/**
 * Texts as checks compare them: what nobody sees a difference in makes none, and changes neither
 * what is asked nor what is learned.
 */

/** One form of letters with marks (NFC), one kind of line end. */
export const compared = (text: string): string => text.replace(/\r\n?/g, '\n').normalize('NFC');

/**
 * Letter case, kinds of blanks, quotes around and a mark at the end make no other answer; signs and
 * points within one do.
 */
export function normalised(text: string): string {
  const plain = text
    .normalize('NFKC')
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
    .join(' ');
  const bare = plain
    .replace(/^["'`\u2018\u2019\u201c\u201d*_]+/, '')
    .replace(/["'`\u2018\u2019\u201c\u201d*_.,;:!?\s]+$/, '');
  return bare === '' ? plain : bare; // of marks alone, each says something
}

/** A mark that combines with what stands before it, and is more than the choice of a glyph. */
const MARK = '(?![\\ufe0e\\ufe0f])\\p{M}';
const WITH_MARK = new RegExp(`^${MARK}`, 'u');

/** Whether a text has another in it, whose last character carries no further mark there. */
export function contains(text: string, part: string): boolean {
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) {
    if (!WITH_MARK.test(text.slice(at + part.length, at + part.length + 2))) return true;
  }
  return false;
}

/** A label as it is looked for. */
export const comparedLabel = (label: string): string => compared(label).trim();

const literal = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');

/**
 * A label is a word of its own; one that begins or ends with a digit stands in no longer number.
 */
function labelPattern(label: string): string {
  const before = /^\p{N}/u.test(label) ? '(?<!\\p{N}[.,])' : '';
  const behind = /\p{N}$/u.test(label) ? '(?![.,]\\p{N})' : '';
  return `${before}${literal(label)}${behind}`;
}

/**
 * The labels that a text names as words of their own, the longest first; a single letter counts as
 * it is written, `a` is an article.
 */
export function namedChoices(text: string, choices: readonly string[]): string[] {
  const labels = choices
    .map((choice) => ({ choice, label: comparedLabel(choice) }))
    .sort((a, b) => b.label.length - a.label.length || (a.label < b.label ? -1 : 1));
  const any = labels.map(({ label }) => labelPattern(label)).join('|');
  const words = new RegExp(
    `(?<![\\p{L}\\p{N}]|${MARK})(?:${any})(?![\\p{L}\\p{N}]|${MARK})`,
    'giu',
  );
  const found = new Set<string>();
  for (const [word] of compared(text).matchAll(words)) {
    const named =
      labels.find(({ label }) => label === word) ??
      labels.find(({ label }) => label.length > 1 && label.toLowerCase() === word.toLowerCase());
    if (named !== undefined) found.add(named.choice);
  }
  return [...found];
}
