/**
 * The embedded model's vocabulary: byte-level BPE learned on prompts and replies. A job's letter is
 * a token of its own or with what is said of the job, numbers up to 99 are one token each, and what
 * stands between them, often a whole rule of the prompt, is one token where it is frequent enough.
 * llama.cpp's pre-tokenizer `superbpe` (Liu et al. 2025), which bounds words by digits only, allows
 * that.
 */
import type { PromptStyle } from '../tasks/task.js';
import { schedulingPrompt } from '../tasks/scheduling/prompt.js';
import { BYTE_CHARACTERS, learnMerges, type Merge } from './byte-pair.js';
import { drawExample } from './corpus.js';
import { arrayOf, bool, text, uint32, type MetadataEntry } from './gguf.js';

export const CHATML_TEMPLATE =
  "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

const CONTROL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'];
/** Values of tokenizer.ggml.token_type. */
const NORMAL_TYPE = 1;
const CONTROL_TYPE = 3;

const SEED = 20_261_121n;
const EXAMPLES = 6000;
/** Tokens in all; a multiple of the trainer's block of rows. */
const SIZE = 1088;

/** Fragments that should be one token: runs between job letters and numbers. */
const fragmentsOf = (content: string): string[] =>
  content
    .split(/(\d+|(?<![A-Za-z])[A-Z](?![A-Za-z]))/)
    .filter((part) => part.length > 1 && !/^\d+$/.test(part));

function countFragments(): Map<string, number> {
  const counts = new Map<string, number>();
  for (let index = 0; index < EXAMPLES; index++) {
    const { problem, reply } = drawExample(SEED, index, 1);
    const style: PromptStyle = index % 50 === 0 ? 'plain' : 'cot';
    const texts = [
      ...schedulingPrompt(problem, style).map(({ role, content }) => `${role}\n${content}`),
      'assistant\n',
      reply,
    ];
    for (const part of texts.flatMap(fragmentsOf)) counts.set(part, (counts.get(part) ?? 0) + 1);
  }
  return counts;
}

const isLetter = (symbol: string): boolean => /^[A-Z]$/.test(symbol);

/**
 * A capital joins only small letters that follow it, so that a job letter beside a blank or a mark
 * stays alone.
 */
const allowed = (left: string, right: string): boolean =>
  !isLetter(right) && (!isLetter(left) || /^[a-z]/.test(right));

const DIGITS = [...'0123456789'];
/** 10 to 99, then the thousands that the prompt's limit of characters needs. */
const numberMerges: readonly Merge[] = [
  ...DIGITS.slice(1).flatMap((left) => DIGITS.map((right): Merge => [left, right])),
  ['0', '0'],
  ['00', '0'],
];

/**
 * Letter and what it says of the job become one token, so that a number stands right behind
 * everything by which it is looked up. Last in rank: their parts are whole before.
 */
const LABELS = [...'ABCDEFGHIJ'];
const bytes = (content: string): string =>
  [...Buffer.from(content)].map((byte) => BYTE_CHARACTERS[byte]!).join('');
const labelMerges: readonly Merge[] = LABELS.flatMap((label) => [
  ...[' takes ', ' starts ', ' ends ', ': '].map((phrase): Merge => [label, bytes(phrase)]),
  ...[
    [', ', ': '],
    ['; ', ' starts '],
    ['; ', ' ends '],
  ].map(([mark, phrase]): Merge => [bytes(mark!), label + bytes(phrase!)]),
]);

/** Metadata of the tokenizer, the chat template included, and the number of tokens. */
export function learnVocabulary(): {
  readonly size: number;
  readonly metadata: readonly MetadataEntry[];
} {
  const learned =
    SIZE - BYTE_CHARACTERS.length - CONTROL.length - numberMerges.length - labelMerges.length;
  const merges = [
    ...numberMerges,
    ...learnMerges(countFragments(), learned, allowed),
    ...labelMerges,
  ];
  const tokens = [...new Set([...BYTE_CHARACTERS, ...merges.map((pair) => pair.join(''))])];
  const controlAt = tokens.length;
  tokens.push(...CONTROL);
  const idOf = (token: string): number => controlAt + CONTROL.indexOf(token);
  return {
    size: tokens.length,
    metadata: [
      { key: 'tokenizer.ggml.model', value: text('gpt2') },
      { key: 'tokenizer.ggml.pre', value: text('superbpe') },
      { key: 'tokenizer.ggml.tokens', value: arrayOf('string', tokens) },
      {
        key: 'tokenizer.ggml.token_type',
        value: arrayOf(
          'int32',
          tokens.map((_, id) => (id < controlAt ? NORMAL_TYPE : CONTROL_TYPE)),
        ),
      },
      {
        key: 'tokenizer.ggml.merges',
        value: arrayOf(
          'string',
          merges.map((pair) => pair.join(' ')),
        ),
      },
      { key: 'tokenizer.ggml.bos_token_id', value: uint32(idOf('<|endoftext|>')) },
      { key: 'tokenizer.ggml.eos_token_id', value: uint32(idOf('<|im_end|>')) },
      { key: 'tokenizer.ggml.padding_token_id', value: uint32(idOf('<|endoftext|>')) },
      { key: 'tokenizer.ggml.add_bos_token', value: bool(false) },
      { key: 'tokenizer.chat_template', value: text(CHATML_TEMPLATE) },
    ],
  };
}
