/**
 * What the base model alone says to the general prompts, and how likely it finds that and the English: the same for every run with the same
 * model, code and machine, and half of the work. It is kept in a file; one that is damaged is measured again.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { writeFileAtomically } from '../engine/atomic-file.js';
import { IsoproError } from '../errors.js';
import { makeFolder } from '../files.js';

const form = z.strictObject({
  /** By paragraph, sums of log-probabilities, nats. */
  english: z.array(z.number()),
  /** By prompt. */
  replies: z.array(z.strictObject({ tokenIds: z.array(z.int().min(0)).min(1), before: z.number() })),
});
export type BaseMeasurement = z.infer<typeof form>;

/** Null where there is none of so many paragraphs and prompts. */
export function readBase(file: string, paragraphs: number, prompts: number): BaseMeasurement | null {
  try {
    const { success, data } = form.safeParse(JSON.parse(readFileSync(file, 'utf8')));
    return success && data.english.length === paragraphs && data.replies.length === prompts ? data : null;
  } catch {
    return null;
  }
}

/** A folder that cannot be written is no reason not to measure. */
export async function keepBase(file: string, measured: BaseMeasurement): Promise<void> {
  try {
    makeFolder(path.dirname(file), 0o700);
    await writeFileAtomically(file, [Buffer.from(JSON.stringify(measured))]);
  } catch (error) {
    if (!(error instanceof IsoproError) && (error as NodeJS.ErrnoException).code === undefined) throw error;
  }
}
