/**
 * Which of many scored examples are worth training on: each thing once, and the best of them. Pure;
 * ties keep the order of the file.
 */
import { comparable, comparedJson, digitsOf, readJsonText, withDigits } from '../../json-text.js';
import { shingles, SimilarSets } from '../../shingles.js';

/** What is said of an example to tell whether it repeats another. */
export interface Repeatable {
  /** Of whatever is asked; null where nothing is. */
  readonly prompt: string | null;
  readonly answer: string;
}

/** Characters of a shingle. */
const SHINGLE = 4;

/** JSON is the same however it is laid out. */
function written(answer: string): string {
  try {
    const json = comparable(readJsonText(answer));
    return comparedJson(withDigits(json), digitsOf(json.numbers));
  } catch {
    return answer;
  }
}

export interface Deduped<T> {
  /** From the highest score down. */
  readonly kept: readonly T[];
  /** Same prompt and same answer as one that is kept. */
  readonly repeated: number;
  /** Same prompt, and nearly the same answer. */
  readonly near: number;
}

export interface DedupeOptions<T> {
  readonly of: (example: T) => Repeatable;
  readonly scoreOf: (example: T) => number;
  /**
   * Answers to one prompt are nearly the same where their runs of four characters share this much
   * (Jaccard), in (0, 1]; 1: only what is the same counts. Answers to different prompts never
   * repeat each other: "4" is the answer to many questions.
   */
  readonly threshold: number;
}

/**
 * Of examples that repeat each other the one with the highest score stays, of equal ones the first.
 */
export function dedupe<T>(
  examples: readonly T[],
  { of, scoreOf, threshold }: DedupeOptions<T>,
): Deduped<T> {
  const sorted = [...examples].sort((a, b) => scoreOf(b) - scoreOf(a));
  const told = sorted.map(of).map(({ prompt, answer }) => ({ prompt, answer: written(answer) }));
  const seen = new Set<string>();
  const distinct = sorted.flatMap((_, i) => {
    const identity = JSON.stringify([told[i]!.prompt, told[i]!.answer]);
    if (seen.has(identity)) return [];
    seen.add(identity);
    return [i];
  });
  const kept = threshold === 1 ? distinct : withoutNear(distinct, told, threshold);
  return {
    kept: kept.map((i) => sorted[i]!),
    repeated: sorted.length - distinct.length,
    near: distinct.length - kept.length,
  };
}

function withoutNear(
  indices: readonly number[],
  told: readonly Repeatable[],
  threshold: number,
): number[] {
  const byPrompt = new Map<string | null, number[]>();
  for (const i of indices)
    byPrompt.set(told[i]!.prompt, [...(byPrompt.get(told[i]!.prompt) ?? []), i]);
  const kept: number[] = [];
  for (const group of byPrompt.values()) {
    const sets = new SimilarSets(
      group.map((i) => shingles([...told[i]!.answer], SHINGLE, '')),
      threshold,
    );
    for (const [at, i] of group.entries()) {
      if (sets.alike(at).length > 0) continue;
      sets.add(at);
      kept.push(i);
    }
  }
  return kept.sort((a, b) => a - b);
}

/**
 * The best of them: max(1, ceil(n share)) by score, from the highest down; 1 keeps all in their
 * order.
 * @param share in (0, 1]
 */
export function elite<T>(
  examples: readonly T[],
  share: number,
  scoreOf: (example: T) => number,
): readonly T[] {
  if (share === 1) return examples;
  // 0.1 of 30 is 3, and not 4 by rounding
  const count = Math.max(1, Math.ceil(examples.length * share - 1e-9));
  return [...examples].sort((a, b) => scoreOf(b) - scoreOf(a)).slice(0, count);
}
