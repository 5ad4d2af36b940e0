/**
 * Body of a request for a fine-tuning job. Beyond OpenAI's members: the graders `task` and
 * `json_schema`.
 */
import { z } from 'zod';
import { maybe, members } from '../../object-schemas.js';
import { scoreModel } from '../../tasks/data/score-model.js';
import { mostMembers } from '../first-issue.js';

const auto = z.literal('auto');
const whole = (most: number) => maybe(z.union([auto, z.int().min(1).max(most)]));
const positive = maybe(z.union([auto, z.number().gt(0).max(10_000)]));

const supervised = members({
  batch_size: whole(4096),
  learning_rate_multiplier: positive,
  n_epochs: whole(1000),
});
const dpo = members({
  ...supervised.shape,
  beta: maybe(z.union([auto, z.number().gt(0).max(1000)])),
});
const reinforcement = members({
  batch_size: whole(4096),
  learning_rate_multiplier: positive,
  n_epochs: whole(1000),
  compute_multiplier: positive,
  eval_interval: whole(1_000_000),
  eval_samples: whole(100),
  reasoning_effort: maybe(z.enum(['default', 'low', 'medium', 'high'])),
});

const name = maybe(z.string().max(200));
const template = z.string().max(10_000);
/**
 * Graders that OpenAI has and this server has not are known by their type, so that they are refused
 * by it.
 */
const grader = z.discriminatedUnion('type', [
  members({ type: z.literal('task'), name, task: z.string().min(1).max(200) }),
  members({
    type: z.literal('json_schema'),
    name,
    schema: z.record(z.string(), z.unknown()).check(mostMembers(1024)),
  }),
  members({
    type: z.literal('string_check'),
    name,
    operation: z.enum(['eq', 'ne', 'like', 'ilike']),
    input: template,
    reference: template,
  }),
  scoreModel,
  ...(['text_similarity', 'python', 'label_model', 'multi'] as const).map((type) =>
    z.looseObject({ type: z.literal(type) }),
  ),
]);
export type Grader = z.output<typeof grader>;

const method = z.discriminatedUnion('type', [
  members({
    type: z.literal('supervised'),
    supervised: maybe(members({ hyperparameters: maybe(supervised) })),
  }),
  members({ type: z.literal('dpo'), dpo: maybe(members({ hyperparameters: maybe(dpo) })) }),
  members({
    type: z.literal('reinforcement'),
    reinforcement: members({ grader, hyperparameters: maybe(reinforcement) }),
  }),
]);
export type Method = z.output<typeof method>;
/** Hyperparameters of the methods that train on examples. */
export type ExampleHyperparameters = Partial<z.output<typeof dpo>>;
export type ReinforcementHyperparameters = Partial<z.output<typeof reinforcement>>;

export const newFineTuning = members({
  model: z.string().min(1).max(300),
  /** The id of an upload; of a job with a task as its grader, that task or nothing. */
  training_file: z.string().min(1).max(200).nullish(),
  validation_file: z.string().min(1).max(200).nullish(),
  method: maybe(method),
  /** Form of older clients, from before there were methods. */
  hyperparameters: maybe(supervised),
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
