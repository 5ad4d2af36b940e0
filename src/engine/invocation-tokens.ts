/** From where in a text an adapter in training acts on. */
import { IsoproError } from '../errors.js';
import type { Model } from './model.js';
import type { AdapterFrom } from './training-request.js';

/**
 * Tokens from which an adapter acts on; empty: it acts on every token.
 * @param path of the setting
 * @throws IsoproError INVALID_ARGUMENT, TEMPLATE_INVALID
 */
export function invocationTokensFor(
  asked: AdapterFrom,
  model: Pick<Model, 'generationPrompt' | 'path'>,
  path: string,
): Int32Array {
  if (asked !== 'reply') return new Int32Array();
  const tokens = model.generationPrompt();
  if (tokens.length > 0) return tokens;
  throw new IsoproError(
    'INVALID_ARGUMENT',
    `${path}: the chat template of ${model.path} writes nothing before a reply, so no adapter can act from there on`,
  );
}
