/**
 * An adapter that acts from the reply on in llama.cpp's own server: llama-server of the pinned
 * release, built from the source that node-llama-cpp carries (bench/peer). For `npm run test:full`.
 *
 * The model is in F32. We add what an adapter adds in another order of sums than llama.cpp's graph,
 * and of these last bits quantised matrices make tenths of a nat, since activations are rounded to
 * eight bits before them.
 *
 * llama-server v0.5.0 applies such an adapter from the token before the first invocation token on.
 * Its file therefore names the invocation tokens without their first: the token before these is the
 * first one, from which ours acts.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { findLlamaServer, startLlamaServer } from '../../bench/peer/llama-server.js';
import { loadAddon } from '../../src/engine/addon.js';
import { readAdapterFile } from '../../src/engine/adapter-files.js';
import { createTrainer, loadModel, mergeAdapter, type TrainSequence } from '../../src/index.js';
import { PROMPTS, REAL_MODEL } from './real-model.js';

const runs = (command: string): boolean => spawnSync(command, ['--version']).status === 0;
const missing =
  process.env.ISOPRO_FULL !== '1'
    ? 'it belongs to npm run test:full'
    : ['git', 'cmake', 'c++'].filter((command) => !runs(command)).join(', ') || null;
if (missing !== null)
  console.warn(`skipping the test of an activated adapter in llama-server: ${missing}`);

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-llama-server-'));
const at = (name: string): string => path.join(folder, name);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const TOKENS = 12;

/** The model with its weights in F32: an adapter that changes nothing is merged into it. */
async function unpacked(out: string): Promise<string> {
  await using trainer = await createTrainer(
    { path: REAL_MODEL },
    { lora: { rank: 1, layers: { top: 1 }, targets: ['o'] }, threads: 1 },
  );
  await trainer.exportAdapter(at('zero.gguf'));
  await mergeAdapter({ model: REAL_MODEL, adapter: at('zero.gguf'), out, type: 'f32' });
  return out;
}

(missing === null ? test : test.skip)(
  'greedy tokens of llama-server are ours on fifty prompts',
  async () => {
    const { program, reason } = findLlamaServer(undefined, () => undefined);
    if (program === null) throw new Error(reason);
    const file = await unpacked(at('f32.gguf'));
    await using model = await loadModel(file, { threads: 1, matmul: 'ggml' });
    const invocationTokens = model.generationPrompt();
    await using trainer = await createTrainer(model, {
      ...{ lora: { rank: 4 }, optimiser: { learningRate: 1e-3 }, threads: 1, seed: 5 },
      invocationTokens,
    });
    const asked = model.renderChat([{ role: 'user', content: 'Tell me something.' }]).tokenIds;
    const tokenIds = Int32Array.of(
      ...asked,
      ...model.tokenize('Arr, that I know, matey!'),
      model.info.eos,
    );
    const labelMask = Uint8Array.from(tokenIds, (_, t) => (t >= asked.length ? 1 : 0));
    const example: TrainSequence = { tokenIds, labelMask };
    for (let i = 0; i < 4; i++) await trainer.step([example]);
    await trainer.exportAdapter(at('ours.gguf'));
    const { modules } = await readAdapterFile(at('ours.gguf'), null);
    const shorter = invocationTokens.slice(1);
    writeFileSync(
      at('theirs.gguf'),
      await loadAddon().addon.encodeAdapter(file, modules, '', shorter),
    );

    const adapter = await model.loadAdapter(at('ours.gguf'));
    const prompts = PROMPTS.map((content) => ({
      tokenIds: model.renderChat([{ role: 'user', content }]).tokenIds,
    }));
    // a server does not return the token that ends a reply
    const spoken = (reply: Int32Array): number[] =>
      [...reply].filter((id) => !model.info.ends.includes(id));
    const [ours, base]: number[][][] = [[], []];
    for (const prompt of prompts) {
      const request = { prompts: [prompt], sampling: { temperature: 0 }, maxTokens: TOKENS };
      for await (const reply of model.generate({ ...request, adapter }))
        ours!.push(spoken(reply.tokenIds));
      for await (const reply of model.generate({ ...request, adapter: null }))
        base!.push(spoken(reply.tokenIds));
    }
    const changed = ours!.filter((reply, i) => reply.join() !== base![i]!.join());
    expect(changed.length).toBeGreaterThan(PROMPTS.length / 3);

    const server = await startLlamaServer(program, {
      ...{ model: file, adapters: [at('theirs.gguf')], slots: 1, slotTokens: 1024 },
      threads: 1,
    });
    try {
      const theirs: number[][] = [];
      for (const { tokenIds } of prompts) {
        const answer = await fetch(`${server.url}/completion`, {
          method: 'POST',
          body: JSON.stringify({
            ...{ prompt: [...tokenIds], n_predict: TOKENS, temperature: 0 },
            ...{ cache_prompt: false, return_tokens: true, samplers: ['temperature'] },
          }),
        });
        theirs.push(
          spoken(Int32Array.from(((await answer.json()) as { tokens: number[] }).tokens)),
        );
      }
      expect(theirs).toEqual(ours);
    } finally {
      await server.close();
    }
  },
  3_600_000,
);
