/**
 * An adapter that acts from the reply on: every way to a reply gives the same bits, what stands
 * before it is the base model's and shared with it, and a prompt that does not activate it is the
 * base model's.
 */
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ModelHost, type HostReply } from '../../src/index.js';
import { loadModel, type Model } from '../../src/engine/model.js';
import { createTrainer } from '../../src/engine/trainer.js';
import { Random } from '../../src/random.js';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { ARCHITECTURES, writeSyntheticModel } from '../models/synthetic.js';
import { collectSorted, folder } from './fixtures.js';

const file = (name: string): string => path.join(folder, name);
const MESSAGES = (text: string) => [{ role: 'user' as const, content: text }];
const TEXTS = ['a', 'what is it, then?', 'one two three four five six seven eight nine ten'];
const SETTINGS = { sampling: { temperature: 0.8 }, maxTokens: 9, ignoreEndOfSequence: true };
const ONE_THREAD = { threads: 1, fixedThreads: true };

interface Opened {
  readonly at: string;
  readonly activated: string;
  readonly ordinary: string;
}

/** A model with the same adapter twice, once of all tokens. */
async function written(
  architecture: (typeof ARCHITECTURES)[number],
  type: 'F32' | 'Q8_0' | 'Q4_1',
): Promise<Opened> {
  const name = `${architecture}-${type}`;
  const at = file(`${name}.gguf`);
  const shape = writeSyntheticModel(at, { architecture, type, seed: 5n });
  await using model = await loadModel(at, ONE_THREAD);
  const invocationTokens = [...model.generationPrompt()];
  const options = { seed: 3n, magnitude: 0.3 };
  const [activated, ordinary] = [file(`${name}-activated.gguf`), file(`${name}-ordinary.gguf`)];
  writeSyntheticAdapter(activated, shape, { ...options, invocationTokens });
  writeSyntheticAdapter(ordinary, shape, options);
  return { at, activated, ordinary };
}

const bits = ({ tokenIds, logprobs }: Pick<HostReply, 'tokenIds' | 'logprobs'>): unknown => [
  [...tokenIds],
  [...logprobs],
];

test('the generation prompt is what every prompt ends with', async () => {
  await using model = await loadModel((await written('qwen2', 'F32')).at, ONE_THREAD);
  const tokens = [...model.generationPrompt()];
  expect(model.detokenize(Int32Array.from(tokens), { withControl: true })).toBe(
    '<|im_start|>assistant\n',
  );
  for (const { tokenIds } of model.renderChats(TEXTS.map(MESSAGES)))
    expect([...tokenIds].slice(-tokens.length)).toEqual(tokens);
});

describe.each(
  ARCHITECTURES.flatMap((architecture) =>
    (['Q8_0', 'Q4_1'] as const).map((type) => ({ architecture, type })),
  ),
)('$architecture $type', ({ architecture, type }) => {
  let opened: Opened;
  let model: Model;
  const matmul = type === 'Q4_1' ? 'own' : 'ggml';
  beforeAll(async () => {
    opened = await written(architecture, type);
    model = await loadModel(opened.at, { ...ONE_THREAD, matmul });
  });
  afterAll(() => model.dispose());

  const ask = (texts: readonly string[], adapter: 'activated' | 'ordinary' | null) =>
    model.loadAdapter(opened[adapter ?? 'activated']).then(async (loaded) => {
      const rollouts = await collectSorted(model, {
        prompts: texts.map((text) => ({ id: text, messages: MESSAGES(text) })),
        samples: 3,
        adapter: adapter === null ? null : loaded,
        ...SETTINGS,
      });
      loaded.dispose();
      return rollouts;
    });

  test('replies in company, alone and scored have the same bits', async () => {
    const together = await ask(TEXTS, 'activated');
    for (const [i, text] of TEXTS.entries())
      expect((await ask([text], 'activated')).map(bits)).toEqual(
        together.slice(3 * i, 3 * i + 3).map(bits),
      );
    const loaded = await model.loadAdapter(opened.activated);
    await model.setAdapter(loaded);
    for (const [i] of TEXTS.entries()) {
      const of = together.slice(3 * i, 3 * i + 3);
      const scored = await model.score(
        of[0]!.promptIds,
        of.map(({ tokenIds }) => tokenIds),
      );
      expect(scored.map((row) => [...row])).toEqual(of.map(({ logprobs }) => [...logprobs]));
    }
    await model.setAdapter(null);
    loaded.dispose();
    const [base, all] = [await ask(TEXTS, null), await ask(TEXTS, 'ordinary')];
    expect(together.map(bits)).not.toEqual(base.map(bits));
    expect(together.map(bits)).not.toEqual(all.map(bits));
  });

  test('a prompt that does not activate it is answered by the base model, and the reply says so', async () => {
    const loaded = await model.loadAdapter(opened.activated);
    const request = { prompts: TEXTS.map((text) => ({ id: text, text })), samples: 2, ...SETTINGS };
    const replies = await collectSorted(model, { ...request, adapter: loaded });
    const base = await collectSorted(model, { ...request, adapter: null });
    expect(replies.map(bits)).toEqual(base.map(bits));
    for (const { adapterId, notActivated } of replies)
      expect({ adapterId, notActivated }).toEqual({ adapterId: null, notActivated: true });
    const [activated] = await ask(TEXTS.slice(0, 1), 'activated');
    expect(activated!.adapterId).toBe(loaded.id);
    expect('notActivated' in activated!).toBe(false);
    loaded.dispose();
  });

  test('what has no prompt is refused with it', async () => {
    const loaded = await model.loadAdapter(opened.activated);
    await model.setAdapter(loaded);
    const refused = {
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('acts from the reply on') as unknown,
    };
    await expect(model.embed(['a'])).rejects.toMatchObject(refused);
    await expect(model.scoreBranches([1, 2, 3], [{ at: 2, tokenIds: [4] }])).rejects.toMatchObject(
      refused,
    );
    await expect(
      model.hidden({ tokens: [1, 2, 3], layers: [1], reduce: 'rows' }),
    ).rejects.toMatchObject(refused);
    await model.setAdapter(null);
    loaded.dispose();
  });

  test("the sampler's log-probabilities are the trainer's as closely as with an ordinary adapter", async () => {
    const gapOf = async (adapter: 'activated' | 'ordinary'): Promise<number> => {
      const rollouts = await ask(TEXTS, adapter);
      await using trainer = await createTrainer(model, {
        threads: 1,
        lora: { rank: 4 },
        ...(adapter === 'activated' && { invocationTokens: model.generationPrompt() }),
      });
      await trainer.importAdapter(opened[adapter]);
      const { sequences } = await trainer.evaluate(
        rollouts.map(({ promptIds, tokenIds }) => ({
          tokenIds: Int32Array.of(...promptIds, ...tokenIds),
          labelMask: Uint8Array.of(
            ...new Uint8Array(promptIds.length),
            ...new Uint8Array(tokenIds.length).fill(1),
          ),
        })),
      );
      let [sum, count] = [0, 0];
      for (const [i, { promptIds, logprobs }] of rollouts.entries()) {
        for (const [t, logprob] of logprobs.entries())
          sum += Math.abs(logprob - sequences[i]!.logprobs[promptIds.length + t]!);
        count += logprobs.length;
      }
      return sum / count;
    };
    const [activated, ordinary] = [await gapOf('activated'), await gapOf('ordinary')];
    expect(activated).toBeLessThan(2 * ordinary + 1e-3);
  });

  test('a running batch gives the bits of generate, and shares prompts between base and adapter', async () => {
    await using host = new ModelHost();
    const hosted = await host.load(opened.at, {
      ...ONE_THREAD,
      matmul,
      contextTokens: 2048,
      prefixTokens: 600,
    });
    const adapter = await hosted.loadAdapter(opened.activated);
    const random = new Random(1n);
    const long = Array.from({ length: 60 }, () => random.nextInteger(97, 122));
    const text = String.fromCharCode(...long);
    const request = {
      messages: MESSAGES(text),
      maxTokens: 9,
      sampling: { temperature: 0 },
      ignoreEndOfSequence: true,
    };
    const base = await hosted.generate(request);
    const reply = await hosted.generate({ ...request, adapter });
    const beforeReply = ({ promptIds }: HostReply): number =>
      promptIds.length - model.generationPrompt().length;
    const before = beforeReply(base);
    expect(base.reusedTokens).toBe(0);
    expect(reply.reusedTokens).toBe(before);
    // and the other way round, on another text
    const other = { ...request, messages: MESSAGES(text.toUpperCase()) };
    const first = await hosted.generate({ ...other, adapter });
    expect(first.reusedTokens).toBeLessThan(beforeReply(first));
    expect((await hosted.generate(other)).reusedTokens).toBe(beforeReply(first));
    expect((await hosted.generate({ ...other, adapter })).reusedTokens).toBe(beforeReply(first));
    const raw = await hosted.generate({ ...request, messages: undefined, text, adapter } as never);
    expect([raw.adapterId, raw.notActivated]).toEqual([null, true]);

    const deterministic = { ...request, deterministic: true };
    const loaded = await model.loadAdapter(opened.activated);
    const [alone] = await collectSorted(model, {
      prompts: [{ messages: MESSAGES(text) }],
      ...{ maxTokens: 9, sampling: { temperature: 0 }, ignoreEndOfSequence: true },
      adapter: loaded,
    });
    expect(bits(await hosted.generate({ ...deterministic, adapter }))).toEqual(bits(alone!));
    loaded.dispose();
    await model.releaseContext();
  });
});
