import type { Phrasing, PoolName } from './vocabulary.js';

/** What stands under a key of the answer. `currency` is that of the message's amounts. */
export type FieldKind = 'text' | 'integer' | 'amount' | 'currency' | 'date' | 'time' | 'boolean';

/**
 * How a role is asked for and told of; `{}` is where its value stands. Of a boolean the sentences
 * are pairs: when true, when false.
 */
export interface Phrases {
  readonly keys: readonly string[];
  /** Before a colon, in a message of lines. */
  readonly labels: readonly string[];
  readonly sentences:
    | readonly string[]
    | readonly (readonly [whenTrue: string, whenFalse: string])[];
}

/** Where a value is drawn from. */
export type Source =
  | { readonly kind: 'text'; readonly pool: PoolName }
  | { readonly kind: 'integer'; readonly from: number; readonly to: number }
  /** In whole units; cents are drawn too. */
  | { readonly kind: 'amount'; readonly from: number; readonly to: number }
  /** Days from the message's own day. */
  | { readonly kind: 'date'; readonly from: number; readonly to: number }
  | { readonly kind: 'time' }
  | { readonly kind: 'boolean' }
  | { readonly kind: 'currency' };

/** One thing that a message can say. A role that is said and not asked for is a distractor. */
export type Role = Source & { readonly meaning: string } & {
  readonly [phrasing in Phrasing]: Phrases;
};

export interface DocumentKind {
  readonly id: string;
  /** Said before everything else, and after it, in prose; they hold no value of any kind. */
  readonly openings: { readonly [phrasing in Phrasing]: readonly string[] };
  readonly closings: { readonly [phrasing in Phrasing]: readonly string[] };
  readonly roles: readonly Role[];
}

/**
 * Reads `keys | labels | sentences`, with ` / ` between alternatives; a boolean has its sentences
 * for true and then those for false.
 */
function phrases(row: string): Phrases {
  const [keys, labels, sentences, whenFalse] = row.split(' | ').map((part) => part.split(' / '));
  return {
    keys: keys!,
    labels: labels!,
    sentences:
      whenFalse === undefined
        ? sentences!
        : sentences!.map((said, i) => [said, whenFalse[i]!] as const),
  };
}

/** A role from one row of phrases for each phrasing (see `phrases`). */
export const role = (
  source: Source,
  meaning: string,
  { training, frozen }: Readonly<Record<Phrasing, string>>,
): Role => ({ ...source, meaning, training: phrases(training), frozen: phrases(frozen) });

/** The currency of the amounts; a message says it with each of them. */
export const CURRENCY: Role = {
  kind: 'currency',
  meaning: 'currency of the amounts: EUR, USD or GBP',
  training: { keys: ['currency'], labels: [], sentences: [] },
  frozen: { keys: ['currency_code'], labels: [], sentences: [] },
};
