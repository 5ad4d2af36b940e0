import { hash } from 'node:crypto';

/**
 * The Merkle tree of RFC 6962 §2.1 (proof checks after RFC 9162 §2.1.3.2 and §2.1.4.2): a leaf is
 * SHA-256(0x00 ‖ data), a node SHA-256(0x01 ‖ left ‖ right). Digests are 64 hex digits (see
 * LeafHasher).
 */
const EMPTY_ROOT = hash('sha256', Buffer.alloc(0), 'hex');
const scratch = Buffer.alloc(65, 1);

/** SHA-256(0x01 ‖ left ‖ right). */
export function nodeDigest(left: string, right: string): string {
  scratch.write(left, 1, 'hex');
  scratch.write(right, 33, 'hex');
  return hash('sha256', scratch, 'hex');
}

/** Largest power of two below n, for n ≥ 2 (the split point k of the RFC). */
function splitPoint(n: number): number {
  let k = 1;
  while (k * 2 < n) k *= 2;
  return k;
}

/** A complete subtree over the leaves [start, start + width), width a power of two. */
export interface Subtree {
  readonly start: number;
  readonly width: number;
  readonly digest: string;
}

/**
 * The tree's right edge: one complete subtree for each bit of the size. O(log n) memory, amortised
 * one hash a leaf.
 */
export class MerkleFrontier {
  #subtrees: Subtree[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The complete subtrees that make up the tree, widest first. */
  get subtrees(): readonly Subtree[] {
    return this.#subtrees;
  }

  append(leaf: string): void {
    let digest = leaf;
    let start = this.#size;
    let width = 1;
    for (
      let last = this.#subtrees.at(-1);
      last !== undefined && last.width === width;
      last = this.#subtrees.at(-1)
    ) {
      digest = nodeDigest(last.digest, digest);
      start = last.start;
      width *= 2;
      this.#subtrees.pop();
    }
    this.#subtrees.push({ start, width, digest });
    this.#size++;
  }

  root(): string {
    let digest: string | undefined;
    for (let i = this.#subtrees.length - 1; i >= 0; i--) {
      const left = (this.#subtrees[i] as Subtree).digest;
      digest = digest === undefined ? left : nodeDigest(left, digest);
    }
    return digest ?? EMPTY_ROOT;
  }

  clone(): MerkleFrontier {
    const copy = new MerkleFrontier();
    copy.#subtrees = [...this.#subtrees];
    copy.#size = this.#size;
    return copy;
  }
}

/** Root of the tree over the leaves [low, high) alone, wherever it comes from. */
export type RangeRoot = (low: number, high: number) => string;

/** Returns the root of a sequence of leaves. */
export function rootOf(leaves: Iterable<string>): string {
  const frontier = new MerkleFrontier();
  for (const leaf of leaves) frontier.append(leaf);
  return frontier.root();
}

/**
 * Returns PATH(index, D[size]) of RFC 6962 §2.1.1, lowest sibling first. Needs 0 ≤ index < size.
 */
export function inclusionProof(index: number, size: number, rangeRoot: RangeRoot): string[] {
  const path = (low: number, high: number): string[] => {
    if (high - low === 1) return [];
    const middle = low + splitPoint(high - low);
    return index < middle
      ? [...path(low, middle), rangeRoot(middle, high)]
      : [...path(middle, high), rangeRoot(low, middle)];
  };
  return path(0, size);
}

/**
 * Returns PROOF(from, D[to]) of RFC 6962 §2.1.2; empty if from is 0 or equals to. Needs 0 ≤ from ≤
 * to.
 */
export function consistencyProof(from: number, to: number, rangeRoot: RangeRoot): string[] {
  if (from === 0 || from === to) return [];
  const subproof = (low: number, high: number, whole: boolean): string[] => {
    if (high === from) return whole ? [] : [rangeRoot(low, high)];
    const middle = low + splitPoint(high - low);
    return from <= middle
      ? [...subproof(low, middle, whole), rangeRoot(middle, high)]
      : [...subproof(middle, high, false), rangeRoot(low, middle)];
  };
  return subproof(0, to, true);
}

const isOdd = (n: number): boolean => n % 2 === 1;
const half = (n: number): number => Math.floor(n / 2);

/**
 * Takes the siblings of a proof from a node up to the root.
 * @param last index of the last node on the level of `node`
 * @returns false if there are too few or too many siblings or one is not a digest
 */
function climb(
  node: number,
  last: number,
  siblings: readonly string[],
  take: (sibling: string, isLeft: boolean) => void,
): boolean {
  for (const sibling of siblings) {
    if (last === 0 || sibling.length !== 64) return false;
    const isLeft = isOdd(node) || node === last;
    take(sibling, isLeft);
    if (isLeft) while (!isOdd(node) && node !== 0) [node, last] = [half(node), half(last)];
    [node, last] = [half(node), half(last)];
  }
  return last === 0;
}

/**
 * Returns true if `proof` shows that `leaf` is record `index` of the tree of `size` records with
 * `root`.
 */
export function verifyInclusion(
  leaf: string,
  index: number,
  size: number,
  root: string,
  proof: readonly string[],
): boolean {
  if (!(index >= 0 && index < size)) return false;
  let digest = leaf;
  const isWhole = climb(index, size - 1, proof, (sibling, isLeft) => {
    digest = isLeft ? nodeDigest(sibling, digest) : nodeDigest(digest, sibling);
  });
  return isWhole && digest === root;
}

/**
 * Returns true if `proof` shows that the tree (to, toRoot) begins with all records of the tree
 * (from, fromRoot).
 */
export function verifyConsistency(
  from: number,
  fromRoot: string,
  to: number,
  toRoot: string,
  proof: readonly string[],
): boolean {
  if (!(from >= 0 && from <= to)) return false;
  if (from === to) return proof.length === 0 && fromRoot === toRoot;
  if (from === 0) return proof.length === 0 && fromRoot === EMPTY_ROOT;
  if (proof.some((digest) => digest.length !== 64)) return false;
  let node = from - 1;
  let last = to - 1;
  while (isOdd(node)) {
    node = half(node);
    last = half(last);
  }
  // node 0 here: the old tree is one complete subtree, and its root starts the proof itself
  const path = node === 0 ? [fromRoot, ...proof] : [...proof];
  const first = path.shift();
  if (first === undefined) return false;
  let oldDigest = first;
  let newDigest = first;
  const isWhole = climb(node, last, path, (sibling, isLeft) => {
    if (isLeft) oldDigest = nodeDigest(sibling, oldDigest);
    newDigest = isLeft ? nodeDigest(sibling, newDigest) : nodeDigest(newDigest, sibling);
  });
  return isWhole && oldDigest === fromRoot && newDigest === toRoot;
}
