import { IsoproError } from '../errors.js';

/**
 * Limits of a prompt with its reply: the context that the model was loaded with, and the one that
 * it was trained for.
 */
export interface ContextLimits {
  readonly contextTokens: number;
  readonly trainedContext: number;
}

/** Returns the maximum number of tokens of a prompt and its reply together. */
export const contextOf = ({ contextTokens, trainedContext }: ContextLimits): number =>
  Math.min(contextTokens, trainedContext);

/** The remedy where the turns of an episode do not fit. */
export const MORE_ROOM =
  'give the model a larger context, or allow fewer tokens per reply or fewer turns';

/**
 * Returns a CONTEXT_OVERFLOW error with the remedy that applies: a larger context does not help
 * beyond the model's own limit. Other errors are returned unchanged.
 */
export function withContextRemedy(
  error: unknown,
  { contextTokens, trainedContext }: ContextLimits,
): unknown {
  if (!(error instanceof IsoproError) || error.code !== 'CONTEXT_OVERFLOW') return error;
  const needed = Number(
    /(?:needs|have) (\d+)|^(\d+) tokens/
      .exec(error.message)
      ?.slice(1)
      .find((digits) => digits !== undefined) ?? NaN,
  );
  const shorter = 'Shorten the prompt or ask for fewer tokens (maxTokens, --max-tokens)';
  // a run, whose flag is --context-tokens, knows how many it needs
  const enough = Number.isNaN(needed)
    ? 'a larger contextTokens (--context)'
    : `contextTokens (--context-tokens for a run, otherwise --context) of at least ${needed}`;
  const remedy =
    contextTokens >= trainedContext || needed > trainedContext
      ? `${shorter}. This model was trained for ${trainedContext} tokens, so a larger context does not help.`
      : `${shorter}, or load the model with ${enough}. It was trained for ${trainedContext} tokens.`;
  return new IsoproError('CONTEXT_OVERFLOW', error.message, { cause: error.cause, remedy });
}
