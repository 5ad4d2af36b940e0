/**
 * Files of the exact shape of published models, with random weights: what a benchmark measures
 * depends on the shape and the tensor types only. Written streaming, since the larger one has 1.9
 * GB.
 */
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { deriveSeed, Random } from '../../src/random.js';
import {
  hyperParameters,
  isMatrix,
  planTensors,
  type ModelShape,
  type TensorPlan,
} from '../../src/embedded/architecture.js';
import { alignUp, DEFAULT_ALIGNMENT, encodeHeader, layOut, text } from '../../src/embedded/gguf.js';
import { writeAtomically } from './write-atomically.js';
import { BLOCK_FORMATS, quantise, tensorBytes, type TensorType } from './quantise.js';
import { matrixDeviation, normalTable, vectorElement } from './synthetic.js';
import { byteLevelVocabulary, CHATML_TEMPLATE } from './vocabulary.js';

const QWEN25 = {
  architecture: 'qwen2',
  vocabularySize: 151_936,
  contextLength: 32_768,
  keyValueHeads: 2,
  tiedHead: true,
  ropeFactors: false,
  ropeBase: 1e6,
  normEpsilon: 1e-6,
  slidingWindow: 0,
} as const;

/** From the config.json of Qwen/Qwen2.5-0.5B-Instruct and -3B-Instruct. */
export const SHAPES = {
  'qwen2.5-0.5b': {
    ...QWEN25,
    layers: 24,
    embedding: 896,
    feedForward: 4864,
    heads: 14,
    headDimension: 64,
  },
  'qwen2.5-3b': {
    ...QWEN25,
    layers: 36,
    embedding: 2048,
    feedForward: 11_008,
    heads: 16,
    headDimension: 128,
  },
  // from the config.json of HuggingFaceTB/SmolLM2-135M-Instruct
  'smollm2-135m': {
    ...QWEN25,
    architecture: 'llama',
    vocabularySize: 49_152,
    contextLength: 8192,
    keyValueHeads: 3,
    ropeBase: 1e5,
    normEpsilon: 1e-5,
    layers: 30,
    embedding: 576,
    feedForward: 1536,
    heads: 9,
    headDimension: 64,
  },
} as const satisfies Record<string, ModelShape>;

export type ShapeName = keyof typeof SHAPES;

/**
 * The Q4_K_M layout as llama.cpp v0.5.0 chooses it (llama_tensor_get_type_impl in
 * src/llama-quant.cpp): a tied embedding is stored like a head in Q6_K; attn_v and ffn_down get
 * Q6_K in the first and last eighth of the layers and in every third between; rows that K-quant
 * blocks of 256 do not divide fall back from Q4_K to Q5_0 and from Q6_K to Q8_0.
 */
export function q4KMType(plan: TensorPlan, layers: number): TensorType {
  if (!isMatrix(plan.role)) return 'F32';
  const eighth = Math.floor(layers / 8);
  const moreBits =
    plan.layer < eighth ||
    plan.layer >= Math.floor((7 * layers) / 8) ||
    (plan.layer - eighth) % 3 === 2;
  const precise =
    plan.role === 'embedding' ||
    plan.role === 'head' ||
    ((plan.role === 'value' || plan.name.includes('.ffn_down.')) && moreBits);
  const blocksFit = plan.dimensions[0]! % 256 === 0;
  return precise ? (blocksFit ? 'Q6_K' : 'Q8_0') : blocksFit ? 'Q4_K' : 'Q5_0';
}

const TEMPLATE_ELEMENTS = 1 << 20;
const CHUNK_BYTES = 4 << 20;

/**
 * Normal values of one standard deviation, encoded once; rows of every tensor of that kind are cut
 * out of it.
 */
function blockTemplate(type: TensorType, deviation: number): Uint8Array {
  const table = normalTable();
  // A stride that does not divide the table's prime length gives each pass over it another order.
  return quantise(
    type,
    Float32Array.from(
      { length: TEMPLATE_ELEMENTS },
      (_, i) => deviation * table[(i * (1 + Math.floor(i / table.length))) % table.length]!,
    ),
  );
}

/**
 * Rows start at random blocks of the template and have four random bytes of quants, so that no two
 * are alike.
 */
function* matrixRows(
  type: TensorType,
  [columns, rows]: readonly [number, number],
  template: Uint8Array,
  random: Random,
): Generator<Uint8Array> {
  const { elements, bytes } = BLOCK_FORMATS[type];
  const rowBytes = (columns / elements) * bytes;
  const starts = template.length / bytes - columns / elements;
  // Offset of four bytes within a block that hold quants only.
  const quants = type === 'Q6_K' ? 0 : bytes - 4;
  const rowsPerChunk = Math.max(1, Math.floor(CHUNK_BYTES / rowBytes));
  for (let first = 0; first < rows; first += rowsPerChunk) {
    const count = Math.min(rowsPerChunk, rows - first);
    const chunk = new Uint8Array(count * rowBytes);
    const view = new DataView(chunk.buffer);
    for (let row = 0; row < count; row++) {
      const draw = random.nextUint64();
      const start = (Number(draw & 0xffff_ffffn) % (starts + 1)) * bytes;
      chunk.set(template.subarray(start, start + rowBytes), row * rowBytes);
      view.setUint32(row * rowBytes + quants, Number(draw >> 32n));
    }
    yield chunk;
  }
}

/**
 * Writes `path` atomically: 398 MB for the 0.5B, 1.93 GB for the 3B, the sizes of the published
 * files. Same bytes on every machine.
 */
export function writeShape(file: string, name: ShapeName): ModelShape {
  const shape: ModelShape = SHAPES[name];
  const vocabulary = byteLevelVocabulary('qwen2', false, shape.vocabularySize);
  const tensors = planTensors(shape).map((plan) => ({ plan, type: q4KMType(plan, shape.layers) }));
  const infos = layOut(
    tensors.map(({ plan, type }) => ({
      name: plan.name,
      dimensions: plan.dimensions,
      typeId: BLOCK_FORMATS[type].id,
      bytes: tensorBytes(type, plan.dimensions),
    })),
  );
  const metadata = [
    ...hyperParameters(shape, `random weights in the shape of ${name}`, 15),
    ...vocabulary.metadata,
    { key: 'tokenizer.chat_template', value: text(CHATML_TEMPLATE) },
  ];
  const templates = new Map<string, Uint8Array>();

  function* content(): Generator<Uint8Array> {
    yield encodeHeader(metadata, infos);
    for (const { plan, type } of tensors) {
      const random = new Random(
        deriveSeed({
          runSeed: 0n,
          purpose: 'random weights of a shape',
          iteration: 0,
          problemId: plan.name,
          sample: 0,
        }),
      );
      const [columns, rows] = plan.dimensions as [number, number | undefined];
      if (rows === undefined) {
        const table = normalTable();
        const from = random.nextInteger(0, table.length - 1);
        yield quantise(
          'F32',
          Float32Array.from({ length: columns }, (_, i) =>
            vectorElement(plan.role, table[(from + i) % table.length]!, i / columns),
          ),
        );
      } else {
        const deviation = matrixDeviation(plan);
        const key = `${type} ${deviation}`;
        const template = templates.get(key) ?? blockTemplate(type, deviation);
        templates.set(key, template);
        yield* matrixRows(type, [columns, rows], template, random);
      }
      const bytes = tensorBytes(type, plan.dimensions);
      yield new Uint8Array(alignUp(bytes, DEFAULT_ALIGNMENT) - bytes);
    }
  }
  writeAtomically(file, content());
  return shape;
}

/** Path of the shape's file in `folder`, written there first where it is missing. */
export function shapeFile(folder: string, name: ShapeName): string {
  const file = path.join(folder, `${name}-shape-1.gguf`);
  if (!existsSync(file)) {
    mkdirSync(folder, { recursive: true });
    writeShape(file, name);
  }
  return file;
}
