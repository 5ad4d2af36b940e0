/** Options of a trainer and of its calls: fields, limits and defaults, checked once on entry. */
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
/** The same, and q, k and v where they are one matrix. */
const LORA_MODULES = [...LORA_TARGETS, 'qkv'] as const;
export type LoraModule = (typeof LORA_MODULES)[number];

/** Of the operands of products with the model's weights. */
export const PRECISIONS = ['f32', 'bf16'] as const;
export type Precision = (typeof PRECISIONS)[number];

/** The setting wherever something is trained. It is undefined rather than f32. */
export const precision = z
  .enum(PRECISIONS)
  .optional()
  .describe(
    'products with the weights in training: f32, or bf16, which rounds weights and activations and needs AVX512-BF16',
  )
  .meta({ defaultText: 'f32' });

/** Tokens that the trainer packs into a micro-batch by default. */
export const MICRO_BATCH_TOKENS = 512;

/** The setting wherever an adapter is trained. */
export const adapterFrom = z
  .enum(['reply'])
  .optional()
  .describe(
    'reply: the adapter acts from the generation prompt on and the prompt is evaluated once, without it; it cannot be merged, and few ' +
      'programs can use it',
  )
  .meta({ defaultText: 'on every token' });
export type AdapterFrom = z.output<typeof adapterFrom>;

const positive = single.positive();
const fraction = single.min(0).lt(1);
const rank = z.int().min(1).max(4096);
export const target = z.enum(LORA_TARGETS);
export const loraModule = z.enum(LORA_MODULES);

const lora = z.strictObject({
  /**
   * Adapted linear maps of a block. Default: all that the model has. Where q, k and v are one
   * matrix, or gate and up, you can name all of them or none. Experts are never adapted.
   */
  targets: bounded(z.array(target).min(1)).default([...LORA_TARGETS]),
  /** Adapted layers: 'all', the top n, or a list of layer numbers. Default 'all'. */
  layers: z
    .union([
      z.literal('all'),
      z.strictObject({ top: z.int().min(1) }),
      bounded(z.array(z.int().min(0)).min(1)),
    ])
    .default('all'),
  /** Rank of all targets, or by target. Default 8. */
  rank: z.union([rank, z.partialRecord(target, rank)]).default(8),
  /** Numerator of a module's scale: alpha / rank, or alpha / sqrt(rank) with rsLoRA. Default 16. */
  alpha: positive.max(1e6).default(16),
  /** Use the rank-stabilised scale (Kalajdzievski 2023). Default false. */
  rankStabilised: z.boolean().default(false),
  /** Dropout on the input of A, in [0, 1). Default 0. */
  dropout: fraction.default(0),
});
export type LoraSettings = z.input<typeof lora>;

const optimiser = z.strictObject({
  /** Learning rate of Adam after the warm-up, before `schedule` applies. Default 2e-4. */
  learningRate: single.min(0).max(10).default(2e-4),
  /** Learning rate of B divided by that of A (LoRA+, Hayou et al. 2024). Default 1. */
  factorB: positive.max(1e4).default(1),
  /** Decay of the first moment, in [0, 1). Default 0.9. */
  beta1: fraction.default(0.9),
  /** Decay of the second moment, in [0, 1). Default 0.999. */
  beta2: fraction.default(0.999),
  /** Added to the root of the corrected second moment. Default 1e-8. */
  epsilon: positive.default(1e-8),
  /**
   * Decoupled weight decay: each step multiplies a matrix by 1 - learning rate x weightDecay. Norms
   * and biases are not decayed. Default 0.
   */
  weightDecay: single.min(0).max(10).default(0),
  /**
   * Largest global gradient norm. Larger gradients are multiplied by exactly maxNorm / norm,
   * without the 1e-6 that PyTorch's clip_grad_norm_ adds to the norm. 0: no clipping. Default 1.
   */
  maxNorm: single.min(0).default(1),
  /**
   * Learning-rate schedule after the warm-up: constant, linear decay, or decay along half a cosine.
   * Default 'constant'.
   */
  schedule: z.enum(['constant', 'linear', 'cosine']).default('constant'),
  /**
   * Number of linear warm-up steps: step n uses n / warmupSteps of the learning rate. Default 0.
   */
  warmupSteps: z.int().min(0).default(0),
  /**
   * Step, warm-up included, at which 'linear' and 'cosine' reach `finalFactor`; later steps keep
   * it. Must be greater than `warmupSteps` for these schedules. Default 0.
   */
  totalSteps: z.int().min(0).default(0),
  /** Fraction of the learning rate that remains at `totalSteps`, in [0, 1]. Default 0. */
  finalFactor: single.min(0).max(1).default(0),
});
export type OptimiserSettings = z.input<typeof optimiser>;

export const trainerOptions = z
  .strictObject({
    lora: lora.prefault({}),
    /** Train every weight of an F32 model instead of a LoRA adapter. Default false. */
    allWeights: z.boolean().default(false),
    optimiser: optimiser.prefault({}),
    /** Seed of the initial values of A and of dropout. Default 0. */
    seed: seed.default(0n),
    /** Number of threads; 0: the physical cores. Results do not depend on it. Default 0. */
    threads: z.int().min(0).max(1024).default(0),
    /**
     * Precision of the products with the model's weights. With bf16, weights and activations are
     * rounded to bf16 for them; sums, factors, gradients and moments stay f32. Needs AVX512-BF16.
     * Default 'f32'.
     */
    precision: precision.unwrap().default('f32'),
    /**
     * Memory for activations, gradients and moments in bytes, at least 150 MB of it for
     * activations. Activations that do not fit are recomputed. A micro-batch that does not fit even
     * with recomputation is INVALID_ARGUMENT, and the message says how many bytes would suffice.
     * Default 6e8.
     */
    memoryBytes: z.int().min(0).default(600_000_000),
    /**
     * Maximum number of tokens per micro-batch. Sequences are packed in order; shared tokens count
     * once, and a longer sequence gets its own micro-batch. If sequences share so much that it is
     * cheaper, and `memoryBytes` allows it, the limit doubles once or more. Default 512.
     */
    microBatchTokens: z.int().min(2).max(1_048_576).default(MICRO_BATCH_TOKENS),
    /**
     * Evaluate a common prefix of the sequences of a micro-batch only once and sum its gradients,
     * which changes only the order of sums. With dropout, the sequences share its draw. Default
     * true.
     */
    sharePrefixes: z.boolean().default(true),
    /**
     * Tokens from whose first the adapter acts on, at their last occurrence before the first
     * labelled token (activated LoRA, arXiv 2504.12397): those of the model's generation prompt.
     * What stands before them is evaluated without the adapter, forward only, and its keys and
     * values are kept between steps as far as `memoryBytes` allows. A sequence without them
     * is INVALID_ARGUMENT. Default: the adapter acts on every token.
     */
    invocationTokens: copied(types.isInt32Array, Int32Array).default(() => new Int32Array()),
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
  /** SHA-256 of the model file that the rows come from. */
  modelHash: z.string(),
  /** f16 bits, [tokens, d_model]; the last token's row may be missing, as in a rollout's. */
  rows: copied(types.isUint16Array, Uint16Array),
});
/** Residual stream that enters `layer`, captured by `generate` or by `Trainer.captureBoundary`. */
export type Boundary = Readonly<z.input<typeof boundary>>;

const floats = copied(types.isFloat32Array, Float32Array);
const trainSequence = z.object({
  tokenIds: copied(types.isInt32Array, Int32Array),
  /** 1 for tokens that are targets, else 0; [tokens]. The first token is never a target. */
  labelMask: copied(types.isUint8Array, Uint8Array),
  /**
   * Factor on the loss, and so on the gradient, of each labelled token; any finite number. The
   * divisor stays the number of labelled tokens, so doubling the weight doubles the gradient, even
   * in a batch of one sequence. Default 1.
   */
  weight: single.default(1),
  /** Advantages, [tokens]; required by the policy objective, ignored by the likelihood. */
  advantages: floats.optional(),
  /**
   * Log-probabilities under the policy that sampled the tokens, [tokens], at the objective's
   * temperature. If absent, the ratio is 1 and nothing is clipped.
   */
  oldLogprobs: floats.optional(),
  /**
   * Log-probabilities under the base model, [tokens], at the objective's temperature; required with
   * a KL coefficient.
   */
  referenceLogprobs: floats.optional(),
  boundary: boundary.optional(),
});
/**
 * One sequence to train on. Its arrays are copied when a call begins; later changes to them have no
 * effect.
 */
export type TrainSequence = Readonly<z.input<typeof trainSequence>>;
/** A sequence whose arrays are copies. */
export type TrainSequenceCopy = z.output<typeof trainSequence>;
export const trainSequences = bounded(z.array(trainSequence));

export const objective = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('likelihood') }),
  z.strictObject({
    kind: z.literal('policy'),
    /** Temperature of the rollouts; logits are divided by it before the softmax. Default 1. */
    temperature: positive.max(100).default(1),
    /** The ratio is clipped to at least 1 - clipLow, in [0, 1). Default 0.2. */
    clipLow: fraction.default(0.2),
    /** The ratio is clipped to at most 1 + clipHigh. Default 0.2. */
    clipHigh: single.min(0).default(0.2),
    /** Weight of the k3 estimate of the divergence from the reference. Default 0. */
    klCoefficient: single.min(0).default(0),
  }),
]);
/** Loss per labelled token of the step. Formulas: docs/training.md. */
export type Objective = z.input<typeof objective>;

export const stepRequest = z.strictObject({
  /** Loss to minimise. Default {kind: 'likelihood'}. */
  objective: objective.prefault({ kind: 'likelihood' }),
  /** Number of sequences in each micro-batch, adding up to the batch. Default: packed by tokens. */
  microBatches: bounded(z.array(z.int().min(1))).default([]),
  /**
   * Minimum number of micro-batches; sequences that would fit into fewer are divided evenly. The
   * gradient noise scale needs two. Default 1.
   */
  leastMicroBatches: z.int().min(1).default(1),
  signal: abortSignal.optional(),
});
export type StepRequest = z.input<typeof stepRequest>;

/** One adapted module. */
export interface PlannedTarget {
  readonly layer: number;
  readonly module: LoraModule;
  readonly rank: number;
  readonly scale: number;
  readonly dropout: number;
}

/** Properties of a model that decide which matrices the targets name. */
interface BlockShape {
  readonly architecture: string;
  readonly layers: number;
  readonly fused: boolean;
  readonly experts: boolean;
}

/** The matrices that stand for several targets, in a model that has such. */
const FUSED: readonly (readonly [LoraModule, readonly LoraTarget[]])[] = [
  ['qkv', ['q', 'k', 'v']],
  ['up', ['gate', 'up']],
];

/** The matrices of a block that the targets name, and the rank of each. */
function modulesOf(
  { targets, rank }: z.output<typeof lora>,
  { architecture, fused, experts }: BlockShape,
): (readonly [LoraModule, number])[] {
  const refuse = (what: string): never => {
    throw new IsoproError('INVALID_ARGUMENT', `lora.targets: a ${architecture} model ${what}`);
  };
  const rankOf = (name: LoraTarget): number =>
    typeof rank === 'number' ? rank : (rank[name] ?? 8);
  const named = new Set(targets);
  if (experts && named.size < LORA_TARGETS.length) {
    const expert = (['gate', 'up', 'down'] as const).find((name) => named.has(name));
    if (expert !== undefined)
      refuse(`has experts, which are not adapted: use q, k, v and o without ${expert}`);
  }
  if (experts) for (const name of ['gate', 'up', 'down'] as const) named.delete(name);
  const modules: (readonly [LoraModule, number])[] = [];
  for (const name of named) {
    const [module, parts] = (fused && FUSED.find(([, of]) => of.includes(name))) || [name, [name]];
    const missing = parts.filter((part) => !named.has(part));
    if (missing.length > 0)
      refuse(`has ${parts.join(', ')} in one matrix: name ${missing.join(' and ')} too, or none`);
    if (parts.some((part) => rankOf(part) !== rankOf(name)))
      refuse(`has ${parts.join(', ')} in one matrix: give them one rank`);
    if (!modules.some(([known]) => known === module)) modules.push([module, rankOf(name)]);
  }
  return modules;
}

/** Returns the modules that the LoRA settings select in a model of that shape. */
export function planTargets(settings: z.output<typeof lora>, shape: BlockShape): PlannedTarget[] {
  const { layers } = shape;
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
      modulesOf(settings, shape).map(([module, r]) => ({
        layer,
        module,
        rank: r,
        scale: settings.alpha / (settings.rankStabilised ? Math.sqrt(r) : r),
        dropout: settings.dropout,
      })),
    );
}

/** Returns all modules of these layers that can be adapted. */
export const planAll = (layers: readonly number[], shape: BlockShape): PlannedTarget[] =>
  layers.length === 0 ? [] : planTargets(lora.parse({ layers }), shape);
