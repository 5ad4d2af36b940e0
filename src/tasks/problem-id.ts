import { createHash } from 'node:crypto';
import { canonicalJson, type Json } from '../canonical-json.js';
import type { Problem } from './task.js';

/** SHA-256 (hex) of the RFC 8785 JSON of a problem without its `id` and `reference`. */
export function problemId(problem: object): string {
  const { id: _id, reference: _reference, ...content } = problem as Record<string, Json>;
  return createHash('sha256').update(canonicalJson(content), 'utf8').digest('hex');
}

/**
 * What a task of a user's has generated, as plain JSON under its id.
 * @throws TypeError where it is none
 */
export function asProblem(content: object, tier: string | undefined): Problem {
  const plain = JSON.parse(
    canonicalJson((tier === undefined ? content : { ...content, tier }) as Json),
  ) as Record<string, unknown>;
  return { ...plain, id: problemId(plain) } as unknown as Problem;
}
