import { describe, expect, test } from '@jest/globals';
import {
  sampleFrom,
  type Backend,
  type Reply,
  type SampleRequest,
} from '../../src/backends/backend.js';
import { openBackend } from '../../src/backends/open-backend.js';
import {
  completion,
  error,
  FaultServer,
  send,
  type Answerer,
  type Asked,
} from '../models/fault-server.js';

const KEY = 'sk-canary-0123456789abcdef';

const ask = async (
  backend: Backend,
  contents: readonly string[],
  over: Partial<SampleRequest> = {},
): Promise<Map<string, Reply>> => {
  const replies = new Map<string, Reply>();
  const prompts = contents.map((content) => ({
    id: content,
    messages: [{ role: 'user' as const, content }],
    seeds: [1n],
  }));
  const request = { prompts, sampling: { temperature: 0 }, maxTokens: 16, ...over };
  for await (const reply of sampleFrom(backend, request))
    replies.set(contents[reply.promptIndex]!, reply);
  return replies;
};

const ok = ({ response }: Asked): void => send(response, 200, completion('fine'));
/** Fails once, then answers. */
const once =
  (fail: Answerer): Answerer =>
  (asked) =>
    asked.nth === 1 ? fail(asked) : ok(asked);
const status =
  (code: number, body: unknown = error(`refused with ${code}`), headers = {}): Answerer =>
  ({ response }) =>
    send(response, code, body, headers);
const body =
  (value: unknown): Answerer =>
  ({ response }) =>
    send(response, 200, value);

interface Fault {
  readonly does: Answerer;
  /** `stop`, `refused`, or the kind of a failure. */
  readonly ends: string;
  readonly attempts: number;
  readonly says?: RegExp;
}

/** Of a request that is repeated as often as it may be. */
const ALL = 3;

const FAULTS: Readonly<Record<string, Fault>> = {
  'a bad request': { does: status(400), ends: 'status', attempts: 1, says: /refused with 400/ },
  'a wrong key': {
    does: status(401, error(`Incorrect API key: ${KEY}`)),
    ends: 'status',
    attempts: 1,
    says: /Incorrect API key: \[OPENAI_API_KEY\]/,
  },
  forbidden: { does: status(403), ends: 'status', attempts: 1 },
  'no such model': { does: status(404), ends: 'status', attempts: 1 },
  'too large': { does: status(413, 'x'.repeat(5000)), ends: 'status', attempts: 1 },
  unprocessable: { does: status(422, { detail: 'field required' }), ends: 'status', attempts: 1 },
  'a time-out of the server': { does: once(status(408)), ends: 'stop', attempts: 2 },
  'a conflict': { does: once(status(409)), ends: 'stop', attempts: 2 },
  'too many requests': { does: once(status(429)), ends: 'stop', attempts: 2 },
  'a wait of milliseconds': {
    does: once(status(429, error('slow down'), { 'retry-after-ms': '30' })),
    ends: 'stop',
    attempts: 2,
  },
  'a wait of days': {
    does: status(429, error('slow down'), { 'retry-after': '1400000' }),
    ends: 'wait',
    attempts: 1,
    says: /asks to wait for 1400000 s/,
  },
  'a wait until next century': {
    does: status(503, error('down'), { 'retry-after': 'Fri, 01 Jan 2100 00:00:00 GMT' }),
    ends: 'wait',
    attempts: 1,
  },
  'a used-up quota': {
    does: status(429, error('You exceeded your quota', { code: 'insufficient_quota' })),
    ends: 'quota',
    attempts: 1,
  },
  'no credit': { does: status(402), ends: 'quota', attempts: 1 },
  'a broken server': { does: status(500), ends: 'status', attempts: ALL },
  'a bad gateway': { does: status(502, '<html>Bad Gateway</html>'), ends: 'status', attempts: ALL },
  'out of service': { does: once(status(503)), ends: 'stop', attempts: 2 },
  overloaded: { does: once(status(529)), ends: 'stop', attempts: 2 },
  'slow bytes': {
    does: ({ response }) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const timer = setInterval(() => response.write(' '), 20);
      response.on('close', () => clearInterval(timer));
    },
    ends: 'timeout',
    attempts: ALL,
  },
  silence: { does: () => undefined, ends: 'timeout', attempts: ALL },
  'half a JSON': { does: body('{"choices": [{"mess'), ends: 'invalid', attempts: ALL },
  'less than it promised': {
    does: once(({ response }) => {
      response.writeHead(200, { 'content-length': '1000' });
      response.write('{"choices"');
      setTimeout(() => response.destroy(), 5);
    }),
    ends: 'stop',
    attempts: 2,
  },
  'a reset in mid-stream': {
    does: ({ response }) => {
      response.writeHead(200, { 'transfer-encoding': 'chunked' });
      response.write('{"choices": [');
      setTimeout(() => response.socket?.resetAndDestroy(), 5);
    },
    ends: 'network',
    attempts: ALL,
  },
  'a reset at once': {
    does: ({ request }) => void request.socket.resetAndDestroy(),
    ends: 'network',
    attempts: ALL,
  },
  '200 with an error': {
    does: body(error('the model is not loaded')),
    ends: 'invalid',
    attempts: 1,
    says: /holds an error: the model is not loaded/,
  },
  '200 with the error of another server': {
    does: once(body(error('upstream', { code: 503 }))),
    ends: 'stop',
    attempts: 2,
  },
  'no choices': { does: body(completion('', { choices: [] })), ends: 'invalid', attempts: 1 },
  'choices that are none': {
    does: body(completion('', { choices: 'none' })),
    ends: 'invalid',
    attempts: 1,
  },
  'a page instead of JSON': { does: body('<!doctype html>'), ends: 'invalid', attempts: ALL },
  'no body': { does: status(204, ''), ends: 'invalid', attempts: ALL },
  'a redirect to another origin': {
    does: status(307, '', { location: 'http://127.0.0.1:9/v1/chat/completions' }),
    ends: 'redirect',
    attempts: 1,
    says: /points to http:\/\/127\.0\.0\.1:9, another origin/,
  },
  'a redirect that changes the question': {
    does: status(302, '', { location: '/elsewhere' }),
    ends: 'redirect',
    attempts: 1,
  },
  'a call of a tool': {
    does: body(
      completion(null, {
        choices: [
          { index: 0, message: { role: 'assistant', content: null }, finish_reason: 'tool_calls' },
        ],
      }),
    ),
    ends: 'finish',
    attempts: 1,
  },
  'a content filter': {
    does: body(
      completion('', {
        choices: [
          {
            index: 0,
            message: { role: 'assistant', content: '' },
            finish_reason: 'content_filter',
          },
        ],
      }),
    ),
    ends: 'refused',
    attempts: 1,
  },
  'the limit under another name': {
    does: (asked) =>
      asked.body.max_tokens === undefined
        ? ok(asked)
        : send(
            asked.response,
            400,
            error("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'."),
          ),
    ends: 'stop',
    attempts: 2,
  },
};

const respond: Answerer = (asked) => (FAULTS[asked.content]?.does ?? ok)(asked);
/** Short waits, and one repetition less than usual. */
const impatient = { retries: ALL - 1, retryDelayMs: 4, attemptSeconds: 1 };

describe('a server that fails', () => {
  test('costs each sample its attempts, and says why; none hangs', async () => {
    process.env.OPENAI_API_KEY = KEY;
    await using server = await FaultServer.start(respond);
    const backend = await openBackend(`${server.origin}/v1#m`, {
      ...impatient,
      keyEnv: 'OPENAI_API_KEY',
    });
    const names = Object.keys(FAULTS);
    expect(names.length).toBeGreaterThanOrEqual(30);
    const began = performance.now();
    const replies = await ask(backend, [...names, 'sound'], { maxSequences: 12 });
    expect(performance.now() - began).toBeLessThan(10_000);
    const seen = Object.fromEntries(
      names.map((name) => {
        const { finish, failure } = replies.get(name)!;
        return [
          name,
          [failure?.kind ?? finish, failure?.attempts ?? server.count(name), server.count(name)],
        ];
      }),
    );
    expect(seen).toEqual(
      Object.fromEntries(
        Object.entries(FAULTS).map(([name, { ends, attempts }]) => [
          name,
          [ends, attempts, attempts],
        ]),
      ),
    );
    for (const [name, { says }] of Object.entries(FAULTS))
      if (says !== undefined) expect(replies.get(name)!.failure?.message).toMatch(says);
    expect(replies.get('sound')).toMatchObject({ text: 'fine', finish: 'stop', tokens: 3 });
    // no key, header, body or address with a query gets out
    expect(JSON.stringify([...replies])).not.toContain(KEY);
    for (const { failure } of replies.values()) {
      expect(failure?.message.length ?? 0).toBeLessThan(320);
      expect(Object.keys(failure ?? {})).not.toContain('cause');
    }
    const { requests, retries } = backend.spending!;
    expect(requests).toBe(server.total);
    expect(retries).toBe(server.total - names.length - 1);
    expect(backend.identity.served).toEqual(['served-name']);
    await backend.dispose();
    delete process.env.OPENAI_API_KEY;
  });

  test('one that cannot be reached has failed, after its attempts', async () => {
    const backend = await openBackend('http://127.0.0.1:9/v1#m', impatient);
    const reply = (await ask(backend, ['a'])).get('a')!;
    expect(reply.failure).toMatchObject({ kind: 'network', attempts: ALL });
  });

  test('is asked half as much after a refusal of too many, and more again later', async () => {
    let open = 0;
    let most = 0;
    await using server = await FaultServer.start(async ({ response }) => {
      open++;
      most = Math.max(most, open);
      await new Promise((resolve) => setTimeout(resolve, 3));
      if (open > 4) send(response, 429, error('too many'));
      else send(response, 200, completion('fine'));
      open--;
    });
    const backend = await openBackend(`${server.origin}#m`, { retries: 20, retryDelayMs: 1 });
    const contents = Array.from({ length: 120 }, (_, i) => `question ${i}`);
    const replies = await ask(backend, contents, { maxSequences: 16 });
    expect([...replies.values()].filter(({ finish }) => finish === 'stop')).toHaveLength(120);
    expect(most).toBeLessThanOrEqual(16);
    // 16 at once, halved to 8 and 4; from there one more at a time
    expect(server.total).toBeLessThan(200);
  });

  test('never has more requests in flight than was said', async () => {
    await using server = await FaultServer.start(async (asked) => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      ok(asked);
    });
    const backend = await openBackend(`${server.origin}#m`);
    await ask(
      backend,
      Array.from({ length: 20 }, (_, i) => `question ${i}`),
      { maxSequences: 3 },
    );
    expect(server.most).toBe(3);
  });

  test('what is cancelled ends at once, and nobody waits for a slow server', async () => {
    await using server = await FaultServer.start(() => undefined);
    const backend = await openBackend(`${server.origin}#m`);
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 50);
    const began = performance.now();
    await expect(ask(backend, ['a', 'b'], { signal: controller.signal })).rejects.toThrow(
      expect.objectContaining({ code: 'ABORTED' }) as never,
    );
    expect(performance.now() - began).toBeLessThan(2000);
  });
});

describe('a JSON Schema', () => {
  const schema = {
    type: 'object',
    properties: { age: { type: 'integer', minimum: 18 }, name: { type: 'string', maxLength: 3 } },
    required: ['age'],
  };
  test.each([
    ['that the reply follows', '{"age": 20}', 'stop', undefined],
    [
      'whose bound it breaks',
      '{"age": 3}',
      'failed',
      /breaks the JSON Schema: reply\/age must be >= 18/,
    ],
    ['in words', 'I am twenty.', 'failed', /is not JSON/],
  ])('%s', async (_, said, finish, message) => {
    let sent: unknown;
    await using server = await FaultServer.start(({ body: question, response }) => {
      sent = question.response_format;
      send(response, 200, completion(said));
    });
    const backend = await openBackend(`${server.origin}#m`);
    const reply = (await ask(backend, ['a'], { jsonSchema: schema })).get('a')!;
    expect(reply.finish).toBe(finish);
    if (message !== undefined) {
      expect(reply.failure!.kind).toBe('form');
      expect(reply.failure!.message).toMatch(message);
      expect(server.total).toBe(1);
    }
    // the subset that every vendor takes; not strict, for `name` may be missing
    expect(sent).toEqual({
      type: 'json_schema',
      json_schema: {
        name: 'response',
        strict: false,
        schema: {
          type: 'object',
          properties: { age: { type: 'integer' }, name: { type: 'string' } },
          required: ['age'],
          additionalProperties: false,
        },
      },
    });
  });
  test('that is none is refused before anything is sent', async () => {
    await using server = await FaultServer.start(ok);
    const backend = await openBackend(`${server.origin}#m`);
    await expect(ask(backend, ['a'], { jsonSchema: { type: 'nonsense' } })).rejects.toThrow(
      expect.objectContaining({ code: 'GRAMMAR_INVALID' }) as never,
    );
    expect(server.total).toBe(0);
  });
});

test('reasoning is no text, and its tokens count', async () => {
  await using server = await FaultServer.start(({ response }) =>
    send(
      response,
      200,
      completion(null, {
        choices: [
          {
            index: 0,
            message: { role: 'assistant', content: 'B', reasoning_content: 'A or B? B.' },
            finish_reason: 'stop',
          },
        ],
        usage: {
          prompt_tokens: 5,
          completion_tokens: 40,
          completion_tokens_details: { reasoning_tokens: 39 },
        },
      }),
    ),
  );
  const backend = await openBackend(`${server.origin}#m`, { price: { prompt: 1, reply: 2 } });
  const reply = (await ask(backend, ['a'])).get('a')!;
  expect(reply).toMatchObject({ text: 'B', tokens: 40, promptTokens: 5 });
  expect(backend.spending).toMatchObject({
    replyTokens: 40,
    reasoningTokens: 39,
    cost: expect.closeTo(85e-6, 12),
  });
});

test('a stop string ends the text, also where the server did not hear of it', async () => {
  await using server = await FaultServer.start(({ response }) =>
    send(response, 200, completion('one;two;three')),
  );
  const backend = await openBackend(`${server.origin}#m`);
  const reply = (await ask(backend, ['a'], { stop: ['t', ';'] })).get('a')!;
  expect(reply.text).toBe('one');
});
