/** What a fine-tuning job is asked for with. Members beside OpenAI's: graders `task` and `json_schema`. */
import { z } from 'zod';
import { scoreModel } from '../../tasks/data/score-model.js';
import { mostMembers } from '../first-issue.js';

const auto = z.literal('auto');
const whole = (most: number) => z.union([auto, z.int().min(1).max(most)]).optional();
const positive = z.union([auto, z.number().gt(0).max(10_000)]).optional();

const supervised = z.strictObject({ batch_size: whole(4096).nullable(), learning_rate_multiplier: positive, n_epochs: whole(1000) });
const dpo = z.strictObject({ ...supervised.shape, beta: z.union([auto, z.number().gt(0).max(1000)]).optional() });
const reinforcement = z.strictObject({
  batch_size: whole(4096),
  learning_rate_multiplier: positive,
  n_epochs: whole(1000),
  compute_multiplier: positive,
  eval_interval: whole(1_000_000),
  eval_samples: whole(100),
  reasoning_effort: z.enum(['default', 'low', 'medium', 'high']).optional(),
});

const name = z.string().max(200).optional();
const template = z.string().max(10_000);
/** Graders that OpenAI has and this server has not are known by their type, so that they are refused by it. */
const grader = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('task'), name, task: z.string().min(1).max(200) }),
  z.strictObject({ type: z.literal('json_schema'), name, schema: z.record(z.string(), z.unknown()).check(mostMembers(1024)) }),
  z.strictObject({
    type: z.literal('string_check'),
    name,
    operation: z.enum(['eq', 'ne', 'like', 'ilike']),
    input: template,
    reference: template,
  }),
  scoreModel,
  ...(['text_similarity', 'python', 'label_model', 'multi'] as const).map((type) => z.looseObject({ type: z.literal(type) })),
]);
export type Grader = z.output<typeof grader>;

const method = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('supervised'), supervised: z.strictObject({ hyperparameters: supervised.optional() }).optional() }),
  z.strictObject({ type: z.literal('dpo'), dpo: z.strictObject({ hyperparameters: dpo.optional() }).optional() }),
  z.strictObject({
    type: z.literal('reinforcement'),
    reinforcement: z.strictObject({ grader, hyperparameters: reinforcement.optional() }),
  }),
]);
export type Method = z.output<typeof method>;

export const newFineTuning = z.strictObject({
  model: z.string().min(1).max(300),
  /** The id of an upload; of a job with a task as its grader, that task or nothing. */
  training_file: z.string().min(1).max(200).nullish(),
  validation_file: z.string().min(1).max(200).nullish(),
  method: method.optional(),
  /** Of before there were methods. */
  hyperparameters: supervised.optional(),
  seed: z
    .int()
    .min(0)
    .max(2 ** 53 - 1)
    .nullish(),
  suffix: z
    .string()
    .regex(/^[\w.-]{1,64}$/, 'expected at most 64 letters, digits, dots, - and _')
    .nullish(),
  metadata: z.record(z.string().max(64), z.string().max(512)).check(mostMembers(16)).nullish(),
  integrations: z.array(z.unknown()).max(16).nullish(),
});
export type NewFineTuning = z.output<typeof newFineTuning>;
