/**
 * mutation-runner.js KIND FIRST COUNT: loads and runs mutants FIRST to FIRST + COUNT - 1, in a
 * process of its own, so that a crash or a hang is seen from outside. Writes {seed, label} before
 * each and {seed, outcome} after it, one JSON a line.
 */
import { mkdtempSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { IsoproError } from '../../src/errors.js';
import { loadModel, type LoadModelOptions, type Model } from '../../src/engine/model.js';
import type { Adapter } from '../../src/engine/adapter.js';
import { mutateGrammar } from './grammar-mutations.js';
import { ADAPTER_BASE, mutateAdapter, mutateDecoder, mutateModel } from './mutations.js';
import { ARCHITECTURES, writeSyntheticModel } from './synthetic.js';

export type MutationKind = 'model' | 'decoder' | 'adapter' | 'grammar';

const TOKENS = 8;
const TEXT = 'The judge reads 12 answers: ☃\n';
/** Architectures take turns; what else takes turns changes after each of theirs. */
const turnOf = (seed: number): number => Math.floor(seed / ARCHITECTURES.length);
const say = (line: object): void => void writeSync(1, `${JSON.stringify(line)}\n`);

async function generate(
  model: Model,
  seed: number,
  extra: { grammar?: string; adapter?: Adapter } = {},
): Promise<void> {
  // Messages exercise the file's chat template, plain ids the tokenizer alone.
  const prompt =
    turnOf(seed) % 2 === 0
      ? { messages: [{ role: 'user' as const, content: TEXT }] }
      : { tokenIds: model.tokenize(TEXT) };
  for await (const rollout of model.generate({
    prompts: [prompt],
    maxTokens: TOKENS,
    sampling: { temperature: 0 },
    ignoreEndOfSequence: extra.grammar === undefined,
    ...extra,
  })) {
    if (extra.grammar === undefined && rollout.tokenIds.length !== TOKENS)
      throw new Error(`${rollout.tokenIds.length} tokens instead of ${TOKENS}`);
  }
}

async function outcomeOf(run: () => Promise<void>): Promise<string> {
  try {
    await run();
    return 'ok';
  } catch (error) {
    return error instanceof IsoproError ? error.code : `untyped: ${String(error)}`;
  }
}

const [kind, first, count] = [
  process.argv[2] as MutationKind,
  Number(process.argv[3]),
  Number(process.argv[4]),
];
const folder = mkdtempSync(path.join(tmpdir(), 'isopro-mutants-'));
const file = path.join(folder, 'mutant.gguf');
process.env.ISOPRO_HOME = folder; // of the verdicts
const options = { threads: 1, fixedThreads: true, contextTokens: 256, gpuLayers: 0 } as const;
/** Kernels of ours where there are some, and ggml's alone. */
const optionsOf = (seed: number): LoadModelOptions => ({
  ...options,
  matmul: turnOf(seed) % 3 === 0 ? 'ggml' : 'auto',
});
let base: Model | undefined;
try {
  if (kind === 'adapter' || kind === 'grammar') {
    writeSyntheticModel(path.join(folder, 'base.gguf'), ADAPTER_BASE);
    base = await loadModel(path.join(folder, 'base.gguf'), options);
  }
  for (let seed = first; seed < first + count; seed++) {
    if (kind === 'grammar') {
      const { label, harmless, text } = mutateGrammar(seed);
      say({ seed, label, harmless });
      say({ seed, outcome: await outcomeOf(() => generate(base!, seed, { grammar: text })) });
      continue;
    }
    const mutants = {
      model: mutateModel,
      decoder: mutateDecoder,
      adapter: (of: number) => mutateAdapter(of, [base!.tokenize(TEXT)[5]!]),
    };
    const { label, harmless, bytes } = mutants[kind](seed);
    writeFileSync(file, bytes);
    say({ seed, label, harmless });
    const outcome = await outcomeOf(async () => {
      if (kind === 'adapter') {
        await generate(base!, seed, { adapter: await base!.loadAdapter(file) });
        return;
      }
      const model = await loadModel(file, optionsOf(seed));
      try {
        await generate(model, seed);
      } finally {
        await model.dispose();
      }
    });
    say({ seed, outcome });
  }
  await base?.dispose();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
