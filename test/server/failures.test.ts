/**
 * What a failure is to a client: whatever is not known to be the caller's is a defect of the
 * server.
 */
import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { IsoproError } from '../../src/index.js';
import { NotAllowed } from '../../src/operations/not-allowed.js';
import {
  DEFECT,
  ENDINGS,
  failureOf,
  forbidden,
  invalid,
  ofMember,
  ofSchema,
  unsupported,
} from '../../src/server/failures.js';
import { plainWords } from '../../src/wrong-input.js';

const ofFramework = (statusCode: number): Error =>
  Object.assign(new Error('words'), { statusCode, code: 'FST_X' });

test.each([
  [399, null],
  [400, 400],
  [499, 499],
  [500, null],
  [503, null],
])('what the framework refuses with %i', (statusCode, status) => {
  expect(failureOf(ofFramework(statusCode))?.status ?? null).toBe(status);
});

test.each([
  ['INVALID_ARGUMENT', 400, 'invalid_request_error', 'invalid_argument'],
  ['GRAMMAR_INVALID', 400, 'invalid_request_error', 'grammar_invalid'],
  ['TEMPLATE_INVALID', 400, 'invalid_request_error', 'template_invalid'],
  ['CONTEXT_OVERFLOW', 400, 'invalid_request_error', 'context_length_exceeded'],
  ['ADAPTER_CORRUPT', 400, 'invalid_request_error', 'adapter_corrupt'],
  ['ADAPTER_MISMATCH', 400, 'invalid_request_error', 'adapter_mismatch'],
  ['REGISTRY_UNRESOLVED', 404, 'not_found_error', 'model_not_found'],
  ['CONFLICT', 409, 'invalid_request_error', 'conflict'],
  ['JOBS_BUSY', 503, 'server_error', 'jobs_busy'],
  ['JOBS_UNREADABLE', 503, 'server_error', 'jobs_unreadable'],
  ['WRITE_FAILED', 503, 'server_error', 'write_failed'],
  ['OUT_OF_MEMORY', 503, 'server_error', 'out_of_memory'],
  ['SYSTEM_LIMIT', 503, 'server_error', 'system_limit'],
  ['OBJECT_DISPOSED', 503, 'server_error', 'shutting_down'],
] as const)('%s of the library', (code, status, type, said) => {
  const failure = failureOf(new IsoproError(code, 'words'))!;
  expect(failure).toMatchObject({
    status,
    param: null,
    retryAfter: status === 503 ? 1 : undefined,
  });
  expect(failure.body).toEqual({ error: { message: 'words', type, param: null, code: said } });
});

test('why a request may end, and what is not known to be anybody else’s: each with its status, its code and when to come again', () => {
  const told = Object.entries({ ...ENDINGS, DEFECT }).map(
    ([name, { status, type, code, retryAfter }]) => [name, status, type, code, retryAfter],
  );
  expect(told).toEqual([
    ['gone', 499, 'invalid_request_error', 'client_closed_request', undefined],
    ['unread', 499, 'invalid_request_error', 'stream_not_read', undefined],
    ['time', 503, 'server_error', 'timeout', 1],
    ['shutdown', 503, 'server_error', 'shutting_down', 5],
    ['paused', 503, 'server_error', 'paused', 1],
    ['DEFECT', 500, 'server_error', 'internal_error', undefined],
  ]);
});

test('what is refused names the member, and the body as a whole is none', () => {
  expect(invalid('seed', 'words')).toMatchObject({
    status: 400,
    param: 'seed',
    code: 'invalid_value',
    message: 'words',
  });
  expect(invalid('', 'words', 'invalid_json').body.error).toEqual({
    message: 'words',
    type: 'invalid_request_error',
    param: null,
    code: 'invalid_json',
  });
  expect(unsupported('echo', 'words')).toMatchObject({
    status: 400,
    param: 'echo',
    code: 'unsupported_parameter',
  });
  expect(forbidden('words', 'path_not_allowed', 'file')).toMatchObject({
    status: 403,
    type: 'permission_error',
    param: 'file',
  });
  expect(failureOf(new NotAllowed('model_not_allowed', 'settings.model', 'words'))).toMatchObject({
    status: 403,
    code: 'model_not_allowed',
    param: 'settings.model',
    message: 'words',
  });
});

test('a message in the place of a member does not compile', () => {
  // @ts-expect-error
  const one = invalid('seed: must be a number', 'seed');
  // @ts-expect-error
  const other = unsupported('echo: not here', 'echo');
  expect([one, other]).toHaveLength(2);
});

test('a failure that is about no member gets the name of the one that was read; any other stays as it is', async () => {
  const of = async (error: unknown): Promise<unknown> =>
    ofMember('prompt[1]', () => Promise.reject(error)).then(
      () => 'made',
      (failed: unknown) => failed,
    );
  expect(await of(new IsoproError('CONTEXT_OVERFLOW', 'words'))).toMatchObject({
    status: 400,
    param: 'prompt[1]',
    code: 'context_length_exceeded',
    message: 'words',
  });
  const others = [
    new IsoproError('OUT_OF_MEMORY', 'x'),
    new IsoproError('REGISTRY_UNRESOLVED', 'x'),
    new IsoproError('INVALID_ARGUMENT', 'x', { cause: invalid('messages', 'x') }),
    new TypeError('x'),
    invalid('', 'x'),
  ];
  for (const other of others) expect(await of(other)).toBe(other);
  expect(await ofMember('x', () => 7)).toBe(7);
});

describe('what a schema finds wrong', () => {
  const schema = z.strictObject({
    messages: z
      .array(z.strictObject({ role: z.string() }))
      .max(9)
      .optional(),
    tools: z.record(z.string(), z.number()).optional(),
    old: z
      .unknown()
      .optional()
      .superRefine((value, { addIssue }) => {
        if (value !== undefined)
          addIssue({ code: 'custom', message: 'not here', params: { isUnsupported: true } });
      }),
  });
  const long = 'x'.repeat(101);
  test.each<[unknown, unknown[]]>([
    [7, [null, 'invalid_value', 'the body: must be an object, not 7']],
    [
      { messages: [{ role: 'a' }, { role: 7 }] },
      ['messages[1].role', 'invalid_value', 'messages[1].role: must be a string, not 7'],
    ],
    [
      { messages: [{ role: 'a', rule: 7 }] },
      ['messages[0].rule', 'unknown_parameter', expect.stringMatching(/^messages\[0\]: .*"rule"/)],
    ],
    [
      { masages: [] },
      ['masages', 'unknown_parameter', 'there is no "masages"; did you mean messages?'],
    ],
    [{ [long]: 1 }, [long.slice(1), 'unknown_parameter', expect.not.stringContaining(long)]],
    [
      { tools: { [long]: 'x' } },
      [
        `tools.${long.slice(1)}`,
        'invalid_value',
        expect.stringContaining('must be a number, not "x"'),
      ],
    ],
    [{ old: 1 }, ['old', 'unsupported_parameter', 'old: not here']],
    [
      { messages: 1, tools: 1, old: 1 },
      ['messages', 'invalid_value', 'messages: must be a list, not 1'],
    ],
  ])('%j', (value, told) => {
    const { error } = schema.safeParse(value, { error: plainWords });
    const { status, param, code, message } = ofSchema(error!, schema);
    expect([status, param, code, message]).toEqual([400, ...told]);
  });
});

test.each([
  ['FST_ERR_CTP_BODY_TOO_LARGE', 413, 'body_too_large', 'words'],
  ['FST_ERR_CTP_INVALID_MEDIA_TYPE', 415, 'unsupported_media_type', /^send the body as JSON/],
  ['FST_ERR_CTP_EMPTY_TYPE', 415, 'unsupported_media_type', /^send the body as JSON/],
  ['FST_ERR_CTP_INVALID_CONTENT_LENGTH', 400, 'invalid_content_length', 'words'],
  ['FST_ERR_BAD_URL', 400, 'invalid_url', 'words'],
  [
    'FST_ERR_MAX_PARAM_LENGTH',
    414,
    'invalid_url',
    'a part of the path is longer than any name on this server',
  ],
])('%s of the framework', (code, statusCode, said, message) => {
  const failure = failureOf(Object.assign(new Error('words'), { statusCode, code }))!;
  expect([failure.status, failure.type, failure.code, failure.param]).toEqual([
    statusCode,
    'invalid_request_error',
    said,
    null,
  ]);
  expect(failure.message).toMatch(message);
});

test('what a request was refused for stays what it was, also as the cause of something else; a defect is none', () => {
  const refused = invalid('seed', 'words');
  expect(failureOf(refused)).toBe(refused);
  expect(failureOf(new IsoproError('INVALID_ARGUMENT', 'other words', { cause: refused }))).toBe(
    refused,
  );
  for (const defect of [
    new TypeError('x'),
    new IsoproError('NATIVE_FAILURE', 'x'),
    null,
    undefined,
    'x',
  ])
    expect(failureOf(defect)).toBeNull();
});
