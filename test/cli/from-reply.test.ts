/**
 * An adapter that acts from the reply on at the command line: `train` makes one, every command that
 * names adapters says what it is, and what cannot have it is refused.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { inspectAdapter, loadModel, trainAdapter } from '../../src/index.js';
import { writeSyntheticModel } from '../models/synthetic.js';
import { CommandLines, MAIN, type CliResult } from './run-cli.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-from-reply-cli-'));
const file = (name: string): string => path.join(folder, name);
const env = { ISOPRO_HOME: file('home') };
const lines = new CommandLines(env, folder);
const cli = (...args: string[]): Promise<CliResult> => lines.run(args);
const [model, adapter] = [file('model.gguf'), file('late.gguf')];
writeSyntheticModel(model, { architecture: 'qwen2', type: 'Q8_0', seed: 2n });
const rows = Array.from({ length: 6 }, (_, i) => ({ prompt: `say ${i}`, completion: `it ${i}` }));
const jsonl = (name: string, values: readonly object[]): string => {
  writeFileSync(file(name), values.map((value) => `${JSON.stringify(value)}\n`).join(''));
  return file(name);
};
jsonl('rows.jsonl', rows);
const STEPS = ['--batch', '3', '--epochs', '2', '--lr', '0.01', '--threads', '1'];
const trainOn = (data: string, out: string, ...more: string[]): Promise<CliResult> =>
  cli('train', '--model', model, '--data', data, '--out', file(out), ...STEPS, ...more);
const failureOf = ({ code, stderr }: CliResult): unknown => [
  code === 0,
  (JSON.parse(stderr) as { error: object }).error,
];
const refusal = (message: RegExp): unknown => [
  false,
  {
    code: 'INVALID_ARGUMENT',
    message: expect.stringMatching(message) as unknown,
    remedy: expect.any(String) as unknown,
  },
];

let invocationTokens: number[];
beforeAll(async () => {
  const { code, stderr } = await trainOn('rows.jsonl', 'late.gguf', '--adapter-from', 'reply');
  expect([code, stderr]).toEqual([0, expect.any(String)]);
  await using loaded = await loadModel(model, { threads: 1 });
  invocationTokens = [...loaded.generationPrompt()];
});
afterAll(async () => {
  await lines.end();
  rmSync(folder, { recursive: true, force: true });
});

describe('train', () => {
  test('writes the tokens of the generation prompt, as a program does', async () => {
    expect((await inspectAdapter(adapter)).invocationTokens).toEqual(invocationTokens);
    expect(JSON.parse(readFileSync(`${adapter}.state.json`, 'utf8'))).toMatchObject({
      'adapter-from': 'reply',
    });
    await using loaded = await loadModel(model, { threads: 1 });
    await trainAdapter(loaded, {
      examples: rows,
      out: file('program.gguf'),
      ...{ batchSize: 3, epochs: 2, learningRate: 0.01, validation: 0, threads: 1 },
      adapterFrom: 'reply',
    });
    expect(readFileSync(file('program.gguf'))).toEqual(readFileSync(adapter));
  });

  test('of pairs lowers their loss', async () => {
    const pairs = rows.map(({ prompt, completion }) => ({
      ...{ prompt, chosen: completion, rejected: 'no' },
    }));
    const { code, stdout } = await trainOn(
      jsonl('pairs.jsonl', pairs),
      'pairs.gguf',
      ...['--objective', 'dpo', '--adapter-from', 'reply', '--json'],
    );
    const { loss } = JSON.parse(stdout.trim().split('\n').at(-1)!) as {
      loss: { first: number; last: number };
    };
    expect([code, loss.first]).toEqual([0, expect.closeTo(Math.log(2), 5)]);
    expect(loss.last).toBeLessThan(loss.first - 0.01);
    expect((await inspectAdapter(file('pairs.gguf'))).invocationTokens).toEqual(invocationTokens);
  });

  test('does not resume with another value', async () => {
    expect(failureOf(await trainOn('rows.jsonl', 'late.gguf', '--resume', '--json'))).toEqual(
      refusal(/--adapter-from not set instead of reply/),
    );
  });

  test('refuses every answer of a conversation before the model is loaded, and a plain text by its row', async () => {
    const all = ['--answers', 'all', '--adapter-from', 'reply'];
    const early = await cli(
      'train',
      '--model',
      file('absent.gguf'),
      '--data',
      'rows.jsonl',
      ...all,
    );
    expect([early.code, early.stderr]).toEqual([
      2,
      expect.stringMatching(/--adapter-from: reply is not supported with answers all/),
    ]);
    const plain = jsonl('plain.jsonl', [rows[0]!, { text: 'once upon a time' }]);
    expect(
      failureOf(await trainOn(plain, 'plain.gguf', '--adapter-from', 'reply', '--json')),
    ).toEqual(refusal(/^line 2: a plain text has no reply/));
    expect(existsSync(file('plain.gguf'))).toBe(false);
  });
});

describe('a reply', () => {
  const common = ['--model', model, '--adapter', adapter, '--threads', '1', '--max-tokens', '6'];
  const greedy = [...common, '--temperature', '0'];

  test('of chat is to the first prompt; the second is refused', () => {
    const chat = (input: string): { status: number | null; stdout: string; stderr: string } =>
      spawnSync(process.execPath, [MAIN, 'chat', ...greedy, '--json'], { input, encoding: 'utf8' });
    const twice = chat('hello\nand you?\n');
    expect(twice.stdout.trim().split('\n')).toHaveLength(1);
    expect(twice.status).toBe(1);
    expect(twice.stderr).toMatch(/answers the first turn of a conversation only/);
    const cleared = chat('hello\n/clear\nand you?\n');
    expect([cleared.status, cleared.stdout.trim().split('\n')]).toEqual([
      0,
      [twice.stdout.trim(), expect.stringContaining('and you?')],
    ]);
  });

  test('to a text without a template is of the base model, which is said', async () => {
    const asked = ['generate', ...greedy, '--prompt', 'hello'];
    const note = expect.stringMatching(/lacks its invocation tokens: the base model answered/);
    const [late, raw] = [await cli(...asked, '--json'), await cli(...asked, '--raw', '--json')];
    expect(JSON.parse(late.stdout)).not.toHaveProperty('notActivated');
    expect(JSON.parse(raw.stdout)).toMatchObject({ notActivated: true, adapterId: null });
    expect([late.stderr, raw.stderr]).toEqual([expect.not.stringContaining('invocation'), note]);
    const streamed = await cli(...asked, '--raw', '--stream');
    expect(streamed).toEqual({ code: 0, stdout: expect.any(String), stderr: note });
    const base = await cli(
      'generate',
      ...greedy.filter((_, i) => i !== 2 && i !== 3),
      '--raw',
      '--prompt',
      'hello',
      '--stream',
    );
    expect(streamed.stdout).toBe(base.stdout);
  });

  test('to solved examples and a question is of the adapter', async () => {
    const messages = [
      { role: 'user', content: '1' },
      { role: 'assistant', content: '2' },
      { role: 'user', content: '3' },
    ];
    const { code, stdout } = await cli(
      ...['generate', ...greedy, '--prompts', jsonl('shots.jsonl', [{ messages }]), '--json'],
    );
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ adapterId: expect.any(String) as unknown });
  });
});

describe('the file', () => {
  test('is named by inspect, and keeps its tokens through PEFT', async () => {
    const { stdout } = await cli('adapters', 'inspect', adapter);
    const acts = `from the reply on (invocation tokens ${invocationTokens.join(', ')})`;
    expect(stdout).toContain(acts);
    const exported = (from: string, format: string, out: string): Promise<CliResult> =>
      cli('adapters', 'export', from, '--model', model, '--format', format, '--out', out);
    expect((await exported(adapter, 'peft', file('peft'))).code).toBe(0);
    expect((await cli('adapters', 'inspect', file('peft'))).stdout).toContain(acts);
    expect((await exported(file('peft'), 'gguf', file('b.gguf'))).code).toBe(0);
    expect((await inspectAdapter(file('b.gguf'))).invocationTokens).toEqual(invocationTokens);
  });

  test('is not merged', async () => {
    const merged = file('merged.gguf');
    for (const args of [
      ['merge', '--model', model, '--adapter', adapter, '--out', merged],
      ['use', adapter, '--for', 'lm-studio', '--model', model, '--out', file('studio')],
    ])
      expect(failureOf(await cli('adapters', ...args, '--json'))).toEqual(
        refusal(/late\.gguf acts from the reply on \(invocation tokens /),
      );
    expect([merged, file('studio')].filter(existsSync)).toEqual([]);
  });

  test('goes to another program with what happens if that does not know its tokens', async () => {
    for (const program of ['llama-server', 'ollama', 'transformers']) {
      const { code, stdout } = await cli(
        ...['adapters', 'use', adapter, '--for', program, '--model', model, '--out', program],
      );
      expect([code, stdout]).toEqual([
        0,
        expect.stringMatching(/does not know its invocation tokens applies it to every token/),
      ]);
    }
  });

  test('is named by the registry and its page', async () => {
    const published = await cli(
      ...['adapters', 'publish', adapter, '--model', model, '--as', 'late@challenger'],
      ...['--signer', 'single-process', '--json'],
    );
    expect(published.code).toBe(0);
    const { id } = JSON.parse(published.stdout) as { id: string };
    const { record } = JSON.parse((await cli('adapters', 'inspect', id, '--json')).stdout) as {
      record: { adapter: object };
    };
    expect(record.adapter).toMatchObject({ invocationTokens });
    expect((await cli('adapters', 'report', '--out', file('page.html'))).code).toBe(0);
    expect(readFileSync(file('page.html'), 'utf8')).toContain('acts from the reply on');
  });
});
