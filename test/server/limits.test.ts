/**
 * What a server grants, to whom, and how it says that it does not: connections, bodies, requests of
 * a key, names of hosts, its end.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { HostedModel } from '../../src/host/hosted-model.js';
import { hashKey } from '../../src/server/keys.js';
import { DEFAULT_LIMITS, type Server } from '../../src/server/server.js';
import {
  adapterFile,
  ADMIN,
  asAdmin,
  closeAll,
  eventsOf,
  longModel,
  reported,
  send,
  start,
  type Answer,
} from '../models/server.js';

const PAGE = 'https://page.example.org';
const [ANN, BOB] = ['the-key-of-ann-1', 'the-key-of-bob-1'];
const keys = [
  hashKey('ann', ANN, ['infer', 'read']),
  hashKey('bob', BOB, ['infer', 'read']),
  hashKey('admin', ADMIN, ['admin']),
];
const bearer = (key: string): { authorization: string } => ({ authorization: `Bearer ${key}` });
const CHAT = '/v1/chat/completions';
const body = { model: 'base', messages: [{ role: 'user', content: 'x' }], max_tokens: 2 };

let open: Server;
let shared: Server;
beforeAll(async () => {
  open = await start({ origins: [PAGE], limits: { bodyBytes: 1000 } });
  shared = await start({ keys, limits: { connections: 5 } });
});
afterAll(closeAll);
afterEach(() => expect(reported.splice(0)).toEqual([]));

const failure = ({ status, body: { error } }: Answer): unknown[] => [
  status,
  error.type,
  error.code,
  error.message,
];
const admin = { method: 'POST', headers: asAdmin };
const metric = async (server: Server, name: string): Promise<number> =>
  Number(
    new RegExp(`^${name.replace(/[{}"/]/g, '\\$&')} (\\d+)$`, 'm').exec(
      (await send(server, '/metrics', { headers: asAdmin })).text,
    )?.[1] ?? 0,
  );
/** Until as many wait for their turn. */
const untilWaiting = async (server: Server, count: number): Promise<void> => {
  while ((await metric(server, 'isopro_waiting_replies')) !== count);
};
/** What comes back to bytes, until the connection ends. */
async function answerTo(server: Server, text: string): Promise<string> {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  let told = '';
  socket.on('data', (data) => (told += data.toString())).on('error', () => {});
  socket.write(text);
  await once(socket, 'close');
  return told;
}

test('limits are those that the docs say', () => {
  const docs = readFileSync('docs/commands/serve.md', 'utf8');
  const default_ = (flag: string): number =>
    Number(
      new RegExp(`^\\| \`--${flag}\\b[^|]*\\| ([\\d,]+) \\|`, 'm')
        .exec(docs)![1]!
        .replaceAll(',', ''),
    );
  expect(DEFAULT_LIMITS).toEqual({
    bodyBytes: default_('max-body'),
    replyTokens: 2 ** 31 - 1,
    waiting: default_('max-waiting'),
    connections: default_('max-connections'),
    requestsPerMinute: default_('rate'),
    requestSeconds: default_('timeout'),
    arrivalSeconds: 30,
    drainSeconds: default_('drain'),
  });
  expect(DEFAULT_LIMITS).toMatchObject({
    bodyBytes: 4_194_304,
    waiting: 256,
    connections: 512,
    requestsPerMinute: 6000,
    requestSeconds: 600,
    drainSeconds: 30,
  });
});

test('a body has so many bytes and not one more', async () => {
  const of = (bytes: number): string =>
    JSON.stringify({ ...body, user: '' }).replace(
      '"user":""',
      `"user":"${'u'.repeat(bytes - JSON.stringify({ ...body, user: '' }).length)}"`,
    );
  expect([of(1000).length, (await send(open, CHAT, { body: of(1000) })).status]).toEqual([
    1000, 200,
  ]);
  expect(failure(await send(open, CHAT, { body: of(1001) })).slice(0, 3)).toEqual([
    413,
    'invalid_request_error',
    'body_too_large',
  ]);
});

describe('a key among others', () => {
  const ask = (key: string): Promise<Answer> => send(shared, CHAT, { body, headers: bearer(key) });
  test('has half of the connections for requests without an answer, and as many again when they are answered', async () => {
    for (let round = 0; round < 2; round++) {
      await send(shared, '/pause', admin);
      const waiting = [ask(ANN), ask(ANN)];
      await untilWaiting(shared, 2);
      const refused = await ask(ANN);
      expect(failure(refused)).toEqual([
        429,
        'rate_limit_error',
        'too_many_requests',
        'too many open requests: 2 answers for this key are pending or unread',
      ]);
      expect(refused.headers['retry-after']).toBe('1');
      waiting.push(ask(BOB));
      await untilWaiting(shared, 3);
      // what is only read is not counted
      expect((await send(shared, '/v1/models', { headers: bearer(ANN) })).status).toBe(200);
      await send(shared, '/resume', admin);
      expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([200, 200, 200]);
      expect((await ask(ANN)).status).toBe(200);
    }
  });

  test('whoever asks without keys is one and the same, and has all', async () => {
    await send(open, '/pause', admin);
    const waiting = Array.from({ length: 6 }, () => send(open, CHAT, { body }));
    await untilWaiting(open, 6);
    await send(open, '/resume', admin);
    expect((await Promise.all(waiting)).every(({ status }) => status === 200)).toBe(true);
  });

  test('one connection is one request', async () => {
    const single = await start({ keys, limits: { connections: 1 } });
    await send(single, '/pause', admin);
    // by itself the second would not even connect
    const settled = send(single, CHAT, { body, headers: bearer(ANN) });
    await new Promise((resolve) => setTimeout(resolve, 100));
    await single.close(0);
    expect(failure(await settled).slice(0, 3)).toEqual([503, 'server_error', 'shutting_down']);
  });
});

test('so many requests a minute are answered, and the next one is told when to come', async () => {
  const few = await start({ keys, limits: { requestsPerMinute: 3 } });
  const read = (headers: Record<string, string>): Promise<Answer> =>
    send(few, '/v1/models', { headers });
  for (let i = 0; i < 3; i++) expect((await read(bearer(ANN))).status).toBe(200);
  const refused = await read(bearer(ANN));
  expect(failure(refused)).toEqual([
    429,
    'rate_limit_error',
    'rate_limit_exceeded',
    'rate limit exceeded: 3 requests per minute',
  ]);
  const seconds = Number(refused.headers['retry-after']);
  expect([seconds > 50, seconds <= 60]).toEqual([true, true]);
  // another key has its own, and whoever has none is counted by its address
  expect((await read(bearer(BOB))).status).toBe(200);
  expect(failure(await read(bearer(ANN))).at(2)).toBe('rate_limit_exceeded');
  await few.close(0);
});

describe('what is counted', () => {
  test('by route and status, and what leads nowhere together', async () => {
    const models = 'isopro_requests_total{route="/v1/models",status="200"}';
    const nowhere = 'isopro_requests_total{route="unknown",status="404"}';
    const before = [await metric(open, models), await metric(open, nowhere)];
    await send(open, '/v1/models');
    await send(open, '/nowhere/at/all');
    expect([await metric(open, models), await metric(open, nowhere)]).toEqual([
      before[0]! + 1,
      before[1]! + 1,
    ]);
    expect(await metric(open, 'isopro_model_bytes')).toBe(open.usage().usedBytes);
  });

  test('whoever leaves, once, and not who stays', async () => {
    expect(await metric(shared, 'isopro_left_total')).toBe(0);
    await send(shared, '/pause', admin);
    const text = JSON.stringify(body);
    const socket = connect(Number(new URL(shared.url).port), '127.0.0.1');
    socket.write(
      [
        `POST ${CHAT} HTTP/1.1`,
        'Host: localhost',
        `Authorization: Bearer ${ANN}`,
        'Content-Type: application/json',
        `Content-Length: ${text.length}`,
        '',
        text,
      ].join('\r\n'),
    );
    await untilWaiting(shared, 1);
    socket.destroy();
    await untilWaiting(shared, 0);
    await send(shared, '/resume', admin);
    expect(await metric(shared, 'isopro_left_total')).toBe(1);
  });
});

describe('a defect', () => {
  const { generate } = HostedModel.prototype;
  afterEach(() => {
    HostedModel.prototype.generate = generate;
  });

  test('is told of in the output of the server, and to the client in no words of its own', async () => {
    const defect = new TypeError('with a path in it: /home/x');
    HostedModel.prototype.generate = () => Promise.reject(defect);
    const answer = await send(open, CHAT, { body });
    expect(failure(answer)).toEqual([
      500,
      'server_error',
      'internal_error',
      'internal server error; see the server log',
    ]);
    expect(reported.splice(0)).toEqual([defect]);
  });

  test('in a stream it is the last event', async () => {
    const { stream } = HostedModel.prototype;
    const defect = new TypeError('x');
    HostedModel.prototype.stream = async function* () {
      yield { tokenId: 1, logprob: 0, sampledLogprob: 0, text: 'a' };
      throw defect;
    };
    const { events, done } = eventsOf(
      (await send(open, CHAT, { body: { ...body, stream: true } })).text,
    );
    HostedModel.prototype.stream = stream;
    expect([done, events.at(-1)]).toEqual([
      false,
      {
        error: {
          message: 'internal server error; see the server log',
          type: 'server_error',
          param: null,
          code: 'internal_error',
        },
      },
    ]);
    expect(reported.splice(0)).toEqual([defect]);
  });
});

describe('who is asked', () => {
  test.each<[string, string, number]>([
    [
      'its own address as a whole',
      'GET http://127.0.0.1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
      404,
    ],
    [
      'that of somebody else',
      'GET http://evil.example.com/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
      403,
    ],
    [
      'an address that is none',
      'GET http:///x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
      400,
    ],
    ['a path', 'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n', 200],
    [
      'two hosts',
      'GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n',
      403,
    ],
  ])('%s', async (_, text, status) => {
    const told = await answerTo(open, text);
    const got = Number(/^HTTP\/1\.1 (\d+)/.exec(told)![1]);
    // where it is its own, what is told depends on the router alone
    if (status === 404) expect([200, 404]).toContain(got);
    else expect(got).toBe(status);
  });

  test('a preflight of a page that was named is answered for ten minutes', async () => {
    const headers = { origin: PAGE, 'access-control-request-method': 'POST' };
    const answer = await send(open, CHAT, { method: 'OPTIONS', headers });
    expect([answer.status, answer.text]).toEqual([204, '']);
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': PAGE,
      'access-control-max-age': '600',
      vary: 'origin, access-control-request-headers',
      'access-control-allow-headers': 'authorization, content-type',
    });
    expect(new Set(String(answer.headers['access-control-allow-methods']).split(', '))).toEqual(
      new Set(['GET', 'HEAD', 'POST']),
    );
  });
});

describe('what never becomes a request', () => {
  test.each<[string, string, string, object]>([
    [
      'no HTTP',
      'hello\r\n\r\n',
      '400 Bad Request',
      { message: 'this is not an HTTP request', code: 'bad_request' },
    ],
    [
      'headers that are too large',
      `GET /health HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
      '431 Request Header Fields Too Large',
      {
        message:
          'the headers have more than 16384 bytes; a browser may be sending cookies of other programs on this host',
        code: 'headers_too_large',
      },
    ],
  ])('%s', async (_, text, status, error) => {
    const told = await answerTo(open, text);
    const [head, json] = told.split('\r\n\r\n') as [string, string];
    expect(head.split('\r\n')).toEqual([
      `HTTP/1.1 ${status}`,
      'connection: close',
      'content-type: application/json',
      `content-length: ${json.length}`,
    ]);
    expect(JSON.parse(json)).toEqual({
      error: { ...error, type: 'invalid_request_error', param: null },
    });
  });

  test('one that does not arrive in time', async () => {
    const slow = await start({ limits: { arrivalSeconds: 1 } });
    const told = await answerTo(slow, 'GET /health HTTP/1.1\r\nHost: local');
    expect(told).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
    expect(JSON.parse(told.split('\r\n\r\n')[1]!).error).toMatchObject({
      message: 'the request did not arrive in time',
      code: 'request_timeout',
    });
    await slow.close(0);
  });
});

test('what a name of a path may have: 400 characters', async () => {
  const asked = async (length: number): Promise<unknown[]> =>
    failure(await send(open, `/reports/${'x'.repeat(length)}`)).slice(0, 3);
  const withPage = await start({ runs: '.' });
  const told = async (length: number): Promise<unknown> =>
    (await send(withPage, `/reports/${'x'.repeat(length)}`)).body.error.code;
  expect([await told(400), await told(401)]).toEqual(['gone', 'invalid_url']);
  expect(await asked(10)).toEqual([404, 'invalid_request_error', 'unknown_url']);
  await withPage.close(0);
});

test('/openapi.json says what it is, to whoever may read', async () => {
  const { body: told } = await send(shared, '/openapi.json', { headers: bearer(ANN) });
  expect(told).toMatchObject({
    openapi: expect.stringMatching(/^3\./),
    info: { title: 'isopro-native', version: '1' },
  });
  expect(Object.keys(told.paths)).not.toContain('/openapi.json');
  const refused = await send(shared, '/openapi.json');
  expect([refused.status, refused.headers['www-authenticate']]).toEqual([401, 'Bearer']);
  expect(
    (await send(shared, '/nowhere', { headers: bearer(ANN) })).headers['www-authenticate'],
  ).toBeUndefined();
});

describe('the end', () => {
  test('replies that run longer than they are granted are told, in a stream and as an answer of its own', async () => {
    const server = await start({
      model: longModel(),
      load: { threads: 1, contextTokens: 65_536 },
      limits: { drainSeconds: 600 },
    });
    const endless = { ...body, max_tokens: 30_000, ignore_eos: true };
    const asked = [
      send(server, CHAT, { body: endless }),
      send(server, CHAT, { body: { ...endless, stream: true } }),
    ];
    while ((await metric(server, 'isopro_running_replies')) < 2);
    const closing = server.close(0.2);
    expect(server.close()).toBe(closing);
    const [whole, stream] = await Promise.all(asked);
    await closing;
    expect(failure(whole!)).toEqual([
      503,
      'server_error',
      'shutting_down',
      'the server is shutting down',
    ]);
    expect(whole!.headers['retry-after']).toBe('5');
    const last = stream!.status === 200 ? eventsOf(stream!.text).events.at(-1) : stream!.body;
    expect(last.error.code).toBe('shutting_down');
    await expect(send(server, '/health')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  test('its own limit ends them, too', async () => {
    const server = await start({
      model: longModel(),
      load: { threads: 1, contextTokens: 65_536 },
      limits: { drainSeconds: 0.1 },
    });
    const asked = send(server, CHAT, { body: { ...body, max_tokens: 30_000, ignore_eos: true } });
    while ((await metric(server, 'isopro_running_replies')) < 1);
    await server.close();
    expect(failure(await asked)[2]).toBe('shutting_down');
  });

  test('where nothing runs it comes at once', async () => {
    const server = await start();
    await send(server, CHAT, { body });
    const begun = performance.now();
    await server.close();
    expect(performance.now() - begun).toBeLessThan(3000);
    expect(server.usage().models).toEqual([]);
  });
});

test('the address is told as it is asked for', async () => {
  const server = await start({ host: '::1' });
  expect(server.url).toMatch(/^http:\/\/\[::1\]:\d+$/);
  await server.close(0);
});

test('what keeps a server from its start is said, and nothing stays behind', async () => {
  const file = adapterFile('twice', 5n);
  const two = [
    { name: 'a', file },
    { name: 'a', file },
  ];
  await expect(start({ adapters: two })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: 'two models are named a',
  });
  await expect(start({ adapters: [{ name: 'base', file }] })).rejects.toMatchObject({
    message: 'two models are named base',
  });
  await expect(start({ port: Number(new URL(open.url).port) })).rejects.toMatchObject({
    code: 'PORT_UNAVAILABLE',
    message: expect.stringMatching(/^cannot listen on 127\.0\.0\.1:\d+: /),
  });
});
