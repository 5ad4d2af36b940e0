/**
 * Near-duplicates: sets of runs of a few items (shingles; Broder 1997), and which of many such sets
 * are alike by their Jaccard index.
 */

/**
 * The runs of `length` items, each written with `separator`; of fewer items the one run that there
 * is.
 */
export function shingles(
  items: ArrayLike<string | number>,
  length: number,
  separator: string,
): Set<string> {
  const all = Array.from(items);
  return new Set(
    Array.from({ length: Math.max(1, all.length - length + 1) }, (_, at) =>
      all.slice(at, at + length).join(separator),
    ),
  );
}

/** Shared part of two sets: |a and b| / |a or b|. */
export function jaccard(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  let common = 0;
  for (const each of a) if (b.has(each)) common++;
  return common / (a.size + b.size - common);
}

/** A threshold that is a decimal must not be missed by the rounding of a product. */
const SLACK = 1e-9;

/**
 * Finds the sets that are alike without comparing all with all, and misses none: two sets that
 * share at least `threshold` share one of their rarest few (the prefix filter of Bayardo, Ma and
 * Srikant 2007, §4).
 */
export class SimilarSets {
  readonly #sets: readonly ReadonlySet<string>[];
  readonly #threshold: number;
  readonly #counts = new Map<string, number>();
  readonly #holders = new Map<string, number[]>();

  /** @param sets all that will be added or looked for @param threshold in (0, 1] */
  constructor(sets: readonly ReadonlySet<string>[], threshold: number) {
    this.#sets = sets;
    this.#threshold = threshold;
    for (const set of sets)
      for (const each of set) this.#counts.set(each, (this.#counts.get(each) ?? 0) + 1);
  }

  #prefix(index: number): string[] {
    const set = this.#sets[index]!;
    const rarest = [...set].sort(
      (a, b) => this.#counts.get(a)! - this.#counts.get(b)! || (a < b ? -1 : 1),
    );
    return rarest.slice(0, set.size - Math.ceil(this.#threshold * set.size - SLACK) + 1);
  }

  add(index: number): void {
    for (const each of this.#prefix(index)) {
      const holders = this.#holders.get(each);
      if (holders === undefined) this.#holders.set(each, [index]);
      else holders.push(index);
    }
  }

  /** Those added that share at least the threshold with this one, in the order of their indices. */
  alike(index: number): { readonly index: number; readonly shared: number }[] {
    const candidates = new Set(
      this.#prefix(index).flatMap((each) => this.#holders.get(each) ?? []),
    );
    return [...candidates]
      .sort((a, b) => a - b)
      .map((other) => ({ index: other, shared: jaccard(this.#sets[index]!, this.#sets[other]!) }))
      .filter(({ shared }) => shared >= this.#threshold - SLACK);
  }
}
