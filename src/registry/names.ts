/** Names of adapters: `base#hash`, which always means the same adapter, and aliases, which move. */
import { z } from 'zod';
import { IsoproError } from '../errors.js';

/** Purpose of an adapter. */
export interface Slot {
  /** A task or a scenario. */
  readonly scenario: string;
  readonly role: string;
  readonly environment: string;
}

export const DEFAULT_PART = 'default';
/** Moved only by a gate that accepted, or by force, which is on record. */
export const CHAMPION = 'champion';

const part = z
  .string()
  .regex(
    /^[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,98}[A-Za-z0-9_])?$/,
    'must have only letters, digits, _, . and -',
  );
export const slot = z.strictObject({
  scenario: part,
  role: part.default(DEFAULT_PART),
  environment: part.default(DEFAULT_PART),
});
export type SlotInput = z.input<typeof slot>;
export const alias = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,49}$/, 'must have only small letters, digits and -');

/**
 * Formats an alias: `sql@champion`, `sql/solver/staging@champion`; default parts at the end are
 * left out.
 */
export function aliasText({ scenario, role, environment }: Slot, name: string): string {
  const parts = [scenario, role, environment];
  while (parts.length > 1 && parts.at(-1) === DEFAULT_PART) parts.pop();
  return `${parts.join('/')}@${name}`;
}

export type Reference =
  | { readonly kind: 'alias'; readonly slot: Slot; readonly alias: string }
  /** Beginning of an id; `base` is null if not given. */
  | { readonly kind: 'id'; readonly base: string | null; readonly prefix: string };

/** Fewer digits of an id could be a word. */
const FEWEST_DIGITS = 6;

/** Parses a name; null if the text is not a name of a registry. */
export function parseReference(text: string): Reference | null {
  const [place, name, ...more] = text.split('@');
  if (place !== undefined && name !== undefined && more.length === 0) {
    const [scenario, role, environment, ...rest] = place.split('/');
    const given = slot.safeParse({ scenario, role, environment });
    if (given.success && rest.length === 0 && alias.safeParse(name).success)
      return { kind: 'alias', slot: given.data, alias: name };
  }
  const id = new RegExp(`^(?:([^#/\\\\]+)#)?([0-9a-f]{${FEWEST_DIGITS},64})$`).exec(text);
  return id === null ? null : { kind: 'id', base: id[1] ?? null, prefix: id[2]! };
}

type Alias = Extract<Reference, { kind: 'alias' }>;

/**
 * Parses an alias; a scenario alone means its champion.
 * @returns null if the text is not an alias
 */
function parseAlias(text: string): Alias | null {
  const parsed = parseReference(text.includes('@') ? text : `${text}@${CHAMPION}`);
  return parsed?.kind === 'alias' ? parsed : null;
}

export const isAlias = (text: string): boolean => parseAlias(text) !== null;

/** @throws IsoproError INVALID_ARGUMENT */
export function requireAlias(text: string): Alias {
  const parsed = parseAlias(text);
  if (parsed !== null) return parsed;
  const shown = JSON.stringify(text.slice(0, 100));
  throw new IsoproError('INVALID_ARGUMENT', `${shown} is not an alias`, {
    remedy:
      'Give SCENARIO, SCENARIO@ALIAS, SCENARIO/ROLE@ALIAS or SCENARIO/ROLE/ENVIRONMENT@ALIAS.',
  });
}

/** Returns the base's part of a name: its file without the ending. */
export const baseSlug = (base: string): string =>
  base.replace(/^.*[/\\]/, '').replace(/\.gguf$/i, '');
