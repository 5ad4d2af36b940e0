/**
 * A judge's verdict: the last JSON object of its reply, strict, since a number that is read out of
 * prose is learned as prose.
 */
import { z } from 'zod';
import { readJsonText } from '../../json-text.js';
import { BOUND_TOKENS, PROBABILITY_GRAMMAR } from '../graders/belief-grader.js';
import type { InferOptions, Message, Reasoner } from '../reasoner.js';

/** `score` from 0 to 1, 1 being best; other members are ignored. */
const verdictSchema = z.object({ score: z.number().min(0).max(1), reason: z.string().optional() });

export const VERDICT_ERRORS = ['no verdict', 'verdict out of form', 'cut off'] as const;
export type VerdictError = (typeof VERDICT_ERRORS)[number];

export type Verdict =
  | { readonly ok: true; readonly score: number; readonly reason: string | null }
  | { readonly ok: false; readonly error: VerdictError };

/**
 * Outermost objects in a text, by balanced braces; braces in strings do not count, and unclosed
 * objects are ignored.
 */
export function objectsIn(text: string): string[] {
  const found: string[] = [];
  let [start, depth, quoted] = [-1, 0, false];
  for (let i = 0; i < text.length; i++) {
    const character = text[i]!;
    if (quoted) {
      if (character === '\\') i++;
      else if (character === '"') quoted = false;
    } else if (character === '"') quoted = depth > 0;
    else if (character === '{') {
      if (depth++ === 0) start = i;
    } else if (character === '}' && depth > 0 && --depth === 0)
      found.push(text.slice(start, i + 1));
  }
  return found;
}

const parsed = (text: string): unknown => {
  try {
    const { value, twice } = readJsonText(text);
    return twice === null ? value : null; // readers of it differ
  } catch {
    return undefined;
  }
};

/** The last object that is JSON; objects before it are taken back. */
export function readVerdict(text: string): Verdict {
  const value = objectsIn(text)
    .map(parsed)
    .findLast((each) => each !== undefined);
  if (value === undefined) return { ok: false, error: 'no verdict' };
  const found = verdictSchema.safeParse(value);
  return found.success
    ? { ok: true, score: found.data.score, reason: found.data.reason ?? null }
    : { ok: false, error: 'verdict out of form' };
}

/** A verdict without its reason, and nothing else. */
export const VERDICT_GRAMMAR = `root ::= "{\\"score\\": " probability "}"\n${PROBABILITY_GRAMMAR}`;

/** Options for a reply that is such a verdict. */
export const BOUND_VERDICT = { grammar: VERDICT_GRAMMAR, maxTokens: BOUND_TOKENS } as const;

/** Ends what a judge is asked. */
export const VERDICT_FORM =
  'End with one line of JSON: {"score": X, "reason": "one sentence"}, where X is a number from 0 to 1.';

/** @throws IsoproError of the judge */
export async function askVerdict(
  judge: Reasoner,
  messages: readonly Message[],
  options: InferOptions,
): Promise<Verdict> {
  const { text, finish } = await judge.infer(messages, options);
  const verdict = readVerdict(text);
  return !verdict.ok && finish === 'length' ? { ok: false, error: 'cut off' } : verdict;
}
