/**
 * What following prompts have in common at their beginning is evaluated once: nobody can tell it
 * from the replies.
 */
import { describe, expect, test } from '@jest/globals';
import { loadModel, type Model } from '../../src/engine/model.js';
import { Random } from '../../src/random.js';
import { ARCHITECTURES } from '../models/synthetic.js';
import { collectSorted, full, syntheticModel } from './fixtures.js';

const SETTINGS = { sampling: { temperature: 0.8 }, maxTokens: 6, ignoreEndOfSequence: true };

/** Prompts of token ids with seeds of their own. */
function asking(random: Random, vocabulary: number) {
  const tokens = (count: number): number[] =>
    Array.from({ length: count }, () => random.nextInteger(256, vocabulary - 1));
  let seed = 0n;
  const prompt = (...parts: number[][]) => ({
    tokenIds: Int32Array.from(parts.flat()),
    seeds: [++seed, ++seed],
  });
  return { tokens, prompt };
}

type Asked = ReturnType<ReturnType<typeof asking>['prompt']>;

/** Everything that a reply is, and how many tokens of prompts were evaluated. */
async function said(
  model: Model,
  prompts: Asked[],
  changes: object = {},
): Promise<{ replies: unknown[]; evaluated: number }> {
  let evaluated = 0;
  const request = { prompts, ...SETTINGS, captureBoundary: 1, ...changes };
  const rollouts = await collectSorted(model, {
    ...request,
    onProgress: ({ promptTokens }) => (evaluated = promptTokens),
  });
  const replies = rollouts.map(({ seed, tokenIds, logprobs, boundary }) => [
    seed,
    [...tokenIds],
    [...logprobs],
    [...boundary!.rows],
  ]);
  return { replies, evaluated };
}

async function alone(model: Model, prompts: Asked[]): Promise<unknown[]> {
  const replies = [];
  for (const prompt of prompts) replies.push(...(await said(model, [prompt])).replies);
  return replies;
}

const sum = (prompts: Asked[]): number =>
  prompts.reduce((total, { tokenIds }) => total + tokenIds.length, 0);

const TYPES = ['F16', 'Q8_0'] as const;
const each = ARCHITECTURES.flatMap((architecture, index) =>
  (full ? TYPES : [TYPES[index % 2]!]).map((type) => ({ architecture, type })),
);

describe.each(each)('$architecture $type', ({ architecture, type }) => {
  test('replies, log-probabilities and boundaries of prompts that begin alike are those of each prompt alone, bit for bit', async () => {
    await using model = await loadModel(syntheticModel({ architecture, type, seed: 11n }), {
      threads: 1,
      fixedThreads: true,
    });
    const { tokens, prompt } = asking(new Random(5n), model.info.vocabularySize);
    const [one, other] = [tokens(75), tokens(130)];
    const prompts = [
      // ends of every remainder by four, in the call that the frame ends in and in later ones
      ...[1, 2, 3, 4, 5, 6, 7, 41, 42, 43, 44, 60].map((length) => prompt(one, tokens(length))),
      prompt(tokens(50)),
      prompt(one), // the frame itself
      prompt(one),
      ...[9, 10].flatMap((length) => [prompt(other, tokens(length)), prompt(one, tokens(length))]),
      ...[3, 70, 20].map((length) => prompt(other, tokens(length))),
      prompt(one.slice(0, 2)),
    ];
    const expected = await alone(model, prompts);
    const together = await said(model, prompts);
    expect(together.replies).toEqual(expected);
    expect(together.evaluated).toBeLessThan(0.6 * sum(prompts));
    // with as many samples at once as one call takes, and with fewer prompts at once than there are
    expect((await said(model, prompts, { maxSequences: 4 })).replies).toEqual(expected);
  });
});

test('prompts with nothing in common are evaluated whole', async () => {
  await using model = await loadModel(syntheticModel({ architecture: 'llama', seed: 11n }), {
    threads: 1,
    fixedThreads: true,
  });
  const { tokens, prompt } = asking(new Random(6n), model.info.vocabularySize);
  const prompts = Array.from({ length: 5 }, () => prompt(tokens(40)));
  expect((await said(model, prompts)).evaluated).toBe(sum(prompts));
});

test('one stray prompt costs itself and no more', async () => {
  await using model = await loadModel(syntheticModel({ architecture: 'llama', seed: 11n }), {
    threads: 1,
    fixedThreads: true,
  });
  const { tokens, prompt } = asking(new Random(7n), model.info.vocabularySize);
  const frame = tokens(100);
  const framed = Array.from({ length: 9 }, () => prompt(frame, tokens(8)));
  const stray = prompt(tokens(60));
  const without = (await said(model, framed)).evaluated;
  expect(without).toBe(108 + 8 * 8);
  expect((await said(model, [...framed.slice(0, 4), stray, ...framed.slice(4)])).evaluated).toBe(
    without + 60,
  );
});
