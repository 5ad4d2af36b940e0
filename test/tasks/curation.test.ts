/**
 * Curation of examples by their scores: the vectors of the specification, near-duplicates against
 * all pairs, and what a row is told of its quality.
 */
import { describe, expect, test } from '@jest/globals';
import { curate, curatedToMeasure, NO_CURATION } from '../../src/operations/train/curation.js';
import type { NamedExample } from '../../src/fine-tuning/training-examples.js';
import { Random } from '../../src/random.js';
import { jaccard, shingles, SimilarSets } from '../../src/shingles.js';
import { dedupe, elite } from '../../src/tasks/curation/curate.js';
import {
  BEST_QUALITY,
  lossWeights,
  qualityBucket,
  qualityLine,
} from '../../src/tasks/curation/quality.js';
import { openTask } from '../../src/tasks/open-task.js';

test('A5: a quality is a fifth of the scale', () => {
  expect([0, 0.19, 0.2, 0.999, 1].map(qualityBucket)).toEqual([0, 0, 1, 4, 4]);
});

describe('A5: loss weights', () => {
  const close = (actual: readonly number[], expected: readonly number[]): void => {
    expect(actual).toHaveLength(expected.length);
    for (const [i, value] of expected.entries()) expect(actual[i]).toBeCloseTo(value, 6);
  };
  test('linear and softmax have mean 1', () => {
    close(lossWeights([0, 0.5, 1], 'linear'), [0.181818, 1, 1.818182]);
    close(lossWeights([0, 0.5, 1], 'softmax'), [0.558971, 0.921588, 1.519441]);
    close(lossWeights([0, 1], 'softmax', 0.5), [
      (2 * Math.exp(-2)) / (1 + Math.exp(-2)),
      2 / (1 + Math.exp(-2)),
    ]);
  });
  test('without a difference all examples count alike', () => {
    for (const weighting of ['uniform', 'linear', 'softmax'] as const)
      expect(lossWeights([0.4, 0.4], weighting)).toEqual([1, 1]);
    expect(lossWeights([0, 1], 'uniform')).toEqual([1, 1]);
    expect(lossWeights([], 'linear')).toEqual([]);
  });
});

test('the elite is at least one, rounded up, and all of them keep their order', () => {
  const scores = [0.2, 0.9, 0.5, 0.9, 0.1];
  const best = (share: number) => elite([...scores.keys()], share, (i) => scores[i]!);
  expect(best(1)).toEqual([0, 1, 2, 3, 4]);
  expect(best(0.01)).toEqual([1]);
  expect(best(0.4)).toEqual([1, 3]);
  expect(best(0.41)).toEqual([1, 3, 2]);
  expect(elite([...Array(30).keys()], 0.1, () => 0)).toEqual([0, 1, 2]);
});

describe('repeated examples', () => {
  const rows = [
    { prompt: 'a', answer: '{"x":1, "y":2}', score: 0.1 },
    { prompt: 'a', answer: '{"y": 2,"x":1}', score: 0.7 },
    { prompt: 'b', answer: '{"x":1, "y":2}', score: 0.3 },
    { prompt: 'a', answer: 'to be or not to be', score: 0.5 },
    { prompt: 'a', answer: 'to be or not to bee', score: 0.9 },
    { prompt: 'b', answer: 'to be or not to be', score: 0.2 },
  ];
  const deduped = (threshold: number) => {
    const { kept, ...counts } = dedupe(rows, {
      of: (row) => row,
      scoreOf: ({ score }) => score,
      threshold,
    });
    return { kept: kept.map((row) => rows.indexOf(row)), ...counts };
  };
  test('the best of those with one prompt and one answer stays, however its JSON is laid out', () => {
    expect(deduped(1)).toEqual({ kept: [4, 1, 3, 2, 5], repeated: 1, near: 0 });
  });
  test('below 1 answers to one prompt may not be nearly the same either', () => {
    const shared = jaccard(
      shingles([...rows[3]!.answer], 4, ''),
      shingles([...rows[4]!.answer], 4, ''),
    );
    expect(shared).toBeGreaterThan(0.9);
    expect(deduped(0.9)).toEqual({ kept: [4, 1, 2, 5], repeated: 1, near: 1 });
    expect(deduped(shared)).toMatchObject({ near: 1 });
    expect(deduped(shared + 1e-6)).toMatchObject({ near: 0 });
  });
});

test('sets that are alike are found exactly as by comparing all with all', () => {
  const random = new Random(5n);
  const sets = Array.from({ length: 120 }, () => {
    const [from, size] = [random.nextInteger(0, 12), random.nextInteger(1, 9)];
    return new Set(Array.from({ length: size }, () => String(from + random.nextInteger(0, 8))));
  });
  for (const threshold of [0.2, 0.5, 0.75, 0.9, 1]) {
    const index = new SimilarSets(sets, threshold);
    const found: string[] = [];
    const expected: string[] = [];
    for (const i of sets.keys()) {
      found.push(...index.alike(i).map((each) => `${each.index} ${i}`));
      for (let j = 0; j < i; j++)
        if (jaccard(sets[i]!, sets[j]!) >= threshold) expected.push(`${j} ${i}`);
      index.add(i);
    }
    expect(found).toEqual(expected);
    expect(expected.length).toBeGreaterThan(0);
  }
});

describe('examples of a file', () => {
  const row = (name: string, score: unknown, answer = name): NamedExample => ({
    name,
    score,
    example: { prompt: [{ role: 'user', content: 'How?' }], answer },
  });

  test('as they are where nothing is asked for, whatever their scores', () => {
    const rows = [row('line 1', 'good'), row('line 2', undefined)];
    expect(curate(rows, NO_CURATION)).toEqual({ examples: rows, counts: null });
    expect(
      curate([...rows, row('line 3', 7, 'line 1')], { ...NO_CURATION, dedupe: 1 }),
    ).toMatchObject({
      examples: rows,
      counts: { rows: 3, repeated: 1, near: 0, belowElite: 0 },
    });
  });

  test.each([undefined, null, '0.5', -0.1, 1.1, NaN])(
    'a score of %p is refused by the name of its row where it is read',
    (score) => {
      for (const how of [
        { elite: 0.5 },
        { weightByScore: 'linear' },
        { scoreConditioned: true },
      ] as const)
        expect(() =>
          curate([row('line 1', 1), row('line 2', score)], { ...NO_CURATION, ...how }),
        ).toThrow(/^line 2: expected a "score"/);
    },
  );

  test('counts what is left out, and weighs what is kept', () => {
    const rows = [row('a', 0), row('b', 0.5), row('c', 1), row('d', 1, 'c'), row('e', 0.25)];
    const { examples, counts } = curate(rows, {
      ...NO_CURATION,
      dedupe: 1,
      elite: 0.75,
      weightByScore: 'linear',
    });
    expect(counts).toEqual({ rows: 5, repeated: 1, near: 0, belowElite: 1 });
    expect(examples.map(({ name }) => name)).toEqual(['c', 'b', 'e']);
    expect(examples.reduce((sum, { weight = 0 }) => sum + weight, 0)).toBeCloseTo(3, 12);
    expect(examples[0]!.weight! / examples[2]!.weight!).toBeCloseTo(10, 12);
  });

  test('a row is told its quality as a task is asked for the best: one system message, before what the row says itself', async () => {
    await using plain = await openTask('ladder');
    const problem = await plain.generate(plain.tiers[0]!.id, 1n);
    const own = { role: 'system', content: 'Be brief.' } as const;
    const prompt = [own, ...(await plain.prompt(problem, 'plain'))];
    const rows = [0, 0.5, 1].map((score) => ({
      name: 'x',
      score,
      example: { prompt, answer: 'yes' },
    }));
    const told = curatedToMeasure(rows, { ...NO_CURATION, elite: 0.1, scoreConditioned: true }).map(
      ({ example }) => ('prompt' in example ? example.prompt : []),
    );
    expect(told.map(([first]) => first!.content)).toEqual(
      [0, 2, 4].map((bucket) => `${qualityLine(bucket)}\n\nBe brief.`),
    );
    await using asked = await openTask('ladder', {
      system: `${qualityLine(BEST_QUALITY)}\n\nBe brief.`,
    });
    expect(told[2]).toEqual(await asked.prompt(problem, 'plain'));
    expect(() =>
      curate([{ name: 'line 3', score: 1, example: { text: 'once' } }], {
        ...NO_CURATION,
        scoreConditioned: true,
      }),
    ).toThrow('line 3: the row is plain text, so it has no prompt');
  });
});
