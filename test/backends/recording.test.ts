import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  appendFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { sampleFrom, type Backend, type SampleRequest } from '../../src/backends/backend.js';
import { openBackend, type OpenBackendOptions } from '../../src/backends/open-backend.js';
import { recordedBackend } from '../../src/backends/recorded.js';
import { completion, error, FaultServer, send } from '../models/fault-server.js';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-recording-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
const file = (): string => path.join(folder, 'deep', `replies-${files++}.jsonl`);
const code = (of: string, message?: RegExp) =>
  expect.objectContaining({
    code: of,
    ...(message && { message: expect.stringMatching(message) }),
  }) as never;

const prompts = (count: number, samples = 1) =>
  Array.from({ length: count }, (_, i) => ({
    id: `p${i}`,
    messages: [{ role: 'user' as const, content: `question ${i}` }],
    seeds: Array.from({ length: samples }, (__, sample) => BigInt(100 * i + sample)),
  }));

async function texts(backend: Backend, over: Partial<SampleRequest> = {}): Promise<string[]> {
  const found: string[] = [];
  const request = { prompts: prompts(4), sampling: { temperature: 0 }, maxTokens: 16, ...over };
  for await (const reply of sampleFrom(backend, request))
    found.push(
      `${reply.promptIndex}/${reply.sampleIndex} ${reply.failure === undefined ? reply.text : reply.failure.kind}`,
    );
  return found.sort();
}

const echo = () =>
  FaultServer.start(({ content, nth, response }) =>
    send(response, 200, completion(`${content}, ${nth}`)),
  );
const open = (server: FaultServer, options: OpenBackendOptions): Promise<Backend> =>
  openBackend(`${server.origin}#m`, { retryDelayMs: 1, ...options });

describe('a recording', () => {
  test('answers what was asked before, in another process too, and `recorded:` reads it', async () => {
    await using server = await echo();
    const record = file();
    const first = await open(server, { record });
    const said = await texts(first);
    await first.dispose();
    expect(server.total).toBe(4);
    expect(statSync(record).mode & 0o077).toBe(0);
    const again = await open(server, { record });
    expect(await texts(again)).toEqual(said);
    expect(again.spending).toMatchObject({ requests: 0, recorded: 4, replyTokens: 0 });
    expect(again.identity.served).toEqual(['served-name']);
    await again.dispose();
    expect(server.total).toBe(4);
    expect(await texts(await recordedBackend(record))).toEqual(said);
  });
  test.each<[string, Partial<SampleRequest>, OpenBackendOptions?]>([
    ['sampling', { sampling: { temperature: 0.5 } }],
    ['limit', { maxTokens: 17 }],
    ['stop strings', { stop: ['x'] }],
    ['schema', { jsonSchema: { type: 'string' } }],
    ['seeds', { prompts: prompts(4).map((prompt) => ({ ...prompt, seeds: [9n] })) }],
    ['body', {}, { requestBody: { top_k: 1 } }],
  ])('does not answer with another %s', async (_, over, options = {}) => {
    await using server = await echo();
    const record = file();
    const first = await open(server, { record });
    await texts(first);
    await first.dispose();
    const other = await open(server, { record, ...options });
    await texts(other, over);
    await other.dispose();
    expect(server.total).toBe(8);
  });
  test('a sample that has failed is asked for again', async () => {
    let isDown = true;
    await using server = await FaultServer.start(({ content, response }) =>
      isDown && content === 'question 2'
        ? send(response, 400, error('not now'))
        : send(response, 200, completion('fine')),
    );
    const record = file();
    const first = await open(server, { record });
    expect(await texts(first)).toEqual(['0/0 fine', '1/0 fine', '2/0 status', '3/0 fine']);
    await first.dispose();
    isDown = false;
    const again = await open(server, { record });
    expect(await texts(again)).toEqual(['0/0 fine', '1/0 fine', '2/0 fine', '3/0 fine']);
    await again.dispose();
    expect(server.total).toBe(5);
  });
  test('a line that a killed process left half written is cut off', async () => {
    await using server = await echo();
    const record = file();
    const first = await open(server, { record });
    const said = await texts(first);
    await first.dispose();
    const whole = readFileSync(record, 'utf8');
    writeFileSync(record, whole.slice(0, -20)); // the last line without its end
    const again = await open(server, { record });
    // one is asked again, and is the server's second reply to it
    const now = await texts(again);
    await again.dispose();
    expect(now.filter((text) => !said.includes(text))).toHaveLength(1);
    expect(server.total).toBe(5);
    expect(readFileSync(record, 'utf8').trimEnd().split('\n')).toHaveLength(4);
  });
  test('lines of others stay, and answer nothing; one that is no JSON is named', async () => {
    await using server = await echo();
    const record = file();
    const first = await open(server, { record });
    await texts(first);
    await first.dispose();
    appendFileSync(record, '{"note": "mine"}\n');
    const second = await open(server, { record });
    await texts(second);
    await second.dispose();
    expect(server.total).toBe(4);
    appendFileSync(record, 'what?\n');
    const third = await open(server, { record });
    await expect(texts(third)).rejects.toThrow(code('RECORDING_INVALID', /line 6: not JSON/));
    await third.dispose();
  });
  test('two processes do not write to one', async () => {
    await using server = await echo();
    const record = file();
    const first = await open(server, { record });
    await texts(first);
    const second = await open(server, { record });
    await expect(texts(second)).rejects.toThrow(code('LOG_BUSY', /another process records/));
    await first.dispose();
  });
  test('that cannot be written ends the request before anything is sent', async () => {
    await using server = await echo();
    const backend = await open(server, { record: folder });
    await expect(texts(backend)).rejects.toThrow(code('WRITE_FAILED', /is a folder/));
    expect(server.total).toBe(0);
  });
});

describe('a budget', () => {
  const spent = async (options: OpenBackendOptions, over: Partial<SampleRequest> = {}) => {
    await using server = await echo();
    const record = file();
    const backend = await open(server, { record, ...options });
    const failure = await texts(backend, { maxSequences: 2, ...over }).then(
      () => null,
      (error_: unknown) => error_,
    );
    const { spending } = backend;
    await backend.dispose();
    const lines = server.total === 0 ? [] : readFileSync(record, 'utf8').trimEnd().split('\n');
    return { failure, spending: spending!, sent: server.total, recorded: lines.length };
  };
  // 10 bytes of question, 16 of template, and 16 tokens of reply: 42 are reserved, and 10 used
  test.each<[string, OpenBackendOptions, number, RegExp]>([
    ['requests', { maxRequests: 3 }, 3, /exceed the budget: 3 of 3 requests are used/],
    ['tokens', { maxTokensTotal: 62 }, 3, /30 of 62 tokens are used, and it may take 42/],
    [
      'cost',
      { maxCost: 62e-6, price: { prompt: 1, reply: 1 } },
      3,
      /0\.00003 of 0\.000062 is spent, and it may cost 0\.000042/,
    ],
    [
      'tokens of the first',
      { maxTokensTotal: 41 },
      0,
      /0 of 41 tokens are used, and it may take 42/,
    ],
  ])('of %s is never passed, and what was under way is kept', async (_, options, sent, message) => {
    const result = await spent(options);
    expect(result.failure).toEqual(code('BUDGET_EXHAUSTED', message));
    expect([result.sent, result.recorded, result.spending.requests]).toEqual([sent, sent, sent]);
  });
  test('that suffices ends nothing; a request waits for what those under way really cost', async () => {
    const { failure, sent } = await spent({ maxTokensTotal: 30 + 42 });
    expect([failure, sent]).toEqual([null, 4]);
  });
  test('counts repeated requests, and a refusal as no tokens', async () => {
    await using server = await FaultServer.start(({ response }) =>
      send(response, 429, error('too many')),
    );
    const backend = await open(server, { maxRequests: 5 });
    await expect(texts(backend, { maxSequences: 1 })).rejects.toThrow(
      code('BUDGET_EXHAUSTED', /5 of 5 requests/),
    );
    expect(backend.spending).toMatchObject({ requests: 5, promptTokens: 0, replyTokens: 0 });
    expect(server.total).toBe(5);
  });
  test('goes on in the same recording with a higher limit', async () => {
    await using server = await echo();
    const record = file();
    const first = await open(server, { record, maxRequests: 3 });
    await expect(texts(first)).rejects.toThrow(code('BUDGET_EXHAUSTED'));
    await first.dispose();
    const again = await open(server, { record, maxRequests: 3 });
    expect(await texts(again)).toHaveLength(4);
    await again.dispose();
    expect(server.total).toBe(4);
  });
});
