/**
 * The AI SDK on models of this process: what its functions give is what the library gives for the
 * same request.
 */
import path from 'node:path';
import {
  cosineSimilarity,
  embed,
  embedMany,
  generateObject,
  generateText,
  Output,
  streamObject,
  streamText,
} from 'ai';
import { z } from 'zod';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createIsopro, type IsoproProvider } from '../../src/ai/index.js';
import { ModelHost, type HostedModel } from '../../src/index.js';
import { writeSyntheticModel } from '../models/synthetic.js';
import { adapterFile, file as syntheticFile, folder } from './fixtures.js';

const LOAD = { threads: 1, fixedThreads: true } as const;
/** The SDK prints warnings unless it is told not to. */
(globalThis as { AI_SDK_LOG_WARNINGS?: boolean }).AI_SDK_LOG_WARNINGS = false;

/** Of a context so long that no reply fills it before a test has looked at it. */
const long = path.join(folder, 'long.gguf');
writeSyntheticModel(long, { architecture: 'llama', contextLength: 32_768, seed: 1n });
const ENDLESS = { maxOutputTokens: 30_000, temperature: 1 } as const;
const user = (text: string): [{ role: 'user'; content: [{ type: 'text'; text: string }] }] => [
  { role: 'user', content: [{ type: 'text', text }] },
];

let host: ModelHost;
let direct: HostedModel;
let isopro: IsoproProvider;
beforeAll(async () => {
  host = new ModelHost();
  direct = await host.load('tiny', LOAD);
  isopro = createIsopro({ host, load: LOAD });
});
afterAll(async () => {
  await isopro.dispose();
  await host.dispose();
});

const messages = [
  { role: 'system' as const, content: 'Be brief.' },
  { role: 'user' as const, content: 'Name a river.' },
  { role: 'assistant' as const, content: 'The Rhine.' },
  { role: 'user' as const, content: 'Another.' },
];

describe('generateText', () => {
  test('gives the reply of the library to the same messages, its usage and why it ended', async () => {
    const settings = { seed: 7, temperature: 0.8, topK: 20, topP: 0.9 };
    const { text, usage, finishReason, warnings } = await generateText({
      model: isopro('tiny'),
      system: messages[0]!.content,
      messages: messages.slice(1),
      maxOutputTokens: 12,
      ...settings,
    });
    const { seed, temperature, topK, topP } = settings;
    const reply = await direct.generate({
      messages,
      maxTokens: 12,
      sampling: { seed, temperature, topK, topP },
    });
    expect([text, finishReason]).toEqual([reply.text, reply.finish]);
    expect(usage).toMatchObject({
      inputTokens: reply.promptIds.length,
      outputTokens: reply.tokenIds.length,
      totalTokens: reply.promptIds.length + reply.tokenIds.length,
      inputTokenDetails: { noCacheTokens: reply.promptIds.length, cacheReadTokens: 0 },
    });
    expect(warnings).toEqual([]);
  });

  test('ends at maxOutputTokens, at a stop sequence, and where the context is full', async () => {
    const model = isopro('tiny');
    const short = await generateText({
      model,
      prompt: 'Name a river.',
      maxOutputTokens: 3,
      temperature: 0,
    });
    expect(short).toMatchObject({ finishReason: 'length', usage: { outputTokens: 3 } });
    const longer = await generateText({
      model,
      prompt: 'Name a river.',
      maxOutputTokens: 8,
      temperature: 0,
    });
    const stop = longer.text.slice(-1);
    const stopped = await generateText({
      model,
      prompt: 'Name a river.',
      maxOutputTokens: 8,
      temperature: 0,
      stopSequences: [stop],
    });
    expect(stopped).toMatchObject({
      finishReason: 'stop',
      text: longer.text.slice(0, longer.text.indexOf(stop)),
    });
    const full = await generateText({
      model: isopro(syntheticFile),
      prompt: 'x',
      maxOutputTokens: 100_000,
      seed: 1,
    });
    expect(full.usage.totalTokens).toBeLessThanOrEqual(512);
  });

  test('has other draws for each call without a seed, the same in every process', async () => {
    /** Each call has a model of its own, as a service makes it in each request. */
    const texts = async (seed?: number): Promise<string[]> => {
      const provider = createIsopro({ host, load: LOAD });
      const all: string[] = [];
      for (let i = 0; i < 4; i++) {
        const settings = {
          prompt: 'Name a river.',
          maxOutputTokens: 24,
          ...(seed !== undefined && { seed }),
        };
        all.push((await generateText({ model: provider('tiny'), ...settings })).text);
      }
      return all;
    };
    const [first, second] = [await texts(), await texts()];
    expect(second).toEqual(first);
    expect(new Set(first).size).toBeGreaterThan(2);
    expect(new Set([...(await texts(8)), ...(await texts(8))]).size).toBe(1);
    const streamed = async (): Promise<string> =>
      streamText({ model: isopro('tiny'), prompt: 'Name a river.', maxOutputTokens: 24 }).text;
    expect(
      new Set([await streamed(), await streamed(), await streamed(), await streamed()]).size,
    ).toBeGreaterThan(1);
  });

  test('warns of what it does not know, and refuses files', async () => {
    const { warnings } = await generateText({
      model: isopro('tiny'),
      prompt: 'Name a river.',
      maxOutputTokens: 2,
      presencePenalty: 1,
      frequencyPenalty: 1,
      tools: { look: { description: 'looks', inputSchema: z.object({ at: z.string() }) } },
    });
    expect(
      warnings?.map((warning) => (warning.type === 'unsupported' ? warning.feature : warning)),
    ).toEqual(['presencePenalty', 'frequencyPenalty', 'tools']);
    const content = [{ type: 'file' as const, data: Uint8Array.of(1), mediaType: 'image/png' }];
    await expect(
      generateText({ model: isopro('tiny'), messages: [{ role: 'user', content }] }),
    ).rejects.toMatchObject({
      name: 'AI_UnsupportedFunctionalityError',
    });
    expect(() => isopro.imageModel('tiny')).toThrow(
      expect.objectContaining({ name: 'AI_NoSuchModelError' }) as never,
    );
  });

  test('takes an adapter by its path', async () => {
    const adapter = adapterFile('ai', 3n);
    const request = { prompt: 'Name a river.', maxOutputTokens: 16, temperature: 0 };
    const { text } = await generateText({ model: isopro(syntheticFile, { adapter }), ...request });
    const model = await host.load(syntheticFile, LOAD);
    const loaded = await model.loadAdapter(adapter);
    const expected = await model.generate({
      prompt: request.prompt,
      maxTokens: 16,
      sampling: { temperature: 0 },
      adapter: loaded,
    });
    expect(text).toBe(expected.text);
    expect(text).not.toBe((await generateText({ model: isopro(syntheticFile), ...request })).text);
    await model.dispose();
  });

  test('refuses a second turn with an adapter that acts from the reply on', async () => {
    const adapter = adapterFile('ai-late', 3n, { invocationTokens: [5, 6, 7] });
    const late = { model: isopro(syntheticFile, { adapter }), maxOutputTokens: 4 };
    const refused = {
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('first turn of a conversation only') as unknown,
    };
    const turns = messages.slice(1);
    await expect(generateText({ ...late, messages: turns })).rejects.toMatchObject(refused);
    const errors: unknown[] = [];
    const onError = ({ error }: { error: unknown }): void => void errors.push(error);
    await streamText({ ...late, messages: turns, onError }).consumeStream();
    expect(errors).toMatchObject([refused]);
    const { finishReason } = await generateText({ ...late, messages: turns.slice(0, 1) });
    expect(finishReason).toBe('length');
  });

  test('throws the errors of the library, and takes no setting that it does not have', async () => {
    await expect(
      generateText({ model: isopro('no-such-model'), prompt: 'x' }),
    ).rejects.toMatchObject({ code: 'MODEL_NOT_FOUND' });
    await expect(
      generateText({ model: isopro('tiny'), prompt: 'x', temperature: -1 }),
    ).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(
      generateText({ model: isopro('tiny'), prompt: 'word '.repeat(9000) }),
    ).rejects.toMatchObject({ code: 'CONTEXT_OVERFLOW' });
    expect(() => isopro('tiny', { rank: 8 } as never)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never,
    );
    expect(() => isopro('')).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never,
    );
  });
});

describe('streamText', () => {
  test('gives the text of generateText piece by piece, with its usage and end', async () => {
    const request = { prompt: 'Name a river.', maxOutputTokens: 20, seed: 3 };
    const whole = await generateText({ model: isopro('tiny'), ...request });
    const stream = streamText({ model: isopro('tiny'), ...request, presencePenalty: 1 });
    const pieces: string[] = [];
    for await (const piece of stream.textStream) pieces.push(piece);
    expect(pieces.join('')).toBe(whole.text);
    expect(pieces.length).toBeGreaterThan(1);
    expect(await stream.finishReason).toBe(whole.finishReason);
    expect(await stream.usage).toMatchObject({
      inputTokens: whole.usage.inputTokens,
      outputTokens: whole.usage.outputTokens,
    });
    expect(await stream.warnings).toMatchObject([
      { type: 'unsupported', feature: 'presencePenalty' },
    ]);
  });

  test('ends with the signal, and frees the reply', async () => {
    const controller = new AbortController();
    const stream = streamText({
      model: isopro(long),
      prompt: 'Name a river.',
      ...ENDLESS,
      abortSignal: controller.signal,
    });
    const kinds: string[] = [];
    for await (const part of stream.fullStream) {
      kinds.push(part.type);
      if (part.type === 'text-delta') controller.abort();
    }
    expect(kinds.at(-1)).toBe('abort');
    expect(kinds).not.toContain('finish');
    await expectIdle();
  });

  test('ends when its reader leaves, and frees the reply', async () => {
    const { stream } = await isopro(long).doStream({ prompt: user('x'), ...ENDLESS });
    const reader = stream.getReader();
    const kinds: (string | undefined)[] = [];
    for (let i = 0; i < 3; i++) kinds.push((await reader.read()).value?.type);
    expect(kinds).toEqual(['stream-start', 'text-start', 'text-delta']);
    await reader.cancel();
    await expectIdle();
  });

  test('has an error as a part of the stream', async () => {
    const errors: unknown[] = [];
    const stream = streamText({
      model: isopro('no-such-model'),
      prompt: 'x',
      onError: ({ error }) => void errors.push(error),
    });
    await stream.consumeStream();
    expect(errors).toMatchObject([{ code: 'MODEL_NOT_FOUND' }]);
  });
});

/** Nothing runs on any model any more; a reply that was left is let go of between two steps. */
async function expectIdle(): Promise<void> {
  while (host.usage().models.some(({ requests }) => requests > 0))
    await new Promise((resolve) => setImmediate(resolve));
}

describe('generateObject', () => {
  const schema = z.object({ kind: z.enum(['river', 'city']), count: z.int(), large: z.boolean() });

  test('gives a value that the schema has checked', async () => {
    const { object, finishReason } = await generateObject({
      model: isopro('tiny'),
      schema,
      prompt: 'What is the Rhine?',
      seed: 1,
    });
    expect(schema.parse(object)).toEqual(object);
    expect(finishReason).toBe('stop');
    const { output } = await generateText({
      model: isopro('tiny'),
      output: Output.object({ schema }),
      prompt: 'The Rhine?',
      seed: 1,
    });
    expect(schema.parse(output)).toEqual(output);
    const stream = streamObject({
      model: isopro('tiny'),
      schema,
      prompt: 'What is the Rhine?',
      seed: 1,
    });
    for await (const _part of stream.partialObjectStream);
    expect(await stream.object).toEqual(object);
    const { object: choice } = await generateObject({
      model: isopro('tiny'),
      output: 'enum',
      enum: ['river', 'city'],
      prompt: 'x',
      seed: 1,
    });
    expect(['river', 'city']).toContain(choice);
  });

  test('refuses a rule that no grammar keeps, by name, and warns where there is no schema', async () => {
    const least = z.object({ count: z.number().min(3) });
    await expect(
      generateObject({ model: isopro('tiny'), schema: least, prompt: 'x' }),
    ).rejects.toMatchObject({
      code: 'GRAMMAR_INVALID',
      message: expect.stringContaining('minimum'),
    });
    const { warnings } = await isopro('tiny').doGenerate({
      prompt: user('x'),
      maxOutputTokens: 1,
      responseFormat: { type: 'json' },
    });
    expect(warnings).toMatchObject([{ type: 'unsupported', feature: 'responseFormat' }]);
  });
});

test('embed and embedMany give the vectors of the library, and count their tokens', async () => {
  const values = ['Machine 1 is busy.', 'Machine 2 is busy.', 'Name a river.'];
  const { rows, tokens } = await direct.embed(values);
  const many = await embedMany({ model: isopro.embeddingModel('tiny'), values });
  expect(many.embeddings).toEqual(rows.map((row) => [...row]));
  expect(many.usage.tokens).toBe(tokens.reduce((sum, count) => sum + count, 0));
  const one = await embed({ model: isopro.embeddingModel('tiny'), value: values[0]! });
  expect(one.embedding).toEqual([...rows[0]!]);
  expect(one.usage.tokens).toBe(tokens[0]);
  expect(cosineSimilarity(one.embedding, many.embeddings[0]!)).toBeCloseTo(1, 6);
  await expect(embed({ model: isopro.embeddingModel('tiny'), value: '' })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
  const abortSignal = AbortSignal.abort();
  await expect(
    embed({ model: isopro.embeddingModel('tiny'), value: 'x', abortSignal }),
  ).rejects.toMatchObject({ name: 'AbortError' });
});

test('a provider ends what runs when it is disposed of, and leaves a host that is not its own', async () => {
  const other = createIsopro({ host, load: LOAD });
  const { stream } = await other(long).doStream({ prompt: user('x'), ...ENDLESS });
  const parts: unknown[] = [];
  for await (const part of stream) {
    parts.push(part);
    if (parts.length === 3) await other.dispose();
  }
  expect(parts.at(-1)).toMatchObject({ type: 'error', error: { code: 'OBJECT_DISPOSED' } });
  await expect(generateText({ model: other('tiny'), prompt: 'x' })).rejects.toMatchObject({
    code: 'OBJECT_DISPOSED',
  });
  expect((await direct.generate({ prompt: 'x', maxTokens: 1 })).tokenIds).toHaveLength(1);
  await using own = createIsopro();
  await generateText({ model: own('tiny'), prompt: 'x', maxOutputTokens: 1 });
  await own.dispose();
  await expect(generateText({ model: own('tiny'), prompt: 'x' })).rejects.toMatchObject({
    code: 'OBJECT_DISPOSED',
  });
});
