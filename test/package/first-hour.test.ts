/**
 * `npm run measure:first-hour`: its table, its page, and its short form, which packs the package
 * and runs it elsewhere.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';

const project = fileURLToPath(new URL('../..', import.meta.url));
const script = path.join(project, 'scripts', 'measure-first-hour.mjs');
const firstHour = (await import(script)) as {
  PAGE: string;
  table: (seed?: bigint) => string;
  firstHourText: (measured: unknown) => string;
  readFirstHour: () => unknown;
  withFirstHour: (text: string, content: string) => string;
};

test('the table has 200 different rows, as many of each answer, the same from the same seed', () => {
  const lines = firstHour.table().trim().split('\n').slice(1);
  expect([lines.length, new Set(lines).size]).toEqual([200, 200]);
  const answers = lines.map((line) => line.split(',').at(-1)!);
  for (const answer of ['heat', 'water', 'noise', 'keys'])
    expect(answers.filter((each) => each === answer)).toHaveLength(50);
  expect(firstHour.table()).toBe(firstHour.table());
  expect(firstHour.table(14n)).not.toBe(firstHour.table());
});

test('the lines of docs/own-data.md are what results/first-hour.json says (npm run measure:first-hour)', () => {
  const text = readFileSync(path.join(project, firstHour.PAGE), 'utf8');
  expect(text).toBe(
    firstHour.withFirstHour(text, firstHour.firstHourText(firstHour.readFirstHour())),
  );
  const round = (total: number, after: number) => ({
    seconds: { install: 9, run: total - 9, total },
    test: { n: 50, before: 0.18, after, p: 0.001 },
  });
  const measured = {
    machine: { processor: 'Some Processor', cores: 2 },
    model: 'SmolLM2.gguf',
    rows: 200,
    flags: '--check exact',
    seconds: { install: 9, run: 591, total: 600 },
    rounds: [round(540, 0.5), round(600, 0.48), round(750, 0.5)],
  };
  const said = firstHour.firstHourText(measured);
  expect(said).toContain(
    '10.0 minutes (median of 9.0, 10.0, 12.5; 9 seconds of it are `npm install`)',
  );
  expect(said).toContain(
    'Some Processor, 2 cores. Of the 50 test rows it solves 18.0 to 50.0, 18.0 to 48.0 %.',
  );
});

test('--try packs and runs the package in an empty folder, and prints the figures without writing any', () => {
  const page = readFileSync(path.join(project, firstHour.PAGE), 'utf8');
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, '--try'], {
    encoding: 'utf8',
  });
  expect([status, status === 0 ? '' : stderr]).toEqual([0, '']);
  const { model, rows, seconds, rounds } = JSON.parse(stdout) as {
    model: string;
    rows: number;
    seconds: Record<string, number>;
    rounds: {
      seconds: Record<string, number>;
      test: { n: number; p: number };
      peakRssBytes: number;
    }[];
  };
  expect([model, rows, rounds.length]).toEqual(['tiny', 200, 1]);
  const [round] = rounds;
  expect(round!.seconds).toEqual(seconds);
  expect(seconds.total).toBeCloseTo(seconds.install! + seconds.run!, 0);
  expect(round!.test).toMatchObject({ n: 4, p: 1 });
  expect(readFileSync(path.join(project, firstHour.PAGE), 'utf8')).toBe(page);
}, 300_000);
