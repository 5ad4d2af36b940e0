/**
 * The chat template of a model file, as transformers renders it: jinja2's sandbox with
 * `trim_blocks`, `lstrip_blocks`, `break`, `continue` and `generation`. It is code from a file.
 * What it may cost is bounded (`template/budget.ts`), so that it needs no thread and no clock.
 */
import { Budget } from './template/budget.js';
import { isCorrected } from './template/corrections.js';
import { uncovered } from './template/coverage.js';
import { TemplateLimit } from './template/failures.js';
import { globals } from './template/globals.js';
import { Interpreter } from './template/interpreter.js';
import { parse } from './template/parser.js';
import type { Statement } from './template/syntax.js';

export class ChatTemplate {
  readonly #text: string;
  readonly #body: readonly Statement[];

  /** @throws TemplateError where it is no template */
  constructor(text: string) {
    this.#text = text;
    this.#body = bounded(() => parse(text));
  }

  /** Unsupported features; a rendering that reaches one of them fails. */
  get uncovered(): readonly string[] {
    return uncovered(this.#body);
  }

  /** True if earlier versions rendered it differently (`template/corrections.ts`). */
  get isCorrected(): boolean {
    return isCorrected(this.#text, this.#body);
  }

  /** @throws TemplateError as the template, or where it takes too much */
  render(variables: Readonly<Record<string, unknown>>): string {
    const budget = new Budget(charactersOf(variables));
    return bounded(() => new Interpreter(budget).run(this.#body, globals(variables, budget)));
  }
}

/** Counts the characters of all strings, plus one per member. */
function charactersOf(value: unknown): number {
  let characters = 0;
  const left = [value];
  for (let one = left.pop(); one !== undefined; one = left.pop()) {
    characters += typeof one === 'string' ? one.length : 1;
    if (typeof one === 'object' && one !== null)
      for (const [name, member] of Object.entries(one)) {
        characters += name.length;
        left.push(member);
      }
  }
  return characters;
}

/** Turns a stack overflow into a TemplateLimit: the caller's stack may already be deep. */
function bounded<T>(compute: () => T): T {
  try {
    return compute();
  } catch (error) {
    if (error instanceof RangeError)
      throw new TemplateLimit('it nests too deeply or creates a string that is too long', {
        cause: error,
      });
    throw error;
  }
}
