import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, test } from '@jest/globals';
import { agreementText } from '../../src/cli/harness/agree.js';
import { attemptsText } from '../../src/cli/harness/run.js';
import { scenariosText } from '../../src/cli/harness/scenarios.js';
import { openArm } from '../../src/harness/arms.js';
import type { Attempt } from '../../src/harness/attempts.js';
import { readBank } from '../../src/harness/bank.js';
import { askDeciders, decidersCompared } from '../../src/harness/comparison.js';
import { SCENARIOS } from '../../src/harness/scenarios.js';
import { harnessScenarios } from '../../src/operations/harness-scenarios.js';
import { terminalStyle } from '../../src/text/terminal-style.js';
import { temporaryFolder } from '../models/signed-log.js';

const folder = temporaryFolder();
afterAll(folder.remove);
const plain = terminalStyle({ isTTY: false, columns: 100 } as unknown as NodeJS.WriteStream);

async function command(
  ...args: string[]
): Promise<{ code: number; stdout: string; stderr: string }> {
  try {
    const done = await promisify(execFile)(process.execPath, ['dist/program/main.js', ...args]);
    return { code: 0, ...done };
  } catch (error) {
    return error as { code: number; stdout: string; stderr: string };
  }
}

test('harness scenarios lists each scenario, as text and as JSON', async () => {
  const { stdout } = await command('harness', 'scenarios', '--json');
  const { scenarios, measured } = JSON.parse(stdout) as { scenarios: unknown[]; measured: null };
  expect([scenarios.length, measured]).toEqual([SCENARIOS.length, null]);
  const listed = await harnessScenarios.run({});
  for (const { id, name } of SCENARIOS)
    expect(scenariosText(listed, plain)).toMatch(new RegExp(`${id}.*${name.slice(0, 20)}`));
});

test('a table needs measured training draws; wrong usage has exit code 2', async () => {
  const { code, stderr } = await command('harness', 'scenarios', '--table', 'table.json');
  expect([code, stderr]).toEqual([2, expect.stringContaining('--table')]);
  await expect(
    harnessScenarios.run({ measure: true, purposes: ['fresh'], table: 'x.json' }),
  ).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
});

test('from scenarios to a table, and from the table to a decider that follows it', async () => {
  const out = join(folder.path, 'bank');
  const file = join(folder.path, 'table.json');
  const { measured, table } = await harnessScenarios.run({
    measure: true,
    only: ['rewards-overflow'],
    out,
    table: file,
  });
  expect([measured!.draws, measured!.silent, table]).toEqual([1, 0, file]);
  const written = JSON.parse(readFileSync(file, 'utf8')) as { choices: Record<string, string> };
  expect(written).toMatchObject({ format: 'isopro.table.v1' });
  const draws = readBank(join(out, 'bank.jsonl'));
  const deciders = ['scripted', 'observe', 'table', 'random'];
  const arms = deciders.map((name) => openArm(name, { table: written.choices }));
  const answers = join(folder.path, 'answers.jsonl');
  const ask = () => askDeciders({ file: answers, draws, arms, plays: true });
  await ask();
  const before = readFileSync(answers, 'utf8');
  await ask(); // nothing is asked twice
  expect(readFileSync(answers, 'utf8')).toBe(before);
  for (const arm of arms) await arm[Symbol.asyncDispose]();
  const [scripted, observe, looked, random] = decidersCompared(answers, draws, arms);
  // another table is another decider, of which nothing is known yet
  const other = openArm('table', { table: { 'R7 nonfinite': 'rollback' } });
  expect(decidersCompared(answers, draws, [arms[0]!, other])[1]!.answers).toBe(0);
  // the playbook's rollback is worse than to leave out the broken steps (reference: deciders.md)
  expect(scripted!.regret.end).toBe(1);
  expect(looked!.regret.end).toBe(0);
  expect(looked!.difference.end!.difference).toBe(-1);
  expect(looked!.sources).toEqual({ table: 1 });
  expect(looked!.plays!.process.obligations).toBeGreaterThan(0);
  expect(observe!.plays!.sources).toMatchObject({ observe: expect.any(Number) });
  expect(random!.sources).toEqual({ random: 1 });
  expect(scripted!.plays!.difference).toBeNull();
}, 120_000);

test('a decider that cannot answer scenarios is refused', () => {
  for (const policy of ['human', 'model:local', 'model:adapted', 'somebody'])
    expect(() => openArm(policy)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }));
});

test('attempts and agreement say what was found', () => {
  const attempt: Attempt = {
    format: 'isopro.attempt.v1',
    index: 1,
    settings: 's',
    run: 'attempt-01/run',
    verdict: 'pass',
    failedStep: null,
    exercised: false,
    processScore: null,
    obligations: 1,
    distinctRules: 1,
    violations: [],
    accuracy: 0.25,
    feedback: null,
  };
  const text = attemptsText(
    {
      format: 'isopro.attempts.v1',
      attempts: [attempt],
      best: null,
      reasons: ['attempt 1 cannot win: why'],
    },
    'out',
    plain,
  );
  expect(text).toMatch(/1 +pass +not scored +1 +0 +25\.0/);
  expect(text).toContain('attempt 1 cannot win: why\nno attempt can win');
  const agreed = agreementText(
    {
      policy: 'table',
      asked: [{ run: 'r', iteration: 2, rule: 'R1', expected: 'a', choice: null, source: 'table' }],
      agrees: 0,
      interval: { low: 0, high: 0.79 },
    },
    plain,
  );
  expect(agreed).toMatch(/r +2 +R1 +a +none of the menu/);
  expect(agreed).toContain('table agrees in 0 of 1, 95 % interval 0.0 to 79.0 per cent');
});
