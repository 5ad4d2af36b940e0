/**
 * What `models inspect` says of a file before it is loaded: run, train, chat, memory, and what will
 * not work.
 */
import { expect, test } from '@jest/globals';
import { dictionary } from '../../src/dictionary.js';
import type { ModelInspection } from '../../src/engine/inspect.js';
import { suitability } from '../../src/engine/suitability.js';

const TEMPLATE =
  '{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}';
const NO_SYSTEM = `{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}${TEMPLATE}`;

const inspection = (
  metadata: Record<string, string>,
  changes: Partial<ModelInspection> = {},
): ModelInspection => ({
  version: 3,
  bytes: 100,
  kind: 'model',
  architecture: 'llama',
  name: 'own',
  parameters: 1,
  vocabularySize: 10,
  types: [],
  kvType: 'f16',
  tensors: [
    { name: 'blk.0.attn_q.weight', type: 'f32', dimensions: [8, 4], bytes: 128 },
    { name: 'blk.0.ffn_down.weight', type: 'f32', dimensions: [6, 8], bytes: 192 },
    { name: 'blk.0.attn_norm.weight', type: 'f32', dimensions: [8], bytes: 32 },
    { name: 'token_embd.weight', type: 'f32', dimensions: [8, 10], bytes: 320 },
  ],
  warnings: [],
  problem: null,
  trainingProblem: null,
  cache: null,
  evaluatesAlone: false,
  metadata: dictionary(Object.entries(metadata)),
  ...changes,
});
const memory = {
  weightsBytes: 100,
  kvBytesPerToken: 1,
  contextTokens: 100,
  kvBytes: 100,
  stateBytes: 0,
  totalBytes: 200,
};
const of = (
  metadata: Record<string, string>,
  changes?: Partial<ModelInspection>,
  available = 1000,
) => suitability(inspection(metadata, changes), memory, available);
const END = { 'tokenizer.ggml.eos_token_id': '2' };

test('a model with a template and an end token has nothing against it', () => {
  expect(
    of({ ...END, 'tokenizer.ggml.eot_token_id': '7', 'tokenizer.chat_template': TEMPLATE }),
  ).toEqual({
    chat: { template: 'own', problem: null, system: true, ends: [2, 7] },
    // rank 16: A of 16 x inputs and B of outputs x 16, of the matrices in layers alone; 16 bytes
    // each
    adapter: { rank: 16, parameters: 16 * (8 + 4 + 6 + 8), bytes: 16 * 16 * (8 + 4 + 6 + 8) },
    cautions: [],
  });
});

test.each([
  ['no template', END, {}, /ChatML is used/],
  [
    'a template that is none',
    { ...END, 'tokenizer.chat_template': '{% for' },
    {},
    /chat template cannot be rendered/,
  ],
  [
    'a template without system messages',
    { ...END, 'tokenizer.chat_template': NO_SYSTEM },
    {},
    /put their text into the question/,
  ],
  ['no end token', { 'tokenizer.chat_template': TEMPLATE }, {}, /names no end-of-text token/],
  [
    'a type that is not trained',
    { ...END, 'tokenizer.chat_template': TEMPLATE },
    { trainingProblem: { code: 'MODEL_UNSUPPORTED', message: 'yarn cannot be trained' } },
    /^run, train: yarn cannot be trained$/,
  ],
] as const)('%s is said', (_, metadata, changes, caution) => {
  expect(of(metadata, changes as Partial<ModelInspection>).cautions).toEqual([
    expect.stringMatching(caution),
  ]);
});

test('too little memory is said; of a file that cannot be loaded nothing more is', () => {
  const metadata = { ...END, 'tokenizer.chat_template': TEMPLATE };
  expect(of(metadata, {}, 199).cautions).toEqual([expect.stringMatching(/does not fit/)]);
  expect(of({}, { problem: { code: 'MODEL_CORRUPT', message: 'cut off' } }, 0).cautions).toEqual(
    [],
  );
});

test('what a template uses and is not supported is listed, whether a question reaches it or not', () => {
  const chatTemplate =
    "{% if tools %}{{ tools | groupby('a') }}{{ tools is escaped }}{% include 'x' %}{% endif %}{{ messages[0].content.encode() }}";
  const { chat, cautions } = of({ ...END, 'tokenizer.chat_template': chatTemplate });
  expect(chat.problem).toContain('the method "encode"');
  expect(cautions).toContainEqual(
    'messages: the chat template uses the filter "groupby", the test "escaped", the statement "include", the method "encode", ' +
      'which is not supported; a prompt that needs it is refused',
  );
});
