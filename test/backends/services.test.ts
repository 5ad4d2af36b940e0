import { afterEach, describe, expect, test } from '@jest/globals';
import type { LanguageModelV3 } from '@ai-sdk/provider';
import { sampleFrom, type Backend, type Reply } from '../../src/backends/backend.js';
import { backendKind } from '../../src/backends/names.js';
import { openBackend, type OpenBackendOptions } from '../../src/backends/open-backend.js';
import type { LanguageModel } from '../../src/backends/remote/language-model.js';
import { languageModelBackend } from '../../src/backends/remote/language-model-backend.js';
import {
  completion,
  error,
  FaultServer,
  send,
  type Asked,
  type Question,
} from '../models/fault-server.js';

/** Vendors' exchanges here are written after their documentation; none was recorded from them. */

const code = (of: string, message?: RegExp) =>
  expect.objectContaining({
    code: of,
    ...(message && { message: expect.stringMatching(message) }),
  }) as never;

const VARIABLES = [
  ...['OPENAI_API_KEY', 'ANTHROPIC_API_KEY', 'HF_TOKEN', 'OWN_KEY'],
  ...['OPENAI_BASE_URL', 'ANTHROPIC_BASE_URL', 'HF_BASE_URL', 'OLLAMA_HOST'],
];
afterEach(() => {
  for (const name of VARIABLES) delete process.env[name];
});

const one = async (backend: Backend, over: object = {}): Promise<Reply> => {
  const prompts = [
    {
      id: 'p',
      messages: [
        { role: 'system' as const, content: 'Be brief.' },
        { role: 'user' as const, content: 'Hello' },
      ],
      seeds: [5n],
    },
  ];
  const request = { prompts, sampling: { temperature: 0 }, maxTokens: 16, ...over };
  for await (const reply of sampleFrom(backend, request)) return reply;
  throw new Error('no reply');
};

interface Seen {
  readonly path: string | undefined;
  readonly headers: Asked['request']['headers'];
  readonly body: Question;
}

const serving = async (
  answer: (asked: Asked) => void,
): Promise<{ server: FaultServer; seen: Seen[] } & AsyncDisposable> => {
  const seen: Seen[] = [];
  const server = await FaultServer.start((asked) => {
    seen.push({ path: asked.request.url, headers: asked.request.headers, body: asked.body });
    answer(asked);
  });
  return { server, seen, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
};

const answered = ({ response }: Asked): void => send(response, 200, completion('hi'));

describe('a service', () => {
  test.each([
    ['openai', 'OPENAI_BASE_URL', 'OPENAI_API_KEY', 'max_completion_tokens'],
    ['huggingface', 'HF_BASE_URL', 'HF_TOKEN', 'max_tokens'],
  ])('%s: chat completions with its key and limit', async (service, variable, key, limit) => {
    await using served = await serving(answered);
    process.env[variable] = `${served.server.origin}/v1`;
    process.env[key] = 'secret-of-mine';
    const backend = await openBackend(`${service}:vendor/model-1`);
    expect(await one(backend)).toMatchObject({ text: 'hi', finish: 'stop', promptTokens: 7 });
    expect(served.seen).toEqual([
      {
        path: '/v1/chat/completions',
        headers: expect.objectContaining({ authorization: 'Bearer secret-of-mine' }),
        body: {
          model: 'vendor/model-1',
          messages: [
            { role: 'system', content: 'Be brief.' },
            { role: 'user', content: 'Hello' },
          ],
          temperature: 0,
          [limit]: 16,
        },
      },
    ]);
    expect(backend.identity).toEqual({
      kind: service,
      name: 'vendor/model-1',
      endpoint: `${served.server.origin}/v1`,
      served: ['served-name'],
    });
  });

  const message = (text: string, stop: string) => ({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-served',
    content: [{ type: 'text', text }],
    stop_reason: stop,
    stop_sequence: null,
    usage: { input_tokens: 11, output_tokens: 4 },
  });
  test.each([
    ['end_turn', 'stop'],
    ['max_tokens', 'length'],
    ['refusal', 'refused'],
  ])('anthropic: messages; %s is %s', async (stop, finish) => {
    await using served = await serving(({ response }) => send(response, 200, message('hi', stop)));
    process.env.ANTHROPIC_BASE_URL = `${served.server.origin}/v1`;
    process.env.ANTHROPIC_API_KEY = 'secret-of-mine';
    const backend = await openBackend('anthropic:claude-3-haiku');
    expect(await one(backend)).toMatchObject({ text: 'hi', finish, promptTokens: 11, tokens: 4 });
    const [{ path, headers, body }] = served.seen as [Seen];
    expect([path, headers['x-api-key'], headers.authorization]).toEqual([
      '/v1/messages',
      'secret-of-mine',
      undefined,
    ]);
    expect(body).toMatchObject({ model: 'claude-3-haiku', max_tokens: 16, temperature: 0 });
    expect(backend.ignored).toEqual([]);
  });
  test('anthropic: a model that takes no temperature is not taken for a greedy one', async () => {
    await using served = await serving(({ response }) =>
      send(response, 200, message('hi', 'end_turn')),
    );
    process.env.ANTHROPIC_BASE_URL = `${served.server.origin}/v1`;
    process.env.ANTHROPIC_API_KEY = 'secret-of-mine';
    const backend = await openBackend('anthropic:claude-opus-5');
    expect((await one(backend)).text).toBe('hi');
    expect(served.seen[0]!.body).not.toHaveProperty('temperature');
    expect(backend.ignored).toEqual([expect.stringMatching(/^temperature is not supported by/)]);
  });
  test('anthropic: an error in its form', async () => {
    await using served = await serving(({ response }) =>
      send(response, 401, {
        type: 'error',
        error: { type: 'authentication_error', message: 'invalid x-api-key' },
      }),
    );
    process.env.ANTHROPIC_BASE_URL = `${served.server.origin}/v1`;
    process.env.ANTHROPIC_API_KEY = 'secret-of-mine';
    const reply = await one(await openBackend('anthropic:claude-x'));
    expect(reply.failure).toEqual({
      kind: 'status',
      status: 401,
      message: 'authentication_error: invalid x-api-key',
      attempts: 1,
    });
  });

  const chat = (over: object) => ({
    model: 'llama-served',
    created_at: '2026-01-01T00:00:00Z',
    message: { role: 'assistant', content: 'hi' },
    done: true,
    done_reason: 'stop',
    prompt_eval_count: 9,
    eval_count: 2,
    ...over,
  });
  test('ollama: its own chat, with the size of the context', async () => {
    await using served = await serving(({ response }) => send(response, 200, chat({})));
    process.env.OLLAMA_HOST = served.server.origin.replace('http://', '');
    const backend = await openBackend('ollama:llama', { contextTokens: 2048 });
    expect(await one(backend, { stop: ['\n'] })).toMatchObject({
      text: 'hi',
      promptTokens: 9,
      tokens: 2,
    });
    const [{ path, body }] = served.seen as [Seen];
    expect(path).toBe('/api/chat');
    expect(body).toMatchObject({
      model: 'llama',
      stream: false,
      options: { num_ctx: 2048, num_predict: 16, temperature: 0, stop: ['\n'] },
    });
  });
  test.each<[string, (asked: Asked) => void, object]>([
    [
      'a full context, which it cuts without a word',
      ({ response }) => send(response, 200, chat({ prompt_eval_count: 2046, eval_count: 2 })),
      { kind: 'context', message: expect.stringMatching(/context of 2048 tokens/) as never },
    ],
    [
      'a model that it lacks',
      ({ response }) => send(response, 404, { error: "model 'llama' not found" }),
      { kind: 'status', status: 404, message: "model 'llama' not found" },
    ],
    [
      'a wait of hours',
      ({ response }) => send(response, 429, { error: 'slow down' }, { 'retry-after': '7200' }),
      { kind: 'wait', status: 429 },
    ],
    ['no message', ({ response }) => send(response, 200, { done: true }), { kind: 'invalid' }],
  ])('ollama: %s', async (_, answer, failure) => {
    await using served = await serving(answer);
    process.env.OLLAMA_HOST = served.server.origin;
    const reply = await one(await openBackend('ollama:llama', { contextTokens: 2048 }));
    expect(reply).toMatchObject({ finish: 'failed', failure: { ...failure, attempts: 1 } });
  });

  test.each(['openai', 'anthropic', 'huggingface'])(
    '%s without a key is KEY_MISSING',
    async (service) => {
      await expect(openBackend(`${service}:m`)).rejects.toThrow(
        code('KEY_MISSING', /^the variable \w+(_API_KEY|_TOKEN), the key of \w+, is not set$/),
      );
    },
  );
  test('a key of another variable is sent, and a member of the body is added', async () => {
    await using served = await serving(answered);
    process.env.OWN_KEY = 'another-secret';
    const options = { keyEnv: 'OWN_KEY', requestBody: { deterministic: true, top_k: 3 } };
    await one(await openBackend(`${served.server.origin}#m`, options));
    const [{ path, headers, body }] = served.seen as [Seen];
    expect([path, headers.authorization]).toEqual([
      '/v1/chat/completions',
      'Bearer another-secret',
    ]);
    expect(body).toMatchObject({ deterministic: true, top_k: 3, max_tokens: 16 });
  });
  test('a redirect within its origin is followed, with question and key', async () => {
    await using served = await serving(({ request, response }) =>
      request.url === '/v1/chat/completions'
        ? send(response, 307, '', { location: '/v2/chat' })
        : send(response, 200, completion('there')),
    );
    process.env.OWN_KEY = 'another-secret';
    const backend = await openBackend(`${served.server.origin}#m`, { keyEnv: 'OWN_KEY' });
    expect((await one(backend)).text).toBe('there');
    expect(served.seen[1]).toMatchObject({
      path: '/v2/chat',
      headers: { authorization: 'Bearer another-secret' },
      body: { model: 'm' },
    });
  });
  test('samples have seeds, which are sent', async () => {
    await using served = await serving(answered);
    const backend = await openBackend(`${served.server.origin}#m`);
    await one(backend, { sampling: { temperature: 0.7, topP: 0.9 } });
    expect(served.seen[0]!.body).toMatchObject({ seed: 5, temperature: 0.7, top_p: 0.9 });
  });
});

describe('a name', () => {
  const open = (spec: string, options?: OpenBackendOptions) => openBackend(spec, options);
  test.each<[string, string, RegExp, OpenBackendOptions?]>([
    ['of no kind', 'gpt-5', /^backend: expected local, local:MODEL, .*; got "gpt-5"$/],
    ['of another kind', 'azure:m', /got "azure:m"/],
    ['of a service alone', 'openai:', /got "openai:"/],
    [
      'of an address without a model',
      'http://127.0.0.1:1/v1',
      /expected URL#MODEL, such as http:\/\/127\.0\.0\.1:1\/v1#my-model/,
    ],
    [
      'with a key in its address',
      'https://u:p@example.test/v1#m',
      /neither a user, a password nor a query/,
    ],
    ['with a query', 'https://example.test/v1?key=1#m', /neither a user, a password nor a query/],
    [
      'of another machine without encryption',
      'http://example.test/v1#m',
      /^backend: http to example\.test is not encrypted: use https, or --insecure/,
    ],
    ['that looks like this machine', 'http://127.0.0.1.example.test/v1#m', /is not encrypted/],
    ['of no address', 'http://[::1/v1#m', /expected the address of a server/],
    [
      'of a key in place of its variable',
      'openai:m',
      /name of an environment variable/,
      { keyEnv: 'sk-123' },
    ],
  ])('%s is refused', async (_, spec, message, options = {}) => {
    await expect(open(spec, options)).rejects.toThrow(code('INVALID_ARGUMENT', message));
  });
  test('of another machine is taken where the user trusts the network', async () => {
    const backend = await open('http://example.test/v1#m', { insecure: true });
    expect(backend.identity.endpoint).toBe('http://example.test/v1');
  });
  test.each([
    ['local:tiny', 'local'],
    ['recorded:a.jsonl', 'recorded'],
    ['openai:gpt', 'openai'],
    ['command:python3 a.py', 'command'],
    ['human', 'human'],
    ['https://example.test/v1#m', 'server'],
    ['hf:owner/name', null],
    ['./model.gguf', null],
    ['C:\\model.gguf', null],
    ['tiny', null],
  ])('%s: %s', (spec, kind) => {
    expect(backendKind(spec)).toBe(kind);
  });
});

describe('any language model of the AI SDK', () => {
  test('is a back end', async () => {
    const { MockLanguageModelV3 } = await import('ai/test');
    const model: LanguageModelV3 = new MockLanguageModelV3({
      provider: 'mock',
      modelId: 'm',
      doGenerate: async ({ prompt }) => ({
        content: [
          { type: 'reasoning', text: 'hm' },
          { type: 'text', text: `heard ${prompt.length}` },
        ],
        finishReason: { unified: 'stop', raw: 'stop' },
        usage: {
          inputTokens: { total: 3, noCache: 3, cacheRead: 0, cacheWrite: 0 },
          outputTokens: { total: 2, text: 1, reasoning: 1 },
        },
        warnings: [],
      }),
    });
    const own: LanguageModel = model; // the types agree
    const backend = languageModelBackend(own);
    expect(await one(backend)).toMatchObject({ text: 'heard 2', finish: 'stop', tokens: 2 });
    expect(backend.identity).toEqual({ kind: 'mock', name: 'm' });
  });
  test('one that does not hear its signal does not hold anybody up', async () => {
    const model = {
      specificationVersion: 'v3',
      provider: 'deaf',
      modelId: 'm',
      doGenerate: () => new Promise<never>(() => undefined),
    } as const;
    const backend = languageModelBackend(model, { attemptSeconds: 0.05, retries: 0 });
    expect((await one(backend)).failure).toMatchObject({ kind: 'timeout', attempts: 1 });
  });
  test('of an earlier specification is refused', () => {
    const model = { specificationVersion: 'v2', provider: 'old', modelId: 'm' };
    expect(() => languageModelBackend(model as never)).toThrow(
      code('INVALID_ARGUMENT', /specification v2, and v3 is needed/),
    );
  });
  test.each<[string, object, RegExp]>([
    ['a grammar', { grammar: 'root ::= "a"' }, /lacks grammar, which a grammar needs/],
    ['an adapter', { adapter: { id: 'x' } }, /lacks adapters/],
    ['min-p', { sampling: { minP: 0.1 } }, /cannot sample with minP/],
    [
      'a reply that continues another',
      { prompts: [{ id: 'p', messages: [{ role: 'assistant', content: 'I' }], seeds: [1n] }] },
      /cannot continue a message of the assistant, which prompt p needs/,
    ],
  ])('cannot do %s, and says so before it sends anything', async (_, over, message) => {
    await using served = await serving(answered);
    const backend = await openBackend(`${served.server.origin}#m`);
    await expect(one(backend, over)).rejects.toThrow(code('BACKEND_INCAPABLE', message));
    expect(served.seen).toEqual([]);
  });
});

test('a refusal that holds a key and an address with a query shows neither', async () => {
  await using served = await serving(({ response }) =>
    send(
      response,
      400,
      error('see https://example.test/help?token=abc&x=1 with key secret-of-mine-12345'),
    ),
  );
  process.env.OWN_KEY = 'secret-of-mine-12345';
  const reply = await one(await openBackend(`${served.server.origin}#m`, { keyEnv: 'OWN_KEY' }));
  expect(reply.failure!.message).toBe(
    'invalid_request_error: see https://example.test/help with key [OWN_KEY]',
  );
});
