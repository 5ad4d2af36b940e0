/**
 * The demonstrations of examples/ on a scenario: when they say "improved", and that they come to an
 * end with every line of the report.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { claim, type Claim } from '../../examples/games-claim.js';
import { reportText, type Report } from '../../examples/games-demo.js';

const { demosText, PAGE, readDemos, withDemos } = (await import(
  path.resolve('scripts/measure-demos.mjs')
)) as {
  readonly demosText: (
    results: Readonly<Record<string, Report>>,
    text: typeof reportText,
  ) => string;
  readonly PAGE: string;
  readonly readDemos: () => Readonly<Record<string, Report>>;
  readonly withDemos: (page: string, content: string) => string;
};

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-demos-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('A11: improved is what has its lower bound above 0.661 and above random choice on the same seeds', () => {
  const of = (low: number, random: number): Claim =>
    claim({ who: 'served', low }, { mean: random });
  expect(
    [of(0.662, 0.64), of(0.661, 0.64), of(0.7, 0.71), of(0.7, 0.7)].map(({ improved }) => improved),
  ).toEqual([true, false, false, false]);
  expect(of(0.6, 0.65).text).toBe(
    'no improvement shown: the lower 95 % bound of served is 0.600, and it is not above 0.661, random choice as published; ' +
      'it is not above 0.650, random choice on these seeds',
  );
  expect(of(Number.NaN, 0.5).improved).toBe(false);
});

test('A11: the page has what the demonstrations printed (npm run measure:demos), and they claim what their figures allow', () => {
  const [page, results] = [readFileSync(PAGE, 'utf8'), readDemos()];
  expect(page).toBe(withDemos(page, demosText(results, reportText)));
  for (const { lines, improved, text } of Object.values(results))
    expect({ improved, text }).toEqual(claim(lines.at(-2)!, lines[0]!));
});

const demo = (name: string, ...args: string[]): Report => {
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [
      path.resolve('dist/examples', `${name}.js`),
      '--held-out',
      '2',
      '--threads',
      '1',
      '--json',
      ...args,
    ],
    { encoding: 'utf8', env: { ...process.env, ISOPRO_HOME: path.join(folder, 'home') } },
  );
  expect([status, status === 0 ? '' : stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as Report;
};

function checkLines(report: Report, names: readonly string[]): void {
  const { lines, improved, heldOut } = report;
  expect(lines.map(({ who }) => who)).toEqual(names);
  expect(heldOut).toMatch(/^[0-9a-f]{64}$/);
  const text = reportText(report);
  for (const { who } of lines) expect(text).toContain(`\n${who}`);
  expect(text).toContain(`2 test problems ${heldOut.slice(0, 12)}`);
  expect(JSON.stringify(report)).not.toContain(folder);
  for (const { n, mean, validMean, valid, low, high } of lines) {
    expect(n).toBe(2);
    // an answer that is invalid counts 0
    expect(mean).toBeCloseTo(((validMean ?? 0) * valid) / n, 12);
    expect(low).toBeLessThanOrEqual(mean);
    expect(high).toBeGreaterThanOrEqual(mean);
  }
  expect(lines[0]!.valid).toBe(2);
  // what is claimed is claimed of answers that were sampled freely
  const trained = lines.at(-2)!;
  expect({ improved, text: report.text }).toEqual(claim(trained, lines[0]!));
  expect(lines.at(-1)!.who).toBe(`${trained.who}, constrained`);
}

test('A11: one step: strategies are drawn, the best trained on, the adapter published, resolved, served and measured', () => {
  const report = demo(
    'one-step',
    '--strategies',
    '12',
    '--keep',
    '4',
    '--steps',
    '1',
    '--batch',
    '2',
  );
  checkLines(report, [
    'random-valid',
    'best-constant',
    'prompt only',
    'prompt only, constrained',
    'served',
    'served, constrained',
  ]);
  expect(report.counts).toEqual({ drawn: 12, kept: 4, trained: 4 });
  expect(report.adapter).toMatch(/^[0-9a-f]{64}$/);
}, 300_000);

test('A11: generations: each trains on the best of what was proposed so far', () => {
  const sampling = [
    '--constrained',
    '--temperature',
    '6',
    '--proposals',
    '4',
    '--generations',
    '2',
    '--steps',
    '1',
    '--train',
    'continue',
  ];
  const report = demo('generations', ...sampling);
  const { generations = [] } = report;
  expect(generations[0]!.valid).toBeGreaterThan(0);
  expect(generations[1]!.trainedOn).toBeGreaterThanOrEqual(generations[0]!.trainedOn);
  checkLines(report, [
    'random-valid',
    'best-constant',
    'prompt only',
    'generation 1',
    'generation 2',
    'generation 2, constrained',
  ]);
}, 300_000);
