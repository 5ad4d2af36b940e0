/** Keys, of which only hashes are kept, and the scopes of each. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { RequestFailure } from './failures.js';

export const SCOPES = ['read', 'infer', 'train', 'admin'] as const;
/**
 * read: what is served and how it does; infer: replies; train: jobs and files of its own; admin:
 * all, of all.
 */
export type Scope = (typeof SCOPES)[number];

export interface Caller {
  /** Name of the key; requests are scheduled by it. */
  readonly name: string;
  readonly scopes: ReadonlySet<Scope>;
}

/** Entry of the list in a file of keys. */
const hashedKey = z.strictObject({
  name: z.string().min(1).max(100),
  /** SHA-256 of the key, in hexadecimal. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  scopes: z.array(z.enum(SCOPES)).min(1),
});
export type HashedKey = z.output<typeof hashedKey>;

const SHORTEST = 16;
const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/**
 * @param from source of the key, for the error
 * @throws IsoproError INVALID_ARGUMENT
 */
export function hashKey(
  name: string,
  key: string,
  scopes: readonly Scope[],
  from = `the key ${name}`,
): HashedKey {
  if (key.length < SHORTEST)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `${from}: a key needs at least ${SHORTEST} characters`,
    );
  return { name, sha256: digest(key).toString('hex'), scopes: [...scopes] };
}

export const newKey = (): string => `iso-${randomBytes(24).toString('base64url')}`;

/** @throws IsoproError INVALID_ARGUMENT */
export function checkKeys(value: unknown): HashedKey[] {
  const result = z.array(hashedKey).safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new IsoproError(
    'INVALID_ARGUMENT',
    `the file of keys: ${[...issue!.path, issue!.message].join(': ')}`,
    {
      remedy:
        'Give a JSON list of objects with "name", "sha256" (of the key) and "scopes" (of read, infer, train, admin).',
    },
  );
}

const ANYBODY: Caller = { name: 'anybody', scopes: new Set(['read', 'infer']) };

export class Keys {
  readonly #keys: readonly { readonly hash: Buffer; readonly caller: Caller }[];
  readonly #open: boolean;

  /** @param open whether somebody without a key may read and infer */
  constructor(keys: readonly HashedKey[], open: boolean) {
    this.#keys = keys.map(({ name, sha256, scopes }) => ({
      hash: Buffer.from(sha256, 'hex'),
      caller: { name, scopes: new Set<Scope>(scopes.includes('admin') ? SCOPES : scopes) },
    }));
    this.#open = open;
  }

  /**
   * @param authorization the header of that name
   * @param isKeyed whether a key is required
   * @throws RequestFailure 401 where the key is missing or unknown, 403 where it may not
   */
  admit(authorization: string | undefined, scope: Scope, isKeyed = false): Caller {
    const caller = this.#callerOf(authorization, !isKeyed && ANYBODY.scopes.has(scope));
    if (caller.scopes.has(scope)) return caller;
    const message =
      `this key has the scopes ${[...caller.scopes].join(', ')}, but the request needs ${scope}: ` +
      'use a key of --keys that has it, or the administrative key, which the server prints when it starts unless you set one';
    throw new RequestFailure(403, message, 'insufficient_scope');
  }

  #callerOf(authorization: string | undefined, isForAnybody: boolean): Caller {
    const given = /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
    const hash = digest(given ?? '');
    // All of them, in the time of all of them.
    let found: Caller | undefined;
    for (const { hash: known, caller } of this.#keys)
      if (timingSafeEqual(known, hash)) found = caller;
    if (given !== undefined && found !== undefined) return found;
    // Clients send some key wherever none is asked for.
    if (this.#open && isForAnybody) return ANYBODY;
    const message =
      given === undefined
        ? 'send a key: Authorization: Bearer KEY'
        : 'this key is unknown or was withdrawn';
    throw new RequestFailure(401, message, 'invalid_api_key');
  }
}
