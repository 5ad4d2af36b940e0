/**
 * Learns the merges of a byte-level BPE (Sennrich et al. 2016; Radford et al. 2019) from counted
 * fragments of text.
 */

/**
 * GPT-2's reversible map from bytes to printable characters: printable ones stay, the others move
 * up from 256.
 */
export const BYTE_CHARACTERS: readonly string[] = (() => {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return String.fromCharCode(printable ? byte : next++);
  });
})();

export type Merge = readonly [left: string, right: string];

interface Fragment {
  readonly symbols: string[];
  readonly count: number;
}

/**
 * Merges the most frequent pair within fragments again and again; of equally frequent ones the
 * first in code-point order.
 * @param fragments text to its number of occurrences; no merge crosses from one into the next
 * @param allowed pairs that may become one token
 * @param limit largest number of merges; fewer where nothing is left to merge
 */
export function learnMerges(
  fragments: ReadonlyMap<string, number>,
  limit: number,
  allowed: (left: string, right: string) => boolean = () => true,
): Merge[] {
  const words: Fragment[] = [...fragments].map(([text, count]) => ({
    symbols: [...Buffer.from(text)].map((byte) => BYTE_CHARACTERS[byte]!),
    count,
  }));
  const merges: Merge[] = [];
  while (merges.length < limit) {
    const frequencies = new Map<string, { readonly merge: Merge; count: number }>();
    for (const { symbols, count } of words) {
      for (let i = 0; i + 1 < symbols.length; i++) {
        const [left, right] = [symbols[i]!, symbols[i + 1]!];
        const key = `${left} ${right}`;
        const known = frequencies.get(key);
        if (known !== undefined) known.count += count;
        else if (allowed(left, right)) frequencies.set(key, { merge: [left, right], count });
      }
    }
    let best: { readonly key: string; readonly merge: Merge; readonly count: number } | undefined;
    for (const [key, { merge, count }] of frequencies) {
      if (best === undefined || count > best.count || (count === best.count && key < best.key))
        best = { key, merge, count };
    }
    if (best === undefined) break;
    const [left, right] = best.merge;
    merges.push(best.merge);
    for (const { symbols } of words) {
      for (let i = 0; i + 1 < symbols.length; i++)
        if (symbols[i] === left && symbols[i + 1] === right) symbols.splice(i, 2, left + right);
    }
  }
  return merges;
}
