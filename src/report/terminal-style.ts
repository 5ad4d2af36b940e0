/** How wide a terminal is, whether it has colour, and what colours say. */

export interface TerminalStyle {
  /** Columns; tables are wrapped or shortened to it. */
  readonly width: number;
  readonly color: boolean;
  /** Columns of sentences; without it they are left as they are, as in a file. */
  readonly prose?: number;
}

/** Of a terminal; one that says 0, or nothing, has 80. */
export const columnsOf = ({ columns }: { readonly columns?: number | undefined }): number => columns || 80;

/** Of a stream: 100 columns where it is no terminal, colour where NO_COLOR (no-color.org) does not forbid it. */
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

export const painted = (text: string, paint: Paint | null, { color }: Pick<TerminalStyle, 'color'>): string =>
  color && paint !== null && text !== '' ? `\u001b[${PAINTS[paint]}m${text}\u001b[0m` : text;

/** Columns that a text takes. */
export const length = (text: string): number => [...text].length;

/** A sentence in lines that fit, the further ones indented like the first and by `hang` more; a word longer than a line stays whole. */
export function wrapped(text: string, { prose: width = Infinity }: Pick<TerminalStyle, 'prose'>, hang = 0): string {
  const indent = ' '.repeat(/^ */.exec(text)![0].length + hang);
  const lines = [''];
  for (const word of text.split(/(?<=\S) /)) {
    const line = lines.at(-1)!;
    if (line === '') lines[lines.length - 1] = word;
    else if (length(line) + 1 + length(word) <= width) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(`${indent}${word}`);
  }
  return lines.join('\n');
}
