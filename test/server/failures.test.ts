/** What a failure is to a client: whatever is not known to be the caller's is a defect of the server. */
import { expect, test } from '@jest/globals';
import { IsoproError } from '../../src/index.js';
import { failureOf, invalid } from '../../src/server/failures.js';

const ofFramework = (statusCode: number): Error => Object.assign(new Error('words'), { statusCode, code: 'FST_X' });

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
  ['CONTEXT_OVERFLOW', 400, 'invalid_request_error', 'context_length_exceeded', undefined],
  ['INVALID_ARGUMENT', 400, 'invalid_request_error', 'invalid_argument', undefined],
  ['CONFLICT', 409, 'invalid_request_error', 'conflict', undefined],
  ['REGISTRY_UNRESOLVED', 404, 'not_found_error', 'model_not_found', undefined],
  ['OUT_OF_MEMORY', 503, 'server_error', 'out_of_memory', 1],
] as const)('%s of the library', (code, status, type, said, retryAfter) => {
  expect(failureOf(new IsoproError(code, 'words'))).toMatchObject({ status, type, code: said, retryAfter, message: 'words' });
});

test('what a request was refused for stays what it was, also as the cause of something else; a defect is none', () => {
  const refused = invalid('seed', 'words');
  expect(failureOf(refused)).toBe(refused);
  expect(failureOf(new IsoproError('INVALID_ARGUMENT', 'other words', { cause: refused }))).toBe(refused);
  for (const defect of [new TypeError('x'), new IsoproError('NATIVE_FAILURE', 'x'), null, undefined, 'x'])
    expect(failureOf(defect)).toBeNull();
});
