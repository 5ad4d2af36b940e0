/**
 * The body of a request: JSON in UTF-8 of a bearable shape, read as it is meant; and what is said
 * of any other.
 */
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { fastify } from 'fastify';
import { DEFECT, failureOf } from '../../src/server/failures.js';
import { takeJsonOnly } from '../../src/server/json-body.js';

const app = fastify({ bodyLimit: 2 ** 20 });
beforeAll(async () => {
  takeJsonOnly(app);
  app.setErrorHandler((error, _, reply) => {
    const failure = failureOf(error) ?? DEFECT;
    return reply.code(failure.status).send(failure.body);
  });
  app.post('/', ({ body }) => ({
    told: JSON.stringify(body ?? null, (_, value) =>
      typeof value === 'bigint' ? `${value}n` : value,
    ),
  }));
  await app.ready();
});
afterAll(() => app.close());

async function told(
  payload: string | Buffer,
  headers: Record<string, string> = {},
): Promise<unknown> {
  const { statusCode, body } = await app.inject({
    method: 'POST',
    url: '/',
    headers: { 'content-type': 'application/json', ...headers },
    payload,
  });
  const answer = JSON.parse(body);
  return statusCode === 200
    ? JSON.parse(answer.told as string)
    : [statusCode, answer.error.param, answer.error.code, answer.error.message];
}

test('is what was sent', async () => {
  const sent = { text: 'é \u{1f984} \u2028', list: [1, 2.5, -0.25, null, true, {}], seed: 12 };
  expect(await told(JSON.stringify(sent))).toEqual(sent);
  expect(
    await told(JSON.stringify(sent), {
      'content-type': 'application/json; charset=utf-8',
      'content-encoding': 'identity',
    }),
  ).toEqual(sent);
  expect(await told('')).toBeNull();
});

describe('a seed is read by its digits where a number has not so many, and nowhere else', () => {
  test.each<[string, unknown]>([
    ['{"seed":9007199254740993}', { seed: '9007199254740993n' }],
    ['{"seed":-9223372036854775808}', { seed: '-9223372036854775808n' }],
    ['{"a":1,"seed" : 18446744073709551615 }', { a: 1, seed: '18446744073709551615n' }],
    [
      '{"seed":123456789012345678901234567890,"b":2}',
      { seed: '123456789012345678901234567890n', b: 2 },
    ],
    ['{"seed":999999999999999}', { seed: 999999999999999 }],
    ['{"seed":1.5}', { seed: 1.5 }],
    ['{"seed":"9007199254740993"}', { seed: '9007199254740993' }],
    ['{"seed":null}', { seed: null }],
    [
      '{"sampling_params":{"seed":9007199254740993}}',
      { sampling_params: { seed: '9007199254740993n' } },
    ],
    ['{"x":{"seed":9007199254740994}}', { x: { seed: 9007199254740994 } }],
    ['{"text":"\\"seed\\":9007199254740993,"}', { text: '"seed":9007199254740993,' }],
    ['[{"seed":9007199254740994}]', [{ seed: 9007199254740994 }]],
  ])('%s', async (text, value) => {
    expect(await told(text)).toEqual(value);
  });
});

const REFUSED = (what: string): unknown[] => [
  400,
  null,
  'invalid_json',
  expect.stringMatching(new RegExp(`^the body ${what}`)),
];
test.each<[string, string | Buffer, Record<string, string>, unknown[]]>([
  ['no JSON', '{"a": }', {}, REFUSED('is not JSON: Unexpected token')],
  ['bytes that are no UTF-8', Buffer.from([0x22, 0xff, 0x22]), {}, REFUSED('is not UTF-8$')],
  [
    'a prototype',
    '{"a":{"__proto__":{}}}',
    {},
    REFUSED('has a member named __proto__, or a constructor with a prototype$'),
  ],
  ['lists too deep', '['.repeat(129) + ']'.repeat(129), {}, REFUSED('')],
  [
    'zipped',
    gzipSync('{}'),
    { 'content-encoding': 'gzip' },
    [
      415,
      null,
      'unsupported_media_type',
      'compressed request bodies are not supported; send the body uncompressed',
    ],
  ],
  [
    'a text',
    '{}',
    { 'content-type': 'text/plain' },
    [415, null, 'unsupported_media_type', expect.stringMatching(/^send the body as JSON/)],
  ],
  ['too large', `"${'x'.repeat(2 ** 20)}"`, {}, [413, null, 'body_too_large', expect.any(String)]],
])('%s is refused', async (_, payload, headers, refusal) => {
  expect(await told(payload, headers)).toEqual(refusal);
});

test('lists are taken to the depth that the docs say', async () => {
  const deep = '['.repeat(128) + ']'.repeat(128);
  expect(await told(deep)).toEqual(JSON.parse(deep));
});
