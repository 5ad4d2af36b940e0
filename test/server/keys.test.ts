/**
 * Who may do what: a key is known by its hash, has the scopes that its file says, and `admin` has
 * all.
 */
import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import type { FastifyRequest } from 'fastify';
import { idempotencyKeyOf } from '../../src/server/jobs/routes.js';
import { checkKeys, hashKey, Keys, newKey, SCOPES, type Scope } from '../../src/server/keys.js';

const [ASKER, TRAINER, ADMIN] = [
  'the-key-of-an-asker',
  'the-key-of-a-trainer',
  'the-key-of-an-admin',
];
const keys = [
  hashKey('asker', ASKER, ['infer']),
  hashKey('trainer', TRAINER, ['train', 'read']),
  hashKey('admin', ADMIN, ['admin']),
];

const admitted = (
  open: boolean,
  key: string | undefined,
  scope: Scope,
  isKeyed?: boolean,
): unknown => {
  try {
    return new Keys(keys, open).admit(key && `Bearer ${key}`, scope, isKeyed).name;
  } catch (error) {
    const { status, type, code } = error as { status: number; type: string; code: string };
    return `${status} ${type} ${code}`;
  }
};
const [NO, UNKNOWN] = [
  '403 permission_error insufficient_scope',
  '401 authentication_error invalid_api_key',
];

describe('a server of keys', () => {
  test.each<[string, string | undefined, readonly unknown[]]>([
    ['one that asks', ASKER, [NO, 'asker', NO, NO]],
    ['one that trains and reads', TRAINER, ['trainer', NO, 'trainer', NO]],
    ['one that may all', ADMIN, ['admin', 'admin', 'admin', 'admin']],
    ['an unknown one', `${ADMIN}x`, [UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN]],
    ['none', undefined, [UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN]],
  ])('%s', (_, key, told) => {
    expect(SCOPES.map((scope) => admitted(false, key, scope))).toEqual(told);
  });
});

describe('a server that is open to this machine', () => {
  test.each<[string, string | undefined, readonly unknown[]]>([
    ['one that asks is who it is, and may no more', ASKER, [NO, 'asker', NO, NO]],
    [
      'an unknown one is anybody, who reads and infers',
      `${ADMIN}x`,
      ['anybody', 'anybody', UNKNOWN, UNKNOWN],
    ],
    ['none is anybody', undefined, ['anybody', 'anybody', UNKNOWN, UNKNOWN]],
  ])('%s', (_, key, told) => {
    expect(SCOPES.map((scope) => admitted(true, key, scope))).toEqual(told);
  });

  test('where a key is asked for anyway, nobody reads without one', () => {
    expect([
      admitted(true, undefined, 'read', true),
      admitted(true, TRAINER, 'read', true),
    ]).toEqual([UNKNOWN, 'trainer']);
  });
});

test('who is refused is told what is missing', () => {
  const of = (authorization: string | undefined, scope: Scope): string => {
    try {
      new Keys(keys, false).admit(authorization, scope);
      return 'admitted';
    } catch (error) {
      return (error as Error).message;
    }
  };
  expect(of(undefined, 'infer')).toBe('send a key: Authorization: Bearer KEY');
  expect(of(`Basic ${ADMIN}`, 'infer')).toBe('send a key: Authorization: Bearer KEY');
  expect(of('Bearer something-else-12', 'infer')).toBe('this key is unknown or was withdrawn');
  expect(of(`Bearer ${TRAINER}`, 'admin')).toMatch(
    /^this key has the scopes train, read, but the request needs admin: use a key of --keys/,
  );
  expect(of(`bearer   ${ADMIN} `, 'admin')).toBe('admitted');
});

test('a key needs at least 16 characters, and only its hash is kept', () => {
  expect(() => hashKey('x', 'x'.repeat(15), ['infer'])).toThrow(
    'the key x: a key needs at least 16 characters',
  );
  expect(() => hashKey('x', 'x'.repeat(15), ['infer'], '--api-key')).toThrow(
    '--api-key: a key needs at least 16 characters',
  );
  const sha256 = createHash('sha256').update('x'.repeat(16)).digest('hex');
  expect(hashKey('x', 'x'.repeat(16), ['infer', 'read'])).toEqual({
    name: 'x',
    sha256,
    scopes: ['infer', 'read'],
  });
  const made = [newKey(), newKey()];
  for (const key of made) expect(key).toMatch(/^iso-[\w-]{32}$/);
  expect(made[0]).not.toBe(made[1]);
});

const given = { name: 'x', sha256: 'ab'.repeat(32), scopes: ['infer'] };
test('a file of keys is a list of them', () => {
  const named = (length: number): object => ({ ...given, name: 'n'.repeat(length) });
  for (const each of [given, named(1), named(100), { ...given, scopes: SCOPES }])
    expect(checkKeys([each])).toEqual([each]);
  expect(checkKeys([])).toEqual([]);
});

test.each([
  ['one alone', given, 'the file of keys: '],
  [
    'a hash that is too short',
    [given, { ...given, sha256: 'ab' }],
    'the file of keys: 1: sha256: ',
  ],
  ['one as it is', [{ ...given, key: 'x' }], 'the file of keys: 0: '],
  ['one without a scope', [{ ...given, scopes: [] }], 'the file of keys: 0: scopes: '],
  ['one without a name', [{ ...given, name: '' }], 'the file of keys: 0: name: '],
  ['a long name', [{ ...given, name: 'n'.repeat(101) }], 'the file of keys: 0: name: '],
])('a file of keys with %s is refused with its place', (_, value, message) => {
  expect(() => checkKeys(value)).toThrow(
    expect.objectContaining({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(message),
    }) as never,
  );
});

test('an idempotency key has 1 to 200 characters', () => {
  const of = (key?: string) =>
    idempotencyKeyOf({ headers: { 'idempotency-key': key } } as unknown as FastifyRequest);
  expect(of(undefined)).toBeUndefined();
  for (const key of ['k', 'k'.repeat(200)]) expect(of(key)).toBe(key);
  for (const key of ['', 'k'.repeat(201)])
    expect(() => of(key)).toThrow(
      expect.objectContaining({
        status: 400,
        code: 'invalid_value',
        message: 'Idempotency-Key: 1 to 200 characters',
      }),
    );
});
