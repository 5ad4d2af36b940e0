/**
 * The control tokens of a vocabulary in texts: where a template wrote them, and where a message only reads as if it had. A marker that stands
 * in no text tells the two apart: it is put behind the first character of whatever in a message would be found, wherever that begins, and what
 * holds it is none. No expression of any token is made: a file may name tokens of any length, and of a single character.
 */
export interface ControlToken {
  readonly id: number;
  readonly text: string;
}

/** Longer ones are in no vocabulary that is known, and would be compared at every character of a message. */
const LONGEST = 256;

interface Node {
  readonly next: Map<number, Node>;
  id: number | null;
}
const newNode = (): Node => ({ next: new Map(), id: null });

export class ControlTokens {
  readonly #root = newNode();
  readonly #texts = new Map<number, string>();
  /** One that is too long to be looked for. */
  readonly tooLong: ControlToken | null = null;

  constructor(tokens: readonly ControlToken[]) {
    for (const token of tokens) {
      const { id, text } = token;
      this.#texts.set(id, text);
      if (text.length > LONGEST) this.tooLong ??= token;
      else if (text !== '') this.#add(token);
    }
  }

  #add({ id, text }: ControlToken): void {
    let node = this.#root;
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      let next = node.next.get(unit);
      if (next === undefined) node.next.set(unit, (next = newNode()));
      node = next;
    }
    node.id = id;
  }

  textOf(id: number): string {
    return this.#texts.get(id) ?? '';
  }

  /** Whether a token's own text holds it, so that it marks nothing. */
  holds(text: string): boolean {
    return [...this.#texts.values()].some((token) => token.includes(text));
  }

  /** The longest token that stands there. One of a single character stands nowhere before a marker. */
  #longestAt(text: string, at: number, marker: string | null): { id: number; end: number } | null {
    const single = at + String.fromCodePoint(text.codePointAt(at)!).length;
    let found: { id: number; end: number } | null = null;
    let node = this.#root.next.get(text.charCodeAt(at));
    for (let end = at + 1; node !== undefined; node = node.next.get(text.charCodeAt(end++)))
      if (node.id !== null && !(end === single && marker !== null && text.startsWith(marker, end))) found = { id: node.id, end };
    return found;
  }

  /** Those that a text names, each once. */
  namedIn(text: string): string[] {
    const found = new Set<string>();
    for (let at = 0; at < text.length; ) {
      const token = this.#longestAt(text, at, null);
      if (token !== null) found.add(text.slice(at, token.end));
      at = token?.end ?? at + 1;
    }
    return [...found];
  }

  /** With a marker in, or behind, each text that reads like a token; overlapping ones too. */
  defused(text: string, marker: string): string {
    const pieces: string[] = [];
    let from = 0;
    for (let at = 0; at < text.length; at++) {
      if (this.#longestAt(text, at, marker) === null) continue;
      const end = at + String.fromCodePoint(text.codePointAt(at)!).length;
      pieces.push(text.slice(from, end), marker);
      from = end;
      at = end - 1;
    }
    return from === 0 ? text : pieces.join('') + text.slice(from);
  }

  /** Plain texts, and the ids of the tokens between them; the markers are gone. */
  parts(rendered: string, marker: string): (string | number)[] {
    const parts: (string | number)[] = [];
    let from = 0;
    const addPlain = (to: number): void => {
      const plain = rendered.slice(from, to).replaceAll(marker, '');
      if (plain !== '') parts.push(plain);
    };
    for (let at = 0; at < rendered.length; ) {
      const found = this.#longestAt(rendered, at, marker);
      if (found === null) at++;
      else {
        addPlain(at);
        parts.push(found.id);
        from = at = found.end;
      }
    }
    addPlain(rendered.length);
    return parts;
  }
}
