/**
 * What scenarios train: a random llama of some 30,000 weights that ships with the package, and
 * adapters of it in which directions are dead from the start.
 */
import { fileURLToPath } from 'node:url';
import { planTensors, type ModelShape } from '../embedded/architecture.js';
import {
  alignUp,
  bool,
  DEFAULT_ALIGNMENT,
  encodeHeader,
  float32,
  layOut,
  text,
} from '../embedded/gguf.js';
import { writeFileAtomically } from '../engine/atomic-file.js';
import { deriveSeed, Random } from '../random.js';

export const SCENARIO_MODEL = fileURLToPath(
  new URL('../../../assets/deciders/model.gguf', import.meta.url),
);

const SHAPE: ModelShape = {
  architecture: 'llama',
  vocabularySize: 340,
  contextLength: 32,
  layers: 2,
  embedding: 32,
  feedForward: 64,
  heads: 2,
  keyValueHeads: 1,
  headDimension: 16,
  tiedHead: false,
  ropeFactors: false,
  ropeBase: 10_000,
  normEpsilon: 1e-6,
  slidingWindow: 16,
};

/** Modules whose directions can be dead. */
export const DEAD_MODULES = [
  'blk.0.attn_q',
  'blk.0.ffn_up',
  'blk.1.attn_q',
  'blk.1.ffn_up',
] as const;

export interface DeadDirections {
  readonly module: (typeof DEAD_MODULES)[number];
  /** Of rank 4. */
  readonly directions: number;
}

const RANK = 4;
const ALPHA = 16;
const F32 = 0;

/** A's elements, of a standard deviation of 1 / sqrt(inputs). */
function drawn(name: string, inputs: number): Float32Array {
  const random = new Random(
    deriveSeed({
      runSeed: 1n,
      purpose: 'synthetic adapter',
      iteration: 0,
      problemId: name,
      sample: 0,
    }),
  );
  return Float32Array.from(
    { length: inputs * RANK },
    () => (1 / Math.sqrt(inputs)) * Math.sqrt(12) * (random.nextDouble() - 0.5),
  );
}

const bytesOf = (values: Float32Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

/**
 * Writes an adapter that changes nothing. In one module, the first directions have no input and no
 * output: A's rows and all of B are zero, so that no gradient reaches them.
 */
export async function writeDeadAdapter(
  file: string,
  { module, directions }: DeadDirections,
): Promise<void> {
  const tensors = planTensors(SHAPE)
    .filter(({ name, layer }) => layer >= 0 && /\.(?:attn|ffn)_(?!norm)\w+\.weight$/.test(name))
    .flatMap(({ name, dimensions: [inputs, outputs] }) => {
      const a = drawn(`${name}.lora_a`, inputs!);
      if (name === `${module}.weight`) a.fill(0, 0, inputs! * directions);
      return [
        { name: `${name}.lora_a`, dimensions: [inputs!, RANK], data: bytesOf(a) },
        {
          name: `${name}.lora_b`,
          dimensions: [RANK, outputs!],
          data: new Uint8Array(4 * RANK * outputs!),
        },
      ];
    });
  const header = encodeHeader(
    [
      { key: 'general.architecture', value: text(SHAPE.architecture) },
      { key: 'general.type', value: text('adapter') },
      { key: 'general.name', value: text('synthetic adapter seed 1') },
      { key: 'general.quantized', value: bool(false) },
      { key: 'adapter.type', value: text('lora') },
      { key: 'adapter.lora.alpha', value: float32(ALPHA) },
    ],
    layOut(
      tensors.map(({ name, dimensions, data }) => ({
        name,
        dimensions,
        typeId: F32,
        bytes: data.length,
      })),
    ),
  );
  await writeFileAtomically(file, [
    header,
    ...tensors.flatMap(({ data }) => [
      data,
      new Uint8Array(alignUp(data.length, DEFAULT_ALIGNMENT) - data.length),
    ]),
  ]);
}
