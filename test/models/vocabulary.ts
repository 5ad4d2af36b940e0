/**
 * Vocabularies for the synthetic models: any text tokenises, because every byte has a token. `bpe`
 * is GPT-2's byte-level BPE (as in Qwen and Llama 3), `spm` the score-based one with byte fallback
 * (as in Llama 2 and Gemma).
 */
import { arrayOf, bool, text, uint32, type MetadataEntry } from '../../src/embedded/gguf.js';

export type VocabularyKind = 'bpe' | 'spm';

/** Values of tokenizer.ggml.token_type. */
const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;
const BYTE = 6;

export interface Vocabulary {
  readonly tokens: readonly string[];
  readonly types: readonly number[];
  /** Ids that a model should not produce by itself. */
  readonly controlIds: readonly number[];
  readonly metadata: readonly MetadataEntry[];
}

export const CHATML_TEMPLATE =
  "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

const CORPUS =
  'the model answers the question and the judge reads the answer: when the proof holds the reward is one, otherwise it is nothing. ' +
  'in a schedule every task has a start, a length and a machine; there is no time at which two tasks share one machine. ' +
  'she sells what they were selling, the other sold her something that nobody had thought of before. ';

/**
 * GPT-2's reversible map from bytes to printable characters: printable ones stay, the others move
 * up from 256.
 */
export const BYTE_CHARACTERS: readonly string[] = (() => {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return String.fromCharCode(printable ? byte : next++);
  });
})();

/**
 * The `count` most frequent merges of the corpus, learned within words as BPE does; ties go to the
 * first seen.
 */
function learnMerges(count: number, corpus = CORPUS): [string, string][] {
  const words = corpus
    .match(/ ?[a-z]+|[^a-z]+/gi)!
    .map((word) => [...Buffer.from(word)].map((byte) => BYTE_CHARACTERS[byte]!));
  const merges: [string, string][] = [];
  while (merges.length < count) {
    const frequencies = new Map<string, number>();
    for (const word of words) {
      for (let i = 0; i + 1 < word.length; i++) {
        const pair = `${word[i]} ${word[i + 1]}`;
        frequencies.set(pair, (frequencies.get(pair) ?? 0) + 1);
      }
    }
    let best = '';
    for (const [pair, frequency] of frequencies)
      if (frequency > (frequencies.get(best) ?? 0)) best = pair;
    if (best === '') throw new RangeError(`the corpus has only ${merges.length} merges`);
    const [left, right] = best.split(' ') as [string, string];
    merges.push([left, right]);
    for (const word of words) {
      for (let i = 0; i + 1 < word.length; i++)
        if (word[i] === left && word[i + 1] === right) word.splice(i, 2, left + right);
    }
  }
  return merges;
}

/** Tokens that no merge leads to: they fill a vocabulary up to a size. */
const filler = (index: number): string => `~${index.toString(36)}~`;

function fill(tokens: string[], types: number[], size: number): void {
  if (tokens.length > size)
    throw new RangeError(
      `a vocabulary of ${size} tokens has no room for the ${tokens.length} basic ones`,
    );
  for (let i = 0; tokens.length < size; i++) {
    tokens.push(filler(i));
    types.push(NORMAL);
  }
}

const specialIds = (tokens: readonly string[], names: Record<string, string>): MetadataEntry[] =>
  Object.entries(names).map(([role, token]) => ({
    key: `tokenizer.ggml.${role}_token_id`,
    value: uint32(tokens.indexOf(token)),
  }));

/**
 * @param preTokenizer value of tokenizer.ggml.pre, as llama.cpp names them
 * @param size total number of tokens; without it only the basic ones
 */
export function byteLevelVocabulary(
  preTokenizer: string,
  addBos: boolean,
  size?: number,
  mergeCount = 80,
  corpus?: string,
): Vocabulary {
  const merges = learnMerges(mergeCount, corpus);
  const tokens = [...BYTE_CHARACTERS, ...new Set(merges.map(([left, right]) => left + right))];
  const types = tokens.map(() => NORMAL);
  const control = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<|begin_of_text|>'];
  if (size !== undefined) fill(tokens, types, size - control.length);
  const controlIds = control.map((token) => {
    types.push(CONTROL);
    return tokens.push(token) - 1;
  });
  return {
    tokens,
    types,
    controlIds,
    metadata: [
      { key: 'tokenizer.ggml.model', value: text('gpt2') },
      { key: 'tokenizer.ggml.pre', value: text(preTokenizer) },
      { key: 'tokenizer.ggml.tokens', value: arrayOf('string', tokens) },
      { key: 'tokenizer.ggml.token_type', value: arrayOf('int32', types) },
      {
        key: 'tokenizer.ggml.merges',
        value: arrayOf(
          'string',
          merges.map((pair) => pair.join(' ')),
        ),
      },
      ...specialIds(tokens, {
        bos: addBos ? '<|begin_of_text|>' : '<|endoftext|>',
        eos: '<|im_end|>',
        padding: '<|endoftext|>',
      }),
      { key: 'tokenizer.ggml.add_bos_token', value: bool(addBos) },
    ],
  };
}

/**
 * SentencePiece-style: scores decide the merges, `<0xNN>` tokens catch every byte that no piece
 * covers.
 */
export function scoredVocabulary(size?: number, mergeCount = 80): Vocabulary {
  const pieces = [
    ...new Set(learnMerges(mergeCount).map(([left, right]) => (left + right).replaceAll('Ġ', '▁'))),
  ].filter((piece) => /^[▁a-z]+$/.test(piece));
  const characters = ['▁', ...'abcdefghijklmnopqrstuvwxyz'];
  const tokens = ['<unk>', '<s>', '</s>'];
  const types = [UNKNOWN, CONTROL, CONTROL];
  const scores = [0, 0, 0];
  for (let byte = 0; byte < 256; byte++) {
    tokens.push(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
    types.push(BYTE);
    scores.push(0);
  }
  for (const control of ['<|im_start|>', '<|im_end|>']) {
    tokens.push(control);
    types.push(CONTROL);
    scores.push(0);
  }
  for (const [rank, piece] of [...pieces, ...characters].entries()) {
    tokens.push(piece);
    types.push(NORMAL);
    scores.push(-rank);
  }
  if (size !== undefined) fill(tokens, types, size);
  while (scores.length < tokens.length) scores.push(-1e6);
  return {
    tokens,
    types,
    controlIds: types.flatMap((type, id) => (type === CONTROL || type === UNKNOWN ? [id] : [])),
    metadata: [
      { key: 'tokenizer.ggml.model', value: text('llama') },
      { key: 'tokenizer.ggml.tokens', value: arrayOf('string', tokens) },
      { key: 'tokenizer.ggml.scores', value: arrayOf('float32', scores) },
      { key: 'tokenizer.ggml.token_type', value: arrayOf('int32', types) },
      ...specialIds(tokens, { bos: '<s>', eos: '</s>', unknown: '<unk>' }),
      { key: 'tokenizer.ggml.add_bos_token', value: bool(true) },
    ],
  };
}

/**
 * Of Gemma 4: byte-level BPE without its table of characters. Spaces are written as ▁, and a
 * `<0xNN>` token stands for each byte that no piece covers.
 */
export function gemma4Vocabulary(mergeCount = 80): Vocabulary {
  const merges = learnMerges(mergeCount)
    .map((pair) => pair.map((part) => part.replaceAll('Ġ', '▁')))
    .filter((pair) => pair.every((part) => /^[▁a-z]+$/.test(part)));
  const tokens = ['<pad>', '<eos>', '<bos>', '<unk>', '<|im_start|>', '<|im_end|>'];
  const controlIds = tokens.map((_, id) => id);
  const types = [CONTROL, CONTROL, CONTROL, UNKNOWN, CONTROL, CONTROL];
  for (let byte = 0; byte < 256; byte++) {
    tokens.push(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
    types.push(BYTE);
  }
  const pieces = ['▁', ...'abcdefghijklmnopqrstuvwxyz', ...merges.map((pair) => pair.join(''))];
  for (const piece of new Set(pieces)) {
    tokens.push(piece);
    types.push(NORMAL);
  }
  return {
    ...{ tokens, types, controlIds },
    metadata: [
      { key: 'tokenizer.ggml.model', value: text('gemma4') },
      { key: 'tokenizer.ggml.tokens', value: arrayOf('string', tokens) },
      { key: 'tokenizer.ggml.token_type', value: arrayOf('int32', types) },
      {
        key: 'tokenizer.ggml.merges',
        value: arrayOf(
          'string',
          merges.map((pair) => pair.join(' ')),
        ),
      },
      ...specialIds(tokens, { bos: '<bos>', eos: '<eos>', unknown: '<unk>', padding: '<pad>' }),
    ],
  };
}

/** Of RWKV: the longest token that fits; it writes bytes that do not print as \xNN. */
export function rwkvVocabulary(mergeCount = 80): Vocabulary {
  const written = (byte: number): string =>
    byte === 0x5c
      ? '\\\\'
      : byte > 0x20 && byte < 0x7f
        ? String.fromCharCode(byte)
        : `\\x${byte.toString(16).padStart(2, '0')}`;
  const pieces = learnMerges(mergeCount)
    .map((pair) => pair.join('').replaceAll('Ġ', ' '))
    .filter((piece) => /^[ a-z]{2,}$/.test(piece))
    .map((piece) => piece.replaceAll(' ', written(0x20)));
  const tokens = [
    '<s>',
    ...Array.from({ length: 256 }, (_, byte) => written(byte)),
    ...new Set(pieces),
  ];
  const types = tokens.map((_, id) => (id === 0 ? CONTROL : NORMAL));
  return {
    ...{ tokens, types, controlIds: [0] },
    metadata: [
      { key: 'tokenizer.ggml.model', value: text('rwkv') },
      { key: 'tokenizer.ggml.tokens', value: arrayOf('string', tokens) },
      { key: 'tokenizer.ggml.token_type', value: arrayOf('int32', types) },
      ...specialIds(tokens, { bos: '<s>', eos: '<s>' }),
    ],
  };
}
