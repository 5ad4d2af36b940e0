/**
 * A person as back end: what is shown, how an answer ends, and that nobody is asked who is not
 * there.
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { humanBackend } from '../../src/backends/human.js';
import { sampleFrom, type SampleRequest } from '../../src/backends/backend.js';
import { person, type Person } from '../../src/cli/person.js';
import { shellWord } from '../../src/shell-word.js';
import { MAIN, runCli } from './run-cli.js';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-person-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const asking = (...contents: readonly string[]): SampleRequest => ({
  prompts: contents.map((content, i) => ({
    id: `p${i}`,
    messages: [
      { role: 'system', content: 'be brief' },
      { role: 'user', content },
    ],
    seeds: [1n],
  })),
  sampling: { temperature: 0 },
  maxTokens: 9,
});
const code = (expected: string, message: RegExp): never =>
  expect.objectContaining({
    code: expected,
    message: expect.stringMatching(message) as unknown,
  }) as never;

/** A person at a terminal, or behind a pipe, and what was shown to them. */
function someone(isTTY: boolean): { who: Person; input: PassThrough; shown: () => string } {
  const input = Object.assign(new PassThrough(), { isTTY });
  const output = Object.assign(new PassThrough(), { isTTY, columns: 80 });
  const chunks: string[] = [];
  output.on('data', (chunk: Buffer) => chunks.push(chunk.toString()));
  return { who: person(input, output), input, shown: () => chunks.join('') };
}
const answers = async (who: Person, request: SampleRequest): Promise<string[]> => {
  const texts: string[] = [];
  for await (const { text } of sampleFrom(humanBackend(who.ask), request)) texts.push(text);
  return texts;
};

describe.each([
  ['at a terminal', true],
  ['behind a pipe', false],
])('%s', (_, isTTY) => {
  test('each question is shown, and an answer of several lines ends with a dot', async () => {
    const { who, input, shown } = someone(isTTY);
    const asked = answers(who, asking('one\u001b[2J?', 'two?', 'three?'));
    input.write('first\nsecond\n.\n.\nlast\n.\n');
    expect(await asked).toEqual(['first\nsecond', '', 'last']);
    who.close();
    // what a prompt says may not move the cursor
    expect(shown()).toMatch(/\[told\] be brief\s+one␛\[2J\?[^]*two\?[^]*three\?/);
    // once: it is on the screen
    expect(shown().match(/be brief/g)).toHaveLength(1);
    expect(shown()).toMatch(/end it with a line that holds a single dot, or with Ctrl-D/);
  });
  test('of a conversation what was not on the screen is shown, examples included', async () => {
    const { who, input, shown } = someone(isTTY);
    const examples = [
      { role: 'user', content: '1+1' },
      { role: 'assistant', content: '2' },
      { role: 'user', content: '2+2' },
    ] as const;
    input.write('four\n.\n');
    expect(await who.ask(examples)).toBe('four');
    input.write('4\n.\n');
    const said = { role: 'assistant', content: 'four' } as const;
    await who.ask([...examples, said, { role: 'user', content: 'in digits' }]);
    who.close();
    const lines = shown()
      .split(/\r?\n/)
      .filter((line) => /^(\[|\d\+|in )/.test(line));
    expect(lines).toEqual(['1+1', '[answered] 2', '2+2', 'in digits']);
  });
  test('an interruption ends the question', async () => {
    const { who, input } = someone(isTTY);
    const interruption = new AbortController();
    input.write('half an ans\n');
    setTimeout(() => interruption.abort(), 50);
    const asked = who.ask(asking('x').prompts[0]!.messages, interruption.signal);
    await expect(asked).rejects.toThrow(code('ABORTED', /the person was interrupted/));
    who.close();
  });
});

test('at a terminal Ctrl-D ends an answer, and in place of one the command', async () => {
  const { who, input } = someone(true);
  const asked = answers(who, asking('one?', 'two?'));
  input.write('first\nsecond\n\u0004');
  await new Promise((later) => setTimeout(later, 50));
  input.write('\u0004');
  await expect(asked).rejects.toThrow(code('ABORTED', /the input ended before the command did/));
  const again = answers(who, asking('one?', 'two?'));
  input.write('first\nsecond\n\u0004');
  await new Promise((later) => setTimeout(later, 50));
  input.write('third\n\u0004');
  expect(await again).toEqual(['first\nsecond', 'third']);
  who.close();
});

test('the end of a pipe ends the last answer, and then the command', async () => {
  const { who, input } = someone(false);
  const asked = answers(who, asking('one?', 'two?'));
  input.end('first');
  await expect(asked).rejects.toThrow(code('ABORTED', /the input ended/));
});

test('without a person there is no back end', () =>
  expect(() => humanBackend(undefined)).toThrow(
    code('INVALID_ARGUMENT', /human needs a terminal, and there is none here/),
  ));

const EVAL = ['eval', '--backend', 'human', '--task', 'extract', '--set', 'dev', '--per-tier', '1'];

test('eval asks nobody whose input is no terminal', async () => {
  const { code: exit, stderr } = await runCli(EVAL);
  expect([exit, stderr]).toEqual([
    2,
    expect.stringMatching(/--backend: human needs a terminal, and there is none here/),
  ]);
});

const hasTerminal = process.platform === 'linux' && spawnSync('script', ['--version']).status === 0;
(hasTerminal ? test : test.skip)(
  'eval asks in a terminal, and judges what is written',
  async () => {
    const out = path.join(folder, 'replies.jsonl');
    const command = [process.execPath, MAIN, ...EVAL, '--out', out].map(shellWord).join(' ');
    const child = spawn('script', ['-qec', command, '/dev/null'], { cwd: folder });
    let shown = '';
    let asked = 0;
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      shown += text;
      // each question of the task ends with a line of this message
      const questions = shown.match(/Message:\s+\S[^\n]*\n/g)?.length ?? 0;
      if (questions === asked) return;
      asked = questions;
      child.stdin.write('{"name":\n"Ada"}\n\u0004');
    });
    const exit = await new Promise((resolve) => child.on('close', resolve));
    expect({ exit, shown }).toMatchObject({ exit: 0 });
    const replies = readFileSync(out, 'utf8').trim().split('\n');
    expect(new Set(replies.map((line) => (JSON.parse(line) as { text: string }).text))).toEqual(
      new Set(['{"name":\n"Ada"}']),
    );
    expect(shown).toMatch(/5 problems/);
  },
);
