/**
 * What can be done to LoRA weights while they are trained, what the log shows of it, and what it
 * makes of their structure. `from` is what a decision found, so that a stale one is refused.
 */
import { z } from 'zod';
import { ownValue } from '../../dictionary.js';
import type { Measured, OperationForm, Structure } from '../../monitor/trainee.js';
import type { LoraModule } from './structure.js';

/** Name of a module that an operation can be about. */
export const module = z
  .string()
  .min(1)
  .max(200)
  .refine((name) => name.isWellFormed(), 'contains a lone surrogate');
const digest = z.string().regex(/^[0-9a-f]{64}$/);
const learningRate = z.number().positive().max(1);
const factor = z.number().positive().max(1e6);
const rank = z.number().int().min(1).max(1024);
const maxNorm = z.number().positive().max(1e6);

const PARAMETERS = {
  set_lr: { from: learningRate, to: learningRate },
  set_batch: { from: z.number().int().min(1), to: z.number().int().min(1).max(65_536) },
  set_clip: { maxNorm },
  lr_mult: { module, factor },
  raise_precision: { adamEps: z.number().positive().max(1e-3) },
  stop: { restore: digest },
  skip_step: {},
  rollback: { to: digest, learningRate, maxNorm },
  raise_rank: { module, from: rank, to: rank },
  add_target: { module, rank },
  recycle: { module, directions: z.array(z.number().int().min(0)).min(1).max(1024) },
  rebalance: { module, factor },
  rescale: { module, factor },
} as const satisfies Record<string, z.ZodRawShape>;

type Name = keyof typeof PARAMETERS;
type Of<Op extends Name> = { readonly op: Op } & {
  readonly [P in keyof (typeof PARAMETERS)[Op]]: z.infer<(typeof PARAMETERS)[Op][P]>;
};
export type LoraOperation = { [Op in Name]: Of<Op> }[Name];

/**
 * A learning rate changes by 1/10 to 1/3, or by 1.5 to 3; one unit in the last place is not worth a
 * refusal.
 */
function rateObjection({ from, to }: Of<'set_lr'>, direction: string): string | null {
  const within = (ratio: number, low: number, high: number): boolean =>
    ratio >= low * (1 - 1e-9) && ratio <= high * (1 + 1e-9);
  if (to < from !== (direction !== 'increase_lr'))
    return `set_lr contradicts the direction ${direction}`;
  const ratio = to / from;
  return within(ratio, 1 / 10, 1 / 3) || within(ratio, 1.5, 3)
    ? null
    : `set_lr changes the rate by a factor of ${ratio}; allowed are 1/10 to 1/3 and 1.5 to 3`;
}

function batchObjection({ from, to }: Of<'set_batch'>, direction: string): string | null {
  if (to > from !== (direction === 'increase_batch_size'))
    return `set_batch contradicts the direction ${direction}`;
  // downwards it may stop at the floor of 8 before the half
  const halved = to === Math.max(8, Math.ceil(from / 2)) && to < from;
  return to === 2 * from || halved
    ? null
    : 'set_batch must double or halve the batch, to at least 8';
}

/** An operation on a module that is adapted. */
const onModule =
  <O extends { readonly op: string; readonly module: string }>(
    change: (operation: O, module: LoraModule, measured: Measured) => LoraModule | string,
  ) =>
  (
    operation: O,
    structure: Structure<LoraModule>,
    measured: Measured,
  ): Structure<LoraModule> | string => {
    const { op, module } = operation;
    const found = ownValue(structure, module);
    if (found === undefined) return `${op} on ${module}, which is not adapted`;
    const changed = change(operation, found, measured);
    return typeof changed === 'string' ? changed : { ...structure, [module]: changed };
  };
const asItWas = onModule((_, module) => module);

function raisedRank(
  { module, from, to }: Of<'raise_rank'>,
  { rank, scale }: LoraModule,
  measured: Measured,
): LoraModule | string {
  if (rank !== from) return `raise_rank from ${from}, but ${module} has rank ${rank}`;
  return measured.rank === to
    ? { rank: to, scale }
    : `raise_rank to ${to}, but the measured rank is ${measured.rank ?? 'unknown'}`;
}

function addedTarget(
  { module, rank }: Of<'add_target'>,
  structure: Structure<LoraModule>,
  { scale }: Measured,
): Structure<LoraModule> | string {
  if (ownValue(structure, module) !== undefined)
    return `add_target on ${module}, which is adapted already`;
  return typeof scale === 'number'
    ? { ...structure, [module]: { rank, scale } }
    : 'add_target has no measured scale';
}

type Form<Op extends Name> = OperationForm<Of<Op>, LoraModule>;
const formOf =
  (event: Form<Name>['event']) =>
  <Op extends Name>(op: Op, ...directions: string[]): Form<Op> => ({
    event,
    directions,
    parameters: PARAMETERS[op],
  });
const hyperparameter = formOf('hyperparameter_change');
const architecture = formOf('architecture_change');

export const OPERATIONS: { readonly [Op in Name]: Form<Op> } = {
  set_lr: {
    ...hyperparameter('set_lr', 'decrease_lr', 'increase_lr', 'stabilise'),
    objection: rateObjection,
    consequence: ({ to }) => ({ learningRate: to }),
  },
  set_batch: {
    ...hyperparameter('set_batch', 'increase_batch_size', 'decrease_batch_size'),
    objection: batchObjection,
    consequence: ({ to }) => ({ measured: { sequencesPerStep: to } }),
  },
  set_clip: hyperparameter('set_clip', 'stabilise'),
  lr_mult: { ...hyperparameter('lr_mult', 'rebalance_gradient'), restructure: asItWas },
  raise_precision: hyperparameter('raise_precision', 'rebalance_gradient'),
  stop: {
    ...hyperparameter('stop', 'stop'),
    consequence: ({ restore }) => ({ restores: restore, ends: true }),
  },
  skip_step: hyperparameter('skip_step', 'stabilise'),
  rollback: {
    ...hyperparameter('rollback', 'stabilise'),
    consequence: ({ to, learningRate }) => ({ learningRate, restores: to }),
  },
  raise_rank: {
    ...architecture('raise_rank', 'add_capacity'),
    objection: ({ from, to }) => (to > from ? null : 'raise_rank must raise the rank'),
    restructure: onModule(raisedRank),
  },
  add_target: { ...architecture('add_target', 'add_capacity'), restructure: addedTarget },
  recycle: {
    ...architecture('recycle', 'recycle_directions'),
    restructure: onModule(({ module, directions }, found) =>
      directions.some((direction) => direction >= found.rank)
        ? `recycle names directions beyond the rank of ${module}`
        : found,
    ),
  },
  rebalance: { ...architecture('rebalance', 'rebalance_gradient'), restructure: asItWas },
  rescale: {
    ...architecture('rescale', 'rebalance_gradient'),
    restructure: onModule(({ factor }, { rank, scale }) => ({ rank, scale: scale * factor })),
  },
};
