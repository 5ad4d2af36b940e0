/** Tokens after texts that begin alike, scored in one call. */
import { commonBeginning } from '../engine/common-beginning.js';
import type { TokenIds } from '../engine/generate-request.js';
import type { Reasoner } from './reasoner.js';

export interface PrefixedTarget {
  readonly prefix: TokenIds;
  readonly target: TokenIds;
}

/**
 * Natural log-probability of each token of each target after its own prefix, as `score` has them;
 * what all prefixes have in common is evaluated once.
 * @throws IsoproError as `score`; CONTEXT_OVERFLOW where one of them does not fit
 */
export async function scoreTogether(
  reasoner: Reasoner,
  all: readonly PrefixedTarget[],
  options: { readonly signal?: AbortSignal } = {},
): Promise<Float64Array[]> {
  const at = commonBeginning(all.map(({ prefix }) => prefix));
  if (all.length < 2 || at === 0) {
    const found: Float64Array[] = [];
    for (const { prefix, target } of all)
      found.push(...(await reasoner.score(prefix, [target], options)));
    return found;
  }
  const branches = all.map(({ prefix, target }) => ({
    at,
    tokenIds: [...Array.from(prefix).slice(at), ...target],
    from: prefix.length - at,
  }));
  return reasoner.score(Array.from(all[0]!.prefix).slice(0, at), branches, options);
}
