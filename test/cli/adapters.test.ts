import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  createTrainer,
  inspectAdapter,
  prepareAdapter,
  type AdapterInspection,
} from '../../src/index.js';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { writeSyntheticModel } from '../models/synthetic.js';
import { CommandLines } from './run-cli.js';

let folder: string;
const lines = new CommandLines();
const file = (name: string): string => path.join(folder, name);
const hash = (name: string): string =>
  createHash('sha256')
    .update(readFileSync(file(name)))
    .digest('hex');

/** Of the model with an adapter, in other programs: two adapters of one model have two names. */
const adapted = (name: string): string => `model-adapted-${hash(name).slice(0, 8)}`;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-adapters-cli-'));
  const shape = writeSyntheticModel(file('model.gguf'), { architecture: 'llama' });
  writeSyntheticModel(file('wide.gguf'), { architecture: 'llama', embedding: 128 });
  writeSyntheticAdapter(file('adapter.gguf'), shape, { rank: 4, targets: ['attn_q', 'ffn_up'] });
  await using trainer = await createTrainer(
    { path: file('model.gguf') },
    { lora: { rank: 2, layers: { top: 1 } }, threads: 1 },
  );
  await trainer.exportAdapter(file('fresh.gguf'));
});
afterAll(async () => {
  await lines.end();
  rmSync(folder, { recursive: true, force: true });
});

test('inspect: a table, every module, JSON', async () => {
  const table = await lines.run(['adapters', 'inspect', file('adapter.gguf')]);
  expect([table.code, table.stderr]).toEqual([0, '']);
  expect(table.stdout).toMatch(/^model +llama$/m);
  expect(table.stdout).toMatch(/^base +unknown$/m);
  expect(table.stdout).toMatch(/^attn_q +0-1 +4 +8 +64 x 64 +[\d.]+$/m);
  expect(
    (await lines.run(['adapters', 'inspect', file('adapter.gguf'), '--modules'])).stdout,
  ).toMatch(/^blk\.1\.ffn_up +4 +8 +128 x 64( +[\d.]+){3}$/m);
  const { stdout } = await lines.run(['adapters', 'inspect', file('adapter.gguf'), '--json']);
  const inspection = JSON.parse(stdout) as AdapterInspection;
  expect(inspection).toMatchObject({
    format: 'gguf',
    sha256: hash('adapter.gguf'),
    layers: [0, 1],
    parameters: 2 * 4 * (128 + 192),
  });
});

test('inspect: an untrained adapter changes nothing and names its base', async () => {
  const { stdout } = await lines.run(['adapters', 'inspect', file('fresh.gguf')]);
  expect(stdout).toContain('changes nothing');
  expect(stdout).toContain(`sha256 ${hash('model.gguf')}`);
});

test('export to PEFT and back, and merge', async () => {
  const peft = await lines.run([
    'adapters',
    'export',
    file('adapter.gguf'),
    '--model',
    file('model.gguf'),
    '--out',
    file('peft'),
    '--base-model',
    'some/model',
    '--json',
  ]);
  expect(JSON.parse(peft.stdout)).toMatchObject({
    format: 'peft',
    sha256: hash('peft/adapter_model.safetensors'),
  });
  const back = await lines.run([
    'adapters',
    'export',
    file('peft'),
    '--model',
    file('model.gguf'),
    '--format',
    'gguf',
    '--out',
    file('back.gguf'),
  ]);
  expect(back.stdout).toContain(hash('back.gguf'));
  const sums: string[] = [];
  for (const adapter of ['adapter.gguf', 'peft', 'back.gguf']) {
    const merged = await lines.run([
      'adapters',
      'merge',
      '--model',
      file('model.gguf'),
      '--adapter',
      file(adapter),
      '--out',
      file('merged.gguf'),
      '--type',
      'q8_0',
      '--json',
    ]);
    expect(merged.code).toBe(0);
    sums.push((JSON.parse(merged.stdout) as { sha256: string }).sha256);
    expect(sums.at(-1)).toBe(hash('merged.gguf'));
  }
  expect(new Set(sums).size).toBe(1);
});

describe('use', () => {
  const prepare = (program: Parameters<typeof prepareAdapter>[0]['for'], more: object = {}) =>
    prepareAdapter({
      for: program,
      adapter: file('adapter.gguf'),
      model: file('model.gguf'),
      out: file(`use ${program}`),
      ...more,
    });

  test('llama-server and Ollama get the adapter as GGUF, with the commands that name it', async () => {
    const server = await prepare('llama-server');
    const gguf = file('use llama-server/adapter.gguf');
    expect(server.files).toEqual([gguf]);
    expect((await inspectAdapter(gguf)).modules).toEqual(
      (await inspectAdapter(file('adapter.gguf'))).modules,
    );
    expect(server.commands[0]).toBe(
      `llama-server --model ${file('model.gguf')} --lora '${gguf}' --port 8080`,
    );
    const ollama = await prepare('ollama');
    expect(readFileSync(ollama.files[1]!, 'utf8')).toBe(
      `FROM ${file('model.gguf')}\nADAPTER "${file('use ollama/adapter.gguf')}"\n`,
    );
    const name = adapted('adapter.gguf');
    expect(ollama.commands).toEqual([
      `ollama create ${name} -f '${ollama.files[1]}'`,
      `ollama run ${name}`,
    ]);
  });

  test('LM Studio gets the merged model; transformers a folder of PEFT that names the base, and a script', async () => {
    const studio = await prepare('lm-studio');
    expect(studio.files).toEqual([file(`use lm-studio/${adapted('adapter.gguf')}.gguf`)]);
    expect(studio.commands[0]).toContain(`'${studio.files[0]}'`);
    const peft = await prepare('transformers');
    expect(peft.files.map((each) => path.basename(each))).toEqual([
      'adapter_model.safetensors',
      'adapter_config.json',
      'reply.py',
    ]);
    expect(JSON.parse(readFileSync(peft.files[1]!, 'utf8'))).toMatchObject({
      base_model_name_or_path: file('model.gguf'),
    });
    expect(readFileSync(peft.files[2]!, 'utf8')).toBe(
      readFileSync('assets/python/reply.py', 'utf8'),
    );
  });

  test('what stood before every question goes where each program takes it', async () => {
    const before = [
      { role: 'system', content: "It's short." },
      { role: 'user', content: 'Is 2 even?\nSay "yes" or no.' },
      { role: 'assistant', content: 'yes' },
    ] as const;
    const out = file('behind');
    const ollama = await prepare('ollama', { out, before });
    expect(
      readFileSync(ollama.files[1]!, 'utf8').split('ADAPTER')[1]!.split('\n').slice(1).join('\n'),
    ).toBe(
      'SYSTEM """It\'s short."""\nMESSAGE user """Is 2 even?\nSay "yes" or no."""\nMESSAGE assistant """yes"""\n',
    );
    const messages = [...before, { role: 'user', content: 'QUESTION' }];
    const bodyOf = (command: string): unknown => JSON.parse(/ -d '([^']*)'$/.exec(command)![1]!);
    expect(
      bodyOf((await prepare('llama-server', { out, before, force: true })).commands[1]!),
    ).toEqual({ messages });
    const studio = await prepare('lm-studio', { out, before });
    expect(bodyOf(studio.commands.at(-1)!)).toEqual({ model: adapted('adapter.gguf'), messages });
    const { files } = await prepare('transformers', { out, before });
    expect(
      JSON.parse(/^BEFORE = (\[.*?^\])$/ms.exec(readFileSync(files[2]!, 'utf8'))![1]!),
    ).toEqual(before);
    await expect(
      prepare('ollama', { out, force: true, before: [{ role: 'user', content: 'a"""\nb' }] }),
    ).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });

  test('a base that the adapter was not trained on is refused, and so is what a Modelfile cannot say', async () => {
    await expect(prepare('ollama', { modelSha256: hash('wide.gguf') })).rejects.toMatchObject({
      code: 'ADAPTER_MISMATCH',
    });
    await expect(
      prepare('ollama', { modelSha256: hash('model.gguf'), force: true }),
    ).resolves.toBeDefined();
    await expect(
      prepare('ollama', { model: file('wide.gguf'), force: true }),
    ).rejects.toMatchObject({ code: 'ADAPTER_MISMATCH' });
    await expect(prepare('ollama', { out: file('a"b') })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });

  test('what is there is not replaced, unless that is asked for', async () => {
    const out = file('of another');
    for (const [program, name] of [
      ['llama-server', 'adapter.gguf'],
      ['ollama', 'Modelfile'],
      ['lm-studio', `${adapted('adapter.gguf')}.gguf`],
      ['transformers', 'reply.py'],
    ] as const) {
      rmSync(out, { recursive: true, force: true });
      mkdirSync(out);
      writeFileSync(path.join(out, name), 'another');
      await expect(prepare(program, { out })).rejects.toMatchObject({
        code: 'WRITE_FAILED',
        message: expect.stringContaining(name),
      });
      expect(readdirSync(out)).toEqual([name]);
      expect(readFileSync(path.join(out, name), 'utf8')).toBe('another');
    }
    await prepare('transformers', { out, force: true });
    expect(readFileSync(path.join(out, 'reply.py'), 'utf8')).not.toBe('another');
  });

  test('from the command line: what was written, then the commands', async () => {
    const args = [
      'adapters',
      'use',
      file('adapter.gguf'),
      '--for',
      'ollama',
      '--out',
      file('typed'),
    ];
    mkdirSync(file('typed'));
    writeFileSync(file('typed/adapter.gguf'), 'another');
    const { code, stdout } = await lines.run([...args, '--model', file('model.gguf'), '--force']);
    expect(code).toBe(0);
    expect(stdout).toContain(file('typed/Modelfile'));
    expect(stdout).toMatch(new RegExp(`^ollama create ${adapted('adapter.gguf')} -f \\S+$`, 'm'));
    expect(await lines.run(args)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--model'),
    });
  });
});

test('errors say what to do', async () => {
  const wrong = await lines.run([
    'adapters',
    'merge',
    '--model',
    file('wide.gguf'),
    '--adapter',
    file('adapter.gguf'),
    '--out',
    file('none.gguf'),
  ]);
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toMatch(/ADAPTER_MISMATCH.*64 x 64.*128 x 128.*\n.*adapters inspect/);
  expect(existsSync(file('none.gguf'))).toBe(false);
  expect(
    (
      await lines.run([
        'adapters',
        'merge',
        '--model',
        file('model.gguf'),
        '--adapter',
        file('adapter.gguf'),
        '--out',
        file('x.gguf'),
        '--type',
        'int8',
      ])
    ).code,
  ).toBe(2);
  expect(
    (await lines.run(['adapters', 'export', file('adapter.gguf'), '--out', file('x')])).code,
  ).toBe(2);
  expect(
    JSON.parse((await lines.run(['adapters', 'inspect', file('model.gguf'), '--json'])).stderr),
  ).toMatchObject({
    error: { code: 'ADAPTER_MISMATCH' },
  });
});
