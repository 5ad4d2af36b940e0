/** The embedded model before training: its shape, and F32 weights drawn from a seed. */
import { deriveSeed, Random } from '../random.js';
import { writeFileAtomically } from '../engine/atomic-file.js';
import {
  hyperParameters,
  isMatrix,
  planTensors,
  type ModelShape,
  type TensorPlan,
} from './architecture.js';
import {
  alignUp,
  DEFAULT_ALIGNMENT,
  encodeHeader,
  layOut,
  text,
  type MetadataEntry,
} from './gguf.js';
import { learnVocabulary } from './vocabulary.js';

export const SHAPE: Omit<ModelShape, 'vocabularySize'> = {
  architecture: 'qwen2',
  contextLength: 2048,
  layers: 5,
  embedding: 128,
  feedForward: 256,
  heads: 4,
  keyValueHeads: 4,
  headDimension: 32,
  tiedHead: true,
  ropeFactors: false,
  ropeBase: 10_000,
  normEpsilon: 1e-6,
  slidingWindow: 0,
};

/**
 * ggml's f16 attention takes 64 values at a time where it can: with heads of 32 it is half as fast
 * as one on q8_0.
 */
const CACHE_TYPE: MetadataEntry = { key: 'isopro.kv_cache_type', value: text('q8_0') };

/**
 * Standard deviation 0.02 of the embedding (GPT-2), 0.5 / sqrt(d_model) of a matrix, that divided
 * by sqrt(2 layers) where it writes into the residual stream.
 */
function deviation({ name }: TensorPlan): number {
  const writes = name.endsWith('attn_output.weight') || name.endsWith('ffn_down.weight');
  if (name === 'token_embd.weight') return 0.02;
  return 0.5 / Math.sqrt(SHAPE.embedding) / (writes ? Math.sqrt(2 * SHAPE.layers) : 1);
}

function draw(plan: TensorPlan, seed: bigint): Float32Array {
  const count = plan.dimensions.reduce((product, dimension) => product * dimension, 1);
  if (!isMatrix(plan.role)) return new Float32Array(count).fill(plan.role === 'bias' ? 0 : 1);
  const random = new Random(
    deriveSeed({
      runSeed: seed,
      purpose: 'initial weights',
      iteration: 0,
      problemId: plan.name,
      sample: 0,
    }),
  );
  const scale = deviation(plan);
  const weights = new Float32Array(count);
  // Box and Muller 1958
  for (let i = 0; i < count; i++)
    weights[i] =
      scale *
      Math.sqrt(-2 * Math.log(1 - random.nextDouble())) *
      Math.cos(2 * Math.PI * random.nextDouble());
  return weights;
}

/** Writes an F32 GGUF. @throws IsoproError WRITE_FAILED */
export async function writeInitialModel(file: string, seed: bigint): Promise<void> {
  const vocabulary = learnVocabulary();
  const shape: ModelShape = { ...SHAPE, vocabularySize: vocabulary.size };
  const tensors = planTensors(shape).map((plan) => ({ plan, weights: draw(plan, seed) }));
  const infos = layOut(
    tensors.map(({ plan, weights }) => ({
      name: plan.name,
      dimensions: plan.dimensions,
      typeId: 0,
      bytes: weights.byteLength,
    })),
  );
  const parts: Uint8Array[] = [
    encodeHeader(
      [...hyperParameters(shape, 'isopro-native tiny', 0), CACHE_TYPE, ...vocabulary.metadata],
      infos,
    ),
  ];
  for (const { weights } of tensors) {
    parts.push(
      new Uint8Array(weights.buffer),
      new Uint8Array(alignUp(weights.byteLength, DEFAULT_ALIGNMENT) - weights.byteLength),
    );
  }
  await writeFileAtomically(file, parts);
}
