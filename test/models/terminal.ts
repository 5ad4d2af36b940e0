// biome-ignore lint/suspicious/noControlCharactersInRegex: controls of a terminal
const PIECE = /(\u001b\[)(\d*)([A-Za-z])|[\s\S]/gu;

/**
 * What a terminal of some width shows of what is written to it: lines, the cursor, and the few
 * controls that this package writes.
 */
export class Terminal {
  readonly isTTY = true;
  readonly lines: string[][] = [[]];
  /** Colours and weights that were asked for. */
  readonly paints = new Set<string>();
  #row = 0;
  #column = 0;

  /** @param columns what it says of itself; where that is none, it has 80 */
  constructor(readonly columns: number | undefined) {}

  get width(): number {
    return this.columns || 80;
  }

  /** Without trailing blanks and lines. */
  get shown(): string {
    return this.lines
      .map((line) =>
        Array.from(line, (character) => character ?? ' ')
          .join('')
          .trimEnd(),
      )
      .join('\n')
      .trimEnd();
  }

  readonly write = (text: string): void => {
    for (const [part, control, amount, letter] of text.matchAll(PIECE)) {
      if (control === undefined) this.#put(part);
      else if (letter === 'A') this.#row = Math.max(0, this.#row - Number(amount || 1));
      else if (letter === 'K') this.#line.length = Math.min(this.#line.length, this.#column);
      else if (letter === 'J') {
        this.#line.length = Math.min(this.#line.length, this.#column);
        this.lines.length = this.#row + 1;
      } else if (letter === 'm') this.paints.add(amount!);
      else throw new Error(`a control that this terminal does not know: ${JSON.stringify(part)}`);
    }
  };

  get #line(): string[] {
    while (this.lines.length <= this.#row) this.lines.push([]);
    return this.lines[this.#row]!;
  }

  #put(character: string): void {
    if (character === '\r') this.#column = 0;
    else if (character === '\n') [this.#row, this.#column] = [this.#row + 1, 0];
    else {
      if (this.#column === this.width) [this.#row, this.#column] = [this.#row + 1, 0]; // wraps
      this.#line[this.#column++] = character;
    }
  }
}
