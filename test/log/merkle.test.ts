import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import {
  consistencyProof,
  inclusionProof,
  MerkleFrontier,
  rootOf,
  verifyConsistency,
  verifyInclusion,
} from '../../src/log/merkle.js';
import { leafDigest } from '../models/signed-log.js';
import { Random } from '../../src/random.js';

const sha = (...parts: Buffer[]): Buffer =>
  createHash('sha256').update(Buffer.concat(parts)).digest();

/** MTH of RFC 6962 §2.1, word for word; shares nothing with the code under test. */
function naiveRoot(data: Buffer[]): Buffer {
  if (data.length === 0) return sha();
  if (data.length === 1) return sha(Buffer.of(0), data[0] as Buffer);
  let k = 1;
  while (2 * k < data.length) k *= 2;
  return sha(Buffer.of(1), naiveRoot(data.slice(0, k)), naiveRoot(data.slice(k)));
}

// The inputs, roots and proofs of the reference implementation of RFC 6962
// (certificate-transparency, merkletree tests).
const DATA = [
  '',
  '00',
  '10',
  '2021',
  '3031',
  '40414243',
  '5051525354555657',
  '606162636465666768696a6b6c6d6e6f',
].map((each) => Buffer.from(each, 'hex'));
const ROOTS = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
];
const N1 = '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7';
const N23 = '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e';
const N4567 = '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4';
const N4 = 'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b';
const N67 = 'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0';
const N45 = '0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a';

const leaves = DATA.map(leafDigest);
const range = (of: readonly string[]) => (low: number, high: number) => rootOf(of.slice(low, high));

describe('RFC 6962 Merkle tree', () => {
  test('reproduces the roots of the reference implementation', () => {
    const frontier = new MerkleFrontier();
    const roots = [frontier.root()];
    for (const leaf of leaves) {
      frontier.append(leaf);
      roots.push(frontier.root());
    }
    expect(roots).toEqual(ROOTS);
  });

  test('reproduces its inclusion proofs', () => {
    expect(inclusionProof(0, 1, range(leaves))).toEqual([]);
    expect(inclusionProof(0, 8, range(leaves))).toEqual([N1, N23, N4567]);
    expect(inclusionProof(5, 8, range(leaves))).toEqual([N4, N67, ROOTS[4]]);
    expect(inclusionProof(2, 3, range(leaves))).toEqual([ROOTS[2]]);
    expect(inclusionProof(1, 5, range(leaves))).toEqual([ROOTS[1], N23, N4]);
  });

  test('reproduces its consistency proofs', () => {
    expect(consistencyProof(1, 1, range(leaves))).toEqual([]);
    expect(consistencyProof(1, 8, range(leaves))).toEqual([N1, N23, N4567]);
    expect(consistencyProof(6, 8, range(leaves))).toEqual([N45, N67, ROOTS[4]]);
    expect(consistencyProof(2, 5, range(leaves))).toEqual([N23, N4]);
  });

  test('agrees with the naive tree for every size to 130', () => {
    const data = Array.from({ length: 130 }, (_, i) => Buffer.from(`record ${i}`));
    const frontier = new MerkleFrontier();
    for (let size = 0; size <= data.length; size++) {
      expect(frontier.root()).toBe(naiveRoot(data.slice(0, size)).toString('hex'));
      if (size < data.length) frontier.append(leafDigest(data[size] as Buffer));
    }
  });

  test('every proof to size 40 holds, and none holds for another leaf, index, size or root', () => {
    const many = Array.from({ length: 40 }, (_, i) => leafDigest(Buffer.from(`record ${i}`)));
    const roots = many.map((_, i) => rootOf(many.slice(0, i + 1)));
    const rootAt = (size: number): string =>
      size === 0 ? (ROOTS[0] as string) : (roots[size - 1] as string);
    for (let size = 1; size <= many.length; size++) {
      for (let i = 0; i < size; i++) {
        const proof = inclusionProof(i, size, range(many));
        expect(verifyInclusion(many[i] as string, i, size, rootAt(size), proof)).toBe(true);
        expect(verifyInclusion(many[(i + 1) % 40] as string, i, size, rootAt(size), proof)).toBe(
          false,
        );
        if (size > 1)
          expect(
            verifyInclusion(many[i] as string, (i + 1) % size, size, rootAt(size), proof),
          ).toBe(false);
        expect(verifyInclusion(many[i] as string, i, size, rootAt(size - 1), proof)).toBe(false);
        expect(
          verifyInclusion(many[i] as string, i, size, rootAt(size), [...proof, many[0] as string]),
        ).toBe(false);
        if (proof.length > 0)
          expect(verifyInclusion(many[i] as string, i, size, rootAt(size), proof.slice(1))).toBe(
            false,
          );
      }
      for (let from = 0; from <= size; from++) {
        const proof = consistencyProof(from, size, range(many));
        expect(verifyConsistency(from, rootAt(from), size, rootAt(size), proof)).toBe(true);
        expect(
          verifyConsistency(from, rootAt(from === 0 ? 1 : from - 1), size, rootAt(size), proof),
        ).toBe(false);
        // every log extends the empty one
        if (from > 0)
          expect(verifyConsistency(from, rootAt(from), size, rootAt(size - 1), proof)).toBe(false);
        expect(
          verifyConsistency(from, rootAt(from), size, rootAt(size), [...proof, many[0] as string]),
        ).toBe(false);
        if (proof.length > 0)
          expect(
            verifyConsistency(from, rootAt(from), size, rootAt(size), proof.slice(0, -1)),
          ).toBe(false);
      }
    }
  });

  test('a proof with one digit changed never holds, and nonsense is refused', () => {
    const many = Array.from({ length: 100 }, (_, i) => leafDigest(Buffer.of(i)));
    const random = new Random(5n);
    for (let trial = 0; trial < 500; trial++) {
      const to = random.nextInteger(2, 100);
      const from = random.nextInteger(1, to - 1);
      const [fromRoot, toRoot] = [rootOf(many.slice(0, from)), rootOf(many.slice(0, to))];
      const proof = consistencyProof(from, to, range(many));
      const at = random.nextInteger(0, proof.length - 1);
      const digit = random.nextInteger(0, 63);
      const old = proof[at] as string;
      proof[at] = old.slice(0, digit) + (old[digit] === '0' ? '1' : '0') + old.slice(digit + 1);
      expect(verifyConsistency(from, fromRoot, to, toRoot, proof)).toBe(false);
    }
    for (const [from, to] of [
      [-1, 3],
      [4, 3],
      [NaN, 3],
      [1.5, 3],
    ] as const) {
      expect(verifyConsistency(from, ROOTS[1] as string, to, ROOTS[3] as string, [N1, N23])).toBe(
        false,
      );
    }
    expect(verifyInclusion(leaves[0] as string, 8, 8, ROOTS[8] as string, [])).toBe(false);
  });

  test('keeps one subtree for each bit of the size', () => {
    const frontier = new MerkleFrontier();
    for (let i = 0; i < 10_000; i++) frontier.append(leaves[i % 8] as string);
    // 10000 in binary
    expect(frontier.subtrees.map(({ width }) => width)).toEqual([8192, 1024, 512, 256, 16]);
  });
});
