/**
 * Splits the rows of a data file into train, dev and test. Rows are ordered by a hash of their
 * question, so the split depends on the content alone, not on the order or format of the file or on
 * a seed. Rows whose questions differ only in letter case, blanks and punctuation are always in the
 * same part.
 */
import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { IsoproError } from '../../errors.js';
import { readJson } from '../../files.js';
import { shingles, SimilarSets } from '../../shingles.js';
import { SET_NAMES, SET_SIZE, type SetName } from '../frozen-sets.js';
import type { ChatMessage } from '../task.js';

/**
 * Shares of the rows of a tier, up to the size of an evaluation set; the others are for training.
 */
const SHARE: Readonly<Record<SetName, number>> = { test: 0.25, dev: 0.1 };
/** Fewest rows of a tier: one each for test and dev, and some to train on. */
export const LEAST_OF_TIER = 5;

export type Part = SetName | 'train';

/** Members of a row that decide its split. */
export interface SplitRow {
  readonly tier: string;
  readonly messages: readonly ChatMessage[];
}

export interface Split {
  /** By row. */
  readonly parts: readonly Part[];
  /** Keys by row; equal for rows with the same question. */
  readonly keys: readonly string[];
  /** Parts that the split file records, by key; null without a file. */
  readonly written: ReadonlyMap<string, SetName> | null;
  /** Rows of each set by tier, in the order in which an evaluation takes them. */
  readonly order: (part: SetName, tier: string) => readonly number[];
}

type Said = { readonly role: string; readonly content: string };

/** Normalises a question: equal for questions that count as the same. */
const asked = (messages: readonly Said[]): string =>
  messages
    .map(({ role, content }) => `${role} ${content}`)
    .join('\n')
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[.,;:!?"'`\u2018\u2019\u201c\u201d]+/g, ' ')
    .split(/\s+/)
    .join(' ')
    .trim();

/** Key of a row: 64 bits of the hash of its question, as hex. */
const keyOf = ({ messages }: { readonly messages: readonly Said[] }): string =>
  hash('sha256', asked(messages)).slice(0, 16);

/**
 * Returns a function that finds the part of a question in the split file of a data file; null if
 * there is no such file.
 * @throws IsoproError DATA_INVALID
 */
export function writtenParts(file: string): ((messages: readonly Said[]) => Part) | null {
  const written = readSplit(splitPath(file));
  return written === null ? null : (messages) => written.get(keyOf({ messages })) ?? 'train';
}

const FORMAT = 'isopro.split.v1';
const key = z.string().regex(/^[0-9a-f]{16}$/);
const splitFile = z.strictObject({
  format: z.literal(FORMAT),
  dev: z.array(key),
  test: z.array(key),
});

/** Path of the split file of a data file, in the same folder. */
export const splitPath = (file: string): string => `${file}.split.json`;

/**
 * Splits the rows by tier. Rows in a split file keep their part, and new rows are for training, so
 * that the held-out sets do not change when the data grow.
 * @throws IsoproError DATA_INVALID
 */
export function splitRows(
  file: string,
  rows: readonly SplitRow[],
  tiers: readonly string[],
): Split {
  const keys = rows.map(keyOf);
  const written = readSplit(splitPath(file));
  const partOf = new Map<string, Part>();
  for (const tier of tiers) {
    const own = [...new Set(keys.filter((_, i) => rows[i]!.tier === tier))].sort();
    const known = own.filter((each) => written?.has(each));
    const fresh =
      known.length > 0
        ? new Map(known.map((each) => [each, written!.get(each)!]))
        : splitKeys(own.filter((each) => !partOf.has(each)));
    for (const [each, part] of fresh) if (!partOf.has(each)) partOf.set(each, part);
  }
  const parts = keys.map((each): Part => partOf.get(each) ?? 'train');
  for (const tier of tiers) {
    const missing = (['test', 'dev', 'train'] as const).find(
      (part) => !rows.some((row, i) => row.tier === tier && parts[i] === part),
    );
    if (missing === undefined) continue;
    const asking = new Set(keys.filter((_, i) => rows[i]!.tier === tier)).size;
    throw new IsoproError(
      'DATA_INVALID',
      `${path.basename(file)}: tier ${JSON.stringify(tier)} has ${asking} different questions and none left for ${missing}: ` +
        `a tier needs at least ${LEAST_OF_TIER}`,
      written === null
        ? {}
        : { remedy: `Correct the data, or remove ${splitPath(file)} to split them again.` },
    );
  }
  const order = (part: SetName, tier: string): number[] =>
    keys
      .flatMap((each, i) =>
        rows[i]!.tier === tier && parts[i] === part ? [[each, i] as const] : [],
      )
      .sort(([a, i], [b, j]) => (a < b ? -1 : a > b ? 1 : i - j))
      .map(([, i]) => i);
  return { parts, keys, written, order };
}

/** @param keys ascending: they are hashes, so that their order is one of chance */
function splitKeys(keys: readonly string[]): Map<string, Part> {
  const sizes = SET_NAMES.map((name) =>
    Math.min(SET_SIZE[name], Math.max(1, Math.round(SHARE[name] * keys.length))),
  );
  const sets =
    keys.length < LEAST_OF_TIER
      ? []
      : SET_NAMES.flatMap((name, i) => Array.from({ length: sizes[i]! }, () => name));
  return new Map(keys.map((each, i) => [each, sets[i] ?? 'train']));
}

/**
 * Returns the text of the split file, which keeps the same rows out of training next time. Keys of
 * removed rows stay, since these rows may return.
 */
export function splitText({ parts, keys, written }: Split): string {
  const kept = (part: SetName): string[] =>
    [...(written ?? [])].flatMap(([each, of]) => (of === part ? [each] : []));
  const of = (part: SetName): string[] =>
    [...new Set([...keys.filter((_, i) => parts[i] === part), ...kept(part)])].sort();
  return `${JSON.stringify({ format: FORMAT, dev: of('dev'), test: of('test') }, null, 1)}\n`;
}

function readSplit(file: string): ReadonlyMap<string, SetName> | null {
  if (!existsSync(file)) return null;
  const parsed = splitFile.safeParse(readJson(file));
  if (!parsed.success)
    throw new IsoproError(
      'DATA_INVALID',
      `${file} is not a split file: ${z.prettifyError(parsed.error)}`,
      {
        remedy:
          'Remove the file to split the data again; the held-out rows then differ from those of earlier runs.',
      },
    );
  const { dev, test } = parsed.data;
  return new Map([
    ...dev.map((each) => [each, 'dev'] as const),
    ...test.map((each) => [each, 'test'] as const),
  ]);
}

/** Least shared part of their shingles that makes two questions near duplicates. */
const NEAR = 0.8;
const SHINGLE_WORDS = 3;

const shinglesOf = ({ messages }: SplitRow): Set<string> =>
  shingles(asked(messages).split(' '), SHINGLE_WORDS, ' ');

export interface NearDuplicates {
  /** Held-out rows that are near duplicates of a training row. */
  readonly rows: number;
  readonly heldOut: number;
  /** Indices of the most similar pair; null if there is none. */
  readonly example: {
    readonly heldOut: number;
    readonly train: number;
    readonly shared: number;
  } | null;
}

/**
 * Counts held-out rows whose question is nearly that of a training row: the Jaccard index of their
 * shingles of three words is 0.8 or more. They are not refused: `12 plus 30` and `12 plus 31` are
 * alike but different questions.
 */
export function nearDuplicates(
  rows: readonly SplitRow[],
  { parts }: Pick<Split, 'parts'>,
): NearDuplicates {
  const sets = new SimilarSets(rows.map(shinglesOf), NEAR);
  const heldOut = parts.flatMap((part, i) => (part === 'train' ? [] : [i]));
  for (const i of heldOut) sets.add(i);
  const near = new Set<number>();
  let example: NearDuplicates['example'] = null;
  for (const [train, part] of parts.entries()) {
    if (part !== 'train') continue;
    for (const { index, shared } of sets.alike(train)) {
      near.add(index);
      if (example === null || shared > example.shared) example = { heldOut: index, train, shared };
    }
  }
  return { rows: near.size, heldOut: heldOut.length, example };
}
