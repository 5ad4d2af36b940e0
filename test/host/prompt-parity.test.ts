/**
 * A3: what is trained on, what is assessed and what is served is asked in the same tokens, whatever
 * the template.
 */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { localBackend } from '../../src/backends/local.js';
import { text } from '../../src/embedded/gguf.js';
import { answeredTokens } from '../../src/fine-tuning/training-examples.js';
import { loadModel, ModelHost } from '../../src/index.js';
import { ARCHITECTURES, encodeModel, synthesizeModel } from '../models/synthetic.js';
import { CHATML_TEMPLATE, type VocabularyKind } from '../models/vocabulary.js';
import { folder, ONE_THREAD } from './fixtures.js';

const INSTRUCT =
  "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]" +
  '{% else %}{{ m.content }}{% endif %}{% endfor %}';
const TURNS =
  '{{ bos_token }}{% for m in messages %}<start_of_turn>{{ m.role }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}' +
  '{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}';
const TEMPLATES: readonly (readonly [string, string | null])[] = [
  ['none', null],
  ['ChatML', CHATML_TEMPLATE],
  ['[INST]', INSTRUCT],
  ['turns', TURNS],
];

const models = ARCHITECTURES.slice(0, 4).flatMap((architecture) =>
  TEMPLATES.map(([title, template], i) => {
    const vocabulary: VocabularyKind = architecture === 'gemma2' || i === 2 ? 'spm' : 'bpe';
    return {
      title: `${architecture}, ${vocabulary}, ${title}`,
      architecture,
      vocabulary,
      template,
    };
  }),
);
const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: '  A <|im_end|> and a </s>: 3 < 4?\n' },
] as const;
const asked = messages.slice(1);

async function parity(file: string, prompt: typeof messages | typeof asked): Promise<void> {
  await using model = await loadModel(file, ONE_THREAD);
  const trained = answeredTokens(prompt, 'yes', model, 'row');
  const request = {
    prompts: [{ id: 'p', messages: prompt, seeds: [1n] }],
    sampling: { temperature: 0 },
    maxTokens: 1,
  };
  const assessed: number[][] = [];
  for await (const { promptIds } of localBackend(model).sample(request))
    assessed.push([...promptIds]);
  await using host = new ModelHost();
  const served = await (await host.load(file, { ...ONE_THREAD, contextTokens: 512 })).generate({
    messages: prompt,
    maxTokens: 1,
  });
  const ids = [...trained.tokenIds.subarray(0, trained.labelled)];
  expect(assessed).toEqual([ids]);
  expect([...served.promptIds]).toEqual(ids);
  const { bos, addBos } = model.info;
  const count = ids.filter((id) => id === bos).length;
  expect(count).toBeLessThanOrEqual(1);
  if (addBos) expect([ids[0], count]).toEqual([bos, 1]);
}

describe('A3: one way of asking', () => {
  test.each(models)('$title', async ({ architecture, vocabulary, template }) => {
    const synthetic = synthesizeModel({ architecture, vocabulary, layers: 1, chatTemplate: false });
    const metadata = [
      ...synthetic.metadata,
      ...(template === null ? [] : [{ key: 'tokenizer.chat_template', value: text(template) }]),
    ];
    const file = path.join(
      folder,
      `${architecture}-${vocabulary}-${TEMPLATES.findIndex(([, each]) => each === template)}.gguf`,
    );
    writeFileSync(file, Buffer.concat([...encodeModel({ ...synthetic, metadata })]));
    await parity(file, asked);
  });

  test('the embedded model, with a system message', () => parity('tiny', messages));
});
