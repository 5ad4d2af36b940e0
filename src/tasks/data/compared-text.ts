/** Normalised texts for comparison. Prompts and training data are not changed. */

/** Normalises letters with marks (NFC) and line ends. */
export const compared = (text: string): string => text.replace(/\r\n?/g, '\n').normalize('NFC');

/**
 * Ignores letter case, kinds of blanks, surrounding quotes and a mark at the end; signs and points
 * inside an answer count.
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

/** Tells whether a text contains another whose last character carries no further mark there. */
export function contains(text: string, part: string): boolean {
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) {
    if (!WITH_MARK.test(text.slice(at + part.length, at + part.length + 2))) return true;
  }
  return false;
}

/** Normalises a label for the search. */
export const comparedLabel = (label: string): string => compared(label).trim();

const literal = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');

/**
 * Pattern of a label; one that begins or ends with a digit does not match inside a longer number.
 */
function labelPattern(label: string): string {
  const before = /^\p{N}/u.test(label) ? '(?<!\\p{N}[.,])' : '';
  const behind = /\p{N}$/u.test(label) ? '(?![.,]\\p{N})' : '';
  return `${before}${literal(label)}${behind}`;
}

/**
 * Returns the labels that a text contains as whole words, trying longer ones first. A single letter
 * must match its case: `a` is an article.
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
