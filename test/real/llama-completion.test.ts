/**
 * `adapters use --for llama-server` in llama.cpp's own program: llama-completion of the pinned
 * release, built from the source that node-llama-cpp carries, on the libraries that it ships. For
 * `npm run test:full`.
 */
import { execFile, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, test } from '@jest/globals';
import { createTrainer, prepareAdapter, type TrainSequence } from '../../src/index.js';
import { loadReal, PROMPTS, REAL_MODEL } from './real-model.js';

const run = promisify(execFile);
const BUILD = path.resolve('build-llama-completion');
const runs = (command: string): boolean => spawnSync(command, ['--version']).status === 0;
const missing =
  process.env.ISOPRO_FULL !== '1'
    ? 'it belongs to npm run test:full'
    : process.platform !== 'linux'
      ? 'its libraries are named for Linux'
      : ['git', 'cmake', 'c++'].filter((command) => !runs(command)).join(', ') || null;
if (missing !== null)
  console.warn(`skipping the test of an adapter in llama.cpp's own program: ${missing}`);

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-llama-'));
const at = (name: string): string => path.join(folder, name);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** @returns the path of llama-completion */
async function build(): Promise<string> {
  const { stdout } = await run(process.execPath, ['scripts/locate-llama.mjs']);
  const [bundle, release, libraries] = stdout.split('\n') as [string, string, string];
  const source = path.join(BUILD, `llama.cpp-${release}`);
  if (!existsSync(path.join(source, 'complete'))) {
    rmSync(source, { recursive: true, force: true });
    await run('git', [
      '-c',
      'advice.detachedHead=false',
      'clone',
      '--quiet',
      '--no-checkout',
      bundle,
      source,
    ]);
    const parts = ['common', 'include', 'ggml/include', 'vendor', 'tools/completion'];
    await run('git', ['-C', source, 'checkout', '--quiet', 'HEAD', '--', ...parts]);
    writeFileSync(path.join(source, 'complete'), '');
  }
  const bin = path.join(BUILD, 'bin');
  mkdirSync(bin, { recursive: true });
  cpSync(libraries, bin, { recursive: true });
  const options = [`-DLLAMA_SOURCE=${source}`, `-DLLAMA_LIBRARIES=${bin}`];
  await run('cmake', ['-S', path.resolve('test/real/llama-completion'), '-B', BUILD, ...options], {
    maxBuffer: 2 ** 26,
  });
  await run('cmake', ['--build', BUILD, '--parallel', '2'], { maxBuffer: 2 ** 26 });
  return path.join(bin, 'llama-completion');
}

(missing === null ? test : test.skip)(
  'is loaded by llama-completion --lora, and gives the replies that ours gives',
  async () => {
    const program = await build();
    await using model = await loadReal();
    const prompt = model.renderChat([{ role: 'user', content: 'Tell me something.' }]).tokenIds;
    const tokenIds = Int32Array.from([
      ...prompt,
      ...model.tokenize('Arr, that I know, matey!'),
      model.info.eos,
    ]);
    const example: TrainSequence = {
      tokenIds,
      labelMask: Uint8Array.from(tokenIds, (_, t) => (t >= prompt.length ? 1 : 0)),
    };
    await using trainer = await createTrainer(model, {
      lora: { rank: 4 },
      optimiser: { learningRate: 1e-3 },
      threads: 1,
      seed: 5,
    });
    for (let i = 0; i < 4; i++) await trainer.step([example]);
    await trainer.exportAdapter(at('adapter.gguf'));
    const use = await prepareAdapter({
      for: 'llama-server',
      adapter: at('adapter.gguf'),
      model: REAL_MODEL,
      out: at('use'),
    });
    const [, arguments_] = /^llama-server (.*) --port \d+$/.exec(use.commands[0]!)!;

    const adapter = await model.loadAdapter(at('adapter.gguf'));
    for (const content of PROMPTS.slice(0, 3)) {
      const { tokenIds: asked } = model.renderChat([{ role: 'user', content }]);
      const request = {
        prompts: [{ tokenIds: asked }],
        sampling: { temperature: 0 },
        maxTokens: 16,
      };
      const texts: string[] = [];
      for (const use of [null, adapter])
        for await (const { text } of model.generate({ ...request, adapter: use })) texts.push(text);
      expect(texts[1]).not.toBe(texts[0]);
      const flags =
        '--no-display-prompt --no-conversation --temp 0 --predict 16 --threads 1 --flash-attn on --no-warmup --simple-io';
      const command = `"$0" ${arguments_} --prompt "$1" ${flags} < /dev/null`;
      const { stdout } = await run('sh', [
        '-c',
        command,
        program,
        model.detokenize(asked, { withControl: true }),
      ]);
      expect(stdout.replace(/ \[end of text\]/, '').trim()).toBe(texts[1]!.trim());
    }
  },
  3_600_000,
);
