/**
 * A run on the rows of a file: the judge derives its verdicts again from a copy, and sees where the
 * copy is another.
 */
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { loadModel } from '../../src/engine/model.js';
import { judgeRun, type JudgeReport } from '../../src/judge/judge.js';
import { ReplyReader } from '../../src/judge/replies.js';
import { LogReader } from '../../src/log/read.js';
import { readManifest } from '../../src/run-folder/manifest.js';
import { runPaths } from '../../src/run-folder/paths.js';
import type { RolloutRecord } from '../../src/run-folder/rollout-records.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';
import { readResult } from '../../src/training/result.js';
import { run } from '../../src/training/loop.js';
import { MAIN } from '../cli/run-cli.js';
import { shortestRun, writeLetterModel } from '../models/letters.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-rows-'));
const file = (name: string): string => path.join(folder, name);
const model = file('letters.gguf');
const WORDS = ['one', 'two', 'three', 'four', 'five', 'six', 'seven'];

/** @param answer of each row */
const writeRows = (name: string, answer: string): void =>
  writeFileSync(
    file(name),
    WORDS.flatMap((a) =>
      WORDS.map((b) => `${JSON.stringify({ prompt: `${a} ${b}: say a letter`, answer })}\n`),
    ).join(''),
  );

beforeAll(() => {
  process.env.ISOPRO_HOME = file('home');
  writeLetterModel(model);
});
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

const step = ({ steps }: JudgeReport, name: string) => steps.find((each) => each.name === name)!;

test('a run is judged from a copy of its data and split, and not from other data or by another check', async () => {
  writeRows('letters.csv.jsonl', 'C.');
  const data = file('letters.csv.jsonl');
  const notices: string[] = [];
  const asking = { system: 'Say little.', examples: 1, stop: ['g', 'h'], judgeTruncated: true };
  const { folder: out, accepted } = await run(
    {
      ...shortestRun(data, model),
      check: 'normalised',
      sampling: { rollouts: 64, samples: 4, maxTokens: 4, ...asking },
    },
    { out: file('run'), onNotice: (text) => notices.push(text) },
  );
  expect(accepted).toBeGreaterThan(0);
  expect(notices).toEqual([]);
  const { start } = readManifest(out);
  expect(start.settings).toMatchObject({
    task: 'letters.csv',
    check: 'normalised',
    sampling: asking,
  });
  expect([start.sets.test.origin, start.task.file]).toEqual([
    'split',
    expect.stringMatching(/^[0-9a-f]{64}$/),
  ]);
  expect(readFileSync(path.join(out, 'manifest.json'), 'utf8')).not.toContain(folder);
  expect(existsSync(`${data}.split.json`)).toBe(true);
  // a reader of the table of failures sees what was asked and what would have been right, of
  // rollouts as of test problems
  const { rows } = readResult(out).failures.rollouts;
  expect(rows.length).toBeGreaterThan(0);
  for (const { example } of rows)
    expect(example).toMatchObject({
      asked: expect.stringMatching(/^[a-z]+ [a-z]+: say a letter$/),
      right: 'C.',
    });

  const copy = path.join(folder, 'home', 'letters.csv.jsonl');
  for (const suffix of ['', '.split.json']) copyFileSync(`${data}${suffix}`, `${copy}${suffix}`);
  const judge = (options: {
    readonly task?: string;
    readonly check?: string;
  }): Promise<JudgeReport> => judgeRun({ folder: out, model, ...options });
  const same = await judge({ task: copy });
  expect([same.verdict, same.heldOut?.after.differing]).toEqual(['pass', 0]);
  expect(step(same, 'rollout_verification').detail).toMatch(/^64 rollouts judged again/);

  // replies that a stop string ended have its tokens, no end token, and the text before it
  const reader = new LogReader(runPaths(out).log, RUN_STREAMS);
  const rollouts = [...reader.records({ stream: 'rollouts' })]
    .map(({ payload }) => payload)
    .filter(({ kind }) => kind === 'rollout');
  reader.close();
  await using letters = await loadModel(model, { threads: 1 });
  const stopped = (rollouts as unknown as RolloutRecord[]).filter(({ finish, tokenIds }) => {
    return finish === 'stop' && !letters.info.ends.includes(tokenIds.at(-1)!);
  });
  expect(stopped.length).toBeGreaterThan(0);
  for (const { text, tokenIds } of stopped)
    expect(letters.detokenize(tokenIds)).toMatch(new RegExp(`^${text}[gh]$`));
  const [c, g] = ['c', 'g'].map((letter) => letters.tokenize(letter)[0]!) as [number, number];
  const replies = new ReplyReader(letters, 3, ['g', 'cc']);
  const read = (finish: 'stop' | 'length', ...tokenIds: number[]): string[] =>
    replies.read(1, { finish, tokenIds });
  const end = letters.info.eot;
  expect([read('stop', c, g), read('stop', c, c), read('stop', c, end), read('stop', g)]).toEqual([
    ['c'],
    [''],
    ['c'],
    [''],
  ]);
  for (const [finish, ...tokenIds] of [
    ['stop', c],
    ['stop', g, c],
    ['stop', c, g, end],
    ['stop', c, end, g],
    ['length', c, end, c],
    ['length', c, c, g],
    ['length', c],
  ] as const)
    expect(() => read(finish, ...tokenIds)).toThrow(/^record 1: |rollout_verification/);

  // a judge who may not judge by it says so, and gives no accuracy
  writeFileSync(copy, readFileSync(copy, 'utf8').replace('C.', 'D.'));
  for (const options of [{ task: copy }, { task: data, check: 'contains' }, {}]) {
    const report = await judge(options);
    expect(report.heldOut).toBeNull();
    expect(step(report, 'rollout_verification')).toMatchObject({
      status: 'skipped',
      detail: expect.stringMatching(
        options.task === undefined
          ? /name your copy of it with --task/
          : /with its split and its check, has SHA-256/,
      ),
    });
  }
}, 120_000);

(process.platform === 'win32' ? test.skip : test)(
  'the commands that a run names judge by its check, ask as it asked, and measure what it measured',
  () => {
    const data = file('printed.jsonl');
    // f is what the model says most; by the default check no reply would pass
    writeRows('printed.jsonl', 'F');
    const sampling = {
      rollouts: 64,
      samples: 4,
      maxTokens: 4,
      system: "-- Say 'f', or not.",
      examples: 1,
      stop: ['h', "it's"],
      judgeTruncated: true,
    };
    writeFileSync(
      file('run.json'),
      JSON.stringify({
        ...shortestRun(data, model),
        check: 'normalised',
        verifySeconds: 9,
        sampling,
      }),
    );
    const typed = (command: string, ...more: string[]): string => {
      const program = `'${process.execPath}' '${MAIN}'`;
      const shell = [
        '-c',
        [command.trim().replaceAll('npx isopro-native', program), ...more].join(' '),
      ];
      const { status, stdout, stderr } = spawnSync('sh', shell, { encoding: 'utf8' });
      expect([command, status === 0 ? '' : stderr]).toEqual([command, '']);
      return stdout;
    };
    const run = `npx isopro-native run --config ${file('run.json')} --out ${file('printed')}`;
    const [judge, evaluate] = typed(run).split('next:\n')[1]!.trim().split('\n');
    const again = JSON.parse(typed(run, '--json')) as {
      nothingRun: boolean;
      test: { after: { mean: number } };
    };
    const { test: tested } = again;
    expect(again.nothingRun).toBe(true);
    expect(typed(run)).toMatch(/^The run in .* has already ended, so nothing was run\./);
    expect(tested.after.mean).toBeGreaterThan(0);
    expect(typed(judge!)).toMatch(/^PASS/m);
    expect(JSON.parse(typed(evaluate!, '--json'))).toMatchObject({
      accuracy: { mean: tested.after.mean },
    });
  },
  120_000,
);
