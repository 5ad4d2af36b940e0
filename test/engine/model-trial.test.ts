/**
 * A file whose architecture has no validator is first tried in a process of its own; what ends that
 * one is a typed error here, and its verdict is kept.
 */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
  closeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeEach, expect, test } from '@jest/globals';
import {
  alignUp,
  DEFAULT_ALIGNMENT,
  encodeHeader,
  layOut,
  text,
  uint32,
  type MetadataValue,
} from '../../src/embedded/gguf.js';
import { inspectModel } from '../../src/engine/inspect.js';
import { loadModel } from '../../src/engine/model.js';
import { LIMITS, trial } from '../../src/engine/model-trial.js';
import { CommandLines, runCli } from '../cli/run-cli.js';
import { synthesizeDecoder, writeDecoder } from '../models/decoders.js';
import { mutateDecoder } from '../models/mutations.js';
import { tensorBytes } from '../models/quantise.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const full = process.env.ISOPRO_FULL === '1';
const folder = mkdtempSync(path.join(tmpdir(), 'isopro-trial-'));
const before = process.env.ISOPRO_HOME;
const home = path.join(folder, 'home');
const verdicts = path.join(home, 'trials');
const model = path.join(folder, 'phi2.gguf');
process.env.ISOPRO_HOME = home;
writeDecoder(model, 'phi2');
beforeEach(() => rmSync(home, { recursive: true, force: true }));
afterAll(() => {
  if (before === undefined) delete process.env.ISOPRO_HOME;
  else process.env.ISOPRO_HOME = before;
  rmSync(folder, { recursive: true, force: true });
});

const kept = (): string[] => (existsSync(verdicts) ? readdirSync(verdicts) : []);
const OPTIONS = { threads: 1, contextTokens: 256 };
const load = async (file: string): Promise<void> => (await loadModel(file, OPTIONS)).dispose();

/** A process that ends in another way than the real one. */
function program(name: string, text: string): string {
  const file = path.join(folder, `${name}.mjs`);
  writeFileSync(file, text);
  return file;
}

test('a process that crashes is MODEL_CORRUPT', async () => {
  for (const [signal, text] of [
    ['SIGSEGV', "process.kill(process.pid, 'SIGSEGV'); setInterval(() => {}, 1e6);"],
    ['SIGABRT', 'process.abort();'],
    ['exit code 7', 'process.exit(7);'],
    ['exit code 0', 'process.exit(0);'],
  ] as const) {
    const fault = await trial(model, undefined, program('crash', text));
    expect(fault).toEqual({ code: 'MODEL_CORRUPT', message: expect.stringContaining(signal) });
  }
});

test('a process that others end, or that got no memory, says nothing about the file', async () => {
  const killed = program('killed', "process.kill(process.pid, 'SIGKILL');");
  await expect(trial(model, undefined, killed)).rejects.toMatchObject({ code: 'OUT_OF_MEMORY' });
  const refused = program('refused', "console.error('std::bad_alloc'); process.abort();");
  await expect(trial(model, undefined, refused)).rejects.toMatchObject({ code: 'OUT_OF_MEMORY' });
});

test('a process that is over a limit is MODEL_UNSUPPORTED, which says which limit', async () => {
  const of = (limit: keyof typeof LIMITS): string =>
    program(limit, `process.exit(${LIMITS[limit]});`);
  expect(await trial(model, undefined, of('processorExit'))).toEqual({
    code: 'MODEL_UNSUPPORTED',
    message: expect.stringContaining('more than 60 processor seconds'),
  });
  expect(await trial(model, undefined, of('memoryExit'))).toEqual({
    code: 'MODEL_UNSUPPORTED',
    message: expect.stringContaining('more than 2 GB of memory'),
  });
});

test.each([
  ['processor time', { processorSeconds: 0 }, LIMITS.processorExit],
  ['memory', { bytes: 1 }, LIMITS.memoryExit],
])('the process ends itself where it is over its limit of %s', (_what, change, exit) => {
  const addon = new URL('../../dist/src/engine/addon.js', import.meta.url).href;
  const text = `
    import { loadAddon } from ${JSON.stringify(addon)};
    const { addon } = loadAddon();
    const limits = { bytes: addon.trialBytes, ...${JSON.stringify({ ...LIMITS, ...change })} };
    for (;;) await addon.tryModel(process.argv[1], limits);`;
  const { status, signal } = spawnSync(process.execPath, [
    '--input-type=module',
    '-e',
    text,
    model,
  ]);
  expect([status, signal]).toEqual([exit, null]);
});

/**
 * A file of zeros whose keys and values take more memory than a trial may, and its matrices little:
 * what the validator counts is a quarter of it.
 */
function writeHungry(file: string): void {
  const [heads, headWidth, layers, width] = [68, 1024, 8, 64];
  const { metadata, tensors } = synthesizeDecoder('gemma', { type: 'Q8_0' });
  const changed: Record<string, MetadataValue> = {
    'gemma.attention.head_count': uint32(heads),
    'gemma.attention.head_count_kv': uint32(heads),
    'gemma.attention.key_length': uint32(headWidth),
    'gemma.attention.value_length': uint32(headWidth),
    'gemma.block_count': uint32(layers),
    'isopro.kv_cache_type': text('f32'),
  };
  const keys = heads * headWidth;
  const dimensions: Record<string, readonly number[]> = {
    attn_q: [width, keys],
    attn_k: [width, keys],
    attn_v: [width, keys],
    attn_output: [keys, width],
  };
  const rows = tensors.flatMap(({ info }) => {
    const [, place, name] = /^blk\.(\d+)\.(\w+)\.weight$/.exec(info.name) ?? [];
    if (place === undefined) return [info];
    if (place !== '0') return [];
    return Array.from({ length: layers }, (_, layer) => ({
      ...info,
      name: `blk.${layer}.${name}.weight`,
      dimensions: dimensions[name!] ?? info.dimensions,
    }));
  });
  const infos = layOut(
    rows.map(({ name, dimensions: of, typeId }) => ({
      ...{ name, dimensions: of, typeId },
      bytes: tensorBytes(typeId === 0 ? 'F32' : 'Q8_0', of),
    })),
  );
  const header = encodeHeader(
    [
      ...metadata.filter(({ key }) => !Object.hasOwn(changed, key)),
      ...Object.entries(changed).map(([key, value]) => ({ key, value })),
    ],
    infos,
  );
  writeFileSync(file, header);
  const last = infos.at(-1)!;
  const bytes = tensorBytes(last.typeId === 0 ? 'F32' : 'Q8_0', last.dimensions);
  truncateSync(file, header.length + alignUp(last.offset + bytes, DEFAULT_ALIGNMENT));
}

test('a file that takes too much memory is MODEL_UNSUPPORTED, and its verdict is kept', async () => {
  const file = path.join(folder, 'hungry.gguf');
  writeHungry(file);
  const refusal = {
    code: 'MODEL_UNSUPPORTED',
    message:
      `${file}: llama.cpp needs more than 2 GB of memory next to the file itself to load it ` +
      'and evaluate a few tokens',
  };
  await expect(load(file)).rejects.toMatchObject(refusal);
  expect(kept()).toHaveLength(1);
  await expect(load(file)).rejects.toMatchObject(refusal);
  expect((await inspectModel(file)).problem).toEqual(refusal);
  const { code, stderr } = await runCli(['generate', '--model', file, '--raw', '--prompt', 'a']);
  expect([code, stderr]).toEqual([1, expect.stringContaining('more than 2 GB of memory')]);
  rmSync(file);
}, 120_000);

// The limit itself, by a process that loads the file and then never ends.
(full ? test : test.skip)(
  'a process that computes without end is over the limit of processor time, which it has whole',
  async () => {
    const addon = new URL('../../dist/src/engine/addon.js', import.meta.url).href;
    const endless = program(
      'computing',
      `import { loadAddon } from ${JSON.stringify(addon)};
      const { addon } = loadAddon();
      await addon.tryModel(process.argv[2], { ...${JSON.stringify(LIMITS)}, bytes: addon.trialBytes });
      for (;;);`,
    );
    const begin = process.hrtime.bigint();
    expect(await trial(model, undefined, endless)).toEqual({
      code: 'MODEL_UNSUPPORTED',
      message: expect.stringContaining('more than 60 processor seconds'),
    });
    expect(Number(process.hrtime.bigint() - begin) / 1e9).toBeGreaterThan(55);
  },
  900_000,
);

test('the time that a file takes to arrive is not counted', async () => {
  const slow = program('slow', 'setTimeout(() => console.log(\'{"ok":true}\'), 1500);');
  expect(await trial(model, undefined, slow)).toBeNull();
});

test('loading is cancelled while the process runs', async () => {
  const endless = program('endless', 'setInterval(() => {}, 1e6);');
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 200);
  await expect(trial(model, controller.signal, endless)).rejects.toMatchObject({ code: 'ABORTED' });
});

test('a verdict is kept, and taken for the same bytes under another name', async () => {
  await load(model);
  const [verdict] = kept();
  expect(kept()).toHaveLength(1);
  const fault = { code: 'MODEL_CORRUPT', message: ': as an earlier trial found' };
  writeFileSync(path.join(verdicts, verdict!), JSON.stringify({ fault }));
  const copy = path.join(folder, 'copy.gguf');
  writeFileSync(copy, readFileSync(model));
  for (const file of [model, copy]) {
    const refusal = { code: 'MODEL_CORRUPT', message: `${file}: as an earlier trial found` };
    await expect(load(file)).rejects.toMatchObject(refusal);
    expect((await inspectModel(file)).problem).toEqual(refusal);
  }
  for (const damaged of ['', '{}', '{"fault":{"code":"NO_SUCH","message":""}}']) {
    writeFileSync(path.join(verdicts, verdict!), damaged);
    await load(model);
  }
});

test('a file that was changed in its place is tried again, whatever its size and time', async () => {
  const file = path.join(folder, 'changed.gguf');
  writeDecoder(file, 'phi2', { seed: 7n });
  await load(file);
  const { ino, size, atime, mtime } = statSync(file);
  const descriptor = openSync(file, 'r+');
  writeSync(descriptor, Buffer.of(1), 0, 1, size - 64);
  closeSync(descriptor);
  utimesSync(file, atime, mtime);
  expect([statSync(file).ino, statSync(file).size]).toEqual([ino, size]);
  await load(file);
  expect(kept()).toHaveLength(2);
});

test('a file whose architecture has a validator is not tried', async () => {
  const file = path.join(folder, 'llama.gguf');
  writeSyntheticModel(file, { architecture: 'llama' });
  await load(file);
  await inspectModel(file);
  expect(kept()).toEqual([]);
});

test('where nothing can be kept, the file is tried each time', async () => {
  writeFileSync(home, 'a file in the place of the folder');
  await load(model);
  await load(model);
  expect(readFileSync(home, 'utf8')).toContain('a file');
});

test('commands end with a code on damaged files, never by a signal', async () => {
  const lines = new CommandLines(); // which a signal would end
  const damaged = path.join(folder, 'damaged.gguf');
  const codes: (number | null)[] = [];
  for (let seed = 0; seed < 17; seed++) {
    writeFileSync(damaged, mutateDecoder(seed).bytes);
    const { code, stderr } = await lines.run([
      ...['generate', '--model', damaged, '--raw', '--prompt', 'a', '--max-tokens', '2'],
    ]);
    expect([seed, code === 0 || /[A-Z]+_[A-Z]+/.test(stderr)]).toEqual([seed, true]);
    codes.push(code);
  }
  expect(codes.every((code) => code === 0 || code === 1)).toBe(true);
  expect(new Set(codes).size).toBe(2);
  await lines.end();
}, 300_000);
