/**
 * A real language model in the engine, held against node-llama-cpp and llama.cpp's own rendering of
 * its template.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { getLlama, LlamaLogLevel, type Llama, type LlamaModel } from 'node-llama-cpp';
import { peerGreedy } from '../../bench/peer/node-llama-cpp.js';
import type { ChatMessage, Model, Rollout } from '../../src/index.js';
import { loadReal, PROMPTS, REAL_MODEL } from './real-model.js';

/**
 * Rendered by the engine for templates of llama.cpp v0.5.0 (common/jinja), the release that is
 * linked.
 */
const VECTORS = JSON.parse(
  readFileSync(new URL('chat-template.vectors.json', import.meta.url), 'utf8'),
) as {
  messages: ChatMessage[];
  generationPrompt: boolean;
  text: string;
}[];

let llama: Llama;
let peer: LlamaModel;
let model: Model;
beforeAll(async () => {
  llama = await getLlama({
    gpu: false,
    build: 'never',
    logLevel: LlamaLogLevel.disabled,
    maxThreads: 1,
  });
  peer = await llama.loadModel({ modelPath: REAL_MODEL });
  model = await loadReal();
});
afterAll(async () => {
  await model.dispose();
  await peer.dispose();
  await llama.dispose();
});

async function generate(request: Parameters<Model['generate']>[0]): Promise<Rollout[]> {
  const rollouts: Rollout[] = [];
  for await (const rollout of model.generate(request)) rollouts.push(rollout);
  return rollouts;
}

describe('prompts', () => {
  test.each(VECTORS)(
    'are byte for byte what llama.cpp renders, its tokens too (%#)',
    ({ messages, generationPrompt, text }) => {
      const rendered = model.renderChat(messages, { addGenerationPrompt: generationPrompt });
      expect(rendered.text).toBe(text);
      expect([...rendered.tokenIds]).toEqual([...peer.tokenize(text, true)]);
    },
  );

  test('have the system prompt of the template where none is given, and no other', () => {
    const [plain, own] = [[], [{ role: 'system', content: 'Be brief.' } as const]].map(
      (system) => model.renderChat([...system, { role: 'user', content: 'Hi' }]).text,
    );
    expect(plain).toContain(
      '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>',
    );
    expect(own).not.toContain('SmolLM');
  });

  test('a reply ends at the end of its turn', async () => {
    const [rollout] = await generate({
      prompts: [{ messages: [{ role: 'user', content: 'What is 2+3?' }] }],
      sampling: { temperature: 0 },
      maxTokens: 64,
    });
    expect(rollout).toMatchObject({ finish: 'stop', text: '2 + 3 = 5' });
  });
});

const FULL = process.env.ISOPRO_FULL === '1';
/** Every third in the short form: one of each subject and form. */
const DECODED = FULL ? PROMPTS : PROMPTS.filter((_, i) => i % 3 === 0);

test(`greedy decoding equals node-llama-cpp token for token on ${DECODED.length} prompts`, async () => {
  for (const content of DECODED) {
    const { tokenIds } = model.renderChat([{ role: 'user', content }]);
    const request = {
      prompts: [{ tokenIds }],
      sampling: { temperature: 0 },
      maxTokens: 24,
      ignoreEndOfSequence: true,
    };
    const [rollout] = await generate(request);
    expect({ content, ids: [...rollout!.tokenIds] }).toEqual({
      content,
      ids: await peerGreedy(llama, REAL_MODEL, tokenIds, 24),
    });
  }
}, 600_000);
