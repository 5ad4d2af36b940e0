/**
 * Finds the words of a reasoning that moved the belief, by reading the belief again after every few
 * words.
 */
import { z } from 'zod';
import { IsoproError } from '../../errors.js';
import { readBeliefAfter } from '../beliefs/read-after.js';
import type { ReadoutOptions } from '../beliefs/readout.js';
import type { Reasoner } from '../reasoner.js';
import type { BinaryProblem } from '../problem.js';
import type { Trajectory } from '../trajectory.js';

export const tokenEvidenceSchema = z.strictObject({
  analyzer: z.literal('token-level-evidence'),
  trajectoryId: z.string(),
  problemId: z.string(),
  /** Belief in option 0 before the first piece. */
  before: z.number().min(0).max(1),
  /**
   * Texts that make up the reasoning; the change of belief over a stretch that was read at its ends
   * is spread evenly over its pieces.
   */
  pieces: z.array(z.strictObject({ text: z.string(), evidence: z.number() })),
  after: z.number().min(0).max(1),
});
export type TokenEvidence = z.output<typeof tokenEvidenceSchema>;

/** A belief after a number of pieces. */
export interface PieceReading {
  readonly pieces: number;
  readonly belief: number;
}

/**
 * The change of belief of each piece; they add up to the whole change exactly, but for rounding.
 * @param readings the first before all pieces, the last after them, rising
 * @throws RangeError where they are not
 */
export function spreadEvidence(
  pieces: readonly string[],
  readings: readonly PieceReading[],
): { text: string; evidence: number }[] {
  const rising = readings.every(({ pieces: at }, i) =>
    i === 0 ? at === 0 : at > readings[i - 1]!.pieces,
  );
  if (readings.length === 0 || !rising || readings.at(-1)!.pieces !== pieces.length)
    throw new RangeError(
      'the positions of the readings must increase, from before the first piece of text to after the last',
    );
  return pieces.map((text, i) => {
    const next = readings.findIndex(({ pieces: at }) => at > i);
    const [from, to] = [readings[next - 1]!, readings[next]!];
    return { text, evidence: (to.belief - from.belief) / (to.pieces - from.pieces) };
  });
}

/** Words, each with the white space before it; what is left at the end belongs to the last. */
export const wordsOf = (text: string): string[] => text.match(/\s*\S+(?:\s+$)?/g) ?? [];

/**
 * @param every words between two readings; at least 1
 * @throws IsoproError of `readBeliefs`; INVALID_ARGUMENT where a belief cannot be read
 */
export async function tokenEvidence(
  reasoner: Reasoner,
  problem: BinaryProblem,
  of: Trajectory,
  { every, ...options }: ReadoutOptions & { readonly every: number },
): Promise<TokenEvidence> {
  if (!(Number.isInteger(every) && every >= 1))
    throw new RangeError(`every must be at least 1 word, got ${every}`);
  const pieces = of.steps.flatMap(({ content }) => wordsOf(`${content}\n\n`));
  const readings: PieceReading[] = [];
  for (let read = 0; ; read = Math.min(pieces.length, read + every)) {
    const { belief, reason } = await readBeliefAfter(
      reasoner,
      problem,
      of,
      pieces.slice(0, read).join(''),
      options,
    );
    if (belief === null)
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `no belief could be read after ${read} words: ${reason}`,
      );
    readings.push({ pieces: read, belief: belief.p0 });
    if (read >= pieces.length) break;
  }
  return {
    analyzer: 'token-level-evidence',
    trajectoryId: of.id,
    problemId: of.problemId,
    before: readings[0]!.belief,
    pieces: spreadEvidence(pieces, readings),
    after: readings.at(-1)!.belief,
  };
}
