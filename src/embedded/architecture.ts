/**
 * Which hyper-parameters and tensors a model of each supported architecture has, as llama.cpp reads
 * them.
 */
import { float32, text, uint32, type MetadataEntry } from './gguf.js';

export const ARCHITECTURES = ['llama', 'qwen2', 'qwen3', 'gemma2'] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

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
  /** The output head is the token embedding. Always so for gemma2. */
  readonly tiedHead: boolean;
  /** The file has rope_freqs.weight (Llama 3.1's frequency factors). */
  readonly ropeFactors: boolean;
  readonly ropeBase: number;
  readonly normEpsilon: number;
  /** gemma2 only: tokens that every other layer attends to. */
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
  | 'ropeFactors';

export interface TensorPlan {
  readonly name: string;
  /** ggml's order: dimensions[0] is the length of a row. */
  readonly dimensions: readonly number[];
  readonly role: TensorRole;
  /** -1 outside the blocks */
  readonly layer: number;
}

/** Tensors that are quantised; norms, biases and frequency factors stay F32. */
export const isMatrix = (role: TensorRole): boolean =>
  !['norm', 'postNorm', 'outputNorm', 'bias', 'ropeFactors'].includes(role);

export function planTensors(shape: ModelShape): TensorPlan[] {
  const { architecture, embedding, feedForward, vocabularySize } = shape;
  const queries = shape.heads * shape.headDimension;
  const keys = shape.keyValueHeads * shape.headDimension;
  const plans: TensorPlan[] = [];
  const plan = (name: string, dimensions: number[], role: TensorRole, layer = -1): void => {
    plans.push({ name, dimensions, role, layer });
  };
  plan('token_embd.weight', [embedding, vocabularySize], 'embedding');
  plan('output_norm.weight', [embedding], 'outputNorm');
  if (!shape.tiedHead) plan('output.weight', [embedding, vocabularySize], 'head');
  if (shape.ropeFactors) plan('rope_freqs.weight', [shape.headDimension / 2], 'ropeFactors');
  for (let layer = 0; layer < shape.layers; layer++) {
    const add = (name: string, dimensions: number[], role: TensorRole): void =>
      plan(`blk.${layer}.${name}`, dimensions, role, layer);
    add('attn_norm.weight', [embedding], 'norm');
    add('attn_q.weight', [embedding, queries], 'query');
    add('attn_k.weight', [embedding, keys], 'key');
    add('attn_v.weight', [embedding, keys], 'value');
    add('attn_output.weight', [queries, embedding], 'attentionOutput');
    if (architecture === 'qwen2') {
      add('attn_q.bias', [queries], 'bias');
      add('attn_k.bias', [keys], 'bias');
      add('attn_v.bias', [keys], 'bias');
    }
    if (architecture === 'qwen3') {
      add('attn_q_norm.weight', [shape.headDimension], 'norm');
      add('attn_k_norm.weight', [shape.headDimension], 'norm');
    }
    if (architecture === 'gemma2') add('post_attention_norm.weight', [embedding], 'postNorm');
    add('ffn_norm.weight', [embedding], 'norm');
    add('ffn_gate.weight', [embedding, feedForward], 'feedForward');
    add('ffn_up.weight', [embedding, feedForward], 'feedForward');
    add('ffn_down.weight', [feedForward, embedding], 'feedForward');
    if (architecture === 'gemma2') add('post_ffw_norm.weight', [embedding], 'postNorm');
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
  if (architecture === 'gemma2') {
    entries.push(
      { key: of('attn_logit_softcapping'), value: float32(50) },
      { key: of('final_logit_softcapping'), value: float32(30) },
      { key: of('attention.sliding_window'), value: uint32(shape.slidingWindow) },
    );
  }
  return entries;
}
