/**
 * Small models with random weights, written from a seed: a stand-in for real files wherever only
 * their form matters.
 */
import { deriveSeed, Random } from '../../src/random.js';
import {
  hyperParameters,
  isMatrix,
  planTensors,
  TRAITS,
  type Architecture,
  type ModelShape,
  type TensorPlan,
  type TensorRole,
} from '../../src/embedded/architecture.js';
import {
  alignUp,
  DEFAULT_ALIGNMENT,
  encodeHeader,
  layOut,
  text,
  type MetadataEntry,
  type TensorInfo,
} from '../../src/embedded/gguf.js';
import { writeAtomically } from './write-atomically.js';
import { BLOCK_FORMATS, quantise, type TensorType } from './quantise.js';
import {
  byteLevelVocabulary,
  CHATML_TEMPLATE,
  scoredVocabulary,
  type Vocabulary,
  type VocabularyKind,
} from './vocabulary.js';

export type { Architecture, ModelShape } from '../../src/embedded/architecture.js';
export { ARCHITECTURES } from '../../src/embedded/architecture.js';
export type { TensorType } from './quantise.js';

export interface SyntheticModelOptions extends Partial<Omit<ModelShape, 'architecture'>> {
  readonly architecture: Architecture;
  /**
   * Type of every matrix; norms and biases are F32. The same seed has the same weights in every
   * type, up to its rounding.
   */
  readonly type?: TensorType;
  readonly seed?: bigint;
  /** Default bpe. */
  readonly vocabulary?: VocabularyKind;
  /** With bpe: text that is few tokens, and how many merges are learned from it. */
  readonly corpus?: { readonly text: string; readonly merges: number };
  /** Default true: ChatML. */
  readonly chatTemplate?: boolean;
}

/** A model before it is encoded; a test may change any part of it. */
export interface SyntheticModel {
  readonly shape: ModelShape;
  readonly vocabulary: Vocabulary;
  readonly metadata: readonly MetadataEntry[];
  readonly tensors: readonly { readonly info: TensorInfo; readonly data: Uint8Array }[];
}

/** llama.cpp's llama_ftype, by the type of the matrices. */
const FILE_TYPE: Readonly<Record<TensorType, number>> = {
  F32: 0,
  F16: 1,
  Q4_0: 2,
  Q4_1: 3,
  Q5_0: 8,
  Q8_0: 7,
  Q4_K: 15,
  Q5_K: 17,
  Q6_K: 18,
  IQ4_XS: 30,
  MXFP4: 38,
};
const PRE_TOKENIZER: Readonly<Record<Architecture, string>> = {
  llama: 'llama-bpe',
  qwen2: 'qwen2',
  qwen3: 'qwen2',
  gemma2: 'gpt-2',
  smollm3: 'gpt-2',
  granite: 'gpt-2',
  mistral3: 'gpt-2',
  olmo2: 'gpt-2',
  gemma3: 'gpt-2',
  phi3: 'gpt-2',
  qwen3moe: 'qwen2',
  'gpt-oss': 'gpt-2',
};

/**
 * Standard normal values, a prime number of them. A row of weights walks through it from its own
 * start with its own stride: millions of weights from two draws a row, and no two rows alike.
 */
let normals: Float32Array | undefined;
export function normalTable(): Float32Array {
  if (normals !== undefined) return normals;
  const random = new Random(20_26n);
  const table = new Float32Array(65_521);
  for (let i = 0; i < table.length; i++) {
    const radius = Math.sqrt(-2 * Math.log(1 - random.nextDouble()));
    table[i] = radius * Math.cos(2 * Math.PI * random.nextDouble());
  }
  normals = table;
  return table;
}

/**
 * Standard deviation of a matrix's elements with which greedy decoding neither repeats one token
 * nor ends at once: blocks add more to the residual stream than the embedding put there, attention
 * is peaked (scores of a standard deviation of about 2), and logits spread by 2.5.
 */
export const matrixDeviation = ({ role, dimensions }: TensorPlan): number =>
  (role === 'embedding' || role === 'head' ? 2.5 : 1.5) / Math.sqrt(dimensions[0]!);

/** Element of a tensor of rank 1, from a standard normal draw and its position in [0, 1). */
export function vectorElement(role: TensorRole, normal: number, position: number): number {
  if (role === 'ropeFactors') return 1 + 7 * position;
  if (role === 'bias') return 0.3 * normal;
  if (role === 'router' || role === 'sink') return normal;
  const magnitude = (1 + 0.1 * normal) * (role === 'postNorm' ? 3 : 1);
  // Signs in the last norm, so that a tied head does not answer each token with itself.
  return role === 'outputNorm' && normal < 0 ? -magnitude : magnitude;
}

function drawWeights(plan: TensorPlan, seed: bigint, controlIds: readonly number[]): Float32Array {
  const table = normalTable();
  const random = new Random(
    deriveSeed({
      runSeed: seed,
      purpose: 'synthetic weights',
      iteration: 0,
      problemId: plan.name,
      sample: 0,
    }),
  );
  const columns = plan.dimensions[0]!;
  const rows = plan.dimensions.slice(1).reduce((product, dimension) => product * dimension, 1);
  const weights = new Float32Array(rows * columns);
  const deviation = matrixDeviation(plan);
  for (let row = 0; row < rows; row++) {
    let at = random.nextInteger(0, table.length - 1);
    const stride = random.nextInteger(1, table.length - 1);
    for (let column = 0; column < columns; column++) {
      const normal = table[at]!;
      at = (at + stride) % table.length;
      weights[row * columns + column] = isMatrix(plan.role)
        ? deviation * normal
        : vectorElement(plan.role, normal, column / columns);
    }
  }
  if (plan.role === 'embedding' || plan.role === 'head') {
    // Logits of control tokens stay near 0, far below the largest.
    for (const id of controlIds)
      for (let column = 0; column < columns; column++) weights[id * columns + column]! *= 0.1;
  }
  return weights;
}

/**
 * @throws RangeError where the dimensions do not fit the architecture or the type's blocks
 */
export function synthesizeModel(options: SyntheticModelOptions): SyntheticModel {
  const {
    architecture,
    type = 'F32',
    seed = 1n,
    vocabulary: kind = 'bpe',
    chatTemplate = true,
  } = options;
  const traits = TRAITS[architecture];
  const large = BLOCK_FORMATS[type].elements === 256;
  const heads = options.heads ?? 4;
  const embedding = options.embedding ?? (large ? 256 : 64);
  const vocabulary =
    kind === 'bpe'
      ? byteLevelVocabulary(
          PRE_TOKENIZER[architecture],
          ['llama', 'gemma2', 'gemma3'].includes(architecture),
          options.vocabularySize,
          options.corpus?.merges,
          options.corpus?.text,
        )
      : scoredVocabulary(options.vocabularySize);
  const shape: ModelShape = {
    architecture,
    vocabularySize: vocabulary.tokens.length,
    contextLength: options.contextLength ?? 512,
    // with one of each kind
    layers: options.layers ?? traits.windowPeriod ?? traits.plainPeriod ?? 2,
    embedding,
    feedForward: options.feedForward ?? (large ? 256 : 128),
    heads,
    keyValueHeads: options.keyValueHeads ?? 2,
    headDimension: options.headDimension ?? embedding / heads,
    tiedHead: traits.tied ?? options.tiedHead ?? false,
    ropeFactors: options.ropeFactors ?? false,
    ropeBase: options.ropeBase ?? 10_000,
    normEpsilon: options.normEpsilon ?? 1e-6,
    slidingWindow: options.slidingWindow ?? 16,
  };
  if (!Number.isInteger(shape.headDimension) || shape.headDimension % 2 !== 0)
    throw new RangeError(`a head of ${shape.headDimension} dimensions cannot be rotated`);
  if (heads % shape.keyValueHeads !== 0)
    throw new RangeError(`${heads} heads cannot share ${shape.keyValueHeads} key-value heads`);
  if (shape.ropeFactors && architecture !== 'llama')
    throw new RangeError('only llama models have rope factors');

  const encoded = planTensors(shape).map((plan) => {
    const stored = isMatrix(plan.role) ? type : 'F32';
    if (plan.dimensions[0]! % BLOCK_FORMATS[stored].elements !== 0)
      throw new RangeError(`${plan.name}: rows of ${plan.dimensions[0]} do not fit ${stored}`);
    return {
      plan,
      typeId: BLOCK_FORMATS[stored].id,
      data: quantise(stored, drawWeights(plan, seed, vocabulary.controlIds)),
    };
  });
  const infos = layOut(
    encoded.map(({ plan, typeId, data }) => ({
      name: plan.name,
      dimensions: plan.dimensions,
      typeId,
      bytes: data.length,
    })),
  );
  // llama.cpp wants certain tokens of a model that is called phi-3 or phi3.
  const label = architecture === 'phi3' ? 'phi' : architecture;
  return {
    shape,
    vocabulary,
    metadata: [
      ...hyperParameters(shape, `synthetic ${label} ${type} seed ${seed}`, FILE_TYPE[type]),
      ...vocabulary.metadata,
      ...(chatTemplate ? [{ key: 'tokenizer.chat_template', value: text(CHATML_TEMPLATE) }] : []),
    ],
    tensors: encoded.map(({ data }, i) => ({ info: infos[i]!, data })),
  };
}

/** Header, then every tensor padded to the alignment. */
export function* encodeModel({
  metadata,
  tensors,
}: Pick<SyntheticModel, 'metadata' | 'tensors'>): Generator<Uint8Array> {
  yield encodeHeader(
    metadata,
    tensors.map(({ info }) => info),
  );
  for (const { data } of tensors) {
    yield data;
    yield new Uint8Array(alignUp(data.length, DEFAULT_ALIGNMENT) - data.length);
  }
}

/** Writes a GGUF v3 file that llama.cpp loads; the same options give the same bytes. */
export function writeSyntheticModel(path: string, options: SyntheticModelOptions): ModelShape {
  const model = synthesizeModel(options);
  writeAtomically(path, encodeModel(model));
  return model.shape;
}
