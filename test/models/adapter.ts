/**
 * LoRA adapters in the form that llama.cpp loads: pairs `NAME.lora_a` [rank, input] and
 * `NAME.lora_b` [output, rank].
 */
import { join } from 'node:path';
import { deriveSeed, Random } from '../../src/random.js';
import { planTensors, type ModelShape } from '../../src/embedded/architecture.js';
import {
  arrayOf,
  bool,
  float32,
  layOut,
  text,
  type MetadataEntry,
} from '../../src/embedded/gguf.js';
import { writeAtomically } from './write-atomically.js';
import { BLOCK_FORMATS, quantise } from './quantise.js';
import { encodeModel, writeSyntheticModel, type SyntheticModel } from './synthetic.js';

export interface SyntheticAdapterOptions {
  readonly seed?: bigint;
  readonly rank?: number;
  readonly alpha?: number;
  /** Names within a block; default all matrices. */
  readonly targets?: readonly string[];
  /** Root mean square of B's elements: 0 for an adapter that changes nothing. */
  readonly magnitude?: number;
  /** Of a quantised type every row has whole blocks: with Q8_0 a rank of 32. */
  readonly type?: 'F32' | 'F16' | 'Q8_0';
  /** SHA-256 of the base that the file names; default: none. */
  readonly base?: string;
  /** The adapter acts from the first of these on; default: on every token. */
  readonly invocationTokens?: readonly number[];
}

export const ADAPTER_TARGETS = [
  'attn_q',
  'attn_k',
  'attn_v',
  'attn_qkv',
  'attn_output',
  'ffn_gate',
  'ffn_up',
  'ffn_down',
] as const;

export function synthesizeAdapter(
  shape: ModelShape,
  options: SyntheticAdapterOptions = {},
): Pick<SyntheticModel, 'metadata' | 'tensors'> {
  const {
    seed = 1n,
    rank = 4,
    alpha = 8,
    targets = ADAPTER_TARGETS,
    magnitude = 0.1,
    type = 'F32',
    base,
    invocationTokens,
  } = options;
  const uniform = (name: string, count: number, rms: number): Float32Array => {
    const random = new Random(
      deriveSeed({
        runSeed: seed,
        purpose: 'synthetic adapter',
        iteration: 0,
        problemId: name,
        sample: 0,
      }),
    );
    return Float32Array.from(
      { length: count },
      () => rms * Math.sqrt(12) * (random.nextDouble() - 0.5),
    );
  };
  const encoded = planTensors(shape)
    .filter(
      ({ name, layer }) =>
        layer >= 0 && targets.some((target) => name === `blk.${layer}.${target}.weight`),
    )
    .flatMap(({ name, dimensions }) => {
      const [input, output] = dimensions as [number, number];
      return [
        {
          name: `${name}.lora_a`,
          dimensions: [input, rank],
          data: quantise(type, uniform(`${name}.lora_a`, input * rank, 1 / Math.sqrt(input))),
        },
        {
          name: `${name}.lora_b`,
          dimensions: [rank, output],
          data: quantise(type, uniform(`${name}.lora_b`, rank * output, magnitude)),
        },
      ];
    });
  const metadata: MetadataEntry[] = [
    { key: 'general.architecture', value: text(shape.architecture) },
    { key: 'general.type', value: text('adapter') },
    { key: 'general.name', value: text(`synthetic adapter seed ${seed}`) },
    { key: 'general.quantized', value: bool(false) },
    { key: 'adapter.type', value: text('lora') },
    { key: 'adapter.lora.alpha', value: float32(alpha) },
    ...(base === undefined ? [] : [{ key: 'isopro.base_model.sha256', value: text(base) }]),
    ...(invocationTokens === undefined
      ? []
      : [
          {
            key: 'adapter.alora.invocation_tokens',
            value: arrayOf('uint32', [...invocationTokens]),
          },
        ]),
  ];
  const infos = layOut(
    encoded.map(({ name, dimensions, data }) => ({
      name,
      dimensions,
      typeId: BLOCK_FORMATS[type].id,
      bytes: data.length,
    })),
  );
  return { metadata, tensors: encoded.map(({ data }, i) => ({ info: infos[i]!, data })) };
}

export function writeSyntheticAdapter(
  path: string,
  shape: ModelShape,
  options: SyntheticAdapterOptions = {},
): void {
  writeAtomically(path, encodeModel(synthesizeAdapter(shape, options)));
}

/** A small model, `model.gguf`, and three adapters of it, `1.gguf` to `3.gguf`, in a folder. */
export function writeThreeAdapters(folder: string): void {
  const shape = writeSyntheticModel(join(folder, 'model.gguf'), { architecture: 'llama' });
  for (const n of [1, 2, 3])
    writeSyntheticAdapter(join(folder, `${n}.gguf`), shape, {
      seed: BigInt(n),
      rank: 2,
      targets: ['attn_q'],
    });
}
