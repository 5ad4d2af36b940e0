/**
 * Clients in Python that no one here wrote, unchanged, against the server: what they give is what
 * the library gives. They run in one virtual environment (scripts/python-environment.mjs), and
 * where that cannot be had one line says so.
 */
import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer, request as httpRequest, type Server as HttpServer } from 'node:http';
import path from 'node:path';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ModelHost, type HostedModel, type HostReply, type HostRequest } from '../../src/index.js';
import { hashKey } from '../../src/server/keys.js';
import type { Server } from '../../src/server/server.js';
import type { Parsed } from '../models/parsed.js';
import {
  ADMIN,
  adapterFile,
  asAdmin,
  closeAll,
  file,
  folder,
  reported,
  start,
  UNDISTURBED,
} from '../models/server.js';

const KEY = 'a-key-of-the-clients';
const at = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const found = spawnSync(process.execPath, [at('../../scripts/python-environment.mjs'), 'clients'], {
  encoding: 'utf8',
});
if (found.status !== 0)
  console.warn(`skipped: the clients in Python did not run: ${found.stderr.trim()}`);
const withPython = found.status === 0 ? describe : describe.skip;

const messages = [{ role: 'user' as const, content: 'Name a river.' }];
const chat = JSON.stringify({ model: 'base', messages, max_tokens: 10, seed: 5 });
const WEATHER = {
  type: 'function',
  function: {
    name: 'weather',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', enum: ['Rome', 'Oslo'] } },
      required: ['city'],
      additionalProperties: false,
    },
  },
};
const CITY = { city: expect.stringMatching(/^(Rome|Oslo)$/) };

let server: Server;
let host: ModelHost;
let direct: HostedModel;
const expected = (request: HostRequest = {}): Promise<HostReply> =>
  direct.generate({
    ...(request.text === undefined && request.tokenIds === undefined && { messages }),
    maxTokens: 10,
    sampling: { seed: 5 },
    id: '0',
    whenContextFull: 'stop',
    ...request,
  });
beforeAll(async () => {
  server = await start({
    keys: [hashKey('clients', KEY, ['infer', 'read']), hashKey('admin', ADMIN, ['admin'])],
  });
  host = new ModelHost();
  direct = await host.load(file, { ...UNDISTURBED, contextTokens: 4096 });
});
afterAll(async () => {
  await closeAll();
  await host.dispose();
  expect(reported).toEqual([]);
});

async function drive(client: string, args: readonly string[]): Promise<Parsed> {
  const { stdout } = await promisify(execFile)(
    found.stdout.trim(),
    [at(`clients/drive_${client}.py`), ...args],
    { maxBuffer: 2 ** 26 },
  );
  return JSON.parse(stdout.trim().split('\n').at(-1)!);
}

withPython('openai for Python', () => {
  let got: Parsed;
  beforeAll(async () => {
    got = await drive('openai', [server.url, KEY, chat, JSON.stringify([WEATHER])]);
  });

  test('lists models', () => expect(got.models).toEqual(['base']));
  test('completes a chat, whole and streamed', async () => {
    const { text } = await expected();
    expect([got.whole, got.stream]).toEqual([text, text]);
  });
  test('gets tool calls', () => expect(got.call).toEqual(CITY));
  test('gets responses', async () => expect(got.response).toBe((await expected()).text));
  test('completes texts', async () =>
    expect(got.text).toBe((await expected({ text: 'The river', maxTokens: 5 })).text));
  test('embeds texts', async () =>
    expect(got.embedding).toEqual([...(await direct.embed(['a river'])).rows[0]!]));
  test('raises its own errors', () =>
    expect(got.refusals).toEqual([
      ['NotFoundError', 'model_not_found'],
      ['BadRequestError', 'invalid_value'],
      ['AuthenticationError', 'invalid_api_key'],
    ]));
});

withPython('langchain-openai', () => {
  let got: Parsed;
  beforeAll(async () => {
    got = await drive('langchain', [server.url, KEY, chat]);
  });

  test('invokes, streams and runs a batch', async () => {
    const { text } = await expected();
    expect([got.whole, got.stream, got.batch]).toEqual([text, text, [text, text]]);
  });
  test('reports the tokens used, and log-probabilities', async () => {
    const { tokenIds, logprobs } = await expected();
    expect([got.usage, got.logprobs]).toEqual([tokenIds.length, [...logprobs]]);
  });
  test('gets an object with a given schema', () => expect(got.object).toEqual(expect.any(Boolean)));
  test('gets tool calls, and continues with their results', () => {
    expect(got.calls.length).toBeGreaterThan(0);
    for (const call of got.calls) expect(call).toEqual(CITY);
    expect(got.after).toEqual(expect.any(String));
  });
  test('embeds texts', async () =>
    expect(got.embedding).toEqual([...(await direct.embed(['a river'])).rows[0]!]));
});

withPython('llm', () => {
  let got: Parsed;
  beforeAll(async () => {
    got = await drive('llm', [server.url, KEY, chat, path.join(folder, 'llm')]);
  });

  test('prompts a model of its list, streamed and whole', async () => {
    const text = (await expected()).text.trimEnd();
    expect([got.stream.trimEnd(), got.whole.trimEnd()]).toEqual([text, text]);
  });
  test('completes texts', async () =>
    expect(got.text.trimEnd()).toBe(
      (await expected({ text: messages[0]!.content })).text.trimEnd(),
    ));
  test('continues a conversation', () => expect(got.again).toEqual(expect.any(String)));
  test('gets an object of a schema', () =>
    expect(got.object).toEqual({ large: expect.any(Boolean) }));
  test('offers tools', () => expect(got.tool).toEqual(expect.any(String)));
});

interface Captured {
  readonly client: string;
  readonly request: string;
  readonly body?: Record<string, unknown>;
}
const captured = JSON.parse(readFileSync(at('../server/vllm-clients.json'), 'utf8')) as Captured[];

withPython('trl, its clients of vLLM', () => {
  const ids = [5, 6, 7];
  const asked: Captured[] = [];
  let between: HttpServer;
  let got: Parsed;
  beforeAll(async () => {
    adapterFile('adapter', 5n);
    const open = await start({ adapterFolder: folder });
    // What it sends is seen on its way, and gets the key for which it has no place.
    between = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        const text = Buffer.concat(parts).toString();
        const body = text === '' ? {} : { body: JSON.parse(text) };
        asked.push({ client: 'trl', request: `${request.method} ${request.url}`, ...body });
        const { hostname, port } = new URL(open.url);
        const headers = { ...request.headers, ...asAdmin };
        const passed = httpRequest(
          { hostname, port, path: request.url, method: request.method!, headers },
          (answer) => {
            response.writeHead(answer.statusCode!, answer.headers);
            answer.pipe(response);
          },
        );
        passed.end(text);
      });
    });
    await new Promise<void>((resolve) => between.listen(0, '127.0.0.1', resolve));
    const { port } = between.address() as { port: number };
    got = await drive('trl', [
      `http://127.0.0.1:${port}`,
      messages[0]!.content,
      JSON.stringify(ids),
    ]);
  });
  afterAll(() => void between?.close());

  const both = (request: HostRequest): Promise<HostReply[]> =>
    Promise.all(['0', '1'].map((id) => expected({ maxTokens: 4, ...request, id })));
  const sampled = (replies: readonly HostReply[]): object => ({
    prompt_ids: [[...replies[0]!.promptIds]],
    completion_ids: replies.map(({ tokenIds }) => [...tokenIds]),
    logprobs: replies.map(({ logprobs }) => [...logprobs].map((logprob) => [logprob])),
    logprob_token_ids: replies.map(({ tokenIds }) => [...tokenIds].map((id) => [id])),
  });

  test('finds the model and its length', () =>
    expect([got.model, got.length, got.workers]).toEqual(['base', direct.contextTokens, 1]));
  test('generates from token ids, with the log-probability of each', async () => {
    expect(got.sampled).toEqual(sampled(await both({ tokenIds: ids })));
    expect(got.features).toEqual(got.sampled);
  });
  test('generates from texts', async () => {
    const replies = await both({ text: messages[0]!.content });
    expect(got.words.completion_ids).toEqual(
      [...replies, ...replies].map(({ tokenIds }) => [...tokenIds]),
    );
  });
  test('generates from messages', async () => expect(got.chat).toEqual(sampled(await both({}))));
  test('gets the likeliest tokens for each one', async () => {
    const replies = await both({ tokenIds: ids, topLogprobs: 2 });
    const likeliest = replies.map(({ tokenIds, logprobs, topLogprobs }) =>
      [...tokenIds].map((tokenId, i) => {
        const chances = new Map(
          [...topLogprobs![i]!, { tokenId, logprob: logprobs[i]! }].map((of) => [
            of.tokenId,
            of.logprob,
          ]),
        );
        return [...chances].sort((a, b) => b[1] - a[1]);
      }),
    );
    expect(got.ids.logprob_token_ids).toEqual(
      likeliest.map((reply) => reply.map((chances) => chances.map(([id]) => id))),
    );
    expect(got.ids.logprobs).toEqual(
      likeliest.map((reply) => reply.map((chances) => chances.map(([, logprob]) => logprob))),
    );
  });
  test('scores sequences as a teacher', async () => {
    const { top, logprob } = (await direct.alternatives(ids, { count: 3 })).at(-1)!;
    expect(got.scores.actual_logprobs).toEqual([[[logprob]]]);
    expect(got.scores.logprob_token_ids).toEqual([[top.map(({ tokenId }) => tokenId)]]);
    expect(got.scores.logprobs).toEqual([[top.map((chance) => chance.logprob)]]);
  });
  test('receives 501, because weights are not accepted', () => {
    expect(got.communicator).toMatch(/no weight-transfer engine/);
    expect(Object.keys(got.transfer)).toHaveLength(5);
    for (const refusal of Object.values(got.transfer))
      expect(refusal).toMatch(/^Request failed: 501, .*not_implemented/);
  });
  test('loads and unloads an adapter, through a proxy that adds a key', () =>
    expect([got.load, got.unload]).toEqual([null, null]));
  test('receives an error that names what is missing: patterns, and a pause that holds replies', () => {
    expect(got.regex).toMatch(/400, .*structured_outputs.*unknown_parameter/);
    expect(got.pause).toMatch(/400, .*mode=keep.*unsupported_parameter/);
  });
  test('sends what is replayed without it', () => {
    const plain = ({ request, body }: Captured): string =>
      JSON.stringify([
        request,
        body === undefined
          ? undefined
          : { ...body, ...(body.request_id === undefined ? {} : { request_id: 0 }) },
      ]);
    const sent = new Set(asked.map(plain));
    for (const one of captured)
      if (one.client.startsWith('trl ')) expect(sent).toContain(plain(one));
  });
});
