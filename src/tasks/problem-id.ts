import { createHash } from 'node:crypto';
import { canonicalJson, type Json } from '../canonical-json.js';

/** SHA-256 (hex) of the RFC 8785 JSON of a problem without its `id` and `reference`. */
export function problemId(problem: object): string {
  const { id: _id, reference: _reference, ...content } = problem as Record<string, Json>;
  return createHash('sha256').update(canonicalJson(content), 'utf8').digest('hex');
}
