/**
 * The rollouts stream: what was asked, what the model said, its verdict, and what became of it in
 * training.
 */
import { z } from 'zod';
import { dictionaryOf } from '../dictionary-schema.js';
import { figureMembers } from './figure-members.js';
import { iteration, number, readRecord, recordOf } from './record.js';
import type { LogRecord } from '../log/read.js';
import type { NewRunRecord } from './streams.js';

export const problem = z.object({
  kind: z.literal('problem'),
  iteration,
  problemId: z.string(),
  tier: z.string(),
  problem: dictionaryOf(z.unknown()),
  prompt: z.string().optional(),
  /**
   * A reply that passes, shortened, if a table of failures shows a reply to this problem. For
   * readers; nothing is derived from it.
   */
  right: z.string().optional(),
  promptIds: z.array(z.int()),
});
/** Rollouts: what the rollouts that follow it answer. */
export type ProblemRecord = z.infer<typeof problem>;

/** Fates of a rollout. */
export const ADMISSIONS = [
  'admitted', // into the replay buffer: its likelihood is raised where it is drawn
  'contrasted', // with the other samples of its problem: trained on with its advantage, up or down
  // whatever its verdict: each of its tokens is pulled towards what the teacher would have said
  'distilled',
  'failed', // by the verdict, or by what a control trains on instead of it
  'undecided',
  'incomplete', // it was cut off: training on it would teach to stop anywhere
  'contradictory', // its reasoning contradicts the problem
  'duplicate', // of an earlier sample of its problem
  // no sample of its problem has another reward: there is nothing to contrast it with
  'uninformative',
] as const;
export type Admission = (typeof ADMISSIONS)[number];

/** Replies that did not end the episode: their number of tokens, and the message after each. */
export const turns = z
  .array(
    z.object({
      tokens: z.int().min(1),
      text: z.string(),
      said: z.string(),
      saidIds: z.array(z.int()),
    }),
  )
  .min(1);
export type TurnRecord = z.infer<typeof turns>[number];

export const finish = z.enum(['stop', 'length', 'context', 'aborted']);

export const rollout = z.object({
  kind: z.literal('rollout'),
  iteration,
  problemId: z.string(),
  tier: z.string(),
  sample: z.int(),
  seed: z.string(),
  /** Tokens of all its replies. */
  tokenIds: z.array(z.int()),
  turns: turns.optional(),
  /** Text of the last reply. */
  text: z.string(),
  finish,
  adapterId: z.string().nullable(),
  /** Mean over the sampled tokens, nats, at temperature 1. */
  meanLogprob: number.nullable(),
  form: z.string().nullable(),
  verdict: z.object({
    kind: z.enum(['pass', 'fail', 'none']),
    violations: z.array(z.string()),
    details: z.array(z.string()).optional(),
    reason: z.string().optional(),
    /** Result of the answer next to the right one, shortened. */
    results: z.object({ found: z.string(), expected: z.string() }).optional(),
    ...figureMembers,
  }),
  admission: z.enum(ADMISSIONS),
  /** Advantage of a contrasted rollout. */
  advantage: z.number().optional(),
  /** 1 - smoothed solve rate of its problem; what the replay draws by. */
  weight: z.number(),
});
/**
 * Rollouts: one sample with its verdict, and what became of it in training. Readers take the
 * members that they need.
 */
export type RolloutRecord = z.infer<typeof rollout>;

export const reference = z.object({
  kind: z.literal('reference'),
  iteration,
  problemId: z.string(),
  tier: z.string(),
  /** Tokens of the text and the one that ends the turn. */
  tokenIds: z.array(z.int()),
  text: z.string(),
});
/**
 * Rollouts: the task's own reply to the problem before it, which the control `references` trains on
 * in place of what was sampled.
 */
export type ReferenceRecord = z.infer<typeof reference>;

/** Any record of the stream. */
export type RolloutsRecord = ProblemRecord | RolloutRecord | ReferenceRecord;

/** Writes a record of the stream. */
export function rolloutsRecord(record: RolloutsRecord): NewRunRecord {
  if (record.kind === 'problem') return recordOf('rollouts', problem)(record);
  return record.kind === 'rollout'
    ? recordOf('rollouts', rollout)(record)
    : recordOf('rollouts', reference)(record);
}

/** Reads a record of the stream. @throws IsoproError LOG_UNREADABLE */
export function readRolloutsRecord(record: LogRecord): RolloutsRecord {
  const { kind } = record.payload;
  if (kind === 'problem') return readRecord(problem, record);
  return kind === 'reference' ? readRecord(reference, record) : readRecord(rollout, record);
}
