/**
 * The evaluations stream: verdicts on the held-out sets, what programs without a model reach, what
 * an iteration cost.
 */
import { z } from 'zod';
import { dictionary, ownValue, type Dictionary } from '../dictionary.js';
import { dictionaryOf } from '../dictionary-schema.js';
import { given as stated } from '../given.js';
import { figuresGiven, figuresOf, type Figures, type Outcome } from '../statistics/index.js';
import { figures, FIGURES_FIT, figuresFit } from './figure-members.js';
import { iteration, number, recordOf, sha256 } from './record.js';
import { finish, turns } from './rollout-records.js';
import type { NewRunRecord } from './streams.js';

/**
 * A reply to a dev problem, before the `held_out` record of its evaluation: the adapters in between
 * are not kept, so that replies are all that can be judged again.
 */
export const devReply = z.object({
  kind: z.literal('dev_reply'),
  iteration,
  problemId: z.string(),
  finish,
  /** Tokens of all its replies. */
  tokenIds: z.array(z.int()),
  turns: turns.optional(),
});
export type DevReply = z.infer<typeof devReply>;

const kind = z.enum(['pass', 'fail', 'none']);

/**
 * Returns true if the readings fit the verdicts: one per reply, and a reply that passes was read.
 */
const readingsFit = ({
  outcomes,
  formed,
  lenient,
}: Omit<z.infer<typeof heldOutMembers>, 'kind'>): boolean =>
  [formed, lenient].every((list) => list === undefined || list.length === outcomes.length) &&
  outcomes.every(
    ([, , verdict], i) =>
      verdict !== 'pass' || (formed?.[i] !== false && (lenient?.[i] ?? 'pass') === 'pass'),
  );
const READINGS_FIT =
  'there must be as many readings as verdicts, and a reply that passes must be well-formed and pass leniently';

const reasonsFit = ({
  outcomes,
  why,
  examples = [],
}: Omit<z.infer<typeof heldOutMembers>, 'kind'>): boolean =>
  (why === undefined || why.length === outcomes.length) &&
  examples.every(({ at }) => at < outcomes.length);
const REASONS_FIT =
  'there must be as many reasons as verdicts, and each example must belong to one of them';

const heldOutMembers = z.object({
  kind: z.literal('held_out'),
  set: z.enum(['dev', 'test']),
  when: z.enum(['before', 'iteration', 'after']),
  iteration,
  /**
   * SHA-256 of the adapter's file; null: the bare base. In `iteration` records a digest of
   * adapter_state is as good.
   */
  adapter: sha256.nullable(),
  /** SHA-256 of the problem ids, as in the manifest. */
  setSha256: sha256,
  /** [problem id, tier, verdict], in the set's order. */
  outcomes: z.array(z.tuple([sha256, z.string(), kind])),
  /** Figures of each verdict; absent if no verdict has any. */
  figures: z.array(figures).optional(),
  /** True for each reply whose strict reading succeeded. */
  formed: z.array(z.boolean()).optional(),
  /**
   * Verdicts on the same replies under the task's most lenient reading; of a task that has one, on
   * the test set.
   */
  lenient: z.array(kind).optional(),
  /**
   * Reasons why each reply does not pass: the sorted violations of a failure, or what the verifier
   * said if it did not decide.
   */
  why: z.array(z.array(z.string())).optional(),
  /**
   * One reply, shortened, of each kind of failure, by its place among the outcomes; of some what
   * was asked, and a reply that would have been right.
   */
  examples: z
    .array(
      z.object({
        at: z.int().min(0),
        text: z.string(),
        asked: z.string().optional(),
        right: z.string().optional(),
      }),
    )
    .optional(),
  /** Sampled for each reply, and how it ended. */
  tokens: z.array(z.int().min(0)).optional(),
  finishes: z.array(finish).optional(),
});
const fitting = <S extends z.ZodType<Omit<z.infer<typeof heldOutMembers>, 'kind'>>>(
  members: S,
): S =>
  members
    .refine(
      (record) =>
        figuresFit(
          record.figures,
          record.outcomes.map(([, , verdict]) => verdict),
        ),
      FIGURES_FIT,
    )
    .refine(readingsFit, READINGS_FIT)
    .refine(reasonsFit, REASONS_FIT);
export const heldOut = fitting(heldOutMembers);
/** Evaluations: a greedy evaluation on a whole evaluation set of the manifest. */
export type HeldOut = z.infer<typeof heldOut>;

const constrainedMembers = heldOutMembers.extend({
  kind: z.literal('constrained'),
  set: z.literal('test'),
});
export const constrained = fitting(constrainedMembers);
/**
 * Evaluations: the test problems again, decoded under the task's answer grammar; follows the
 * `held_out` record of the same time.
 */
export type Constrained = z.infer<typeof constrained>;

const scoredText = { before: z.number(), after: z.number() };
export const forgetting = z.object({
  kind: z.literal('forgetting'),
  /** SHA-256 of the adapter's file. */
  adapter: sha256,
  /** SHA-256 of the two texts. */
  texts: z.object({ english: sha256, prompts: sha256 }),
  /**
   * Tokens of each paragraph, and the sums of their log-probabilities under the base and under the
   * adapter, nats.
   */
  english: z.array(z.object({ tokens: z.int().min(1), ...scoredText })).min(1),
  /** Reply of the base model to each prompt, and the same sums. */
  replies: z.array(z.object({ tokenIds: z.array(z.int()).min(1), ...scoredText })),
});
/**
 * Evaluations: what the model forgot, measured with the submitted adapter after the test problems.
 */
export type ForgettingRecord = z.infer<typeof forgetting>;

export const teacherRecordForm = z.object({
  kind: z.literal('teacher'),
  /** SHA-256 of its file. */
  model: sha256,
  /**
   * Verdicts on the dev problems in the set's order, answered greedily as the run asks them, with
   * the teacher's own solved examples.
   */
  outcomes: z.array(z.tuple([sha256, z.string(), kind])),
});
/**
 * Evaluations: what the teacher of a distillation reaches on the dev problems, before the first
 * step.
 */
export type TeacherRecord = z.infer<typeof teacherRecordForm>;

const tier = z
  .object({
    id: z.string(),
    title: z.string().default(''),
    trains: z.boolean().default(true),
    group: z.string().optional(),
  })
  .transform(({ group, ...rest }) => ({ ...rest, ...stated({ group }) }));

const policiesMembers = z.object({
  kind: z.literal('policies'),
  /** The task's, in its order. */
  tiers: z.array(tier),
  /** Verdicts of each policy on each test problem, in the set's order. */
  outcomes: dictionaryOf(z.array(kind)),
  /** Figures of each verdict of each policy; absent if no verdict has any. */
  figures: dictionaryOf(z.array(figures)).optional(),
});
export const policies = policiesMembers.refine(
  (record) =>
    record.figures === undefined ||
    Object.entries(record.outcomes).every(([policy, kinds]) =>
      figuresFit(ownValue(record.figures!, policy) ?? [], kinds),
    ),
  FIGURES_FIT,
);
/**
 * Evaluations: what programs without a model reach on the test set, after the `held_out` record of
 * it before the training.
 */
export type Policies = z.infer<typeof policies>;

export const iterationReport = z.object({
  kind: z.literal('iteration_report'),
  iteration,
  /** SHA-256 of the token ids and labels of every step's sequences, in order. */
  data: z.string(),
  /** Digest of the adapter at the end of the iteration. */
  adapterId: z.string(),
  /** Gap between trainer and sampler, nats; null if not measured. */
  samplerGap: number.nullable(),
  learningRate: z.number(),
  seconds: z.object({ rollouts: z.number(), training: z.number(), evaluation: z.number() }),
  tokens: z.object({ sampled: z.number().int().min(0), trained: z.number().int().min(0) }),
});
/**
 * Evaluations: what an iteration did and cost. Its figures are derived from the other records
 * (derived.ts).
 */
export type IterationRecord = z.infer<typeof iterationReport>;

export const devReplyRecord = recordOf('evaluations', devReply);
export const heldOutRecord = recordOf('evaluations', heldOut);
export const constrainedRecord = recordOf('evaluations', constrained);
export const teacherRecord = recordOf('evaluations', teacherRecordForm);
export const forgettingRecord = recordOf('evaluations', forgetting);
export const iterationReportRecord = recordOf('evaluations', iterationReport);
export const policiesRecord = ({
  tiers,
  verdicts,
}: Pick<Policies, 'tiers'> & {
  readonly verdicts: Dictionary<readonly Pick<Outcome, 'kind' | keyof Figures>[]>;
}): NewRunRecord => {
  const byPolicy = <T>(read: (judged: Pick<Outcome, 'kind' | keyof Figures>) => T) =>
    dictionary(Object.entries(verdicts).map(([policy, judged]) => [policy, judged.map(read)]));
  const isSilent = figuresGiven(Object.values(verdicts).flat()).length === 0;
  const outcomes = byPolicy(({ kind }) => kind);
  const said = isSilent ? {} : { figures: byPolicy(figuresOf) };
  return recordOf('evaluations', policies)({ tiers, outcomes, ...said });
};
