/**
 * Which hyper-parameters and tensors a model of each supported architecture has, as llama.cpp reads
 * them.
 */
import { float32, text, uint32, type MetadataEntry } from './gguf.js';

export const ARCHITECTURES = [
  'llama',
  'qwen2',
  'qwen3',
  'gemma2',
  'smollm3',
  'granite',
  'mistral3',
  'olmo2',
  'gemma3',
  'phi3',
  'qwen3moe',
  'gpt-oss',
] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

interface Traits {
  /** Norms of q and k: of each head, or of all heads together. */
  readonly headNorms?: 'each' | 'whole';
  /** There are no norms before attention and feed-forward. */
  readonly readsPlain?: true;
  readonly postNorms?: true;
  /** Of q, k and v. */
  readonly biases?: true;
  /** Whether the head is the embedding; either where it is not given. */
  readonly tied?: boolean;
  /** Layers of which all but the last have a sliding window. */
  readonly windowPeriod?: number;
  /** q, k and v are one matrix, and gate and up another. */
  readonly fused?: true;
  /** Feed-forward layers are mixtures of experts. */
  readonly experts?: true;
  /** Layers of which the last has no positions. */
  readonly plainPeriod?: number;
}

export const TRAITS: Readonly<Record<Architecture, Traits>> = {
  llama: {},
  qwen2: { biases: true },
  qwen3: { headNorms: 'each' },
  gemma2: { postNorms: true, tied: true, windowPeriod: 2 },
  smollm3: { plainPeriod: 4 },
  granite: {},
  mistral3: {},
  olmo2: { headNorms: 'whole', readsPlain: true, postNorms: true, tied: false },
  gemma3: { headNorms: 'each', postNorms: true, windowPeriod: 6 },
  phi3: { fused: true },
  qwen3moe: { headNorms: 'each', experts: true },
  'gpt-oss': { biases: true, tied: false, windowPeriod: 2, experts: true },
};

/** Dimensions of a model; tensors are stored [output, input], rows of `input`. */
export interface ModelShape {
  readonly architecture: Architecture;
  readonly vocabularySize: number;
  readonly contextLength: number;
  readonly layers: number;
  /** d_model */
  readonly embedding: number;
  readonly feedForward: number;
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headDimension: number;
  /** The output head is the token embedding, as `tied` of TRAITS says. */
  readonly tiedHead: boolean;
  /** The file has rope_freqs.weight (Llama 3.1's frequency factors). */
  readonly ropeFactors: boolean;
  readonly ropeBase: number;
  readonly normEpsilon: number;
  /** Tokens that layers with a sliding window attend to. */
  readonly slidingWindow: number;
}

/** What a tensor does, which decides the scale of its values. */
export type TensorRole =
  | 'embedding'
  | 'head'
  | 'norm'
  | 'postNorm'
  | 'outputNorm'
  | 'query'
  | 'key'
  | 'value'
  | 'attentionOutput'
  | 'feedForward'
  | 'bias'
  | 'router'
  | 'sink'
  | 'ropeFactors';

export interface TensorPlan {
  readonly name: string;
  /** ggml's order: dimensions[0] is the length of a row; of experts, a third is their number. */
  readonly dimensions: readonly number[];
  readonly role: TensorRole;
  /** -1 outside the blocks */
  readonly layer: number;
}

/** Tensors that are quantised; norms, biases, routers and frequency factors stay F32. */
export const isMatrix = (role: TensorRole): boolean =>
  !['norm', 'postNorm', 'outputNorm', 'bias', 'router', 'sink', 'ropeFactors'].includes(role);

/** Experts of a layer, and those that a token uses. */
const EXPERTS = 4;
const EXPERTS_USED = 2;

/** phi3 rotates the first three quarters of each head. */
const rotated = ({ architecture, headDimension }: ModelShape): number =>
  architecture === 'phi3' ? Math.floor(headDimension / 8) * 6 : headDimension;

export function planTensors(shape: ModelShape): TensorPlan[] {
  const { embedding, feedForward, vocabularySize } = shape;
  const traits = TRAITS[shape.architecture];
  const queries = shape.heads * shape.headDimension;
  const keys = shape.keyValueHeads * shape.headDimension;
  const plans: TensorPlan[] = [];
  const plan = (name: string, dimensions: number[], role: TensorRole, layer = -1): void => {
    plans.push({ name, dimensions, role, layer });
  };
  plan('token_embd.weight', [embedding, vocabularySize], 'embedding');
  plan('output_norm.weight', [embedding], 'outputNorm');
  if (!shape.tiedHead) plan('output.weight', [embedding, vocabularySize], 'head');
  const gptOss = shape.architecture === 'gpt-oss';
  if (shape.architecture === 'phi3') {
    for (const name of ['short', 'long'])
      plan(`rope_factors_${name}.weight`, [rotated(shape) / 2], 'ropeFactors');
  }
  if (shape.ropeFactors) plan('rope_freqs.weight', [shape.headDimension / 2], 'ropeFactors');
  for (let layer = 0; layer < shape.layers; layer++) {
    const add = (name: string, dimensions: number[], role: TensorRole): void =>
      plan(`blk.${layer}.${name}`, dimensions, role, layer);
    if (!traits.readsPlain) add('attn_norm.weight', [embedding], 'norm');
    if (traits.fused) {
      add('attn_qkv.weight', [embedding, queries + 2 * keys], 'query');
    } else {
      add('attn_q.weight', [embedding, queries], 'query');
      add('attn_k.weight', [embedding, keys], 'key');
      add('attn_v.weight', [embedding, keys], 'value');
    }
    add('attn_output.weight', [queries, embedding], 'attentionOutput');
    if (traits.biases) {
      add('attn_q.bias', [queries], 'bias');
      add('attn_k.bias', [keys], 'bias');
      add('attn_v.bias', [keys], 'bias');
    }
    if (gptOss) {
      add('attn_output.bias', [embedding], 'bias');
      add('attn_sinks.weight', [shape.heads], 'sink');
    }
    if (traits.headNorms !== undefined) {
      const whole = traits.headNorms === 'whole';
      add('attn_q_norm.weight', [whole ? queries : shape.headDimension], 'norm');
      add('attn_k_norm.weight', [whole ? keys : shape.headDimension], 'norm');
    }
    if (traits.postNorms) add('post_attention_norm.weight', [embedding], 'postNorm');
    if (!traits.readsPlain)
      add(gptOss ? 'post_attention_norm.weight' : 'ffn_norm.weight', [embedding], 'norm');
    if (traits.experts) {
      add('ffn_gate_inp.weight', [embedding, EXPERTS], 'router');
      add('ffn_gate_exps.weight', [embedding, feedForward, EXPERTS], 'feedForward');
      add('ffn_up_exps.weight', [embedding, feedForward, EXPERTS], 'feedForward');
      add('ffn_down_exps.weight', [feedForward, embedding, EXPERTS], 'feedForward');
      if (gptOss) {
        add('ffn_gate_inp.bias', [EXPERTS], 'bias');
        add('ffn_gate_exps.bias', [feedForward, EXPERTS], 'bias');
        add('ffn_up_exps.bias', [feedForward, EXPERTS], 'bias');
        add('ffn_down_exps.bias', [embedding, EXPERTS], 'bias');
      }
    } else {
      if (!traits.fused) add('ffn_gate.weight', [embedding, feedForward], 'feedForward');
      add('ffn_up.weight', [embedding, (traits.fused ? 2 : 1) * feedForward], 'feedForward');
      add('ffn_down.weight', [feedForward, embedding], 'feedForward');
    }
    if (traits.postNorms) add('post_ffw_norm.weight', [embedding], 'postNorm');
  }
  return plans;
}

export function hyperParameters(
  shape: ModelShape,
  name: string,
  fileType: number,
): MetadataEntry[] {
  const { architecture } = shape;
  const of = (key: string): string => `${architecture}.${key}`;
  const entries: MetadataEntry[] = [
    { key: 'general.architecture', value: text(architecture) },
    { key: 'general.type', value: text('model') },
    { key: 'general.name', value: text(name) },
    { key: 'general.file_type', value: uint32(fileType) },
    { key: of('block_count'), value: uint32(shape.layers) },
    { key: of('context_length'), value: uint32(shape.contextLength) },
    { key: of('embedding_length'), value: uint32(shape.embedding) },
    { key: of('feed_forward_length'), value: uint32(shape.feedForward) },
    { key: of('attention.head_count'), value: uint32(shape.heads) },
    { key: of('attention.head_count_kv'), value: uint32(shape.keyValueHeads) },
    { key: of('attention.layer_norm_rms_epsilon'), value: float32(shape.normEpsilon) },
    { key: of('rope.freq_base'), value: float32(shape.ropeBase) },
  ];
  if (architecture !== 'qwen2') {
    entries.push(
      { key: of('attention.key_length'), value: uint32(shape.headDimension) },
      { key: of('attention.value_length'), value: uint32(shape.headDimension) },
    );
  }
  if (architecture === 'llama') {
    entries.push(
      { key: of('rope.dimension_count'), value: uint32(shape.headDimension) },
      { key: of('vocab_size'), value: uint32(shape.vocabularySize) },
    );
  }
  const real = (key: string, value: number): void =>
    void entries.push({ key: of(key), value: float32(value) });
  if (architecture === 'gemma2') {
    real('attn_logit_softcapping', 50);
    real('final_logit_softcapping', 30);
  }
  if (TRAITS[architecture].windowPeriod !== undefined)
    entries.push({ key: of('attention.sliding_window'), value: uint32(shape.slidingWindow) });
  if (architecture === 'gemma3')
    entries.push({ key: of('rope.scaling.type'), value: text('linear') });
  if (architecture === 'gemma3') real('rope.scaling.factor', 8);
  if (architecture === 'granite') {
    real('embedding_scale', 2);
    real('residual_scale', 0.7);
    real('attention.scale', 1.5 / Math.sqrt(shape.headDimension));
    real('logit_scale', 0.8);
  }
  if (TRAITS[architecture].experts) {
    entries.push(
      { key: of('expert_count'), value: uint32(EXPERTS) },
      { key: of('expert_used_count'), value: uint32(EXPERTS_USED) },
      { key: of('expert_feed_forward_length'), value: uint32(shape.feedForward) },
    );
  }
  if (architecture === 'phi3') {
    entries.push(
      { key: of('rope.dimension_count'), value: uint32(rotated(shape)) },
      { key: of('rope.scaling.type'), value: text('longrope') },
      { key: of('rope.scaling.original_context_length'), value: uint32(shape.contextLength) },
    );
    real('rope.scaling.attn_factor', 1.2);
  }
  if (architecture === 'mistral3' || architecture === 'gpt-oss') {
    entries.push(
      { key: of('rope.scaling.type'), value: text('yarn') },
      { key: of('rope.scaling.original_context_length'), value: uint32(16) },
    );
    real('rope.scaling.factor', 4);
    if (architecture === 'mistral3') real('attention.temperature_scale', 0.1);
  }
  return entries;
}
