/** How wide a terminal is, whether it has colour, and what colours say. */
import { visible } from '../visible-text.js';

export interface TerminalStyle {
  /** Columns; tables are wrapped or shortened to it. */
  readonly width: number;
  readonly color: boolean;
  /** Columns of sentences; without it they are left as they are, as in a file. */
  readonly prose?: number;
}

/** Of a terminal; one that says 0, or nothing, has 80. */
export const columnsOf = ({ columns }: { readonly columns?: number | undefined }): number =>
  columns || 80;

/**
 * Of a stream: 100 columns where it is no terminal, colour where NO_COLOR (no-color.org) does not
 * forbid it.
 */
export const terminalStyle = (
  stream: { readonly isTTY?: boolean | undefined; readonly columns?: number | undefined },
  env: NodeJS.ProcessEnv = process.env,
): TerminalStyle => {
  const width = Math.max(40, stream.isTTY === true ? columnsOf(stream) : 100);
  const color = stream.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb';
  return { width, color, ...(stream.isTTY === true ? { prose: width } : {}) };
};

const PAINTS = { good: 32, fair: 33, bad: 31, strong: 1, faint: 2 } as const;
/** What a colour says; `strong` and `faint` are weights. */
export type Paint = keyof typeof PAINTS;

export const painted = (
  text: string,
  paint: Paint | null,
  { color }: Pick<TerminalStyle, 'color'>,
): string =>
  color && paint !== null && text !== '' ? `\u001b[${PAINTS[paint]}m${text}\u001b[0m` : text;

const OWN_PAINTS = new RegExp(`(\\u001b\\[(?:${[0, ...Object.values(PAINTS)].join('|')})m)`);

/**
 * A text for a screen: of what steers one, only the colours of `painted` are left, and none without
 * colour.
 */
export const screened = (text: string, { color }: Pick<TerminalStyle, 'color'>): string =>
  color
    ? text
        .split(OWN_PAINTS)
        .map((part, i) => (i % 2 === 1 ? part : visible(part)))
        .join('')
    : visible(text);

// biome-ignore lint/suspicious/noControlCharactersInRegex: escapes begin with one
const COLOUR = /\u001b\[[0-9;]*m/g;
/** Columns that a text takes, colours aside. */
export const length = (text: string): number => [...text.replace(COLOUR, '')].length;

/**
 * A sentence in lines that fit, the further ones indented like the first and by `hang` more. A word
 * longer than a line stays whole, and a value behind its label.
 */
export function wrapped(
  text: string,
  { prose: width = Infinity }: Pick<TerminalStyle, 'prose'>,
  hang = 0,
): string {
  const indent = ' '.repeat(/^ */.exec(text)![0].length + hang);
  const lines = [''];
  for (const word of text.split(/(?<=\S) /)) {
    const line = lines.at(-1)!;
    if (line === '') lines[lines.length - 1] = word;
    else if (length(line) + 1 + length(word) <= width || word.startsWith(' '))
      lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(`${indent}${word}`);
  }
  return lines.join('\n');
}

/** A line to be copied into a terminal: the terminal itself breaks it, which leaves it whole. */
const COMMAND = /\bnpx isopro-native\b|\bcurl\b/;

/**
 * Lines that are too long for a terminal, broken at blanks: below what stands behind a label and
 * two blanks, or two columns further in.
 */
export function fitted(text: string, style: Pick<TerminalStyle, 'prose'>): string {
  const { prose = Infinity } = style;
  const fit = (line: string): string => {
    if (length(line) <= prose || COMMAND.test(line)) return line;
    const indent = /^ */.exec(line)![0].length;
    const behindLabel = /^ *\S+(?: \S+)*? {2,}(?=\S)/.exec(line)?.[0].length ?? Infinity;
    return wrapped(line, style, behindLabel <= prose / 2 ? behindLabel - indent : 2);
  };
  return prose === Infinity ? text : text.split('\n').map(fit).join('\n');
}
