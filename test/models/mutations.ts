/**
 * Seeded mutations of model and adapter files: what a broken download, a faulty converter or an
 * attacker may hand us. Some are harmless by construction; such a file must still load. The same
 * seed gives the same file.
 */
import { Random } from '../../src/random.js';
import { synthesizeAdapter } from './adapter.js';
import {
  alignUp,
  DEFAULT_ALIGNMENT,
  encodeHeader,
  layOut,
  type MetadataEntry,
  type MetadataValue,
  type ScalarType,
} from '../../src/embedded/gguf.js';
import { DECODER_NAMES, synthesizeDecoder } from './decoders.js';
import {
  ARCHITECTURES,
  synthesizeModel,
  type SyntheticModelOptions,
  type TensorType,
} from './synthetic.js';

export interface Mutant {
  /** What was changed, for the report of a failure. */
  readonly label: string;
  readonly harmless: boolean;
  readonly bytes: Buffer;
}

interface Tensor {
  name: string;
  dimensions: number[];
  typeId: number;
  offset: number;
  data: Uint8Array;
}

/** A file as lists that a mutation edits in place. */
interface Draft {
  version: number;
  /** Alignment that the data is laid out with. */
  alignment: number;
  metadata: MetadataEntry[];
  tensors: Tensor[];
  trailing: number;
}

type Source = Pick<ReturnType<typeof synthesizeModel>, 'metadata' | 'tensors'>;

const draftOf = (source: Source): Draft => ({
  version: 3,
  alignment: DEFAULT_ALIGNMENT,
  metadata: [...source.metadata],
  tensors: source.tensors.map(({ info, data }) => ({
    ...info,
    dimensions: [...info.dimensions],
    data,
  })),
  trailing: 0,
});

function encode(draft: Draft): Buffer {
  const header = encodeHeader(draft.metadata, draft.tensors, {
    version: draft.version,
    alignment: draft.alignment,
  });
  const parts: Uint8Array[] = [header];
  for (const { data } of draft.tensors)
    parts.push(data, Buffer.alloc(alignUp(data.length, draft.alignment) - data.length));
  parts.push(Buffer.alloc(draft.trailing, 7));
  return Buffer.concat(parts);
}

function layOutAgain(draft: Draft): void {
  layOut(
    draft.tensors.map((tensor) => ({ ...tensor, bytes: tensor.data.length })),
    draft.alignment,
  ).forEach(({ offset }, i) => {
    draft.tensors[i]!.offset = offset;
  });
}

const pick = <T>(random: Random, items: readonly T[]): T =>
  items[random.nextInteger(0, items.length - 1)]!;

type Mutation = (draft: Draft, random: Random) => string;

/** Replaces the value at an index; the entry stays where it is. */
const put = (draft: Draft, index: number, value: MetadataValue): void => {
  draft.metadata[index] = { key: draft.metadata[index]!.key, value };
};

const set = (draft: Draft, key: string, value: MetadataValue): void => {
  const index = draft.metadata.findIndex((entry) => entry.key === key);
  if (index < 0) draft.metadata.push({ key, value });
  else put(draft, index, value);
};

const architectureOf = (draft: Draft): string =>
  String(
    (
      draft.metadata.find(({ key }) => key === 'general.architecture')?.value as
        | { value?: unknown }
        | undefined
    )?.value ?? 'llama',
  );

const EXTREMES: Readonly<
  Record<ScalarType, readonly (number | bigint | boolean | string | Uint8Array)[]>
> = {
  uint8: [0, 1, 127, 255],
  int8: [-128, -1, 0, 1, 127],
  uint16: [0, 1, 65_535],
  int16: [-32_768, -1, 0, 32_767],
  uint32: [0, 1, 2, 3, 7, 31, 63, 100, 1000, 65_535, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1],
  int32: [-(2 ** 31), -1, 0, 1, 2 ** 31 - 1],
  float32: [NaN, Infinity, -Infinity, 0, -0, -1, 1e-45, 3.4e38, 1e-5, 1],
  bool: [false, true],
  string: [
    '',
    'x',
    '\0',
    'llama\0',
    '\n',
    '🙂',
    Buffer.from([0xff, 0xfe, 0x80]),
    '{{ x',
    '{% for i in [1] %}',
    'a'.repeat(70_000),
  ],
  uint64: [0n, 1n, 2n ** 63n, 2n ** 64n - 1n],
  int64: [-(2n ** 63n), -1n, 0n],
  float64: [NaN, -Infinity, 0, 1e300],
};
const SCALARS = Object.keys(EXTREMES) as ScalarType[];

const scalarEntries = (draft: Draft): number[] =>
  draft.metadata.flatMap(({ value }, i) => (value.type === 'array' ? [] : [i]));
const arrayEntries = (draft: Draft): number[] =>
  draft.metadata.flatMap(({ value }, i) => (value.type === 'array' ? [i] : []));

const extremeValue: Mutation = (draft, random) => {
  const index = pick(random, scalarEntries(draft));
  const { key, value } = draft.metadata[index]!;
  const extreme = pick(random, EXTREMES[value.type as ScalarType]);
  put(draft, index, { type: value.type as ScalarType, value: extreme });
  return `${key} = ${String(extreme).slice(0, 20)}`;
};

const otherType: Mutation = (draft, random) => {
  const index = random.nextInteger(0, draft.metadata.length - 1);
  const type = pick(random, SCALARS);
  const element = pick(random, EXTREMES[type]);
  const array = random.nextInteger(0, 3) === 0;
  put(
    draft,
    index,
    array
      ? {
          type: 'array',
          of: type,
          value: Array.from({ length: random.nextInteger(0, 3) }, () => element),
        }
      : { type, value: element },
  );
  return `${draft.metadata[index]!.key} becomes ${array ? 'an array of ' : ''}${type}`;
};

const removeKey: Mutation = (draft, random) =>
  `without ${draft.metadata.splice(random.nextInteger(0, draft.metadata.length - 1), 1)[0]!.key}`;

const duplicateKey: Mutation = (draft, random) => {
  const entry = pick(random, draft.metadata);
  draft.metadata.push(entry);
  return `${entry.key} twice`;
};

const arrayLength: Mutation = (draft, random) => {
  const index = pick(random, arrayEntries(draft));
  const { key, value } = draft.metadata[index]! as {
    key: string;
    value: Extract<MetadataValue, { type: 'array' }>;
  };
  const change = pick(random, ['empty', 'shorter', 'longer', 'half']);
  const elements = value.value;
  const changed =
    change === 'empty'
      ? []
      : change === 'shorter'
        ? elements.slice(0, -1)
        : change === 'half'
          ? elements.slice(0, elements.length >> 1)
          : [...elements, ...elements.slice(-1)];
  put(draft, index, { ...value, value: changed });
  return `${key} ${change}`;
};

const arrayElement: Mutation = (draft, random) => {
  const index = pick(random, arrayEntries(draft));
  const { key, value } = draft.metadata[index]! as {
    key: string;
    value: Extract<MetadataValue, { type: 'array' }>;
  };
  const elements = [...value.value];
  const at = random.nextInteger(0, Math.max(0, elements.length - 1));
  // Another element's value gives duplicates: of tokens, libllama asserts that there are none.
  const replacement =
    elements.length > 0 && random.nextInteger(0, 1) === 0
      ? pick(random, elements)
      : pick(random, EXTREMES[value.of]);
  elements[at] = replacement;
  put(draft, index, { ...value, value: elements });
  return `${key}[${at}] = ${String(replacement).slice(0, 20)}`;
};

/**
 * Keys that switch on parts of llama.cpp which these models do not have, with values that
 * contradict them.
 */
const FOREIGN: readonly (readonly [string, MetadataValue])[] = [
  ['A.expert_count', { type: 'uint32', value: 8 }],
  ['A.expert_used_count', { type: 'uint32', value: 2 }],
  ['A.expert_group_count', { type: 'uint32', value: 4 }],
  ['A.nextn_predict_layers', { type: 'uint32', value: 1 }],
  ['A.nextn_predict_layers', { type: 'uint32', value: 77 }],
  ['A.attention.causal', { type: 'bool', value: false }],
  ['A.pooling_type', { type: 'uint32', value: 2 }],
  ['A.pooling_type', { type: 'uint32', value: 99 }],
  ['A.rope.dimension_count', { type: 'uint32', value: 3 }],
  ['A.rope.dimension_count', { type: 'uint32', value: 4096 }],
  ['A.attention.key_length', { type: 'uint32', value: 5 }],
  ['A.attention.value_length', { type: 'uint32', value: 2 }],
  ['A.attention.key_length_swa', { type: 'uint32', value: 6 }],
  ['A.attention.sliding_window', { type: 'uint32', value: 0 }],
  ['A.attention.sliding_window', { type: 'uint32', value: 2 ** 32 - 1 }],
  ['A.attention.sliding_window_pattern', { type: 'uint32', value: 0 }],
  ['A.attention.sliding_window_pattern', { type: 'array', of: 'uint8', value: [1, 0, 1, 1, 1, 1] }],
  ['A.rope.scaling.type', { type: 'string', value: 'none' }],
  ['A.rope.scaling.type', { type: 'string', value: 'spiral' }],
  ['A.rope.scaling.type', { type: 'string', value: 'longrope' }],
  ['A.rope.scaling.type', { type: 'string', value: 'yarn' }],
  ['A.rope.scaling.factor', { type: 'float32', value: NaN }],
  ['A.rope.scaling.factor', { type: 'float32', value: 4 }],
  ['A.rope.scaling.original_context_length', { type: 'uint32', value: 0 }],
  ['A.embedding_length_out', { type: 'uint32', value: 7 }],
  ['A.classifier.output_labels', { type: 'array', of: 'string', value: ['a', 'b'] }],
  ['A.attention.head_count', { type: 'array', of: 'uint32', value: [4, 2] }],
  ['A.feed_forward_length', { type: 'array', of: 'uint32', value: [128] }],
  ['A.attention.layer_norm_rms_epsilon', { type: 'float32', value: -1 }],
  ['A.final_logit_softcapping', { type: 'float32', value: 0 }],
  ['A.attn_logit_softcapping', { type: 'float32', value: NaN }],
  ['split.count', { type: 'uint16', value: 3 }],
  ['split.no', { type: 'uint16', value: 1 }],
  ['general.alignment', { type: 'uint32', value: 0 }],
  ['general.alignment', { type: 'uint32', value: 1 }],
  ['general.alignment', { type: 'uint32', value: 8 }],
  ['general.alignment', { type: 'uint32', value: 33 }],
  ['general.alignment', { type: 'uint32', value: 2 ** 31 }],
  ['general.type', { type: 'string', value: 'adapter' }],
  ['general.type', { type: 'string', value: 'mmproj' }],
  ['general.architecture', { type: 'string', value: 'bert' }],
  ['general.architecture', { type: 'string', value: 'clip' }],
  ['general.architecture', { type: 'string', value: 't5' }],
  ['general.architecture', { type: 'string', value: 'mamba' }],
  ['general.architecture', { type: 'string', value: '(unknown)' }],
  ['general.name', { type: 'string', value: 'phi-3' }],
  ['tokenizer.ggml.model', { type: 'string', value: 'bert' }],
  ['tokenizer.ggml.model', { type: 'string', value: 'rwkv' }],
  ['tokenizer.ggml.model', { type: 'string', value: 't5' }],
  ['tokenizer.ggml.model', { type: 'string', value: 'none' }],
  ['tokenizer.ggml.model', { type: 'string', value: 'llama' }],
  ['tokenizer.ggml.model', { type: 'string', value: 'gpt2' }],
  ['tokenizer.ggml.model', { type: 'string', value: 'plamo2' }],
  ['tokenizer.ggml.model', { type: 'string', value: 'gemma4' }],
  ['tokenizer.ggml.model', { type: 'string', value: 'test' }],
  ['tokenizer.ggml.pre', { type: 'string', value: 'gemma4' }],
  ['tokenizer.ggml.pre', { type: 'string', value: 'whitespace' }],
  ['tokenizer.ggml.pre', { type: 'string', value: 'sarvam-moe' }],
  ['tokenizer.ggml.pre', { type: 'string', value: 'jina-v2-de' }],
  ['tokenizer.ggml.pre', { type: 'string', value: 'deepseek-llm' }],
  ['tokenizer.ggml.pre', { type: 'string', value: 'no such' }],
  ['tokenizer.ggml.eos_token_id', { type: 'uint32', value: 2 ** 32 - 1 }],
  ['tokenizer.ggml.bos_token_id', { type: 'uint32', value: 99_999 }],
  ['tokenizer.ggml.eot_token_id', { type: 'uint32', value: 99_999 }],
  ['tokenizer.ggml.unknown_token_id', { type: 'uint32', value: 2 ** 31 }],
  ['tokenizer.ggml.add_bos_token', { type: 'bool', value: true }],
  ['tokenizer.ggml.add_eos_token', { type: 'bool', value: true }],
  ['tokenizer.ggml.add_space_prefix', { type: 'bool', value: true }],
  ['tokenizer.ggml.suppress_tokens', { type: 'array', of: 'int32', value: [-1, 3, 2 ** 31 - 1] }],
  [
    'tokenizer.ggml.precompiled_charsmap',
    { type: 'array', of: 'uint8', value: [255, 255, 255, 255, 1] },
  ],
  ['tokenizer.ggml.token_type_count', { type: 'uint32', value: 0 }],
  [
    'tokenizer.ggml.merges',
    { type: 'array', of: 'string', value: ['', ' ', 'a', 'a ', ' b', 'a b c'] },
  ],
  ['tokenizer.ggml.scores', { type: 'array', of: 'float32', value: [NaN] }],
  ['tokenizer.chat_template', { type: 'string', value: '{% for m in messages %}' }],
  ['tokenizer.chat_template', { type: 'string', value: '{{ raise_exception("no") }}' }],
];

const foreignKey: Mutation = (draft, random) => {
  const [key, value] = pick(random, FOREIGN);
  const full = key.replace(/^A\./, `${architectureOf(draft)}.`);
  set(draft, full, value);
  return `${full} = ${String(value.value).slice(0, 30)}`;
};

const tensorShape: Mutation = (draft, random) => {
  const tensor = pick(random, draft.tensors);
  const change = pick(random, [
    'swap',
    'plus',
    'minus',
    'zero',
    'huge',
    'overflow',
    'more',
    'fewer',
    'none',
    'five',
  ]);
  const axis = random.nextInteger(0, tensor.dimensions.length - 1);
  switch (change) {
    case 'swap':
      tensor.dimensions.reverse();
      break;
    case 'plus':
      tensor.dimensions[axis]! += 1;
      break;
    case 'minus':
      tensor.dimensions[axis]! -= 1;
      break;
    case 'zero':
      tensor.dimensions[axis] = 0;
      break;
    case 'huge':
      tensor.dimensions[axis] = 2 ** 40;
      break;
    case 'overflow':
      tensor.dimensions = [2 ** 32, 2 ** 32];
      break;
    case 'more':
      tensor.dimensions.push(2);
      break;
    case 'fewer':
      tensor.dimensions.pop();
      break;
    case 'none':
      tensor.dimensions = [];
      break;
    case 'five':
      tensor.dimensions = [1, 1, 1, 1, tensor.data.length];
      break;
  }
  return `${tensor.name} shape ${change}`;
};

const tensorType: Mutation = (draft, random) => {
  const tensor = pick(random, draft.tensors);
  tensor.typeId = pick(random, [
    0,
    1,
    2,
    3,
    4,
    6,
    8,
    9,
    10,
    12,
    14,
    15,
    16,
    19,
    24,
    26,
    28,
    30,
    31,
    34,
    39,
    40,
    41,
    42,
    43,
    255,
    2 ** 31,
    2 ** 32 - 1,
  ]);
  return `${tensor.name} type ${tensor.typeId}`;
};

/** Every matrix of another type of the same width, so that only the type is at fault. */
const tensorTypeOfSameSize: Mutation = (draft, random) => {
  const [from, to] = pick(random, [
    [0, 26],
    [1, 30],
    [1, 25],
  ] as const); // f32 to i32, f16 to bf16, f16 to i16
  for (const tensor of draft.tensors)
    if (tensor.typeId === from && (tensor.dimensions.length > 1 || random.nextInteger(0, 1) === 0))
      tensor.typeId = to;
  return `tensors of type ${from} become ${to}`;
};

const tensorName: Mutation = (draft, random) => {
  const tensor = pick(random, draft.tensors);
  const other = pick(random, draft.tensors).name;
  const before = tensor.name;
  tensor.name = pick(random, [
    other,
    '',
    `${before}\0`,
    `${before}x`,
    before.replace('blk.0', 'blk.99'),
    'x'.repeat(63),
    'x'.repeat(64),
    'x'.repeat(5000),
    'rope_freqs.weight',
  ]);
  return `${before} renamed ${tensor.name.slice(0, 30)}`;
};

const tensorOffset: Mutation = (draft, random) => {
  const tensor = pick(random, draft.tensors);
  tensor.offset = pick(random, [
    0,
    tensor.offset + 32,
    Math.max(0, tensor.offset - 32),
    tensor.offset + 1,
    2 ** 50,
    pick(random, draft.tensors).offset,
  ]);
  return `${tensor.name} offset ${tensor.offset}`;
};

const removeTensor: Mutation = (draft, random) => {
  const [removed] = draft.tensors.splice(random.nextInteger(0, draft.tensors.length - 1), 1);
  layOutAgain(draft);
  return `without ${removed!.name}`;
};

const tensorValues: Mutation = (draft, random) => {
  const tensor = pick(random, draft.tensors);
  const fill = pick(random, [0x00, 0xff, 0x7f]);
  tensor.data = new Uint8Array(tensor.data.length).fill(fill);
  return `${tensor.name} filled with ${fill}`;
};

/**
 * Combinations of hyper-parameters of a consistent other model: the tensors then contradict them.
 */
const hyperParameter: Mutation = (draft, random) => {
  const parameters = [
    'block_count',
    'embedding_length',
    'feed_forward_length',
    'attention.head_count',
    'attention.head_count_kv',
    'attention.key_length',
  ];
  const key = `${architectureOf(draft)}.${pick(random, parameters)}`;
  const value = random.nextInteger(0, 130);
  set(draft, key, { type: 'uint32', value });
  return `${key} = ${value}`;
};

const STRUCTURAL: readonly Mutation[] = [
  extremeValue,
  extremeValue,
  otherType,
  removeKey,
  duplicateKey,
  arrayLength,
  arrayElement,
  arrayElement,
  foreignKey,
  foreignKey,
  foreignKey,
  tensorShape,
  tensorType,
  tensorTypeOfSameSize,
  tensorName,
  tensorOffset,
  removeTensor,
  tensorValues,
  hyperParameter,
  hyperParameter,
];

/** On the encoded file. */
const BYTES: readonly ((
  bytes: Buffer,
  headerLength: number,
  random: Random,
) => [Buffer, string])[] = [
  (bytes, header, random) => {
    const flips = random.nextInteger(1, 6);
    const at = Array.from({ length: flips }, () => random.nextInteger(0, header - 1));
    for (const position of at) bytes[position] = bytes[position]! ^ (1 << random.nextInteger(0, 7));
    return [bytes, `bits flipped at ${at.join(', ')}`];
  },
  (bytes, header, random) => {
    const at = random.nextInteger(0, header - 1);
    bytes[at] = random.nextInteger(0, 255);
    return [bytes, `byte ${at} = ${bytes[at]}`];
  },
  (bytes, header, random) => {
    const length =
      random.nextInteger(0, 3) === 0
        ? random.nextInteger(0, bytes.length - 1)
        : random.nextInteger(0, header);
    return [bytes.subarray(0, length), `cut to ${length} bytes`];
  },
  (bytes, header, random) => {
    const at = random.nextInteger(0, header - 1);
    return [Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]), `byte ${at} removed`];
  },
  (bytes, header, random) => {
    const at = random.nextInteger(0, header - 1);
    return [
      Buffer.concat([
        bytes.subarray(0, at),
        Buffer.from([random.nextInteger(0, 255)]),
        bytes.subarray(at),
      ]),
      `a byte inserted at ${at}`,
    ];
  },
  (bytes, _header, random) => {
    // The counts of tensors and entries.
    const at = pick(random, [8, 16]);
    bytes.writeBigUInt64LE(
      pick(random, [
        0n,
        1n,
        2n ** 63n,
        2n ** 64n - 1n,
        bytes.readBigUInt64LE(at) + 1n,
        bytes.readBigUInt64LE(at) - 1n,
      ]),
      at,
    );
    return [bytes, `count at ${at} = ${bytes.readBigUInt64LE(at)}`];
  },
  (bytes, _header, random) => {
    bytes.writeUInt32LE(pick(random, [0, 1, 4, 2 ** 24 * 3, 2 ** 32 - 1]), 4);
    return [bytes, `version ${bytes.readUInt32LE(4)}`];
  },
];

function unusedKey(draft: Draft): string {
  let number = 0;
  while (draft.metadata.some(({ key }) => key === `note.${number}`)) number++;
  return `note.${number}`;
}

const HARMLESS: readonly Mutation[] = [
  (draft, random) => {
    const type = pick(random, SCALARS);
    draft.metadata.splice(random.nextInteger(0, draft.metadata.length), 0, {
      key: unusedKey(draft),
      value: { type, value: pick(random, EXTREMES[type]) },
    });
    return `an extra key of type ${type}`;
  },
  (draft) => {
    draft.metadata.push({
      key: unusedKey(draft),
      value: { type: 'array', of: 'string', value: ['', 'a', 'b'] },
    });
    return 'an extra array';
  },
  (draft, random) => {
    draft.metadata = random.shuffle(draft.metadata);
    return 'metadata reordered';
  },
  (draft, random) => {
    draft.tensors = random.shuffle(draft.tensors);
    layOutAgain(draft);
    return 'tensors reordered';
  },
  (draft, random) => {
    const alignment = pick(random, [32, 64, 128, 4096]);
    set(draft, 'general.alignment', { type: 'uint32', value: alignment });
    draft.alignment = alignment;
    layOutAgain(draft);
    return `aligned to ${alignment}`;
  },
  (draft) => {
    draft.version = 2;
    return 'version 2';
  },
  (draft, random) => {
    draft.trailing = random.nextInteger(1, 1000);
    return `${draft.trailing} bytes after the end`;
  },
  (draft, random) => {
    const name = pick(random, ['', 'Ä model', 'x'.repeat(1000), 'one\nmore']);
    set(draft, 'general.name', { type: 'string', value: name });
    return 'another name';
  },
];

const HARMLESS_FOR_MODELS: readonly Mutation[] = [
  ...HARMLESS,
  (draft, random) => {
    const value = pick(random, [64, 2048, 131_072]);
    set(draft, `${architectureOf(draft)}.context_length`, { type: 'uint32', value });
    return `context of ${value}`;
  },
  (draft, random) => {
    const value = pick(random, [5000, 500_000, 1e6]);
    set(draft, `${architectureOf(draft)}.rope.freq_base`, { type: 'float32', value });
    return `rope base ${value}`;
  },
  (draft) => {
    draft.metadata = draft.metadata.filter(({ key }) => key !== 'tokenizer.chat_template');
    return 'without a chat template';
  },
  (draft) => {
    const index = draft.metadata.findIndex(({ key }) => key === 'tokenizer.ggml.merges');
    if (index >= 0) put(draft, index, { type: 'array', of: 'string', value: [] });
    return 'without merges';
  },
];

/**
 * A tenth of the seeds give harmless mutants; the rest change one to three things, or bytes of the
 * header.
 */
function mutate(
  source: Source,
  random: Random,
  harmless: readonly Mutation[],
  structural: readonly Mutation[],
  what: string,
): Mutant {
  const draft = draftOf(source);
  const labels: string[] = [];
  const apply = (mutations: readonly Mutation[], count: number): void => {
    for (let i = 0; i < count; i++) labels.push(pick(random, mutations)(draft, random));
  };
  const kind = random.nextInteger(0, 9);
  const named = (bytes: Buffer): Mutant => ({
    label: `${what}: ${labels.join('; ')}`,
    harmless: kind === 0,
    bytes,
  });
  if (kind === 0) {
    apply(harmless, random.nextInteger(1, 3));
    return named(encode(draft));
  }
  if (kind <= 6) {
    apply(structural, pick(random, [1, 1, 1, 2, 3]));
    return named(encode(draft));
  }
  const whole = encode(draft);
  const [bytes, label] = pick(random, BYTES)(
    whole,
    encodeHeader(draft.metadata, draft.tensors).length,
    random,
  );
  labels.push(label);
  return named(Buffer.from(bytes));
}

const sources = new Map<string, ReturnType<typeof synthesizeModel>>();
function source(options: SyntheticModelOptions): ReturnType<typeof synthesizeModel> {
  const key = JSON.stringify(options);
  const found = sources.get(key) ?? synthesizeModel(options);
  sources.set(key, found);
  return found;
}

/**
 * Mutant `seed` of a small model; architectures take turns, with types and vocabularies of every
 * kind.
 */
export function mutateModel(seed: number): Mutant {
  const random = new Random(BigInt(seed));
  const architecture = ARCHITECTURES[seed % ARCHITECTURES.length]!;
  const type = pick<TensorType>(random, ['F32', 'F16', 'Q8_0', 'Q4_0', 'Q4_1', 'MXFP4']);
  const vocabulary = pick(random, ['bpe', 'bpe', 'spm'] as const);
  const model = source({
    architecture,
    type,
    vocabulary,
    layers: 2,
    tiedHead: random.nextInteger(0, 1) === 0,
    ropeFactors: architecture === 'llama',
  });
  return mutate(
    model,
    random,
    HARMLESS_FOR_MODELS,
    STRUCTURAL,
    `${architecture} ${type} ${vocabulary}`,
  );
}

/** Keys of other graphs than the file's. */
const FOREIGN_TO_DECODERS: readonly (readonly [string, MetadataValue])[] = [
  ...FOREIGN.filter(([key]) => key !== 'general.architecture'),
  ['A.attention.head_count_kv', { type: 'uint32', value: 0 }],
  ['A.attention.head_count_kv', { type: 'array', of: 'uint32', value: [1, 0, 3, 2] }],
  ['A.attention.head_count_kv', { type: 'array', of: 'uint32', value: [2] }],
  ['A.attention.head_count', { type: 'uint32', value: 0 }],
  ['A.attention.key_length', { type: 'uint32', value: 4096 }],
  ['A.attention.key_length_mla', { type: 'uint32', value: 7 }],
  ['A.attention.max_alibi_bias', { type: 'float32', value: -3e38 }],
  ['A.attention.clamp_kqv', { type: 'float32', value: -1 }],
  ['A.attention.shared_kv_layers', { type: 'uint32', value: 1 }],
  ['A.attention.shared_kv_layers', { type: 'uint32', value: 500 }],
  ['A.full_attention_interval', { type: 'uint32', value: 0 }],
  ['A.full_attention_interval', { type: 'uint32', value: 1 }],
  ['A.leading_dense_block_count', { type: 'uint32', value: 9 }],
  ['A.rope.dimension_sections', { type: 'array', of: 'int32', value: [0, 0, 0, 0] }],
  ['A.rope.dimension_sections', { type: 'array', of: 'int32', value: [-5, 9, 2 ** 30, 1] }],
  ['A.rope.dimension_count', { type: 'uint32', value: 0 }],
  ['A.ssm.conv_kernel', { type: 'uint32', value: 0 }],
  ['A.ssm.group_count', { type: 'uint32', value: 0 }],
  ['A.ssm.group_count', { type: 'uint32', value: 3 }],
  ['A.ssm.state_size', { type: 'uint32', value: 2 ** 20 }],
  ['A.ssm.time_step_rank', { type: 'uint32', value: 0 }],
  ['A.shortconv.l_cache', { type: 'uint32', value: 0 }],
  ['A.shortconv.l_cache', { type: 'uint32', value: 1 }],
  ['A.wkv.head_size', { type: 'uint32', value: 16 }],
  ['A.token_shift_count', { type: 'uint32', value: 0 }],
  ['A.expert_used_count', { type: 'uint32', value: 9 }],
  ['A.expert_weights_scale', { type: 'float32', value: 0 }],
  ['A.expert_gating_func', { type: 'uint32', value: 77 }],
  ['A.logit_scale', { type: 'float32', value: 0 }],
  ['A.use_parallel_residual', { type: 'bool', value: false }],
  ['A.vocab_size', { type: 'uint32', value: 2 ** 31 }],
  ...(DECODER_NAMES.map((name) => ['general.architecture', { type: 'string', value: name }]) as [
    string,
    MetadataValue,
  ][]),
];

const STRUCTURAL_FOR_DECODERS: readonly Mutation[] = STRUCTURAL.map((mutation) =>
  mutation === foreignKey
    ? (draft, random) => {
        const [key, value] = pick(random, FOREIGN_TO_DECODERS);
        const full = key.replace(/^A\./, `${architectureOf(draft)}.`);
        set(draft, full, value);
        return `${full} = ${String(value.value).slice(0, 30)}`;
      }
    : mutation,
);

const decoders = new Map<string, ReturnType<typeof synthesizeDecoder>>();

/** Mutant `seed` of a small file of an architecture that has no validator; they take turns. */
export function mutateDecoder(seed: number): Mutant {
  const random = new Random(BigInt(seed));
  const architecture = DECODER_NAMES[seed % DECODER_NAMES.length]!;
  const type = pick(random, ['F32', 'F16', 'Q8_0'] as const);
  const key = `${architecture} ${type}`;
  const model = decoders.get(key) ?? synthesizeDecoder(architecture, { type });
  decoders.set(key, model);
  // Merges are part of some tokenizers alone, and learned positions of some files.
  return mutate(model, random, HARMLESS, STRUCTURAL_FOR_DECODERS, key);
}

const INVOCATION = 'adapter.alora.invocation_tokens';

const ADAPTER_KEYS: readonly (readonly [string, MetadataValue])[] = [
  ['general.type', { type: 'uint32', value: 1 }],
  ['general.type', { type: 'string', value: 'model' }],
  ['general.architecture', { type: 'uint32', value: 1 }],
  ['general.architecture', { type: 'string', value: 'qwen3' }],
  ['adapter.type', { type: 'bool', value: true }],
  ['adapter.type', { type: 'string', value: 'dora' }],
  ['adapter.lora.alpha', { type: 'string', value: '8' }],
  ['adapter.lora.alpha', { type: 'uint32', value: 8 }],
  ['adapter.lora.alpha', { type: 'float32', value: NaN }],
  ['adapter.lora.alpha', { type: 'float32', value: 0 }],
  ['adapter.lora.alpha', { type: 'float32', value: 1e30 }],
  [INVOCATION, { type: 'array', of: 'uint32', value: [1, 2] }],
  [INVOCATION, { type: 'array', of: 'uint32', value: [] }],
  [INVOCATION, { type: 'array', of: 'uint32', value: Array<number>(256).fill(3) }],
  [INVOCATION, { type: 'array', of: 'uint32', value: Array<number>(257).fill(3) }],
  [INVOCATION, { type: 'array', of: 'uint32', value: [2 ** 31 - 1] }],
  [INVOCATION, { type: 'array', of: 'uint32', value: [2 ** 32 - 1, 1] }],
  [INVOCATION, { type: 'array', of: 'int32', value: [-1] }],
  [INVOCATION, { type: 'array', of: 'uint64', value: [2n ** 32n + 1n] }],
  [INVOCATION, { type: 'array', of: 'string', value: ['1', '2'] }],
  [INVOCATION, { type: 'uint32', value: 1 }],
  [INVOCATION, { type: 'string', value: 'x' }],
];

/** Of an adapter that acts from some tokens on: its only array. */
const OF_ARRAYS: readonly Mutation[] = [arrayLength, arrayElement];

const STRUCTURAL_FOR_ADAPTERS: readonly Mutation[] = [
  ...STRUCTURAL.filter(
    (mutation) =>
      mutation !== foreignKey && !OF_ARRAYS.includes(mutation) && mutation !== hyperParameter,
  ),
  (draft, random) => {
    const [key, value] = pick(random, ADAPTER_KEYS);
    set(draft, key, value);
    return `${key} = ${String(value.value)}`;
  },
  (draft, random) => {
    const tensor = pick(random, draft.tensors);
    const before = tensor.name;
    tensor.name = pick(random, [
      before.replace('.lora_a', '.lora_b'),
      before.replace('.lora_b', '.lora_c'),
      before.replace('blk.0', 'blk.7'),
      `lora_a.${before}`,
      before.replace(/blk\.\d\.\w+/, 'token_embd'),
      before.replace(/blk\.\d\.\w+/, 'output_norm'),
      before.replace('attn_q', 'attn_norm'),
      'blk.0.attn_norm.weight',
    ]);
    return `${before} renamed ${tensor.name}`;
  },
];

const STRUCTURAL_FOR_ACTIVATED: readonly Mutation[] = [...STRUCTURAL_FOR_ADAPTERS, ...OF_ARRAYS];

export const ADAPTER_BASE: SyntheticModelOptions = {
  architecture: 'llama',
  type: 'F32',
  layers: 2,
};

/**
 * Mutant `seed` of an adapter for the model of ADAPTER_BASE. Half of them act from a token on that
 * the prompt of a mutant has.
 */
export function mutateAdapter(seed: number, invocationTokens: readonly number[]): Mutant {
  const random = new Random(BigInt(seed));
  const activated = random.nextInteger(0, 1) === 0;
  const { shape } = source(ADAPTER_BASE);
  const adapter = synthesizeAdapter(shape, {
    type: pick(random, ['F32', 'F16']),
    magnitude: 0.3,
    ...(random.nextInteger(0, 1) === 0 ? { targets: ['attn_q', 'ffn_down'] } : {}),
    ...(activated ? { invocationTokens } : {}),
  });
  return activated
    ? mutate(adapter, random, HARMLESS, STRUCTURAL_FOR_ACTIVATED, 'activated adapter')
    : mutate(adapter, random, HARMLESS, STRUCTURAL_FOR_ADAPTERS, 'adapter');
}
