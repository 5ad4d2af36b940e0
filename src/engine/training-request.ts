/**
 * What a trainer and its calls take: fields, limits and defaults, checked once where they enter.
 */
import { types } from 'node:util';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { bounded } from './bounded-list.js';
import { abortSignal } from './argument-check.js';
import { seed } from './seed.js';
import { single } from './single-precision.js';
import { copied } from './typed-array.js';

/** The linear maps of a block that LoRA can adapt. */
export const LORA_TARGETS = ['q', 'k', 'v', 'o', 'gate', 'up', 'down'] as const;
export type LoraTarget = (typeof LORA_TARGETS)[number];

const positive = single.positive();
const fraction = single.min(0).lt(1);
const rank = z.int().min(1).max(4096);
export const target = z.enum(LORA_TARGETS);

const lora = z.strictObject({
  /** Default: all seven. */
  targets: bounded(z.array(target).min(1)).default([...LORA_TARGETS]),
  /** 'all', the top n layers, or layer numbers. Default 'all'. */
  layers: z
    .union([
      z.literal('all'),
      z.strictObject({ top: z.int().min(1) }),
      bounded(z.array(z.int().min(0)).min(1)),
    ])
    .default('all'),
  /** For all targets, or for each. Default 8. */
  rank: z.union([rank, z.partialRecord(target, rank)]).default(8),
  /** The scale of a module is alpha / rank, or alpha / sqrt(rank) with rsLoRA. Default 16. */
  alpha: positive.max(1e6).default(16),
  /** Rank-stabilised scale (Kalajdzievski 2023). Default false. */
  rankStabilised: z.boolean().default(false),
  /** Of the input of A, in [0, 1). Default 0. */
  dropout: fraction.default(0),
});
export type LoraSettings = z.input<typeof lora>;

const optimiser = z.strictObject({
  /** Of Adam, after the warm-up and before `schedule`. Default 2e-4. */
  learningRate: single.min(0).max(10).default(2e-4),
  /** LoRA+ (Hayou et al. 2024): learning rate of B over that of A. Default 1. */
  factorB: positive.max(1e4).default(1),
  /** Decay of the first moment, in [0, 1). Default 0.9. */
  beta1: fraction.default(0.9),
  /** Decay of the second moment, in [0, 1). Default 0.999. */
  beta2: fraction.default(0.999),
  /** Added to the root of the corrected second moment. Default 1e-8. */
  epsilon: positive.default(1e-8),
  /**
   * Decoupled: each step multiplies a matrix by 1 - its own learning rate x this; norms and biases
   * are left alone. Default 0.
   */
  weightDecay: single.min(0).max(10).default(0),
  /**
   * Gradients of a larger norm over all parameters are multiplied by maxNorm / norm, exactly:
   * without the 1e-6 that PyTorch's clip_grad_norm_ adds to the norm. 0: never. Default 1.
   */
  maxNorm: single.min(0).default(1),
  /**
   * Course of the learning rate after the warm-up: it stays, falls in a line, or falls along half a
   * cosine. Default 'constant'.
   */
  schedule: z.enum(['constant', 'linear', 'cosine']).default('constant'),
  /**
   * Step n of the first so many takes n / warmupSteps of the learning rate; the last of them takes
   * all of it. Default 0.
   */
  warmupSteps: z.int().min(0).default(0),
  /**
   * The step, warm-up included, at which 'linear' and 'cosine' arrive at `finalFactor`; steps
   * beyond keep it. They need one above `warmupSteps`. Default 0.
   */
  totalSteps: z.int().min(0).default(0),
  /** Part of the learning rate that is left at `totalSteps`, in [0, 1]. Default 0. */
  finalFactor: single.min(0).max(1).default(0),
});
export type OptimiserSettings = z.input<typeof optimiser>;

export const trainerOptions = z
  .strictObject({
    lora: lora.prefault({}),
    /** Train every weight of an F32 model instead of a LoRA adapter. Default false. */
    allWeights: z.boolean().default(false),
    optimiser: optimiser.prefault({}),
    /** Of A's first values and of dropout. Default 0. */
    seed: seed.default(0n),
    /** 0: the physical cores. The result does not depend on it. Default 0. */
    threads: z.int().min(0).max(1024).default(0),
    /**
     * Bytes for activations, gradients and moments, of which activations have 150 MB at least; what
     * does not fit is recomputed. A micro-batch whose recomputation does not fit either is
     * INVALID_ARGUMENT, and the message says what would. Default 6e8.
     */
    memoryBytes: z.int().min(0).default(600_000_000),
    /**
     * Sequences are packed, in order, into micro-batches of at most so many tokens, those that are
     * shared counted once; a longer one is one by itself. Where sequences share so much that it is
     * cheaper, and `memoryBytes` holds it, twice as many, or four times, and so on. Default 512.
     */
    microBatchTokens: z.int().min(2).max(1_048_576).default(512),
    /**
     * Sequences of a micro-batch that begin with the same tokens have that beginning evaluated
     * once, and its gradients are the sum of theirs: the same but for the order of sums. With
     * dropout they share its draw. Default true.
     */
    sharePrefixes: z.boolean().default(true),
  })
  .refine(
    ({ optimiser: { schedule, totalSteps, warmupSteps } }) =>
      schedule === 'constant' || totalSteps > warmupSteps,
    {
      path: ['optimiser', 'totalSteps'],
      message: 'must be greater than warmupSteps for a linear or cosine schedule',
    },
  );
export type TrainerOptions = z.input<typeof trainerOptions>;
export type CheckedTrainerOptions = z.output<typeof trainerOptions>;

const boundary = z.object({
  layer: z.int().min(0),
  /** SHA-256 of the model file that it came from. */
  modelHash: z.string(),
  /** f16 bits, [tokens, d_model]; the last token's row may be missing, as in a rollout's. */
  rows: copied(types.isUint16Array, Uint16Array),
});
/**
 * The residual stream that enters `layer`, as captured by `generate` or by
 * `Trainer.captureBoundary`.
 */
export type Boundary = Readonly<z.input<typeof boundary>>;

const floats = copied(types.isFloat32Array, Float32Array);
const trainSequence = z.object({
  tokenIds: copied(types.isInt32Array, Int32Array),
  /** 1 where the token is a target, [tokens]; the first token never is. */
  labelMask: copied(types.isUint8Array, Uint8Array),
  /**
   * Factor on the loss of each of its labelled tokens, and so on their gradient; any finite number.
   * The divisor stays the number of labelled tokens: twice the weight is twice the pull, in a batch
   * of one sequence too. Default 1.
   */
  weight: single.default(1),
  /** [tokens]; a step of the policy objective needs them, the likelihood ignores them. */
  advantages: floats.optional(),
  /**
   * Of the policy that sampled, [tokens], at the objective's temperature; absent: the ratio is 1,
   * and nothing is clipped.
   */
  oldLogprobs: floats.optional(),
  /** [tokens], of the base model at the objective's temperature; needed with a KL coefficient. */
  referenceLogprobs: floats.optional(),
  boundary: boundary.optional(),
});
/** Its arrays are copied when a call begins: what becomes of them afterwards does not touch it. */
export type TrainSequence = Readonly<z.input<typeof trainSequence>>;
/** Copied. */
export type TrainSequenceCopy = z.output<typeof trainSequence>;
export const trainSequences = bounded(z.array(trainSequence));

export const objective = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('likelihood') }),
  z.strictObject({
    kind: z.literal('policy'),
    /** Of the rollouts: logits are divided by it before the softmax. Default 1. */
    temperature: positive.max(100).default(1),
    /** The ratio is clipped to at least 1 - this, in [0, 1). Default 0.2. */
    clipLow: fraction.default(0.2),
    /** And to at most 1 + this. Default 0.2. */
    clipHigh: single.min(0).default(0.2),
    /** Weight of the k3 estimate of the divergence from the reference. Default 0. */
    klCoefficient: single.min(0).default(0),
  }),
]);
/** What is minimised, per labelled token of the step. Formulas: docs/training.md. */
export type Objective = z.input<typeof objective>;

export const stepRequest = z.strictObject({
  /** Default {kind: 'likelihood'}. */
  objective: objective.prefault({ kind: 'likelihood' }),
  /**
   * Number of sequences of each micro-batch, instead of packing by tokens; they add up to the
   * batch. Default: packed.
   */
  microBatches: bounded(z.array(z.int().min(1))).default([]),
  /**
   * Sequences that would all be packed into fewer micro-batches are divided evenly into so many:
   * the noise scale needs two gradients. Default 1.
   */
  leastMicroBatches: z.int().min(1).default(1),
  signal: abortSignal.optional(),
});
export type StepRequest = z.input<typeof stepRequest>;

/** A module that is adapted. */
export interface PlannedTarget {
  readonly layer: number;
  readonly module: LoraTarget;
  readonly rank: number;
  readonly scale: number;
  readonly dropout: number;
}

/** The modules that LoRA settings name, for a model of `layers` layers. */
export function planTargets(settings: z.output<typeof lora>, layers: number): PlannedTarget[] {
  const numbers =
    settings.layers === 'all'
      ? Array.from({ length: layers }, (_, layer) => layer)
      : Array.isArray(settings.layers)
        ? [...new Set(settings.layers)]
        : Array.from({ length: Math.min(settings.layers.top, layers) }, (_, i) => layers - 1 - i);
  const beyond = numbers.find((layer) => layer >= layers);
  if (beyond !== undefined)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `lora.layers: layer ${beyond} does not exist; the model has ${layers} layers`,
    );
  return numbers
    .sort((a, b) => a - b)
    .flatMap((layer) =>
      [...new Set(settings.targets)].map((module) => {
        const r = typeof settings.rank === 'number' ? settings.rank : (settings.rank[module] ?? 8);
        return {
          layer,
          module,
          rank: r,
          scale: settings.alpha / (settings.rankStabilised ? Math.sqrt(r) : r),
          dropout: settings.dropout,
        };
      }),
    );
}
