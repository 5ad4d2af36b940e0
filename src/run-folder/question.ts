/** Characters of a shared word that are shown with what differs: a word may be a whole document. */
const MOST_ADDED = 200;

/** Returns how many characters are the same, counted from one end. */
function alike(a: string, b: string, at: (i: number) => number): number {
  let length = 0;
  while (length < Math.min(a.length, b.length) && a.at(at(length)) === b.at(at(length))) length++;
  return length;
}

/** Most prompts of a tier that are remembered. */
const MOST_KNOWN = 16;

/**
 * Finds the question in a prompt without its task: the part that most prompts of its tier do not
 * begin or end with.
 */
export class Questions {
  readonly #known = new Map<string, string[]>();

  add(tier: string, prompt: string): void {
    const known = this.#known.get(tier);
    if (known === undefined) this.#known.set(tier, [prompt]);
    else if (known.length < MOST_KNOWN && !known.includes(prompt)) known.push(prompt);
  }

  /**
   * Returns how much most other prompts of the tier share at both ends. Not all of them: a question
   * that is a solved example of the others has other examples before it.
   */
  #shared(tier: string, prompt: string): { readonly begin: number; readonly end: number } | null {
    const others = (this.#known.get(tier) ?? []).filter((other) => other !== prompt);
    if (others.length === 0) return null;
    const middle = (lengths: number[]): number =>
      lengths.sort((a, b) => a - b)[(lengths.length - 1) >> 1]!;
    const begin = middle(others.map((other) => alike(prompt, other, (i) => i)));
    return {
      begin,
      end: Math.min(
        middle(others.map((other) => alike(prompt, other, (i) => -1 - i))),
        prompt.length - begin,
      ),
    };
  }

  /** The whole prompt where no other one of its tier is known. */
  of(tier: string, prompt: string): string {
    const shared = this.#shared(tier, prompt);
    if (shared === null) return prompt;
    const { begin, end } = shared;
    if (begin + end >= prompt.length) return prompt;
    // whole lines, where no more than a few shared words are added by that; else whole words
    const cut = prompt.length - end;
    const [before, after] = [
      prompt.slice(Math.max(0, begin - MOST_ADDED), begin),
      prompt.slice(cut, cut + MOST_ADDED),
    ];
    const [lead] = /(?<=^|\n).{0,40}$/.exec(before) ?? /\S*$/.exec(before)!;
    const [rest] = /^.{0,40}(?=\n|$)/.exec(after) ?? /^\S*/.exec(after)!;
    return (lead + prompt.slice(begin, prompt.length - end) + rest).replaceAll(/\s+/g, ' ').trim();
  }
}
