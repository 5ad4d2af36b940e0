/**
 * Small files of text decoders that have no validator: which metadata and tensors llama.cpp reads
 * of each architecture, as data. One row for each kind of graph: sliding windows, mixtures of
 * experts, compressed keys and values (MLA), recurrent and hybrid memory, learned positions, biases
 * for distance (ALiBi), parallel residuals, tied and untied heads.
 */
import { deriveSeed, Random } from '../../src/random.js';
import {
  arrayOf,
  bool,
  float32,
  layOut,
  text,
  uint32,
  type MetadataEntry,
  type MetadataValue,
  type TensorInfo,
} from '../../src/embedded/gguf.js';
import { BLOCK_FORMATS, quantise, type TensorType } from './quantise.js';
import { encodeModel, normalTable } from './synthetic.js';
import {
  byteLevelVocabulary,
  CHATML_TEMPLATE,
  gemma4Vocabulary,
  rwkvVocabulary,
  type Vocabulary,
} from './vocabulary.js';
import { writeAtomically } from './write-atomically.js';

/**
 * What a tensor's values are like. `matrix`: quantised, of a deviation that keeps the residual
 * stream in bounds. The others are F32: `norm` near 1, `outputNorm` with signs, `bias` small,
 * `kernel` of a convolution, `decay` negative, `share` in [0, 1].
 */
type Values =
  | 'embedding'
  | 'matrix'
  | 'positions'
  | 'norm'
  | 'outputNorm'
  | 'bias'
  | 'kernel'
  | 'decay'
  | 'share'
  | 'one';

type Row = readonly [name: string, dimensions: readonly number[], values: Values];

export interface DecoderPlan {
  /** What of a graph this row stands for. */
  readonly kind: string;
  readonly layers: number;
  readonly metadata: Readonly<Record<string, MetadataValue>>;
  /** Outside the blocks. */
  readonly tensors: readonly Row[];
  /** Of a block; names without `blk.N.`. */
  readonly block: (layer: number) => readonly Row[];
  readonly vocabulary?: () => Vocabulary;
}

/** d_model, heads of 16, feed-forward, tokens of context. */
const D = 64;
const HEADS = 4;
const KEY_HEADS = 2;
const HEAD = D / HEADS;
const KEYS = KEY_HEADS * HEAD;
const F = 128;
const CONTEXT = 512;

const EPSILON = { 'attention.layer_norm_epsilon': float32(1e-5) };
const RMS_EPSILON = { 'attention.layer_norm_rms_epsilon': float32(1e-6) };
const HEAD_COUNTS = {
  'attention.head_count': uint32(HEADS),
  'attention.head_count_kv': uint32(KEY_HEADS),
};
const ALL_HEADS = {
  'attention.head_count': uint32(HEADS),
  'attention.head_count_kv': uint32(HEADS),
};
const FEED_FORWARD = { feed_forward_length: uint32(F) };

const norm = (name: string, width = D): Row => [`${name}.weight`, [width], 'norm'];
const normWithBias = (name: string, width = D): Row[] => [
  norm(name, width),
  [`${name}.bias`, [width], 'bias'],
];
const matrix = (name: string, inputs: number, outputs: number): Row => [
  `${name}.weight`,
  [inputs, outputs],
  'matrix',
];
const withBias = (name: string, inputs: number, outputs: number): Row[] => [
  matrix(name, inputs, outputs),
  [`${name}.bias`, [outputs], 'bias'],
];
const experts = (name: string, inputs: number, outputs: number, count: number): Row => [
  `${name}.weight`,
  [inputs, outputs, count],
  'matrix',
];

const OUTPUT_NORM: Row = ['output_norm.weight', [D], 'outputNorm'];
const OUTPUT_NORM_WITH_BIAS: Row[] = [OUTPUT_NORM, ['output_norm.bias', [D], 'bias']];
/** As many rows as there are tokens: -1 stands for them. */
const VOCABULARY = -1;
const HEAD_OF_ITS_OWN: Row = ['output.weight', [D, VOCABULARY], 'embedding'];

const attention = (queries = D, keys = KEYS, out = queries): Row[] => [
  matrix('attn_q', D, queries),
  matrix('attn_k', D, keys),
  matrix('attn_v', D, keys),
  matrix('attn_output', out, D),
];
const gated = (width = F): Row[] => [
  matrix('ffn_gate', D, width),
  matrix('ffn_up', D, width),
  matrix('ffn_down', width, D),
];
const plainWithBias = (): Row[] => [...withBias('ffn_up', D, F), ...withBias('ffn_down', F, D)];
const fusedWithBias = (keys: number): Row[] => [
  ...withBias('attn_qkv', D, D + 2 * keys),
  ...withBias('attn_output', D, D),
];

/** Of Mamba-2, as hybrid architectures have it. */
const SSM = { kernel: 4, inner: 2 * D, state: 16, heads: 8, groups: 1 };
const SSM_METADATA = {
  'ssm.conv_kernel': uint32(SSM.kernel),
  'ssm.inner_size': uint32(SSM.inner),
  'ssm.state_size': uint32(SSM.state),
  'ssm.time_step_rank': uint32(SSM.heads),
  'ssm.group_count': uint32(SSM.groups),
};
const CONVOLVED = SSM.inner + 2 * SSM.groups * SSM.state;
const mamba2 = (): Row[] => [
  matrix('ssm_in', D, SSM.inner + CONVOLVED + SSM.heads),
  ['ssm_conv1d.weight', [SSM.kernel, CONVOLVED], 'kernel'],
  ['ssm_conv1d.bias', [CONVOLVED], 'bias'],
  ['ssm_dt.bias', [SSM.heads], 'bias'],
  ['ssm_a', [1, SSM.heads], 'decay'],
  ['ssm_d', [1, SSM.heads], 'norm'],
  ['ssm_norm.weight', [SSM.inner / SSM.groups, SSM.groups], 'norm'],
  matrix('ssm_out', SSM.inner, D),
];

/** MLA: widths of the compressed queries and keys, of a head's part without and with positions. */
const MLA = { queries: 32, keys: 32, plain: 32, rotated: 16, values: 32 };
/** Gated delta net: heads of keys and of values, width of a head. */
const DELTA = { keyHeads: 2, valueHeads: 4, width: 16, kernel: 4 };
const DELTA_KEYS = DELTA.keyHeads * DELTA.width;
const DELTA_VALUES = DELTA.valueHeads * DELTA.width;

export const DECODERS = {
  cohere2: {
    kind: 'sliding window, parallel residual, tied head',
    layers: 4,
    metadata: {
      ...{ ...HEAD_COUNTS, ...FEED_FORWARD, ...EPSILON },
      'attention.sliding_window': uint32(16),
      logit_scale: float32(0.5),
    },
    tensors: [OUTPUT_NORM],
    block: () => [norm('attn_norm'), ...attention(), ...gated()],
  },
  olmoe: {
    kind: 'mixture of experts',
    layers: 2,
    metadata: {
      ...{ ...ALL_HEADS, ...RMS_EPSILON },
      feed_forward_length: uint32(32),
      expert_count: uint32(8),
      expert_used_count: uint32(2),
    },
    tensors: [OUTPUT_NORM, HEAD_OF_ITS_OWN],
    block: () => [
      norm('attn_norm'),
      ...attention(D, D),
      norm('attn_q_norm'),
      norm('attn_k_norm'),
      norm('ffn_norm'),
      matrix('ffn_gate_inp', D, 8),
      experts('ffn_gate_exps', D, 32, 8),
      experts('ffn_down_exps', 32, D, 8),
      experts('ffn_up_exps', D, 32, 8),
    ],
  },
  deepseek2: {
    kind: 'MLA, mixture of experts with a shared one',
    layers: 2,
    metadata: {
      ...{ ...FEED_FORWARD, ...RMS_EPSILON },
      'attention.head_count': uint32(HEADS),
      'attention.head_count_kv': uint32(1),
      'attention.key_length': uint32(MLA.keys + MLA.rotated),
      'attention.value_length': uint32(MLA.keys),
      'attention.key_length_mla': uint32(MLA.plain + MLA.rotated),
      'attention.value_length_mla': uint32(MLA.values),
      'attention.q_lora_rank': uint32(MLA.queries),
      'attention.kv_lora_rank': uint32(MLA.keys),
      'rope.dimension_count': uint32(MLA.rotated),
      leading_dense_block_count: uint32(1),
      expert_count: uint32(4),
      expert_used_count: uint32(2),
      expert_shared_count: uint32(1),
      expert_feed_forward_length: uint32(32),
      expert_weights_scale: float32(1),
    },
    tensors: [OUTPUT_NORM, HEAD_OF_ITS_OWN],
    block: (layer) => [
      norm('attn_norm'),
      norm('attn_q_a_norm', MLA.queries),
      norm('attn_kv_a_norm', MLA.keys),
      matrix('attn_q_a', D, MLA.queries),
      matrix('attn_q_b', MLA.queries, HEADS * (MLA.plain + MLA.rotated)),
      matrix('attn_kv_a_mqa', D, MLA.keys + MLA.rotated),
      experts('attn_k_b', MLA.plain, MLA.keys, HEADS),
      experts('attn_v_b', MLA.keys, MLA.values, HEADS),
      matrix('attn_output', HEADS * MLA.values, D),
      norm('ffn_norm'),
      ...(layer === 0
        ? gated()
        : [
            matrix('ffn_gate_inp', D, 4),
            experts('ffn_gate_exps', D, 32, 4),
            experts('ffn_down_exps', 32, D, 4),
            experts('ffn_up_exps', D, 32, 4),
            matrix('ffn_gate_shexp', D, 32),
            matrix('ffn_down_shexp', 32, D),
            matrix('ffn_up_shexp', D, 32),
          ]),
    ],
  },
  mamba: {
    kind: 'recurrent, tied head',
    layers: 2,
    metadata: {
      ...RMS_EPSILON,
      feed_forward_length: uint32(0),
      'attention.head_count': uint32(0),
      'ssm.conv_kernel': uint32(4),
      'ssm.inner_size': uint32(2 * D),
      'ssm.state_size': uint32(16),
      'ssm.time_step_rank': uint32(32),
    },
    tensors: [OUTPUT_NORM],
    block: () => [
      norm('attn_norm'),
      matrix('ssm_in', D, 4 * D),
      ['ssm_conv1d.weight', [4, 2 * D], 'kernel'],
      ['ssm_conv1d.bias', [2 * D], 'bias'],
      matrix('ssm_x', 2 * D, 32 + 2 * 16),
      ...withBias('ssm_dt', 32, 2 * D),
      ['ssm_a', [16, 2 * D], 'decay'],
      ['ssm_d', [2 * D], 'norm'],
      matrix('ssm_out', 2 * D, D),
    ],
  },
  rwkv7: {
    kind: 'recurrent, with its own tokenizer',
    layers: 2,
    metadata: {
      ...{ ...FEED_FORWARD, ...EPSILON },
      'attention.head_count': uint32(0),
      // One head: ggml's kernels take 64 values at a time.
      'wkv.head_size': uint32(D),
      'attention.decay_lora_rank': uint32(32),
      'attention.iclr_lora_rank': uint32(32),
      'attention.value_residual_mix_lora_rank': uint32(32),
      'attention.gate_lora_rank': uint32(32),
      token_shift_count: uint32(2),
    },
    tensors: [...normWithBias('token_embd_norm'), ...OUTPUT_NORM_WITH_BIAS, HEAD_OF_ITS_OWN],
    block: () => [
      ...normWithBias('attn_norm'),
      ...normWithBias('attn_norm_2'),
      ...['w', 'a', 'v'].flatMap((name): Row[] => [
        [`time_mix_${name}0.weight`, [D], 'bias'],
        matrix(`time_mix_${name}1`, D, 32),
        matrix(`time_mix_${name}2`, 32, D),
      ]),
      matrix('time_mix_g1', D, 32),
      matrix('time_mix_g2', 32, D),
      ['time_mix_lerp_fused.weight', [D, 1, 1, 6], 'share'],
      ['time_mix_k_k.weight', [D], 'share'],
      ['time_mix_k_a.weight', [D], 'share'],
      ['time_mix_r_k.weight', [D], 'bias'],
      matrix('time_mix_key', D, D),
      matrix('time_mix_value', D, D),
      matrix('time_mix_receptance', D, D),
      ...normWithBias('time_mix_ln'),
      matrix('time_mix_output', D, D),
      ['channel_mix_lerp_k.weight', [D, 1, 1], 'share'],
      matrix('channel_mix_key', D, F),
      matrix('channel_mix_value', F, D),
    ],
    vocabulary: rwkvVocabulary,
  },
  qwen35: {
    kind: 'hybrid: gated delta net and attention',
    layers: 4,
    metadata: {
      ...{ ...HEAD_COUNTS, ...FEED_FORWARD, ...RMS_EPSILON },
      'attention.key_length': uint32(HEAD),
      'attention.value_length': uint32(HEAD),
      'rope.dimension_count': uint32(8),
      'rope.dimension_sections': arrayOf('int32', [2, 1, 1, 0]),
      'ssm.conv_kernel': uint32(DELTA.kernel),
      'ssm.inner_size': uint32(DELTA_VALUES),
      'ssm.state_size': uint32(DELTA.width),
      'ssm.time_step_rank': uint32(DELTA.valueHeads),
      'ssm.group_count': uint32(DELTA.keyHeads),
      full_attention_interval: uint32(4),
    },
    tensors: [OUTPUT_NORM],
    block: (layer) => [
      norm('attn_norm'),
      norm('post_attention_norm'),
      ...(layer % 4 === 3
        ? [...attention(2 * D, KEYS, D), norm('attn_q_norm', HEAD), norm('attn_k_norm', HEAD)]
        : ([
            matrix('attn_qkv', D, 2 * DELTA_KEYS + DELTA_VALUES),
            matrix('attn_gate', D, DELTA_VALUES),
            ['ssm_conv1d.weight', [DELTA.kernel, 2 * DELTA_KEYS + DELTA_VALUES], 'kernel'],
            ['ssm_dt.bias', [DELTA.valueHeads], 'bias'],
            ['ssm_a', [DELTA.valueHeads], 'decay'],
            matrix('ssm_beta', D, DELTA.valueHeads),
            matrix('ssm_alpha', D, DELTA.valueHeads),
            norm('ssm_norm', DELTA.width),
            matrix('ssm_out', DELTA_VALUES, D),
          ] as Row[])),
      ...gated(),
    ],
  },
  granitehybrid: {
    kind: 'hybrid: Mamba-2 and attention',
    layers: 3,
    metadata: {
      ...{ ...FEED_FORWARD, ...RMS_EPSILON, ...SSM_METADATA },
      'attention.head_count': uint32(HEADS),
      'attention.head_count_kv': arrayOf('uint32', [0, KEY_HEADS, 0]),
      logit_scale: float32(2),
      residual_scale: float32(0.7),
      embedding_scale: float32(2),
      'attention.scale': float32(0.2),
    },
    tensors: [OUTPUT_NORM],
    block: (layer) => [
      norm('attn_norm'),
      ...(layer === 1 ? attention() : mamba2()),
      norm('ffn_norm'),
      ...gated(),
    ],
  },
  'falcon-h1': {
    kind: 'hybrid: Mamba-2 and attention in each layer',
    layers: 2,
    metadata: {
      ...{ ...HEAD_COUNTS, ...FEED_FORWARD, ...RMS_EPSILON, ...SSM_METADATA },
      'attention.key_length': uint32(HEAD),
      'attention.value_length': uint32(HEAD),
    },
    tensors: [OUTPUT_NORM, HEAD_OF_ITS_OWN],
    block: () => [
      ...mamba2(),
      ...attention(),
      norm('attn_norm'),
      ['ffn_norm', [D], 'norm'],
      ...gated(),
    ],
  },
  lfm2: {
    kind: 'hybrid: short convolutions and attention, tied head',
    layers: 3,
    metadata: {
      ...{ ...FEED_FORWARD, ...RMS_EPSILON },
      'attention.head_count': uint32(HEADS),
      'attention.head_count_kv': arrayOf('uint32', [0, KEY_HEADS, 0]),
      'shortconv.l_cache': uint32(3),
    },
    tensors: [['token_embd_norm.weight', [D], 'outputNorm']],
    block: (layer) => [
      norm('attn_norm'),
      norm('ffn_norm'),
      ...(layer === 1
        ? [...attention(), norm('attn_q_norm', HEAD), norm('attn_k_norm', HEAD)]
        : ([
            ['shortconv.conv.weight', [3, D], 'kernel'],
            matrix('shortconv.in_proj', D, 3 * D),
            matrix('shortconv.out_proj', D, D),
          ] as Row[])),
      ...gated(),
    ],
  },
  gemma4: {
    kind: 'sliding window with heads of another width, with its own tokenizer',
    layers: 3,
    metadata: {
      ...{ ...FEED_FORWARD, ...RMS_EPSILON },
      'attention.head_count': uint32(HEADS),
      'attention.head_count_kv': arrayOf('uint32', [KEY_HEADS, KEY_HEADS, 1]),
      'attention.key_length': uint32(2 * HEAD),
      'attention.value_length': uint32(2 * HEAD),
      'attention.key_length_swa': uint32(HEAD),
      'attention.value_length_swa': uint32(HEAD),
      'attention.sliding_window': uint32(16),
      'attention.sliding_window_pattern': arrayOf('bool', [1, 1, 0]),
      'attention.shared_kv_layers': uint32(0),
      'rope.dimension_count': uint32(2 * HEAD),
      'rope.dimension_count_swa': uint32(HEAD),
      'rope.freq_base_swa': float32(10_000),
      embedding_length_per_layer_input: uint32(0),
      final_logit_softcapping: float32(30),
    },
    tensors: [OUTPUT_NORM, ['rope_freqs.weight', [HEAD], 'one']],
    block: (layer) => {
      const width = layer === 2 ? 2 * HEAD : HEAD;
      const keys = (layer === 2 ? 1 : KEY_HEADS) * width;
      return [
        norm('attn_norm'),
        ...attention(HEADS * width, keys),
        norm('attn_q_norm', width),
        norm('attn_k_norm', width),
        norm('post_attention_norm'),
        ['layer_output_scale.weight', [1], 'norm'],
        norm('ffn_norm'),
        ...gated(),
        norm('post_ffw_norm'),
      ];
    },
    vocabulary: gemma4Vocabulary,
  },
  gpt2: {
    kind: 'learned positions, tied head',
    layers: 2,
    metadata: { ...ALL_HEADS, ...FEED_FORWARD, ...EPSILON },
    tensors: [['position_embd.weight', [D, CONTEXT], 'positions'], ...OUTPUT_NORM_WITH_BIAS],
    block: () => [
      ...normWithBias('attn_norm'),
      ...fusedWithBias(D),
      ...normWithBias('ffn_norm'),
      ...plainWithBias(),
    ],
  },
  mpt: {
    kind: 'ALiBi, tied head',
    layers: 2,
    metadata: {
      ...{ ...ALL_HEADS, ...FEED_FORWARD, ...EPSILON },
      'attention.max_alibi_bias': float32(8),
    },
    tensors: [OUTPUT_NORM],
    block: () => [
      norm('attn_norm'),
      matrix('attn_qkv', D, 3 * D),
      matrix('attn_output', D, D),
      norm('ffn_norm'),
      matrix('ffn_up', D, F),
      matrix('ffn_down', F, D),
    ],
  },
  bloom: {
    kind: 'ALiBi, norm of the embedding, untied head',
    layers: 2,
    metadata: { ...ALL_HEADS, ...FEED_FORWARD, ...EPSILON },
    tensors: [...normWithBias('token_embd_norm'), ...OUTPUT_NORM_WITH_BIAS, HEAD_OF_ITS_OWN],
    block: () => [
      ...normWithBias('attn_norm'),
      ...fusedWithBias(D),
      ...normWithBias('ffn_norm'),
      ...plainWithBias(),
    ],
  },
  phi2: {
    kind: 'parallel residual, partial rotation, untied head with a bias',
    layers: 2,
    metadata: {
      ...{ ...ALL_HEADS, ...FEED_FORWARD, ...EPSILON },
      'rope.dimension_count': uint32(8),
    },
    tensors: [...OUTPUT_NORM_WITH_BIAS, HEAD_OF_ITS_OWN, ['output.bias', [VOCABULARY], 'bias']],
    block: () => [
      ...normWithBias('attn_norm'),
      ...withBias('attn_q', D, D),
      ...withBias('attn_k', D, D),
      ...withBias('attn_v', D, D),
      ...withBias('attn_output', D, D),
      ...plainWithBias(),
    ],
  },
  gptneox: {
    kind: 'parallel residual, fused queries, keys and values, untied head',
    layers: 2,
    metadata: {
      ...{ ...ALL_HEADS, ...FEED_FORWARD, ...EPSILON },
      'rope.dimension_count': uint32(8),
      use_parallel_residual: bool(true),
    },
    tensors: [...OUTPUT_NORM_WITH_BIAS, HEAD_OF_ITS_OWN],
    block: () => [
      ...normWithBias('attn_norm'),
      ...fusedWithBias(D),
      ...normWithBias('ffn_norm'),
      ...plainWithBias(),
    ],
  },
  gemma: {
    kind: 'scaled embedding, tied head',
    layers: 2,
    metadata: {
      ...{ ...HEAD_COUNTS, ...FEED_FORWARD, ...RMS_EPSILON },
      'attention.key_length': uint32(HEAD),
      'attention.value_length': uint32(HEAD),
    },
    tensors: [OUTPUT_NORM],
    block: () => [norm('attn_norm'), ...attention(), norm('ffn_norm'), ...gated()],
  },
  minicpm: {
    kind: 'rope factors of shorter and of longer texts, tied head',
    layers: 2,
    metadata: {
      ...{ ...HEAD_COUNTS, ...FEED_FORWARD, ...RMS_EPSILON },
      'rope.dimension_count': uint32(HEAD),
      'rope.scaling.type': text('longrope'),
      'rope.scaling.original_context_length': uint32(CONTEXT),
    },
    tensors: [
      OUTPUT_NORM,
      ['rope_factors_short.weight', [HEAD / 2], 'norm'],
      ['rope_factors_long.weight', [HEAD / 2], 'share'],
    ],
    block: () => [norm('attn_norm'), ...attention(), norm('ffn_norm'), ...gated()],
  },
  stablelm: {
    kind: 'partial rotation, norms with a bias, untied head',
    layers: 2,
    metadata: {
      ...{ ...HEAD_COUNTS, ...FEED_FORWARD, ...EPSILON },
      'rope.dimension_count': uint32(8),
    },
    tensors: [...OUTPUT_NORM_WITH_BIAS, HEAD_OF_ITS_OWN],
    block: () => [
      ...normWithBias('attn_norm'),
      ...attention(),
      ...normWithBias('ffn_norm'),
      ...gated(),
    ],
  },
} as const satisfies Record<string, DecoderPlan>;

export type Decoder = keyof typeof DECODERS;
export const DECODER_NAMES = Object.keys(DECODERS) as Decoder[];

/** Architectures whose samples are evaluated each by itself. */
export const ALONE: readonly Decoder[] = [
  'mamba',
  'rwkv7',
  'qwen35',
  'granitehybrid',
  'falcon-h1',
  'lfm2',
];

function valuesOf(
  [name, dimensions, values]: Row,
  seed: bigint,
  controlIds: readonly number[],
): Float32Array {
  const table = normalTable();
  const random = new Random(
    deriveSeed({
      ...{ runSeed: seed, purpose: 'synthetic weights', iteration: 0 },
      ...{ problemId: name, sample: 0 },
    }),
  );
  const columns = dimensions[0]!;
  const rows = dimensions.slice(1).reduce((product, size) => product * size, 1);
  const weights = new Float32Array(rows * columns);
  const deviation = (values === 'embedding' ? 2.5 : 1.5) / Math.sqrt(columns);
  for (let row = 0; row < rows; row++) {
    let at = random.nextInteger(0, table.length - 1);
    const stride = random.nextInteger(1, table.length - 1);
    for (let column = 0; column < columns; column++) {
      const normal = table[at]!;
      at = (at + stride) % table.length;
      const element = {
        embedding: deviation * normal,
        matrix: deviation * normal,
        positions: 0.2 * normal,
        norm: 1 + 0.1 * normal,
        // Signs, so that a tied head does not answer each token with itself.
        outputNorm: (1 + 0.1 * normal) * (normal < 0 ? -1 : 1),
        bias: 0.3 * normal,
        kernel: 0.5 * normal,
        decay: -0.3 - 0.5 * Math.abs(normal),
        share: 1 / (1 + Math.exp(-normal)),
        one: 1,
      }[values];
      weights[row * columns + column] = element;
    }
  }
  if (values === 'embedding')
    for (const id of controlIds)
      for (let column = 0; column < columns; column++) weights[id * columns + column]! *= 0.1;
  return weights;
}

export interface DecoderModel {
  readonly vocabulary: Vocabulary;
  readonly metadata: readonly MetadataEntry[];
  readonly tensors: readonly { readonly info: TensorInfo; readonly data: Uint8Array }[];
}

/** A file of an architecture before it is encoded; a test may change any part of it. */
export function synthesizeDecoder(
  architecture: Decoder,
  { type = 'F32', seed = 1n }: { type?: 'F32' | 'F16' | 'Q8_0'; seed?: bigint } = {},
): DecoderModel {
  const plan: DecoderPlan = DECODERS[architecture];
  const vocabulary = plan.vocabulary?.() ?? byteLevelVocabulary('gpt-2', false);
  const tokens = vocabulary.tokens.length;
  const rows: Row[] = [
    ['token_embd.weight', [D, VOCABULARY], 'embedding'] as const,
    ...plan.tensors,
    ...Array.from({ length: plan.layers }, (_, layer) =>
      plan.block(layer).map((row): Row => [`blk.${layer}.${row[0]}`, row[1], row[2]]),
    ).flat(),
  ].map(([name, dimensions, values]) => [
    name,
    dimensions.map((size) => (size === VOCABULARY ? tokens : size)),
    values,
  ]);
  const encoded = rows.map((row) => {
    const stored: TensorType = ['embedding', 'matrix'].includes(row[2]) ? type : 'F32';
    return { row, stored, data: quantise(stored, valuesOf(row, seed, vocabulary.controlIds)) };
  });
  const infos = layOut(
    encoded.map(({ row: [name, dimensions], stored, data }) => ({
      ...{ name, dimensions, bytes: data.length },
      typeId: BLOCK_FORMATS[stored].id,
    })),
  );
  const own: Record<string, MetadataValue> = {
    block_count: uint32(plan.layers),
    context_length: uint32(CONTEXT),
    embedding_length: uint32(D),
    ...plan.metadata,
  };
  return {
    vocabulary,
    metadata: [
      { key: 'general.architecture', value: text(architecture) },
      { key: 'general.type', value: text('model') },
      { key: 'general.name', value: text(`synthetic ${architecture} ${type} seed ${seed}`) },
      ...Object.entries(own).map(([key, value]) => ({ key: `${architecture}.${key}`, value })),
      ...vocabulary.metadata,
      { key: 'tokenizer.chat_template', value: text(CHATML_TEMPLATE) },
    ],
    tensors: encoded.map(({ data }, i) => ({ info: infos[i]!, data })),
  };
}

/** Writes a file of the architecture; the same options give the same bytes. */
export function writeDecoder(
  file: string,
  architecture: Decoder,
  options: { type?: 'F32' | 'F16' | 'Q8_0'; seed?: bigint } = {},
): void {
  writeAtomically(file, encodeModel(synthesizeDecoder(architecture, options)));
}
