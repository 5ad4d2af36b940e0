/** Characters of a shared word that are shown with what differs: a word may be a whole document. */
const MOST_ADDED = 200;

/** What a prompt asks, as far as that can be told without its task: what not all prompts of its tier begin and end with. */
export class Questions {
  readonly #shared = new Map<string, { readonly first: string; begin: number; end: number }>();

  add(tier: string, prompt: string): void {
    const shared = this.#shared.get(tier);
    if (shared === undefined) return void this.#shared.set(tier, { first: prompt, begin: prompt.length, end: prompt.length });
    const { first } = shared;
    if (prompt === first) return;
    const most = Math.min(first.length, prompt.length);
    let [begin, end] = [0, 0];
    while (begin < Math.min(shared.begin, most) && prompt[begin] === first[begin]) begin++;
    while (end < Math.min(shared.end, most - begin) && prompt.at(-1 - end) === first.at(-1 - end)) end++;
    Object.assign(shared, { begin, end });
  }

  /** The whole prompt where no other one of its tier is known. */
  of(tier: string, prompt: string): string {
    const { begin = 0, end = 0 } = this.#shared.get(tier) ?? {};
    if (begin + end >= prompt.length) return prompt;
    // whole lines, where no more than a few shared words are added by that; else whole words
    const cut = prompt.length - end;
    const [before, after] = [prompt.slice(Math.max(0, begin - MOST_ADDED), begin), prompt.slice(cut, cut + MOST_ADDED)];
    const [lead] = /(?<=^|\n).{0,40}$/.exec(before) ?? /\S*$/.exec(before)!;
    const [rest] = /^.{0,40}(?=\n|$)/.exec(after) ?? /^\S*/.exec(after)!;
    return (lead + prompt.slice(begin, prompt.length - end) + rest).replaceAll(/\s+/g, ' ').trim();
  }
}
