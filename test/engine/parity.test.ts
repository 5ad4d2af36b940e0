/**
 * The engine against node-llama-cpp on the same files: greedy tokens, and log-probabilities against
 * themselves.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { covered } from '../models/covered.js';
import { getLlama, LlamaLogLevel, type Llama } from 'node-llama-cpp';
import { peerGreedy } from '../../bench/peer/node-llama-cpp.js';
import { prepareAdapter } from '../../src/engine/adapter-use.js';
import { loadModel, type KvType } from '../../src/engine/model.js';
import { createTrainer } from '../../src/engine/trainer.js';
import { ARCHITECTURES } from '../models/synthetic.js';
import { collectSorted, describeStories, STORIES, syntheticModel } from './fixtures.js';

const TYPES = ['F32', 'F16', 'Q8_0', 'Q4_0', 'Q4_K', 'Q6_K'] as const;

const FULL = process.env.ISOPRO_FULL === '1';
let llama: Llama;
beforeAll(async () => {
  llama = await getLlama({
    gpu: false,
    build: 'never',
    logLevel: LlamaLogLevel.disabled,
    maxThreads: 1,
  });
});
afterAll(() => llama.dispose());

async function expectParity(file: string, text: string, leading: number[]): Promise<void> {
  await using model = await loadModel(file, { threads: 1 });
  const prompt = Int32Array.from([...leading, ...model.tokenize(text)]);
  const [rollout] = await collectSorted(model, {
    prompts: [{ tokenIds: prompt }],
    sampling: { temperature: 0 },
    maxTokens: 64,
    ignoreEndOfSequence: true,
  });
  expect([...rollout!.tokenIds]).toEqual(await peerGreedy(llama, file, prompt, 64));
}

const TEXTS = [
  'One two three',
  'The quick brown fox jumps',
  'x',
  `and one more, ${'long enough for several calls of rows, '.repeat(6)}`,
];

/** Largest difference between what generate reports and what score computes, in nats. */
async function largestDifference(
  file: string,
  {
    samples,
    texts,
    stepwise,
    kvType,
  }: { samples: number; texts: readonly string[]; stepwise: boolean; kvType?: KvType },
): Promise<number> {
  await using model = await loadModel(file, { threads: 1, ...(kvType && { kvType }) });
  const prompts = texts.map((text) => ({ tokenIds: model.tokenize(text) }));
  // The stop tokens let samples end at different steps.
  const stopTokens = [...model.tokenize('.,e')];
  const rollouts = await collectSorted(model, {
    prompts,
    samples,
    sampling: { temperature: 0.9, seed: 11n },
    maxTokens: 24,
    stopTokens,
  });
  expect(rollouts).toHaveLength(texts.length * samples);
  let largest = 0;
  for (const [index, prompt] of prompts.entries()) {
    const own = rollouts.filter((rollout) => rollout.promptIndex === index);
    const scores = await model.score(
      prompt.tokenIds,
      own.map((rollout) => rollout.tokenIds),
      { stepwise },
    );
    scores.forEach((row, i) => {
      row.forEach((value, j) => {
        largest = Math.max(largest, Math.abs(value - own[i]!.logprobs[j]!));
      });
    });
  }
  return largest;
}

/** The required bound is 1e-3; rows that run the same kernels agree in every bit. */
async function expectScoresToAgree(file: string): Promise<void> {
  expect(
    await largestDifference(file, { samples: 1, texts: TEXTS.slice(0, 1), stepwise: true }),
  ).toBe(0);
  expect(await largestDifference(file, { samples: 5, texts: TEXTS, stepwise: false })).toBe(0);
  expect(await largestDifference(file, { samples: 17, texts: TEXTS, stepwise: false })).toBe(0);
}

describeStories('stories260K', () => {
  test('greedy decoding equals node-llama-cpp token for token', () =>
    expectParity(STORIES, 'Once upon a time, a cat', [1]));
  test('score agrees with the log-probabilities of generate', () => expectScoresToAgree(STORIES));
  test('one sample against the faster form of score', async () => {
    expect(
      await largestDifference(STORIES, {
        samples: 1,
        texts: ['Once upon a time, a cat'],
        stepwise: false,
      }),
    ).toBeLessThan(1e-3);
  });
  test('score takes more continuations than one call has rows', async () => {
    expect(
      await largestDifference(STORIES, { samples: 70, texts: TEXTS.slice(0, 1), stepwise: false }),
    ).toBe(0);
  });
});

describe.each(
  ARCHITECTURES.map((architecture, i) => ({
    architecture,
    // kernels know types, not architectures: after the first, they take turns
    types: i < 2 || FULL ? TYPES : [TYPES[i % TYPES.length]!],
  })),
)('synthetic $architecture', ({ architecture, types }) => {
  test.each(types)(
    '%s: greedy decoding equals node-llama-cpp, score agrees with generate',
    async (type) => {
      const file = syntheticModel({ architecture, type, seed: 5n });
      await expectParity(file, 'Hello, world! 1 + 1 = 2', []);
      await expectScoresToAgree(file);
      covered(architecture, 'generate', 'score');
    },
  );
});

describe('an adapter that `adapters use` wrote', () => {
  test.each(ARCHITECTURES)(
    '%s: llama.cpp in another program says the same with it',
    async (architecture) => {
      const file = syntheticModel({ architecture, type: 'Q8_0' });
      const out = mkdtempSync(path.join(tmpdir(), 'isopro-use-'));
      try {
        await using model = await loadModel(file, { threads: 1 });
        await using trainer = await createTrainer(model, {
          lora: { rank: 2 },
          optimiser: { learningRate: 0.02 },
          threads: 1,
          seed: 3,
        });
        const tokenIds = model.tokenize('one two three four five');
        for (let i = 0; i < 3; i++)
          await trainer.step([{ tokenIds, labelMask: new Uint8Array(tokenIds.length).fill(1, 1) }]);
        const made = path.join(out, 'made.gguf');
        await trainer.exportAdapter(made);
        const [lora] = (
          await prepareAdapter({
            for: 'llama-server',
            adapter: made,
            model: file,
            out: path.join(out, 'use'),
          })
        ).files;
        const prompt = model.tokenize('seven eight');
        const request = {
          prompts: [{ tokenIds: prompt }],
          sampling: { temperature: 0 },
          maxTokens: 32,
          ignoreEndOfSequence: true,
        };
        const [plain] = await collectSorted(model, request);
        const [adapted] = await collectSorted(model, {
          ...request,
          adapter: await model.loadAdapter(made),
        });
        expect([...adapted!.tokenIds]).not.toEqual([...plain!.tokenIds]);
        expect(await peerGreedy(llama, file, prompt, 32, { lora: lora! })).toEqual([
          ...adapted!.tokenIds,
        ]);
      } finally {
        rmSync(out, { recursive: true, force: true });
      }
    },
  );
});

/**
 * The ids that node-llama-cpp evaluates for a text: no chat template, no control tokens, BOS where
 * its vocabulary asks for it.
 */
async function peerPrompt(file: string, text: string): Promise<number[]> {
  const model = await llama.loadModel({ modelPath: file });
  try {
    const { bos, shouldPrependBosToken } = model.tokens;
    return [...(shouldPrependBosToken && bos !== null ? [bos] : []), ...model.tokenize(text)];
  } finally {
    await model.dispose();
  }
}

describe.each(ARCHITECTURES.slice(0, 4))('a text prompt to %s', (architecture) => {
  test.each(['Once upon a time', ' two  spaces\n', 'An <|im_end|> is text', 'é — 猫', ''])(
    '%j: the tokens of node-llama-cpp, and no others',
    async (text) => {
      const file = syntheticModel({ architecture, type: 'F32', seed: 5n });
      const expected = await peerPrompt(file, text);
      await using model = await loadModel(file, { threads: 1 });
      if (expected.length === 0) {
        await expect(collectSorted(model, { prompts: [{ text }] })).rejects.toMatchObject({
          code: 'INVALID_ARGUMENT',
        });
        return;
      }
      const [rollout] = await collectSorted(model, { prompts: [{ text }], maxTokens: 1 });
      expect([...rollout!.promptIds]).toEqual(expected);
    },
  );

  test('has exactly one form', async () => {
    await using model = await loadModel(syntheticModel({ architecture, type: 'F32', seed: 5n }), {
      threads: 1,
    });
    const both = { text: 'a', messages: [{ role: 'user', content: 'a' }] } as const;
    await expect(collectSorted(model, { prompts: [both] })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    await expect(collectSorted(model, { prompts: [{}] })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });
});

describe('types of the KV cache', () => {
  const file = (): string =>
    syntheticModel({ architecture: 'qwen2', type: 'Q8_0', seed: 5n, heads: 2 });
  const logprobs = async (kvType?: KvType): Promise<{ rows: Float32Array[]; bytes: number }> => {
    await using model = await loadModel(file(), { threads: 1, ...(kvType && { kvType }) });
    const prefix = model.tokenize(TEXTS[3]!);
    return {
      rows: await model.score(prefix, [model.tokenize('and so on'), model.tokenize('to the end')]),
      bytes: model.info.kvBytesPerToken,
    };
  };

  test.each(['bf16', 'q8_0'] as const)(
    '%s: near f16, and score still agrees with generate',
    async (kvType) => {
      const [exact, rounded] = [await logprobs(), await logprobs(kvType)];
      const differences = exact.rows.flatMap((row, i) =>
        [...row].map((value, j) => Math.abs(value - rounded.rows[i]![j]!)),
      );
      expect(Math.max(...differences)).toBeGreaterThan(0);
      expect(differences.reduce((sum, value) => sum + value, 0) / differences.length).toBeLessThan(
        0.1,
      );
      expect(rounded.bytes / exact.bytes).toBeCloseTo(kvType === 'q8_0' ? 34 / 64 : 1, 6);
      expect(
        await largestDifference(file(), { samples: 5, texts: TEXTS, stepwise: false, kvType }),
      ).toBe(0);
    },
  );

  describeStories('heads that a block does not divide', () => {
    test('are an error', async () => {
      await expect(loadModel(STORIES, { threads: 1, kvType: 'q8_0' })).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
      });
    });
  });
});
