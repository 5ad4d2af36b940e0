/** Width and colours of a terminal, and texts that fit it. */
import stringWidth from 'string-width';
import { visible } from '../visible-text.js';
import { label } from './hostile-text.js';

export interface TerminalStyle {
  /** Columns; tables are wrapped or shortened to it. */
  readonly width: number;
  readonly color: boolean;
  /** Columns of sentences; without it they are left as they are, as in a file. */
  readonly prose?: number;
}

/** Columns of a terminal; 80 if it reports 0 or nothing. */
export const columnsOf = ({ columns }: { readonly columns?: number | undefined }): number =>
  columns || 80;

/**
 * Style of a stream: 100 columns if it is not a terminal; colour if it is one and NO_COLOR
 * (no-color.org) does not forbid it.
 */
export const terminalStyle = (
  stream: { readonly isTTY?: boolean | undefined; readonly columns?: number | undefined },
  env: NodeJS.ProcessEnv = process.env,
): TerminalStyle => {
  const isTerminal = stream.isTTY === true;
  const width = Math.max(40, isTerminal ? columnsOf(stream) : 100);
  const color = isTerminal && !env.NO_COLOR && env.TERM !== 'dumb';
  return { width, color, ...(isTerminal && { prose: width }) };
};

const PAINTS = { good: 32, fair: 33, bad: 31, strong: 1, faint: 2 } as const;
/** Meaning of a colour; `strong` and `faint` are weights. */
export type Paint = keyof typeof PAINTS;

export const painted = (
  text: string,
  paint: Paint | null,
  { color }: Pick<TerminalStyle, 'color'>,
): string =>
  color && paint !== null && text !== '' ? `\u001b[${PAINTS[paint]}m${text}\u001b[0m` : text;

const OWN_PAINTS = new RegExp(`(\\u001b\\[(?:${[0, ...Object.values(PAINTS)].join('|')})m)`);

/** Makes control characters of a text visible, except colours of `painted` on a colour screen. */
export const screened = (text: string, { color }: Pick<TerminalStyle, 'color'>): string =>
  color
    ? text
        .split(OWN_PAINTS)
        .map((part, i) => (i % 2 === 1 ? part : visible(part)))
        .join('')
    : visible(text);

/** Columns that a text takes: wide characters take two, colours none. */
export const length = (text: string): number => stringWidth(text);

/** The text in so many columns, filled with blanks on the right. */
export const filled = (text: string, width: number): string =>
  text + ' '.repeat(Math.max(0, width - length(text)));

const characters = new Intl.Segmenter();
/** Text of a stranger on one line, in at most `width` columns. */
export function labelWithin(text: string, width: number): string {
  const whole = label(text, width);
  if (length(whole) <= width) return whole;
  let kept = '';
  for (const { segment } of characters.segment(whole)) {
    if (length(kept + segment) >= width) break;
    kept += segment;
  }
  return `${kept}…`;
}

/**
 * Breaks a sentence into lines that fit. Further lines are indented like the first and by `hang`
 * more. A word longer than a line stays whole, and a value stays behind its label.
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

/** Lines to be copied into a terminal stay whole: the terminal breaks them itself. */
const COMMAND = /\bnpx isopro-native\b|\bcurl\b/;

/**
 * Breaks lines that are too long for a terminal. Further lines are indented below the text after a
 * label and two blanks, or by two columns.
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
