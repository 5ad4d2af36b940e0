import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { measureBank, readBank, type MeasuredDraw } from '../../src/harness/bank.js';
import type { Outcome } from '../../src/harness/consequences.js';
import { choicesOfTable, pairedRegret, regretsOf, regretTable } from '../../src/harness/regret.js';
import { SCENARIOS } from '../../src/harness/scenarios.js';
import { setTimeout as pause } from 'node:timers/promises';
import { temporaryFolder } from '../models/signed-log.js';

const folder = temporaryFolder();
afterAll(folder.remove);
const scenarios = SCENARIOS.filter(({ id }) => id === 'rate-tiny');
const PROGRAM = join('dist', 'program', 'main.js');
const ARGUMENTS = ['harness', 'scenarios', '--measure', '--only', 'rate-tiny', '--json'];

const linesOf = (file: string): string[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '');

describe('the consequence bank', () => {
  const file = join(folder.path, 'bank.jsonl');

  test('measures each answer in a copy of the run, and never twice', async () => {
    const told: number[] = [];
    const measured = await measureBank({
      file,
      purposes: ['training'],
      draws: 1,
      scenarios,
      onRun: (done) => told.push(done),
    });
    expect(told).toEqual([1, 2, 3, 4]);
    const [draw] = measured as [MeasuredDraw];
    expect([...draw.outcomes.keys()]).toEqual(draw.firing!.menu);
    const lossOf = (option: string): number => draw.outcomes.get(option)!.loss!;
    // the rate is too low: the more it is raised, the better
    expect(lossOf('set_lr x3')).toBeLessThan(lossOf('set_lr x1.5'));
    expect(lossOf('set_lr x1.5')).toBeLessThan(lossOf('defer 1'));
    expect(lossOf('defer 1')).toBe(lossOf('defer 5'));
    expect([...draw.outcomes.values()].every(({ failure }) => failure === null)).toBe(true);
    const before = readFileSync(file, 'utf8');
    await measureBank({ file, purposes: ['training'], draws: 1, scenarios });
    expect(readFileSync(file, 'utf8')).toBe(before);
  });

  test('a killed measurement goes on, and ends with the same lines', async () => {
    const out = join(folder.path, 'killed');
    const killed = join(out, 'bank.jsonl');
    for (const lines of [2, 3]) {
      const child = spawn(process.execPath, [PROGRAM, ...ARGUMENTS, '--out', out], {
        stdio: 'ignore',
      });
      const ended = once(child, 'exit');
      while (!existsSync(killed) || linesOf(killed).length < lines) await pause(20);
      child.kill('SIGKILL');
      await ended;
      // a line that the kill has cut
      appendFileSync(killed, '{"kind":"outc');
    }
    const child = spawn(process.execPath, [PROGRAM, ...ARGUMENTS, '--out', out], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    let printed = '';
    child.stdout.on('data', (data: Buffer) => (printed += data.toString()));
    const [code] = (await once(child, 'close')) as [number];
    expect(code).toBe(0);
    const whole = (path: string): string[] => linesOf(path).filter((line) => line.endsWith('}'));
    expect(whole(killed)).toEqual(whole(file));
    expect(JSON.parse(printed)).toMatchObject({
      measured: { draws: 1, silent: 0, alike: 0 },
    });
  }, 120_000);

  test('refuses a file that was measured otherwise', async () => {
    const measure = (options: object): Promise<unknown> =>
      measureBank({ file, purposes: ['training'], draws: 1, scenarios, ...options });
    await expect(measure({ seed: 1n })).rejects.toMatchObject({ code: 'BANK_MISMATCH' });
    const foreign = join(folder.path, 'foreign.jsonl');
    writeFileSync(foreign, '{"kind":"something"}\n');
    await expect(measure({ file: foreign })).rejects.toMatchObject({ code: 'BANK_MISMATCH' });
    expect(() => readBank(join(folder.path, 'none.jsonl'))).toThrow(
      expect.objectContaining({ code: 'FILE_UNREADABLE' }),
    );
    // a draw of which an answer is missing is not measured
    const partly = join(folder.path, 'partly.jsonl');
    writeFileSync(partly, `${linesOf(file).slice(0, 3).join('\n')}\n`);
    expect(readBank(partly)).toEqual([]);
  });
});

const outcome = (loss: number | null, early = loss): Outcome => ({
  loss,
  early,
  failure: null,
  stopped: false,
});
const drawn = (
  scenario: string,
  index: number,
  losses: Readonly<Record<string, number | null>> | null,
): MeasuredDraw => ({
  scenario,
  purpose: 'training',
  index,
  firing: losses === null ? null : { iteration: 2, situation: 's', menu: Object.keys(losses) },
  outcomes: new Map(
    Object.entries(losses ?? {}).map(([option, loss]) => [option, outcome(loss)] as const),
  ),
});

describe('regret', () => {
  test('is 0 for the best answer and 1 for the worst; broken weights are the worst', () => {
    const regrets = regretsOf(drawn('rate-tiny', 0, { a: 1, b: 2, c: 3, d: null }))!;
    expect(Object.fromEntries(regrets.byOption!)).toEqual({ a: 0, b: 0.5, c: 1, d: 1 });
    expect(Object.fromEntries(regrets.nats)).toEqual({ a: 0, b: 1, c: 2, d: 2 });
    expect(regrets.spread).toBe(2);
  });

  test('is none where the rule did not fire, or where all answers are alike', () => {
    expect(regretsOf(drawn('rate-tiny', 0, null))).toBeNull();
    expect(regretsOf(drawn('rate-tiny', 0, { a: 1, b: 1.0005 }))!.byOption).toBeNull();
    expect(regretsOf(drawn('rate-tiny', 0, { a: null, b: null }))!.byOption).toBeNull();
  });

  test('can be read at the early horizon, too', () => {
    const draw = {
      ...drawn('rate-tiny', 0, { a: 1, b: 2 }),
      outcomes: new Map([
        ['a', outcome(1, 4)],
        ['b', outcome(2, 3)],
      ]),
    };
    expect(Object.fromEntries(regretsOf(draw, 'early')!.byOption!)).toEqual({ a: 1, b: 0 });
  });

  test('the table has the least mean regret of each rule and side, over all of its scenarios', () => {
    const draws = [
      drawn('rate-times-20', 0, {
        'set_lr x1/3': 1,
        'set_lr x1/10': 2,
        'defer 1': 3,
        'defer 5': 3,
      }),
      drawn('policy-shift', 0, { 'set_lr x1/3': 2, 'set_lr x1/10': 1, 'defer 1': 2, 'defer 5': 2 }),
      drawn('rewards-overflow', 0, { skip_step: 1, rollback: 2, 'defer 1': 1, 'defer 5': 1 }),
      drawn('rate-shakes', 0, { 'set_lr x1/3': 2, 'defer 1': 1, 'defer 5': 1 }),
      drawn('rank-1', 0, null),
      drawn('noise-by-heart', 0, { stop: 1, 'defer 5': 1 }),
    ];
    expect(regretTable(draws).get('R1 high')).toEqual([
      { option: 'set_lr x1/10', regret: 0.25, draws: 2 },
      { option: 'set_lr x1/3', regret: 0.5, draws: 2 },
      { option: 'defer 5', regret: 1, draws: 2 },
      { option: 'defer 1', regret: 1, draws: 2 },
    ]);
    // an answer that is as good as none answers at least; of deferrals the longest
    expect(choicesOfTable(draws)).toEqual({
      'R1 high': 'set_lr x1/10',
      'R1 plateau': 'defer 5',
      'R7 nonfinite': 'skip_step',
    });
  });

  test('an answer that was on few menus only does not win', () => {
    const draws = [
      drawn('rank-1', 0, { rare: 0, usual: 1, other: 2 }),
      drawn('rank-1', 1, { usual: 1, other: 2 }),
      drawn('rank-1', 2, { usual: 1, other: 2 }),
    ];
    expect(choicesOfTable(draws)).toEqual({ 'R4 plateau': 'usual' });
  });

  test('deciders are compared draw by draw, each scenario counting as one', () => {
    const of = (regrets: readonly (number | null)[]) =>
      regrets.map((regret, i) => ({ scenario: i < 4 ? 'rate-tiny' : 'rank-1', regret }));
    const paired = pairedRegret(of([1, 1, 1, 1, null, 0.5]), of([0, 0.2, 0.1, 0, 0, 0.5]))!;
    expect(paired.problems).toBe(5);
    expect(paired.difference).toBeCloseTo((-0.925 + 0) / 2, 10);
    expect(paired.high).toBeLessThanOrEqual(0.2);
    expect(pairedRegret(of([null]), of([1]))).toBeNull();
  });
});
