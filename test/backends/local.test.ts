/**
 * The model as a back end: nothing of it is lost, and what `generate --json` prints of it is a
 * recording.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  localBackend,
  loadModel,
  recordedBackend,
  type Backend,
  type ChatMessage,
  type LocalReply,
  type Model,
} from '../../src/index.js';
import { sampleFrom, trainable, type SampleRequest } from '../../src/backends/backend.js';
import { runCli } from '../cli/run-cli.js';
import { writeLetterModel } from '../models/letters.js';

let folder: string;
let model: Model;
let backend: Backend<LocalReply>;
const file = (name: string): string => path.join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-local-'));
  writeLetterModel(file('letters.gguf'));
  model = await loadModel(file('letters.gguf'), {
    threads: 1,
    fixedThreads: true,
    contextTokens: 1024,
  });
  backend = localBackend(model);
});
afterAll(async () => {
  await backend.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const asked = (content: string): ChatMessage[] => [{ role: 'user', content }];
const SAMPLING = { sampling: { temperature: 1 }, maxTokens: 4, maxSequences: 8 } as const;
const prompts = ['hi', 'ho', 'hu'].map((id, i) => ({
  id,
  messages: asked(id),
  seeds: [BigInt(i), 40n + BigInt(i)],
}));
const replies = async (request: Partial<SampleRequest> = {}): Promise<LocalReply[]> => {
  const all: LocalReply[] = [];
  for await (const reply of sampleFrom(backend, { ...SAMPLING, prompts, ...request }))
    all.push(reply);
  return all;
};

test('a request is one of Model.generate, bit for bit and in its order; it keeps what it promises, and can be trained on', async () => {
  const own: LocalReply[] = [];
  const progress: number[] = [];
  for await (const rollout of model.generate({
    ...SAMPLING,
    prompts: prompts.map(({ messages, seeds }) => ({ messages, seeds })),
  }))
    own.push({ ...rollout, seed: BigInt(rollout.seed) });
  expect(await replies({ onProgress: ({ finished }) => void progress.push(finished) })).toEqual(
    own,
  );
  expect(progress.at(-1)).toBe(6);
  expect(trainable(backend)).toBe(backend);
  expect([backend.identity, await backend.digest!()]).toEqual([
    { kind: 'local', name: 'letters.gguf' },
    await model.hash(),
  ]);
});

test('a grammar is kept; a last message of the assistant is gone on with', async () => {
  expect(new Set((await replies({ grammar: 'root ::= "c"' })).map(({ text }) => text))).toEqual(
    new Set(['c']),
  );
  const [reply] = await replies({
    prompts: [
      { id: 'on', messages: [...asked('hi'), { role: 'assistant', content: 'ab' }], seeds: [1n] },
    ],
  });
  expect([...reply!.promptIds]).toEqual([
    ...model.renderChat(asked('hi')).tokenIds,
    ...model.tokenize('ab'),
  ]);
});

test('scores as the model does', async () => {
  const { promptIds, tokenIds } = (await replies())[0]!;
  expect(await backend.score!(promptIds, [tokenIds])).toEqual(
    await model.score(promptIds, [tokenIds]),
  );
});

test('an adapter that is not loaded here is refused, and not passed over', async () => {
  await expect(replies({ adapter: { id: 'f00' } })).rejects.toThrow(
    expect.objectContaining({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('f00') as unknown,
    }) as never,
  );
});

test('a cancelled request is ABORTED; the next one runs', async () => {
  await expect(replies({ signal: AbortSignal.abort() })).rejects.toThrow(
    expect.objectContaining({ code: 'ABORTED' }) as never,
  );
  expect(await replies()).toHaveLength(6);
});

test('what generate --json prints says what was asked, and is a recording', async () => {
  writeFileSync(
    file('prompts.jsonl'),
    '{"prompt":"hi","id":"one"}\n{"messages":[{"role":"user","content":"ho"}]}\n',
  );
  const flags = [
    '--model',
    file('letters.gguf'),
    '--threads',
    '1',
    '--max-tokens',
    '4',
    '--samples',
    '2',
    '--json',
  ];
  const { code, stdout } = await runCli(['generate', '--prompts', file('prompts.jsonl'), ...flags]);
  expect(code).toBe(0);
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { prompt: object; text: string });
  expect(lines.map(({ prompt }) => prompt)).toEqual(
    ['hi', 'hi', 'ho', 'ho'].map((content) => ({ messages: asked(content) })),
  );
  writeFileSync(file('recording.jsonl'), stdout);
  const recorded: string[] = [];
  for await (const { text } of sampleFrom(await recordedBackend(file('recording.jsonl')), {
    ...SAMPLING,
    prompts: prompts.slice(0, 2),
  }))
    recorded.push(text);
  expect(recorded).toEqual(lines.map(({ text }) => text));
  const { stdout: raw } = await runCli(['generate', '--prompt', 'hi', '--raw', ...flags]);
  expect((JSON.parse(raw.split('\n')[0]!) as { prompt: object }).prompt).toEqual({ text: 'hi' });
});
