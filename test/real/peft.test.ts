/**
 * `adapters export --peft` and `adapters use --for transformers` of an adapter for a real model:
 * `peft` on `transformers`, which read the base from the same GGUF, say what we say. For
 * `npm run test:full`, in a virtual environment (scripts/python-environment.mjs) or with the
 * interpreter that ISOPRO_PEFT_PYTHON names; where there is neither, the last lines of `test:full`
 * say so.
 */
import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, test } from '@jest/globals';
import {
  createTrainer,
  loadModel,
  mergeAdapter,
  prepareAdapter,
  type TrainSequence,
} from '../../src/index.js';
import { runCli } from '../cli/run-cli.js';
import { loadReal, PROMPTS, REAL_MODEL } from './real-model.js';

const environment = (): string => {
  const made = spawnSync(process.execPath, ['scripts/python-environment.mjs', 'peft'], {
    encoding: 'utf8',
  });
  if (made.status !== 0) throw new Error(made.stderr.trim());
  return made.stdout.trim();
};
let PYTHON = '';
let missing: string | null = null;
if (process.env.ISOPRO_FULL !== '1') missing = 'it belongs to npm run test:full';
else
  try {
    PYTHON = process.env.ISOPRO_PEFT_PYTHON || environment();
  } catch (error) {
    missing = (error as Error).message;
  }
if (missing !== null)
  console.warn(`skipping the test of an adapter in peft and transformers: ${missing}`);

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-peft-'));
const at = (name: string): string => path.join(folder, name);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Every third of the fifty, and four more: all subjects and frames. */
const ASKED = [
  ...PROMPTS.filter((_, i) => i % 3 === 0),
  ...PROMPTS.filter((_, i) => i % 3 === 1).slice(0, 3),
];
const TOKENS = 24;
const THEIRS = `
import json, sys
sys.path.insert(0, sys.argv[1])
import reply, torch
torch.set_num_threads(1)
tokenizer, model = reply.load()
for prompt in json.loads(sys.argv[2]):
    print(json.dumps(reply.reply(tokenizer, model, prompt, int(sys.argv[3]))))
`;

(missing === null ? test : test.skip)(
  'is loaded by peft, and gives the replies that ours gives on an F16 conversion',
  async () => {
    expect(ASKED).toHaveLength(20);
    await using model = await loadReal();
    const examples: TrainSequence[] = ['Arr, that I know, matey!', 'Arr, ask the captain.'].map(
      (reply, i) => {
        const prompt = model.renderChat([
          { role: 'user', content: `Tell me something, ${i}.` },
        ]).tokenIds;
        const tokenIds = Int32Array.from([...prompt, ...model.tokenize(reply), model.info.eos]);
        return {
          tokenIds,
          labelMask: Uint8Array.from(tokenIds, (_, t) => (t >= prompt.length ? 1 : 0)),
        };
      },
    );
    await using trainer = await createTrainer(model, {
      lora: { rank: 4 },
      optimiser: { learningRate: 1e-3 },
      threads: 1,
      seed: 5,
    });
    await trainer.exportAdapter(at('nothing.gguf'));
    for (let i = 0; i < 4; i++) await trainer.step(examples);
    await trainer.exportAdapter(at('adapter.gguf'));

    await mergeAdapter({
      model: REAL_MODEL,
      adapter: at('nothing.gguf'),
      out: at('f16.gguf'),
      type: 'f16',
    });
    const replies = async (adapterFile: string | null): Promise<string[]> => {
      await using f16 = await loadModel(at('f16.gguf'), { threads: 1, kvType: 'f32' });
      const adapter = adapterFile === null ? null : await f16.loadAdapter(adapterFile);
      const texts: string[] = [];
      const request = { prompts: ASKED, maxTokens: TOKENS, sampling: { temperature: 0 }, adapter };
      for await (const { promptIndex, text } of f16.generate(request)) texts[promptIndex] = text;
      return texts;
    };
    const ours = await replies(at('adapter.gguf'));
    const plain = await replies(null);
    expect(ours.filter((text, i) => text !== plain[i]).length).toBeGreaterThan(10);

    const exported = [
      'adapters',
      'export',
      at('adapter.gguf'),
      '--model',
      REAL_MODEL,
      '--peft',
      '--out',
      at('exported'),
    ];
    expect(await runCli(exported)).toMatchObject({ code: 0 });
    await prepareAdapter({
      for: 'transformers',
      adapter: at('adapter.gguf'),
      model: REAL_MODEL,
      out: at('peft'),
    });
    const weights = (folder: string): Buffer =>
      readFileSync(path.join(at(folder), 'adapter_model.safetensors'));
    expect(weights('peft').equals(weights('exported'))).toBe(true);
    const args = ['-c', THEIRS, at('peft'), JSON.stringify(ASKED), String(TOKENS)];
    const { stdout } = await promisify(execFile)(PYTHON, args, { maxBuffer: 2 ** 26 });
    const theirs = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as string);
    expect(theirs).toEqual(ours);
  },
  3_600_000,
);
