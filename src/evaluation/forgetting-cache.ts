/**
 * Halves of the measurement of forgetting, kept in files as far as they are done: what the base
 * alone says to the general prompts, and how likely it finds that and the English; and how likely
 * the adapter finds both. A file holds the digest of what it says.
 */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { canonicalJson } from '../canonical-json.js';
import { writeFileAtomically } from '../engine/atomic-file.js';
import { IsoproError } from '../errors.js';
import { makeFolder } from '../files.js';

const form = z.strictObject({
  /** By paragraph, the first so many: sums of log-probabilities, nats. */
  english: z.array(z.number()),
  /** By prompt, the first so many. */
  replies: z.array(
    z.strictObject({ tokenIds: z.array(z.int().min(0)).min(1), logprob: z.number() }),
  ),
});
/** What one model, with or without an adapter, makes of the texts, as far as it is measured. */
export type Half = z.infer<typeof form>;
const file = z.strictObject({ sha256: z.string(), measured: form });

export interface KeptFor {
  readonly paragraphs: number;
  readonly prompts: number;
  /** Tokens of the model: every id lies below. */
  readonly vocabulary: number;
  /** The replies that are scored; absent: whatever the file says. */
  readonly replies?: readonly (readonly number[])[] | undefined;
}

const digest = (measured: Half): string => hash('sha256', canonicalJson(measured));

/**
 * Empty where there is no such file.
 * @throws IsoproError MEASUREMENT_CORRUPT where its digest is not that of its content, or it cannot
 *   be of these texts and this model; FILE_UNREADABLE
 */
export function readHalf(
  name: string,
  { paragraphs, prompts, vocabulary, replies }: KeptFor,
): Half {
  let text: string;
  try {
    text = readFileSync(name, 'utf8');
  } catch (cause) {
    if (['ENOENT', 'ENOTDIR'].includes((cause as NodeJS.ErrnoException).code ?? ''))
      return { english: [], replies: [] };
    throw new IsoproError(
      'FILE_UNREADABLE',
      `${name} cannot be read: ${(cause as Error).message}`,
      { cause },
    );
  }
  const corrupt = (what: string, cause?: unknown): IsoproError =>
    new IsoproError('MEASUREMENT_CORRUPT', `${name}: ${what}`, { cause });
  let read: z.infer<typeof file>;
  try {
    read = file.parse(JSON.parse(text));
  } catch (cause) {
    throw corrupt('it is not a saved measurement, or it is incomplete', cause);
  }
  const { sha256, measured } = read;
  if (sha256 !== digest(measured)) throw corrupt('its digest does not match its content');
  if (measured.english.length > paragraphs || measured.replies.length > prompts)
    throw corrupt('it holds more texts than are measured');
  for (const [i, { tokenIds }] of measured.replies.entries()) {
    const strange = tokenIds.find((id) => id >= vocabulary);
    if (strange !== undefined)
      throw corrupt(`token ${strange} is outside the vocabulary of ${vocabulary}`);
    if (replies !== undefined && tokenIds.join() !== replies[i]?.join())
      throw corrupt(`reply ${i} is not the one that is scored`);
  }
  return measured;
}

/** @throws IsoproError WRITE_FAILED, SYSTEM_LIMIT */
export async function keepHalf(name: string, measured: Half): Promise<void> {
  makeFolder(path.dirname(name), 0o700);
  await writeFileAtomically(name, [
    Buffer.from(
      JSON.stringify({ sha256: digest(measured), measured } satisfies z.infer<typeof file>),
    ),
  ]);
}

/** Seconds of measuring that an interruption may cost. */
const SECONDS = 10;

/** A half that is being measured, written down from time to time and at its end. */
export class KeptHalf {
  readonly #name: string | undefined;
  readonly #onNotice: (text: string) => void;
  readonly #of: KeptFor;
  readonly measured: Half;
  #since = performance.now();
  #written = true;

  /**
   * @param name absent: nothing is kept. What it says that cannot be used is told and measured
   *   anew.
   */
  constructor(
    name: string | undefined,
    of: KeptFor,
    onNotice: (text: string) => void = () => undefined,
  ) {
    this.#name = name;
    this.#of = of;
    this.#onNotice = onNotice;
    this.measured = { english: [], replies: [] };
    if (name === undefined) return;
    try {
      this.measured = readHalf(name, of);
    } catch (error) {
      if (!(error instanceof IsoproError)) throw error;
      onNotice(
        `a saved measurement of forgetting is discarded and measured again: ${error.message} (${error.code})`,
      );
    }
  }

  /**
   * How many replies are there in whole groups of so many, which were measured together; what is
   * there beyond them is dropped.
   */
  wholeGroups(size: number): number {
    const { replies } = this.measured;
    if (replies.length < this.#of.prompts) replies.length -= replies.length % size;
    return replies.length;
  }

  async addEnglish(logprob: number): Promise<void> {
    this.measured.english.push(logprob);
    await this.#added();
  }

  async addReplies(replies: Half['replies']): Promise<void> {
    this.measured.replies.push(...replies);
    await this.#added();
  }

  async #added(): Promise<void> {
    this.#written = false;
    if (performance.now() - this.#since > 1000 * SECONDS) await this.keep();
  }

  /** A folder that cannot be written is no reason not to measure. */
  async keep(): Promise<void> {
    if (this.#name === undefined || this.#written) return;
    this.#written = true;
    try {
      await keepHalf(this.#name, this.measured);
    } catch (error) {
      if (!(error instanceof IsoproError) && (error as NodeJS.ErrnoException).code === undefined)
        throw error;
      this.#onNotice(
        `the measurement of forgetting cannot be saved, so an interruption would lose it: ${(error as Error).message}`,
      );
    }
    this.#since = performance.now();
  }
}
