import { createHash } from 'node:crypto';
import { canonicalJson, type Json } from '../canonical-json.js';
import type { Problem } from './task.js';

/** SHA-256 (hex) of the RFC 8785 JSON of a problem without its `id` and `reference`. */
export function problemId(problem: object): string {
  const { id: _id, reference: _reference, ...content } = problem as Record<string, Json>;
  return createHash('sha256').update(canonicalJson(content), 'utf8').digest('hex');
}

/**
 * Makes a problem with its id from what a user's task has generated.
 * @throws TypeError if the content is not plain JSON
 */
export function asProblem(content: object, tier: string | undefined): Problem {
  const plain = JSON.parse(
    canonicalJson((tier === undefined ? content : { ...content, tier }) as Json),
  ) as Record<string, unknown>;
  return { ...plain, id: problemId(plain) } as unknown as Problem;
}
