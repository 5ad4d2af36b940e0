/**
 * Text decoders without a validator of ours: they generate what llama.cpp alone generates, alone
 * and in company, and score says what generate said.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { checkBatchRequest } from '../../src/engine/generate-request.js';
import type { StartedReply } from '../../src/engine/running-batch.js';
import { createTrainer } from '../../src/engine/trainer.js';
import { inspectModel } from '../../src/engine/inspect.js';
import { estimateMemory } from '../../src/engine/memory-estimate.js';
import { loadModel, type Model } from '../../src/engine/model.js';
import { mergeAdapter } from '../../src/engine/model-export.js';
import type { Rollout } from '../../src/engine/generation.js';
import { covered } from '../models/covered.js';
import { ALONE, DECODER_NAMES, DECODERS, writeDecoder, type Decoder } from '../models/decoders.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-decoders-'));
const home = process.env.ISOPRO_HOME;
const WORD = 'The judge reads 12 answers: ☃\n';
const OPTIONS = { threads: 1, fixedThreads: true, gpuLayers: 0, contextTokens: 2048 } as const;
const GREEDY = { sampling: { temperature: 0 }, ignoreEndOfSequence: true } as const;
const LENGTH = 24;
const ORACLE = path.resolve(
  'build/tests',
  process.platform === 'win32' ? 'Release/isopro_llama_greedy.exe' : 'isopro_llama_greedy',
);

const file = (architecture: Decoder): string => path.join(folder, `${architecture}.gguf`);

beforeAll(() => {
  process.env.ISOPRO_HOME = path.join(folder, 'home');
  const built = spawnSync(process.execPath, ['scripts/test-native.mjs', '--oracle'], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  expect(built.status === 0 ? '' : `${built.stdout}${built.stderr}`).toBe('');
  for (const architecture of DECODER_NAMES) writeDecoder(file(architecture), architecture);
}, 900_000);
afterAll(() => {
  if (home === undefined) delete process.env.ISOPRO_HOME;
  else process.env.ISOPRO_HOME = home;
  rmSync(folder, { recursive: true, force: true });
});

interface Alone {
  readonly tokens: readonly number[];
  readonly logProbabilities: readonly number[];
  readonly stateBytes: readonly [number, number];
}

function llamaAlone(architecture: Decoder, prompt: Int32Array, count: number): Alone {
  const { status, stdout, stderr } = spawnSync(
    ORACLE,
    [file(architecture), String(count), ...Array.from(prompt, String)],
    { encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(stderr);
  return JSON.parse(stdout) as Alone;
}

async function replies(
  model: Model,
  prompts: readonly Int32Array[],
  extra: { samples?: number; temperature?: number; maxTokens?: number } = {},
): Promise<Rollout[]> {
  const { samples = 1, temperature = 0, maxTokens = LENGTH } = extra;
  const found: Rollout[] = [];
  for await (const rollout of model.generate({
    prompts: prompts.map((tokenIds) => ({ tokenIds })),
    ...{ samples, maxTokens, ignoreEndOfSequence: true },
    sampling: { temperature, seed: 5n },
  }))
    found.push(rollout);
  return found.sort((a, b) => a.promptIndex - b.promptIndex || a.sampleIndex - b.sampleIndex);
}

const bits = ({ tokenIds, logprobs }: Pick<Rollout, 'tokenIds' | 'logprobs'>): unknown => [
  [...tokenIds],
  [...logprobs],
];

describe.each(DECODER_NAMES)('%s', (architecture) => {
  const alone = ALONE.includes(architecture);
  let model: Model;
  let prompts: Int32Array[];
  beforeAll(async () => {
    model = await loadModel(file(architecture), OPTIONS);
    prompts = [WORD, 'Who sells what? ', `${WORD.repeat(9)}Why? `, 'a'].map((word) =>
      model.tokenize(word),
    );
  });
  afterAll(() => model?.dispose());

  test(`${DECODERS[architecture].kind}: generates what llama.cpp alone does`, async () => {
    expect(model.info.evaluatesAlone).toBe(alone);
    const written: number[] = [];
    for (const prompt of prompts) {
      const expected = llamaAlone(architecture, prompt, LENGTH);
      const [reply] = await replies(model, [prompt]);
      expect([...reply!.tokenIds]).toEqual(expected.tokens);
      const gaps = expected.logProbabilities.map((value, i) =>
        Math.abs(value - reply!.logprobs[i]!),
      );
      expect(Math.max(...gaps)).toBeLessThan(0.02);
      written.push(...expected.tokens);
    }
    expect(new Set(written).size).toBeGreaterThan(10);
    covered(architecture, 'generate');
  });

  test('score is the log-probabilities of generate, bit for bit', async () => {
    for (const prompt of prompts) {
      const [reply] = await replies(model, [prompt], { temperature: 1 });
      const [scores] = await model.score(prompt, [reply!.tokenIds], { stepwise: true });
      expect([...scores!]).toEqual([...reply!.logprobs]);
    }
    const several = await replies(model, prompts.slice(0, 2), { temperature: 1, samples: 3 });
    for (const [i, prompt] of prompts.slice(0, 2).entries()) {
      const own = several.filter(({ promptIndex }) => promptIndex === i);
      const scores = await model.score(
        prompt,
        own.map(({ tokenIds }) => tokenIds),
      );
      expect(scores.map((of) => [...of])).toEqual(own.map(({ logprobs }) => [...logprobs]));
    }
    covered(architecture, 'score');
  });

  test('a reply has the same bits whatever else the request asks for', async () => {
    expect(model.info.batchInvariant).toBe(true);
    const few = await replies(model, prompts.slice(0, 2), { temperature: 1 });
    const many = await replies(model, prompts, { temperature: 1, samples: 9 });
    const first = many.filter(
      ({ promptIndex, sampleIndex }) => promptIndex < 2 && sampleIndex === 0,
    );
    expect(few.map(bits)).toEqual(first.map(bits));
  });

  test('branches are scored as continuations are', async () => {
    const trunk = prompts[2]!.subarray(0, 48);
    const branches = [
      { at: 12, tokenIds: prompts[1]! },
      { at: 12, tokenIds: prompts[0]! },
      { at: 48, tokenIds: prompts[1]! },
    ];
    const { logProbabilities } = await model.scoreBranches(trunk, branches);
    for (const [i, { at, tokenIds }] of branches.entries()) {
      const cut = alone ? at : Math.floor((at - 1) / 4) * 4;
      const [scores] = await model.score(trunk.subarray(0, cut), [
        Int32Array.from([...trunk.subarray(cut, at), ...tokenIds]),
      ]);
      expect([...logProbabilities[i]!]).toEqual([...scores!.subarray(at - cut)]);
    }
  });

  test('the running batch replies as generate does, to several that join and leave', async () => {
    const batch = await model.openBatch({
      maxSequences: 4,
      contextTokens: 1024,
      prefixTokens: 256,
    });
    const ask = (tokenIds: Int32Array, deterministic: boolean): StartedReply =>
      batch.start(
        checkBatchRequest({ tokenIds, maxTokens: LENGTH, ...GREEDY, deterministic }),
        null,
      );
    const expected: Rollout[] = [];
    for (const prompt of prompts) expected.push(...(await replies(model, [prompt])));
    for (const deterministic of [false, true]) {
      const lost = ask(prompts[2]!, deterministic);
      const left = lost.reply.catch((error: unknown) => error);
      const asked = [...prompts, prompts[0]!].map((prompt) => ask(prompt, deterministic).reply);
      setTimeout(() => lost.cancel(), 5);
      const given = await Promise.all(asked);
      const end = await left;
      if (end instanceof Error) expect(end).toMatchObject({ code: 'ABORTED' });
      for (const [i, reply] of given.entries()) {
        const of = expected[i % prompts.length]!;
        // Others in a call change the last bits, which routes a token to another expert.
        if (!alone && !deterministic)
          expect(Math.abs(reply.logprobs[0]! - of.logprobs[0]!)).toBeLessThan(0.05);
        else expect(bits(reply)).toEqual(bits(of));
        if (alone) expect(reply.reusedTokens).toBe(0);
      }
    }
  });

  test('the memory that is counted holds what llama.cpp keeps of a sequence', async () => {
    const inspection = await inspectModel(file(architecture));
    const memory = (await estimateMemory(file(architecture), inspection, 1))!;
    expect(memory.kvBytesPerToken).toBe(model.info.kvBytesPerToken);
    expect(memory.stateBytes).toBe(model.info.stateBytes);
    const [before, after] = llamaAlone(architecture, prompts[2]!, LENGTH).stateBytes;
    const tokens = prompts[2]!.length + LENGTH - 2;
    const counted = memory.stateBytes + tokens * memory.kvBytesPerToken;
    // llama.cpp writes positions and sizes, too.
    const written = 32 * tokens + 4096;
    expect(counted).toBeGreaterThan(before - written);
    // Of a sliding window it writes what is in the window, and keeps all.
    if (!DECODERS[architecture].kind.includes('window')) {
      expect(counted).toBeLessThan(2 * before + written);
      expect(after - before).toBeLessThanOrEqual(memory.kvBytesPerToken + 32);
    }
  });

  test('it is inspected, and not trained', async () => {
    const inspection = await inspectModel(file(architecture));
    expect(inspection.problem).toBeNull();
    expect(inspection.evaluatesAlone).toBe(alone);
    const refusal = {
      code: 'ARCH_UNSUPPORTED',
      message: expect.stringContaining(
        `"${architecture}" can be run, but not trained`,
      ) as unknown as string,
    };
    expect(inspection.trainingProblem).toMatchObject(refusal);
    await expect(createTrainer({ path: file(architecture) })).rejects.toMatchObject(refusal);
    const merge = { model: file(architecture), adapter: file('gpt2'), out: `${folder}/merged` };
    await expect(mergeAdapter({ ...merge, type: 'f16' })).rejects.toMatchObject(refusal);
  });
});

describe('a model that evaluates each sample by itself', () => {
  let model: Model;
  beforeAll(async () => {
    model = await loadModel(file('qwen35'), OPTIONS);
  });
  afterAll(() => model?.dispose());

  test('keeps to a grammar and ends at a stop string', async () => {
    const prompts = [{ text: WORD }];
    for await (const { text } of model.generate({
      ...{ prompts, maxTokens: 40, samples: 3, grammar: 'root ::= [0-9]{3} "."' },
    }))
      expect(text).toMatch(/^\d{3}\.$/);
    const [free] = await replies(model, [model.tokenize(WORD)]);
    const third = model.detokenize(free!.tokenIds.subarray(2, 3));
    for await (const { text } of model.generate({
      ...{ prompts: [{ tokenIds: model.tokenize(WORD) }], maxTokens: LENGTH, ...GREEDY },
      stop: [third],
    }))
      expect(text).not.toContain(third);
  });

  test('is interrupted, and answers the next request as before', async () => {
    const prompt = model.tokenize(WORD.repeat(6));
    const expected = await replies(model, [prompt]);
    const controller = new AbortController();
    const interrupted = (async () => {
      for await (const { tokenIds } of model.generate({
        ...{ prompts: [{ tokenIds: prompt }], maxTokens: 300, samples: 8, ...GREEDY },
        signal: controller.signal,
        onProgress: ({ sampledTokens }) => sampledTokens > 20 && controller.abort(),
      }))
        expect(tokenIds.length).toBeGreaterThan(0);
    })();
    await expect(interrupted).rejects.toMatchObject({ code: 'ABORTED' });
    expect((await replies(model, [prompt])).map(bits)).toEqual(expected.map(bits));
  });

  test('embeds a text as a whole', async () => {
    const long = WORD.repeat(12);
    const { rows } = await model.embed([long, long, 'else']);
    expect([...rows[0]!]).toEqual([...rows[1]!]);
    expect([...rows[0]!]).not.toEqual([...rows[2]!]);
  });
});

test('a verdict is kept once for each content of a file', () => {
  expect(readdirSync(path.join(folder, 'home', 'trials'))).toHaveLength(DECODER_NAMES.length);
});
