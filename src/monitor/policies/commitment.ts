/**
 * What a run commits to of its decider, in its manifest and in the genesis of its log, and the
 * reader that a judge makes of it.
 */
import { z } from 'zod';
import { IsoproError } from '../../errors.js';
import type { Reader } from '../question.js';
import type { TraineeTypes } from '../trainee.js';
import { humanReader } from './human.js';
import { templateOf, type AnswerForm } from './prompt.js';
import { randomReader } from './random.js';
import { MOST_ORDERS, readoutReader } from './readout.js';
import { tableChoices, tableReader } from './table.js';
import { votesCount, votesReader } from './votes.js';

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);

/** A prompt's parts that a run chooses. */
const asked = {
  /** SHA-256 of the prompt's files. */
  prompt: sha256,
  /** Feedback on earlier attempts, which the prompt quotes; null if there is none. */
  feedback: z.string().max(20_000).nullable(),
  /** Who answers where the decider does not. */
  fallback: z.literal('scripted'),
};

export const deciderCommitment = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('random'), ...asked }),
  z.strictObject({ kind: z.literal('table'), choices: tableChoices, ...asked }),
  z.strictObject({ kind: z.literal('human'), ...asked }),
  z.strictObject({
    kind: z.literal('readout'),
    model: z.strictObject({
      name: z.string().max(1000),
      sha256,
      /** The adapter in training is active while the model decides. */
      adapted: z.boolean(),
    }),
    /** Cyclic orders of a menu: all up to this number, else this number drawn by seed. */
    orders: z.literal(MOST_ORDERS),
    margin: z.number().min(0).max(1),
    ...asked,
  }),
  z.strictObject({
    kind: z.literal('votes'),
    model: z.strictObject({ name: z.string().max(1000), sha256: sha256.nullable() }),
    sampling: z.strictObject({
      temperature: z.number().min(0).max(10),
      maxTokens: z.int().min(1),
      votes: votesCount,
    }),
    ...asked,
  }),
]);
export type DeciderCommitment = z.output<typeof deciderCommitment>;

const formOf = (kind: DeciderCommitment['kind']): AnswerForm =>
  kind === 'votes' ? 'json' : 'letter';

/** The common members of a commitment made now. */
export const askedNow = (kind: DeciderCommitment['kind'], feedback: string | null) =>
  ({ prompt: templateOf(formOf(kind)).digest, feedback, fallback: 'scripted' }) as const;

/**
 * @param seed of the run
 * @throws IsoproError INVALID_ARGUMENT for a commitment to other prompt files than these
 */
export function readerOf<T extends TraineeTypes>(
  commitment: DeciderCommitment,
  seed: bigint,
): Reader<T> {
  const { digest } = templateOf(formOf(commitment.kind));
  if (commitment.prompt !== digest)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `the prompt files of deciders have the digest ${digest.slice(0, 12)}…, not ${commitment.prompt.slice(0, 12)}…`,
    );
  const { feedback } = commitment;
  switch (commitment.kind) {
    case 'random':
      return randomReader(commitment, seed);
    case 'table':
      return tableReader(commitment, commitment.choices);
    case 'human':
      return humanReader(commitment, feedback);
    case 'readout':
      return readoutReader(commitment, { seed, margin: commitment.margin, feedback });
    case 'votes':
      return votesReader(commitment, { votes: commitment.sampling.votes, feedback });
  }
}
