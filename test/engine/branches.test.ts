/**
 * What texts have in common at their beginning is evaluated once: nobody can tell it from their
 * log-probabilities.
 */
import { describe, expect, test } from '@jest/globals';
import type { Branch } from '../../src/engine/branches.js';
import { loadModel, type Model } from '../../src/engine/model.js';
import { Random } from '../../src/random.js';
import { ARCHITECTURES } from '../models/synthetic.js';
import { syntheticModel } from './fixtures.js';

const FULL = process.env.ISOPRO_FULL === '1';
const TYPES = ['F16', 'Q8_0'] as const;
const each = ARCHITECTURES.map((architecture, index) => ({
  architecture,
  type: TYPES[index % 2]!,
}));
const EXACT = { threads: 1, fixedThreads: true } as const;

/** Token ids that one draws; `of` shuffles. */
function drawing(random: Random, model: Model) {
  const tokens = (count: number): number[] =>
    Array.from({ length: count }, () => random.nextInteger(256, model.info.vocabularySize - 1));
  const opening = tokens(9);
  // Alike over none, some and all of their tokens; one twice, one that another goes on from, one of
  // no token and several of one.
  const continuations = [
    ...[1, 5, 20, 3].map((length) => [...opening, ...tokens(length)]),
    ...[2, 30].map((length) => [...opening.slice(0, 4), ...tokens(length)]),
    ...[opening, opening, opening.slice(0, 6), [], tokens(1), opening.slice(0, 1), tokens(40)],
  ];
  return { tokens, continuations: [...continuations, [...continuations[2]!, ...tokens(4)]] };
}

const rows = (scores: readonly Float32Array[]): number[][] => scores.map((score) => [...score]);

describe.each(each)('$architecture $type', ({ architecture, type }) => {
  const file = syntheticModel({ architecture, type, seed: 11n });

  test('score says of every continuation what it says of it alone, bit for bit', async () => {
    await using model = await loadModel(file, EXACT);
    const { tokens, continuations } = drawing(new Random(3n), model);
    for (const prefix of [tokens(3), tokens(86)]) {
      const alone: number[][] = [];
      for (const continuation of continuations)
        alone.push(...rows(await model.score(prefix, [continuation])));
      expect(rows(await model.score(prefix, continuations))).toEqual(alone);
      // No room for more than two or three of them at once.
      await using narrow = await loadModel(file, { ...EXACT, contextTokens: prefix.length + 50 });
      expect(rows(await narrow.score(prefix, continuations.toReversed())).toReversed()).toEqual(
        alone,
      );
    }
  });

  test('a token a call: the same', async () => {
    await using model = await loadModel(file, EXACT);
    const { tokens, continuations } = drawing(new Random(3n), model);
    const prefix = tokens(10);
    const stepwise = { stepwise: true };
    const alone: number[][] = [];
    for (const continuation of continuations)
      alone.push(...rows(await model.score(prefix, [continuation], stepwise)));
    expect(rows(await model.score(prefix, continuations, stepwise))).toEqual(alone);
  });

  test('branches are scored as after the tokens before them, bit for bit', async () => {
    await using model = await loadModel(file, EXACT);
    const { tokens, continuations } = drawing(new Random(3n), model);
    const trunk = tokens(170);
    // in and behind a trunk, within the cells of a call and across them
    const places = FULL ? [3, 5, 60, 61, 123, 170] : [3, 61, 170];
    const branches: Branch[] = places.flatMap((at) =>
      continuations.map((tokenIds) => ({ at, tokenIds, from: tokenIds.length >> 1 })),
    );
    const expected: number[][] = [];
    for (const { at, tokenIds, from } of branches) {
      const cut = at - 1 - ((at - 1) % 4);
      // Nothing can be scored after no token at all: the first ones stand before the branch in
      // another way.
      const [prefix, rest] = cut === 0 ? [trunk.slice(0, at), 0] : [trunk.slice(0, cut), at - cut];
      const [score] = await model.score(prefix, [[...trunk.slice(at - rest, at), ...tokenIds]]);
      expected.push([...score!.subarray(rest + from!)]);
    }
    const exact = branches.map(({ at }) => at > 4);
    const compare = (found: readonly Float32Array[]): void => {
      expect(rows(found).filter((_, i) => exact[i])).toEqual(expected.filter((_, i) => exact[i]));
      for (const [i, row] of rows(found).entries()) {
        expect(row).toHaveLength(expected[i]!.length);
        row.forEach((value, j) => {
          expect(Math.abs(value - expected[i]![j]!)).toBeLessThan(1e-2);
        });
      }
    };
    compare((await model.scoreBranches(trunk, branches)).logProbabilities);
    await using narrow = await loadModel(file, { ...EXACT, contextTokens: 215 });
    compare((await narrow.scoreBranches(trunk, branches)).logProbabilities);
  });
});

describe('branches', () => {
  const file = syntheticModel({ architecture: 'llama', type: 'F32', seed: 11n });

  test('cost what they do not share, and the trunk once as far as one needs it', async () => {
    await using model = await loadModel(file, EXACT);
    const { tokens } = drawing(new Random(4n), model);
    const [trunk, probe, forms] = [tokens(100), tokens(12), [tokens(1), tokens(1), tokens(3)]];
    const branches = [42, 90].flatMap((at) =>
      forms.map((form) => ({ at, tokenIds: [...probe, ...form], from: probe.length })),
    );
    const scored = await model.scoreBranches(trunk, branches);
    // 2 tokens of the trunk at either place; a form's last token is not evaluated
    expect([scored.trunk.tokens, scored.branches.tokens, scored.repeatedTokens]).toEqual([
      88,
      2 * (2 + 12 + 2),
      4,
    ]);
    expect(scored.branches.time.seconds).toBeGreaterThan(0);
    expect(scored.trunk.time.processorSeconds).toBeGreaterThan(0);
    const nothing = await model.scoreBranches(trunk, [
      { at: 5, tokenIds: probe, from: probe.length },
    ]);
    expect([rows(nothing.logProbabilities), nothing.trunk.tokens, nothing.branches.tokens]).toEqual(
      [[[]], 0, 0],
    );
  });

  test.each<[string, readonly number[], Branch, string]>([
    ['before the trunk', [1, 2], { at: 0, tokenIds: [1] }, 'INVALID_ARGUMENT'],
    ['behind the trunk', [1, 2], { at: 3, tokenIds: [1] }, 'INVALID_ARGUMENT'],
    [
      'behind all that 32 bits count',
      [1, 2],
      { at: 2 ** 32 + 1, tokenIds: [1] },
      'INVALID_ARGUMENT',
    ],
    ['asked for behind its end', [1, 2], { at: 2, tokenIds: [1], from: 2 }, 'INVALID_ARGUMENT'],
    ['of a token that is none', [1, 2], { at: 2, tokenIds: [-1] }, 'INVALID_ARGUMENT'],
    ['on a trunk of tokens that are none', [1, 1e6], { at: 2, tokenIds: [1] }, 'INVALID_ARGUMENT'],
    ['too long', [1, 2], { at: 2, tokenIds: Array<number>(63).fill(1) }, 'CONTEXT_OVERFLOW'],
  ])('a branch %s is an error', async (_, trunk, branch, code) => {
    await using model = await loadModel(file, { ...EXACT, contextTokens: 64 });
    await expect(
      model.scoreBranches(trunk, [{ at: 1, tokenIds: [1] }, branch]),
    ).rejects.toMatchObject({ code });
    const aborted = model.scoreBranches([1, 2], [{ at: 1, tokenIds: [1] }], {
      signal: AbortSignal.abort(),
    });
    await expect(aborted).rejects.toMatchObject({ code: 'ABORTED' });
  });
});
