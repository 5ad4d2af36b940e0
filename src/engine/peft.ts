/**
 * LoRA adapters as PEFT keeps them: a folder with adapter_model.safetensors and
 * adapter_config.json.
 */
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { dictionary } from '../dictionary.js';
import { IsoproError } from '../errors.js';
import type { AdapterModule, ModelShape } from './addon.js';
import { moduleValue, readPeftConfig } from './peft-config.js';
import { readSafetensors, type Float32Tensor } from './safetensors.js';

export const PEFT_WEIGHTS = 'adapter_model.safetensors';
export const PEFT_CONFIG = 'adapter_config.json';

const PROJECTIONS: Readonly<Record<string, string>> = {
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_output: 'self_attn.o_proj',
  ffn_gate: 'mlp.gate_proj',
  ffn_up: 'mlp.up_proj',
  ffn_down: 'mlp.down_proj',
  attn_qkv: 'self_attn.qkv_proj',
};
/** Of a model that has gate and up in one matrix. */
const FUSED_PROJECTIONS: Readonly<Record<string, string>> = {
  ...PROJECTIONS,
  ffn_up: 'mlp.gate_up_proj',
};
const TENSORS = dictionary(
  [...Object.entries(PROJECTIONS), ...Object.entries(FUSED_PROJECTIONS)].map(
    ([tensor, projection]) => [projection, tensor],
  ),
);

/** blk.3.attn_k to layers.3.self_attn.k_proj. */
function peftName(name: string, fused: boolean): string {
  const [, layer, tensor] = /^blk\.(\d+)\.(\w+)$/.exec(name)!;
  return `layers.${layer}.${(fused ? FUSED_PROJECTIONS : PROJECTIONS)[tensor!]!}`;
}

/**
 * base_model.model.model.layers.3.self_attn.k_proj.lora_A.weight to {name: 'blk.3.attn_k', factor:
 * 'A'}; undefined for others.
 */
function ggufName(tensor: string): { name: string; factor: 'A' | 'B' } | undefined {
  const [, layer, projection, factor] =
    /^base_model\.model\.model\.layers\.(\d{1,5})\.((?:self_attn|mlp)\.\w+)\.lora_([AB])(?:\.default)?\.weight$/.exec(
      tensor,
    ) ?? [];
  const stored = projection === undefined ? undefined : TENSORS[projection];
  return stored === undefined
    ? undefined
    : { name: `blk.${Number(layer)}.${stored}`, factor: factor as 'A' | 'B' };
}

/** Architectures whose q and k llama.cpp's converter permutes. */
const INTERLEAVED: readonly string[] = ['llama', 'smollm3', 'granite', 'mistral3'];

/**
 * Row of the GGUF matrix that holds each row of Hugging Face's. They differ in q and k of these
 * architectures alone, where GGUF interleaves the halves of a head that rotate together: row (half,
 * pair) of a head becomes (pair, half).
 */
function ggufRow(
  name: string,
  rows: number,
  { architecture, heads, keyHeads }: ModelShape,
): (row: number) => number {
  const count = name.endsWith('.attn_q') ? heads : name.endsWith('.attn_k') ? keyHeads : 0;
  if (!INTERLEAVED.includes(architecture) || count === 0) return (row) => row;
  const width = rows / count;
  const pairs = width / 2;
  return (row) => {
    const within = row % width;
    return row - within + 2 * (within % pairs) + Math.floor(within / pairs);
  };
}

/**
 * The value that most modules have, and the others' by name, for r and rank_pattern or lora_alpha
 * and alpha_pattern.
 */
function pattern(
  modules: readonly AdapterModule[],
  fused: boolean,
  value: (module: AdapterModule) => number,
): { common: number; others: Record<string, number> } {
  const counts = new Map<number, number>();
  for (const module of modules) counts.set(value(module), (counts.get(value(module)) ?? 0) + 1);
  const common = [...counts].reduce((most, next) => (next[1] > most[1] ? next : most))[0];
  return {
    common,
    others: Object.fromEntries(
      modules
        .filter((module) => value(module) !== common)
        .map((module) => [peftName(module.name, fused), value(module)]),
    ),
  };
}

/**
 * The configuration. A module's scale s is alpha / r with alpha = s r, an exact product, so that it
 * comes back bit for bit; rank-stabilised scales are written in the same way.
 */
export function peftConfig(
  modules: readonly AdapterModule[],
  { layers, fused }: ModelShape,
  baseModel: string | null,
  invocationTokens: Int32Array,
): Record<string, unknown> {
  const rank = pattern(modules, fused, (module) => module.rank);
  const alpha = pattern(modules, fused, (module) => module.scale * module.rank);
  const byLayer = new Map<number, string>();
  for (const { name } of modules) {
    const [, layer] = name.split('.');
    byLayer.set(
      Number(layer),
      [...(byLayer.get(Number(layer))?.split(' ') ?? []), peftName(name, fused).split('.').at(-1)!]
        .sort()
        .join(' '),
    );
  }
  const regular = new Set(byLayer.values()).size === 1;
  return {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: baseModel,
    r: rank.common,
    lora_alpha: alpha.common,
    rank_pattern: rank.others,
    alpha_pattern: alpha.others,
    target_modules: regular
      ? [...byLayer.values()][0]!.split(' ')
      : modules.map(({ name }) => peftName(name, fused)),
    layers_to_transform:
      regular && byLayer.size < layers ? [...byLayer.keys()].sort((a, b) => a - b) : null,
    lora_dropout: 0,
    bias: 'none',
    fan_in_fan_out: false,
    use_rslora: false,
    use_dora: false,
    modules_to_save: null,
    inference_mode: true,
    ...(invocationTokens.length === 0 ? {} : { alora_invocation_tokens: [...invocationTokens] }),
  };
}

/** The factors under their names in PEFT, B as [out, r]. */
export function peftTensors(modules: readonly AdapterModule[], shape: ModelShape): Float32Tensor[] {
  return modules.flatMap(({ name, rank, inputs, outputs, a, b }) => {
    const prefix = `base_model.model.model.${peftName(name, shape.fused)}`;
    const rowOf = ggufRow(name, outputs, shape);
    const values = new Float32Array(b.length);
    for (let row = 0; row < outputs; row++) {
      const stored = rowOf(row);
      for (let j = 0; j < rank; j++) values[row * rank + j] = b[j * outputs + stored]!;
    }
    return [
      { name: `${prefix}.lora_A.weight`, shape: [rank, inputs], values: a },
      { name: `${prefix}.lora_B.weight`, shape: [outputs, rank], values },
    ];
  });
}

/** Tests whether the path is a folder, the form in which PEFT stores adapters. */
export async function isPeft(adapter: string): Promise<boolean> {
  return stat(adapter).then(
    (status) => status.isDirectory(),
    () => false,
  );
}

/**
 * Reads a PEFT adapter. Rows of B are in Hugging Face's order unless the shape of the model is
 * given.
 * @throws IsoproError MODEL_NOT_FOUND, ADAPTER_CORRUPT, ADAPTER_MISMATCH (it changes what cannot be
 *   trained here), NUMERIC_FAILURE
 */
export async function readPeft(
  folder: string,
  shape: ModelShape | null,
): Promise<{ baseName: string; invocationTokens: Int32Array; modules: AdapterModule[] }> {
  const settings = await readPeftConfig(path.join(folder, PEFT_CONFIG));
  const file = path.join(folder, PEFT_WEIGHTS);
  const corrupt = (what: string): IsoproError =>
    new IsoproError('ADAPTER_CORRUPT', `${file}: ${what}`);
  const factors = new Map<string, { A?: Float32Tensor; B?: Float32Tensor }>();
  const tensors = await readSafetensors(file);
  const fused = shape?.fused ?? tensors.some(({ name }) => name.includes('.gate_up_proj.'));
  for (const tensor of tensors) {
    const place = ggufName(tensor.name);
    if (place === undefined)
      throw new IsoproError(
        'ADAPTER_MISMATCH',
        `${file} contains ${JSON.stringify(tensor.name.slice(0, 120))}, which is not a LoRA factor of an adaptable matrix`,
      );
    const pair = factors.get(place.name) ?? {};
    if (pair[place.factor] !== undefined)
      throw corrupt(`it contains two factors ${place.factor} of ${place.name}`);
    factors.set(place.name, { ...pair, [place.factor]: tensor });
  }
  const modules = [...factors].map(([name, { A, B }]): AdapterModule => {
    const shown = peftName(name, fused);
    if (A === undefined || B === undefined) throw corrupt(`it has only one factor of ${shown}`);
    const [rank, inputs] = A.shape;
    const outputs = B.shape[0]!;
    if (
      A.shape.length !== 2 ||
      B.shape.length !== 2 ||
      B.shape[1] !== rank ||
      rank === 0 ||
      rank! > Math.min(inputs!, outputs)
    )
      throw corrupt(`the shapes of the factors of ${shown} do not match`);
    const stated = moduleValue(settings.ranks, shown, settings.rank);
    if (rank !== stated)
      throw corrupt(`${shown} has rank ${rank}, but ${PEFT_CONFIG} states rank ${stated}`);
    const alpha = moduleValue(settings.alphas, shown, settings.alpha);
    const scale = Math.fround(settings.stabilised ? alpha / Math.sqrt(rank!) : alpha / rank!);
    const rowOf = shape === null ? (row: number): number => row : ggufRow(name, outputs, shape);
    const b = new Float32Array(B.values.length);
    for (let row = 0; row < outputs; row++) {
      const stored = rowOf(row);
      for (let j = 0; j < rank!; j++) b[j * outputs + stored] = B.values[row * rank! + j]!;
    }
    return { name, rank: rank!, inputs: inputs!, outputs, scale, a: A.values, b };
  });
  if (modules.length === 0) throw corrupt('it contains no factors');
  if (modules.some(({ scale }) => !Number.isFinite(scale)))
    throw new IsoproError(
      'NUMERIC_FAILURE',
      `${path.join(folder, PEFT_CONFIG)}: lora_alpha is too large`,
    );
  // In the model's order, whatever that of the file is.
  const order = Object.keys(PROJECTIONS);
  const key = (name: string): number =>
    Number(name.split('.')[1]) * order.length + order.indexOf(name.split('.')[2]!);
  return {
    baseName: settings.baseName,
    invocationTokens: Int32Array.from(settings.invocationTokens),
    modules: modules.sort((x, y) => key(x.name) - key(y.name)),
  };
}
