/** Characters of a shared word that are shown with what differs: a word may be a whole document. */
const MOST_ADDED = 200;

/** How many characters, from one end on, are the same. */
function alike(a: string, b: string, at: (i: number) => number): number {
  let length = 0;
  while (length < Math.min(a.length, b.length) && a.at(at(length)) === b.at(at(length))) length++;
  return length;
}

/** Of a tier. */
const MOST_KNOWN = 16;

/**
 * What a prompt asks, as far as that can be told without its task: what most prompts of its tier do
 * not begin and end with.
 */
export class Questions {
  readonly #known = new Map<string, string[]>();

  add(tier: string, prompt: string): void {
    const known = this.#known.get(tier);
    if (known === undefined) this.#known.set(tier, [prompt]);
    else if (known.length < MOST_KNOWN && !known.includes(prompt)) known.push(prompt);
  }

  /**
   * What most others of the tier have too, at both ends: not all of them, since a question that is
   * a solved example of the others stands behind other examples itself.
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
