/**
 * Permanent record of an adapter: its bytes and base, its prompt format, and how, on what and by
 * whom it was trained.
 */
import { hash } from 'node:crypto';
import { z } from 'zod';
import { canonicalJson, type Json } from '../canonical-json.js';
import { baseSlug } from './names.js';

export const sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'is not a SHA-256 in hexadecimal');
const text = z.string().min(1).max(1000);
const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const json: z.ZodType<Json> = z.json();

export const adapterRecord = z.strictObject({
  format: z.literal('isopro.adapter.v1'),
  adapter: z.strictObject({
    sha256,
    bytes: count,
    rank: count,
    targets: z.array(text).max(1000),
    layers: z.array(count).max(10_000),
    /** Tokens from which an adapter acts on; absent: it acts on every token. */
    invocationTokens: z.array(count).min(1).max(256).optional(),
  }),
  base: z.strictObject({ name: text, sha256, architecture: z.string().max(100) }),
  /** Identifies the chat template and its renderer; null if unknown. */
  rendererId: sha256.nullable(),
  /** Whatever else makes the adapter what it is: of a run its settings. */
  settings: z.record(z.string(), json),
  dataset: z
    .strictObject({
      description: text,
      sha256: sha256.nullable(),
      rows: count.nullable(),
      /**
       * Sources of the answers that it was trained on, as in `producedBy`, or `adapter:ID`; empty
       * if no version here gave them.
       */
      answersOf: z.array(text).max(1000).default([]),
    })
    .nullable(),
  evidence: z.array(z.strictObject({ description: text, sha256 })).max(1000),
  lineage: z.strictObject({
    /** Id of the adapter that training went on from. */
    parent: sha256.nullable(),
    /**
     * Producers of the adapter (`run:…`), so that its own later answers can be kept out of its next
     * data.
     */
    producedBy: z.array(text).max(1000),
  }),
});
export type AdapterRecord = z.output<typeof adapterRecord>;

/**
 * SHA-256 of the bytes, the base, the renderer and the settings: the same adapter in another file
 * is the same one, another adapter in the same file is another. 64 hex digits.
 */
export const recordId = ({ format, adapter, base, rendererId, settings }: AdapterRecord): string =>
  hash(
    'sha256',
    canonicalJson({
      format,
      adapter: adapter.sha256,
      base: base.sha256,
      renderer: rendererId,
      settings,
    }),
  );

/** Returns `base#hash` with 12 digits of the id. */
export const nameOf = (record: AdapterRecord, id = recordId(record)): string =>
  `${baseSlug(record.base.name)}#${id.slice(0, 12)}`;
