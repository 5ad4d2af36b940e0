import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { visible } from '../../src/visible-text.js';
import { writeSyntheticModel } from '../models/synthetic.js';
import { MAIN, runCli, runLines, type CliResult } from './run-cli.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-generate-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const model = path.join(folder, 'model.gguf');
writeSyntheticModel(model, { architecture: 'qwen2', type: 'Q8_0', seed: 2n });
const file = (name: string, content: string): string => {
  writeFileSync(path.join(folder, name), content);
  return path.join(folder, name);
};
const common = ['generate', '--model', model, '--max-tokens', '8', '--threads', '1'];
type Rollouts = Record<string, unknown>[];
const lines = (stdout: string): Rollouts =>
  stdout
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe('isopro-native generate', () => {
  test('prompts in, JSONL out; the same seed gives the same answers', async () => {
    const args = [
      ...common,
      '--prompt',
      'one',
      '--prompt',
      'two',
      '--samples',
      '3',
      '--json',
      '--seed',
    ];
    const first = await runCli([...args, '12345678901234567890']);
    const [same, other] = runLines(['12345678901234567890', '7'].map((seed) => [...args, seed]));
    expect([first.code, first.stderr]).toEqual([0, '']);
    const rollouts = lines(first.stdout);
    expect(rollouts).toHaveLength(6);
    for (const rollout of rollouts) {
      expect(rollout).toMatchObject({
        finish: expect.stringMatching(/^(stop|length)$/),
        seed: expect.stringMatching(/^\d+$/),
        adapterId: null,
      });
      expect((rollout.tokenIds as number[]).length).toBe((rollout.logprobs as number[]).length);
    }
    expect(same!.stdout).toBe(first.stdout);
    expect([other!.code, other!.stdout === first.stdout]).toEqual([0, false]);
  });

  test('a JSONL file of prompts, messages and token ids, with names', async () => {
    const prompts = file(
      'prompts.jsonl',
      '{"prompt":"hi","id":"a"}\n\n{"messages":[{"role":"user","content":"hi"}]}\n{"tokenIds":[1,2,3],"id":"c"}\n',
    );
    const { code, stdout } = await runCli([...common, '--prompts', prompts, '--temperature', '0']);
    expect(code).toBe(0);
    const rollouts = lines(stdout).sort(
      (a, b) => (a.promptIndex as number) - (b.promptIndex as number),
    );
    expect(rollouts.map(({ id }) => id)).toEqual(['a', undefined, 'c']);
    expect(rollouts[0]!.tokenIds).toEqual(rollouts[1]!.tokenIds);
  });

  test('in a terminal one answer is its text, several are under headings; --json is JSONL there too', () => {
    const terminal = { NODE_OPTIONS: '--import=data:text/javascript,process.stdout.isTTY=true' };
    const args = [...common, '--temperature', '0', '--prompt', 'hi'];
    const [json, one, two] = runLines(
      [[...args, '--json'], args, [...args, '--samples', '2']],
      undefined,
      terminal,
    );
    const [{ text }] = lines(json!.stdout) as [{ text: string }];
    expect(one!.stdout).toBe(`${visible(text.trim())}\n`);
    expect(two!.stdout).toMatch(/^--- prompt 1, answer 1: 8 tokens, .*^--- prompt 1, answer 2: /ms);
  });

  test('--raw continues a text as it stands: the same tokens as {"text"}, and fewer than with the chat template', () => {
    const prompts = file('texts.jsonl', '{"text":"hi"}\n{"prompt":"hi"}\n');
    const greedy = [...common, '--temperature', '0'];
    const [raw, mixed, all] = runLines([
      [...greedy, '--raw', '--prompt', 'hi', '--prompt', 'hi'],
      [...greedy, '--prompts', prompts],
      [...greedy, '--raw', '--prompts', prompts],
    ]).map(({ stdout }) => lines(stdout)) as [Rollouts, Rollouts, Rollouts];
    expect(mixed.map(({ promptTokens }) => promptTokens)).toEqual([
      raw[0]!.promptTokens,
      expect.any(Number),
    ]);
    expect(mixed[1]!.promptTokens).toBeGreaterThan(raw[0]!.promptTokens as number);
    expect(mixed[0]!.tokenIds).toEqual(raw[0]!.tokenIds);
    expect(all.map(({ tokenIds }) => tokenIds)).toEqual(raw.map(({ tokenIds }) => tokenIds));
  });

  test('prompts from standard input', () => {
    const { status, stdout } = spawnSync(process.execPath, [MAIN, ...common, '--prompts', '-'], {
      input: '{"prompt":"hi","id":"a"}\n',
      encoding: 'utf8',
    });
    expect(status).toBe(0);
    expect(lines(stdout)).toMatchObject([{ id: 'a' }]);
  });

  test('follows a grammar and a JSON Schema', () => {
    const asked = ['generate', '--model', model, '--threads', '1', '--prompt', 'x'];
    const [grammar, schema] = runLines([
      [...asked, '--max-tokens', '8', '--grammar', file('yes.gbnf', 'root ::= "yes" | "no"')],
      [...asked, '--max-tokens', '40', '--json-schema', file('schema.json', '{"type":"boolean"}')],
    ]);
    expect(['yes', 'no']).toContain(lines(grammar!.stdout)[0]!.text);
    expect(['true', 'false']).toContain(lines(schema!.stdout)[0]!.text);
  });

  const WRONG: readonly [string, string[], number, string][] = [
    ['no prompt', [], 2, 'Give either --prompt or --prompts'],
    ['an unknown flag', ['--prompt', 'x', '--tempersture', '1'], 2, 'tempersture'],
    ['a flag without its value', ['--prompt'], 2, 'prompt'],
    ['a seed that is no number', ['--prompt', 'x', '--seed', '-1'], 2, '--seed'],
    ['a negative temperature', ['--prompt', 'x', '--temperature', '-1'], 1, 'INVALID_ARGUMENT'],
    [
      'a file that is not there',
      ['--prompts', 'absent.jsonl'],
      1,
      'error FILE_UNREADABLE: there is no file absent.jsonl',
    ],
    [
      'grammar and schema together',
      ['--prompt', 'x', '--grammar', 'a', '--json-schema', 'b'],
      2,
      'mutually exclusive',
    ],
    [
      'a system message without a template',
      ['--prompt', 'x', '--raw', '--system', 'y'],
      2,
      'leave out --system',
    ],
    [
      'an adapter that is not there',
      ['--prompt', 'x', '--adapter', 'absent.gguf'],
      1,
      'MODEL_NOT_FOUND',
    ],
  ];
  const said: CliResult[] = [];
  beforeAll(() => void said.push(...runLines(WRONG.map(([, args]) => [...common, ...args]))));
  test.each(WRONG)(
    '%s: a clear line and the right exit code',
    (_name, args, expectedCode, message) => {
      const { code, stdout, stderr } = said[WRONG.findIndex(([, each]) => each === args)]!;
      expect([code, stdout]).toEqual([expectedCode, '']);
      expect(stderr).toContain(message);
      expect(stderr).not.toMatch(/^\s+at /m);
    },
  );

  test('a line of the prompts that is not usable is named', () => {
    const bad = [
      '{"prompt":1}',
      'not json',
      '{"prompt":"a","tokenIds":[1]}',
      '{"prompt":"a","text":"a"}',
      '{}',
    ].map((line, i) => file(`bad-${i}.jsonl`, `{"prompt":"ok"}\n${line}\n`));
    const named = runLines(bad.map((each) => [...common, '--prompts', each]));
    expect(named).toHaveLength(bad.length);
    for (const { code, stderr } of named) {
      expect(code).toBe(1);
      expect(stderr).toContain('line 2');
    }
  });

  test('an unknown model name lists the aliases; --json errors are JSON', async () => {
    const { code, stderr } = await runCli([
      'generate',
      '--model',
      'qwen9',
      '--prompt',
      'x',
      '--json',
    ]);
    expect(code).toBe(1);
    expect(JSON.parse(stderr)).toMatchObject({
      error: { code: 'MODEL_NOT_FOUND', message: expect.stringContaining('qwen2.5-3b') },
    });
  });
});
