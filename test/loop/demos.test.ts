/** The demonstrations of examples/ on a scenario: when they say "improved", and that they come to an end with every line of the report. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { claim, type Claim, type Line } from '../../examples/games-claim.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-demos-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('A11: improved is what has its lower bound above 0.661 and above random choice on the same seeds', () => {
  const of = (low: number, random: number): Claim => claim({ who: 'served', low }, { mean: random });
  expect([of(0.662, 0.64), of(0.661, 0.64), of(0.7, 0.71), of(0.7, 0.7)].map(({ improved }) => improved)).toEqual([
    true,
    false,
    false,
    false,
  ]);
  expect(of(0.6, 0.65).text).toBe(
    'no improvement shown: the lower 95 % bound of served is 0.600, and it is not above 0.661, random choice as published; ' +
      'it is not above 0.650, random choice on these seeds',
  );
  expect(of(Number.NaN, 0.5).improved).toBe(false);
});

interface Report extends Claim {
  readonly lines: readonly Line[];
  readonly generations: readonly { readonly valid: number; readonly distinct: number; readonly trainedOn: number }[];
  readonly counts: object;
  readonly adapter: string;
}
const demo = (name: string, ...args: string[]): Report => {
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [path.resolve('dist/examples', `${name}.js`), '--held-out', '2', '--threads', '1', '--json', ...args],
    { encoding: 'utf8', env: { ...process.env, ISOPRO_HOME: path.join(folder, 'home') } },
  );
  expect([status, status === 0 ? '' : stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as Report;
};

function checkLines({ lines, improved }: Report, names: readonly string[]): void {
  expect(lines.map(({ who }) => who)).toEqual(names);
  for (const { n, mean, validMean, valid, low, high } of lines) {
    expect(n).toBe(2);
    // an answer that is invalid counts 0
    expect(mean).toBeCloseTo(((validMean ?? 0) * valid) / n, 12);
    expect(low).toBeLessThanOrEqual(mean);
    expect(high).toBeGreaterThanOrEqual(mean);
  }
  expect(lines[0]!.valid).toBe(2);
  expect(improved).toBe(claim(lines.at(-1)!, lines[0]!).improved);
}

test('A11: one step: strategies are drawn, the best trained on, the adapter published, resolved, served and measured', () => {
  const report = demo('one-step', '--strategies', '12', '--keep', '4', '--steps', '1', '--batch', '2');
  checkLines(report, ['random-valid', 'best-constant', 'prompt only', 'served']);
  expect(report.counts).toEqual({ drawn: 12, kept: 4, trained: 4 });
  expect(report.adapter).toMatch(/^[0-9a-f]{64}$/);
}, 300_000);

test('A11: generations: each trains on the best of what was proposed so far', () => {
  const sampling = ['--constrained', '--temperature', '6', '--proposals', '4', '--generations', '2', '--steps', '1', '--train', 'continue'];
  const report = demo('generations', ...sampling);
  expect(report.generations[0]!.valid).toBeGreaterThan(0);
  expect(report.generations[1]!.trainedOn).toBeGreaterThanOrEqual(report.generations[0]!.trainedOn);
  checkLines(report, ['random-valid', 'best-constant', 'prompt only', 'generation 1', 'generation 2']);
}, 300_000);
