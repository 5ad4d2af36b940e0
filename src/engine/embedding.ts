/** Embeddings of texts: options and results of `Model.embed`. */
import { types } from 'node:util';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { adapterOption } from './adapter.js';
import { cancellable, type Addon, type NativeAdapter, type NativeModel } from './addon.js';
import { bounded } from './bounded-list.js';
import { abortSignal, checked } from './argument-check.js';
import { tokenIds, type TokenIds } from './generate-request.js';
import { contextOf, withContextRemedy, type ContextLimits } from './context-overflow.js';
import { withJson } from './json-form.js';

/**
 * One row and one token count per text, in the order of the texts. JSON.stringify writes rows as
 * lists.
 */
export interface Embeddings {
  /** Unit vectors, [d_model]; the dot product of two is the cosine of their angle. */
  readonly rows: readonly Float32Array[];
  /** Number of evaluated tokens per text, BOS included. */
  readonly tokens: readonly number[];
}

const textOrIds = z
  .custom<string | TokenIds>(
    (value) => typeof value === 'string' || Array.isArray(value) || types.isInt32Array(value),
    { error: 'expected a text or token ids', abort: true },
  )
  .pipe(z.union([z.string().min(1, 'an empty text has no embedding'), tokenIds]));
const embedTexts = bounded(z.array(textOrIds));
const embedOptions = z.strictObject({
  /** Adapter for this call only; null: the bare base model. Default: the model's own adapter. */
  adapter: adapterOption,
  signal: abortSignal.optional(),
});
export type EmbedOptions = z.input<typeof embedOptions>;

/** Parts of a model that embedding needs. */
export interface EmbeddingModel {
  readonly addon: Addon;
  readonly native: NativeModel;
  readonly limits: ContextLimits;
  readonly vocabularySize: number;
  promptIdsAside(content: { readonly text: string }): Promise<Int32Array>;
}

/**
 * Embeds each text in its own call of the engine, so that other requests run between two of them.
 * The adapter stays loaded until the last one, whatever happens to the caller's handle.
 */
export async function embedEach(
  texts: readonly (string | TokenIds)[],
  options: EmbedOptions,
  model: EmbeddingModel,
): Promise<Embeddings> {
  const valid = checked(embedTexts, texts, 'texts');
  const { adapter, signal } = checked(embedOptions, options, 'options');
  const held = adapter?.again();
  const applied = adapter === undefined ? undefined : (held?.native ?? null);
  try {
    return await embedWith(applied, valid, signal, model);
  } finally {
    held?.dispose();
  }
}

async function embedWith(
  applied: NativeAdapter | null | undefined,
  texts: readonly (string | Int32Array)[],
  signal: AbortSignal | undefined,
  model: EmbeddingModel,
): Promise<Embeddings> {
  const { addon, native, limits, vocabularySize } = model;
  const context = contextOf(limits);
  const ids: Int32Array[] = [];
  for (const text of texts)
    ids.push(typeof text === 'string' ? await model.promptIdsAside({ text }) : text);
  for (const [index, tokens] of ids.entries()) {
    const { length } = tokens;
    if (length === 0)
      throw new IsoproError('INVALID_ARGUMENT', `texts.${index}: the text has no tokens`);
    const strange = tokens.find((id) => id < 0 || id >= vocabularySize);
    if (strange !== undefined)
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `texts.${index}: token ${strange} is outside the vocabulary of ${vocabularySize} tokens`,
      );
    if (length <= context) continue;
    const message = `texts.${index}: the text needs ${length} tokens, more than the context of ${context} tokens`;
    throw withContextRemedy(new IsoproError('CONTEXT_OVERFLOW', message), limits);
  }
  const rows: Float32Array[] = [];
  for (const tokens of ids)
    rows.push(await cancellable(addon, signal, (ended) => native.embed(tokens, applied, ended)));
  return withJson({ rows, tokens: ids.map(({ length }) => length) });
}
