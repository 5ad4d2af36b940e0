/**
 * The control tokens of a vocabulary in texts: where a template wrote them, and where a message
 * only reads as if it had. A marker that stands in no text tells the two apart: it is put behind
 * the first character of whatever in a message would be found, wherever that begins, and what holds
 * it is none. No expression of any token is made: a file may name tokens of any length, and of a
 * single character.
 */
export interface ControlToken {
  readonly id: number;
  readonly text: string;
}

/**
 * Longer ones are in no vocabulary that is known, and would be compared at every character of a
 * message.
 */
const LONGEST = 256;
/** Of all together: a hundred times what the vocabularies of image and speech models have. */
const MOST_CHARACTERS = 2_000_000;

/** Where texts that begin alike go on. Most nodes have one way to go on, which needs no map. */
class Node {
  id: number | null = null;
  #unit = -1;
  #next: Node | undefined;
  #others: Map<number, Node> | null = null;

  at(unit: number): Node | undefined {
    return unit === this.#unit ? this.#next : this.#others?.get(unit);
  }

  goOn(unit: number): Node {
    const known = this.at(unit);
    if (known !== undefined) return known;
    const next = new Node();
    if (this.#next === undefined) [this.#unit, this.#next] = [unit, next];
    else (this.#others ??= new Map()).set(unit, next);
    return next;
  }
}

export class ControlTokens {
  readonly #root = new Node();
  readonly #texts = new Map<number, string>();
  /** Why no message can be held apart from them; null where each can. */
  readonly problem: string | null = null;

  constructor(tokens: readonly ControlToken[]) {
    let characters = 0;
    for (const { id, text } of tokens) {
      this.#texts.set(id, text);
      characters += text.length;
      if (text.length > LONGEST)
        this.problem ??= `control token ${id} has ${text.length} characters, more than the limit of ${LONGEST}`;
      else if (characters > MOST_CHARACTERS)
        this.problem ??= `the control tokens have more than ${MOST_CHARACTERS} characters in total`;
      else if (text !== '') this.#add(id, text);
    }
  }

  #add(id: number, text: string): void {
    let node = this.#root;
    for (let i = 0; i < text.length; i++) node = node.goOn(text.charCodeAt(i));
    node.id = id;
  }

  textOf(id: number): string {
    return this.#texts.get(id) ?? '';
  }

  /** Whether a token's own text holds it, so that it marks nothing. */
  holds(text: string): boolean {
    return [...this.#texts.values()].some((token) => token.includes(text));
  }

  /**
   * The longest token that stands there. One of a single character stands nowhere before a marker.
   */
  #longestAt(text: string, at: number, marker: string | null): { id: number; end: number } | null {
    const single = at + String.fromCodePoint(text.codePointAt(at)!).length;
    let found: { id: number; end: number } | null = null;
    let node = this.#root.at(text.charCodeAt(at));
    for (let end = at + 1; node !== undefined; node = node.at(text.charCodeAt(end++)))
      if (node.id !== null && !(end === single && marker !== null && text.startsWith(marker, end)))
        found = { id: node.id, end };
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
