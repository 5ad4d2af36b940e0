import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { runCli } from './run-cli.js';

interface Finding {
  check: string;
  status: 'ok' | 'warn' | 'fail';
  detail: string;
  remedy: string | null;
  facts: Record<string, unknown>;
}

let home: string;
beforeAll(() => {
  home = mkdtempSync(path.join(tmpdir(), 'isopro-doctor-'));
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

describe('doctor', () => {
  test('finds this installation in order, and every shortcoming has a remedy', async () => {
    const { code, stdout } = await runCli(['doctor', '--json'], { ISOPRO_HOME: home });
    const { findings } = JSON.parse(stdout) as { findings: Finding[] };
    const byCheck = new Map(findings.map((finding) => [finding.check, finding]));
    expect(
      findings.filter(({ status, remedy }) => (status === 'ok') !== (remedy === null)),
    ).toEqual([]);
    expect(code).toBe(findings.some(({ status }) => status === 'fail') ? 1 : 0);
    expect(byCheck.get('Node.js')).toMatchObject({
      status: 'ok',
      facts: { node: process.versions.node },
    });
    expect(byCheck.get('native addon')).toMatchObject({
      status: 'ok',
      facts: { llamaRelease: expect.stringMatching(/^v\d/) },
    });
    expect(byCheck.get('installation')!.facts).toMatchObject({ form: 'source', absent: [] });
    expect(byCheck.get('event log')!.status).toBe('ok');
    const cores = byCheck.get('threads')!.facts.physicalCores as number;
    expect(cores).toBeGreaterThanOrEqual(1);
    expect(cores).toBeLessThanOrEqual(availableParallelism());
    expect(byCheck.get('cache folder')!.facts).toMatchObject({ folder: home, writable: true });
  });

  test('a cache folder that cannot be is a failure with its remedy: exit code 1', async () => {
    const { code, stdout } = await runCli(['doctor'], { ISOPRO_HOME: '/proc/isopro' });
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /^fail {2}cache folder: \/proc\/isopro.*\n {6}what to do: Set ISOPRO_HOME/m,
    );
    expect(stdout).not.toContain('\x1b');
  });
});

describe('doctor --selftest', () => {
  test('finds that this machine computes what node-llama-cpp computes, and how fast', async () => {
    const { code, stdout } = await runCli(['doctor', '--selftest', '--json'], {
      ISOPRO_HOME: home,
    });
    const report = JSON.parse(stdout) as {
      ok: boolean;
      steps: { name: string; status: string; detail: string }[];
    };
    expect(report.steps.filter(({ status }) => status !== 'ok')).toEqual([]);
    expect(code).toBe(report.ok ? 0 : 1);
    expect(report.steps.map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        'parity llama',
        'parity qwen2',
        'parity qwen3',
        'parity gemma2',
        'gradient llama',
        'gradient qwen2',
        'gradient qwen3',
        'gradient gemma2',
        'sampling and scoring',
      ]),
    );
    expect(report.steps.find(({ name }) => name === 'decoding speed')!.detail).toMatch(
      /[1-9]\d* at 1, [1-9]\d* at 8, [1-9]\d* at 32/,
    );
  });
});
