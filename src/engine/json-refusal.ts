import { IsoproError } from '../errors.js';

/** A schema that is refused at a place of its own, for these keywords. */
export class Refusal extends IsoproError {
  readonly pointer: string;
  readonly keywords: readonly string[];

  constructor(pointer: string, keywords: readonly string[], what: string) {
    super('GRAMMAR_INVALID', `JSON Schema at ${pointer}: ${what}`);
    this.pointer = pointer;
    this.keywords = keywords;
  }
}

/** @param keywords those without which the schema would not be refused here */
export function refuse(pointer: string, keywords: readonly string[], what: string): never {
  throw new Refusal(pointer, keywords, what);
}

/** Refuses what no grammar keeps. @param what default: the keyword */
export function cannotKeep(
  pointer: string,
  keywords: string | readonly string[],
  what = `"${[keywords].flat().join('" and "')}"`,
): never {
  return refuse(pointer, [keywords].flat(), `a grammar cannot enforce ${what}`);
}
