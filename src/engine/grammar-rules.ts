/** The rules of a GBNF grammar that are written one after the other; equal ones are one. */
/**
 * What the reader of grammars takes (native/inference/grammar_rules.cpp), and the rest for what
 * stands around.
 */
const MOST_SYMBOLS = 190_000;
const LONGEST = 1_000_000;

/** Not less than the symbols that a body becomes, its repetitions written out. */
function symbolsOf(body: string): number {
  let symbols = 1;
  for (const [part, least, most] of body.matchAll(
    /\{(\d+)(?:,(\d*))?\}|"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|[\w-]+|[()|*?+]/g,
  )) {
    if (least !== undefined)
      symbols += Number(least) + 4 * Math.max(1, Number(most || least) - Number(least));
    else symbols += part.startsWith('"') ? part.length : 2;
  }
  return symbols;
}

export class GrammarRules {
  readonly #bodies = new Map<string, string>();
  /** By body. */
  readonly #names = new Map<string, string>();
  #count = 0;
  #symbols = 0;
  #length = 0;

  /** A name for a rule that others may refer to before it is written. */
  reserve(): string {
    const name = `rule-${this.#count++}`;
    this.#bodies.set(name, '""');
    return name;
  }

  /** Whether there is room for a rule with this body. */
  fits(body: string): boolean {
    return (
      this.#names.has(body) ||
      (this.#symbols + symbolsOf(body) <= MOST_SYMBOLS && this.#length + body.length <= LONGEST)
    );
  }

  write(name: string, body: string): void {
    const before = this.#bodies.get(name)!;
    if (this.#names.get(before) === name) this.#names.delete(before);
    this.#bodies.set(name, body);
    if (!this.#names.has(body)) this.#names.set(body, name);
    this.#symbols += symbolsOf(body);
    this.#length += name.length + body.length + 6;
  }

  /** The name of a rule with this body. */
  define(text: string): string {
    const body = text === '' ? '""' : text;
    const known = this.#names.get(body);
    if (known !== undefined) return known;
    const name = this.reserve();
    this.write(name, body);
    return name;
  }

  /** Another rule with this body. */
  twin(body: string): string | undefined {
    return this.#names.get(body);
  }

  /** Takes back a name that nothing refers to. */
  withdraw(name: string): void {
    this.#bodies.delete(name);
  }

  toString(): string {
    return [...this.#bodies].map(([name, body]) => `${name} ::= ${body}\n`).join('');
  }
}
