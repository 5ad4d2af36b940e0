/**
 * The registry by hand: what docs/registry.md does not walk through. Commands in one process, as
 * tests of the command line's start are elsewhere.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { writeSyntheticModel } from '../models/synthetic.js';
import { CommandLines, type CliResult } from './run-cli.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-registry-cli-'));
afterAll(async () => {
  await lines.end();
  rmSync(folder, { recursive: true, force: true });
});
const file = (name: string): string => path.join(folder, name);
const env = { ISOPRO_HOME: file('home') };
const lines = new CommandLines(env);
const cli = (...args: string[]): Promise<CliResult> => lines.run(args);
const adapters = async (...args: string[]): Promise<Record<string, unknown>> => {
  const { code, stdout, stderr } = await cli('adapters', ...args, '--json');
  return code === 0 || code === 3
    ? { code, ...(JSON.parse(stdout) as object) }
    : { code, ...(JSON.parse(stderr) as { error: object }).error };
};
const shape = writeSyntheticModel(file('model.gguf'), { architecture: 'llama', type: 'Q8_0' });
writeSyntheticModel(file('other.gguf'), { architecture: 'llama', type: 'Q8_0', seed: 5n });
for (const n of [1, 2])
  writeSyntheticAdapter(file(`${n}.gguf`), shape, {
    seed: BigInt(n),
    rank: 2,
    targets: ['attn_q'],
  });

const trial = (version: unknown, i: number, score: number): object => ({
  version,
  task: 'sql',
  epoch: '1',
  verifier: 'v',
  problem: `p${i}`,
  score,
});

test('publish, a gate that needs more and then accepts, use by name, a foreign base, a flipped byte', async () => {
  const one = await adapters(
    'publish',
    file('1.gguf'),
    '--model',
    file('model.gguf'),
    '--as',
    'sql@challenger',
    '--signer',
    'single-process',
  );
  expect(one).toMatchObject({
    isNew: true,
    alias: 'sql@challenger',
    name: `model#${String(one.id).slice(0, 12)}`,
  });
  const gate = await adapters('promote', 'sql@challenger', '--as', 'sql', '--open');
  expect(gate).toMatchObject({ gate: 1, attempt: 1, challenger: one.id, incumbent: null });
  const evidence = (wins: number): string => {
    const trials = Array.from({ length: wins }, (_, i) => [
      trial(one.id, i, 1),
      trial('base', i, 0),
    ]).flat();
    writeFileSync(file('trials.json'), JSON.stringify({ seed: gate.seed, trials }));
    return file('trials.json');
  };
  const decide = (wins: number): Promise<Record<string, unknown>> =>
    adapters(
      'promote',
      'sql@challenger',
      '--as',
      'sql',
      '--gate',
      '1',
      '--evidence',
      evidence(wins),
    );
  expect(await decide(7)).toMatchObject({
    code: 3,
    moved: null,
    decision: { decision: 'needs-more-trials' },
  });
  expect(await decide(8)).toMatchObject({
    code: 0,
    moved: { alias: 'sql@champion', from: null, to: one.id },
    decision: { decision: 'accepted' },
  });

  expect(await adapters('inspect', String(one.id).slice(0, 10))).toMatchObject({
    id: one.id,
    format: 'gguf',
  });
  const two = await adapters('publish', file('2.gguf'), '--model', file('model.gguf'));
  const canary = await adapters(
    'promote',
    String(two.id),
    '--as',
    'sql',
    '--force',
    '--canary',
    '0.1',
    '--probation',
    '30',
  );
  expect(canary).toMatchObject({ moved: { from: one.id, to: two.id } });
  const wider = { current: two.id, before: one.id, probation: { share: 0.5, problems: 30 } };
  expect(await adapters('canary', 'sql', '--share', '0.5')).toMatchObject(wider);
  const fallen = Array.from({ length: 12 }, (_, i) => [
    trial(two.id, i, 0),
    trial(one.id, i, 1),
  ]).flat();
  writeFileSync(file('feedback.json'), JSON.stringify({ trials: fallen }));
  expect(await adapters('canary', 'sql', '--trials', file('feedback.json'))).toMatchObject({
    code: 3,
    decision: { decision: 'rollback' },
    moved: { alias: 'sql@champion', from: two.id, to: one.id },
  });
  const { differences } = await adapters('diff', 'sql@champion', String(two.name));
  expect((differences as { member: string }[]).map(({ member }) => member)).toEqual([
    'adapter.sha256',
  ]);
  expect(await adapters('gc', '--unused', '--dry-run')).toMatchObject({
    files: [],
    ids: [two.id],
    dryRun: true,
  });

  const merged = await adapters(
    'merge',
    '--model',
    file('other.gguf'),
    '--adapter',
    'sql@champion',
    '--out',
    file('merged.gguf'),
  );
  expect(merged).toMatchObject({ code: 'ADAPTER_MISMATCH' });
  const where = ['--registry', file('home/registry')];
  const generate = (model: string): Promise<CliResult> =>
    cli(
      'generate',
      '--model',
      file(model),
      '--adapter',
      'sql@champion',
      ...where,
      '--prompt',
      'x',
      '--max-tokens',
      '2',
      '--threads',
      '1',
    );
  const reply = await generate('model.gguf');
  expect([reply.code, reply.stderr]).toEqual([0, '']);
  expect(JSON.parse(reply.stdout)).toMatchObject({
    adapterId: (one.record as { adapter: { sha256: string } }).adapter.sha256,
  });
  expect((await generate('other.gguf')).stderr).toContain('ADAPTER_MISMATCH');

  const kept = file(
    `home/registry/adapters/${(one.record as { adapter: { sha256: string } }).adapter.sha256}.gguf`,
  );
  const bytes = readFileSync(kept);
  bytes[bytes.length - 1]! ^= 1;
  writeFileSync(kept, bytes);
  expect((await generate('model.gguf')).stderr).toContain('ADAPTER_CORRUPT');
  expect(await cli('adapters', 'validate')).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('does not have the published bytes'),
  });
}, 120_000);

test('wrong usage says what to give', async () => {
  const said = async (...args: string[]): Promise<string> => {
    const { code, stderr } = await cli('adapters', ...args);
    return `${code} ${stderr}`;
  };
  expect(await said('promote', 'x', '--as', 'sql')).toMatch(/^2 .*requires evidence/s);
  expect(await said('history', '--at', 'yesterday')).toMatch(/^2 .*is not a date/s);
  expect(await said('canary', 'sql', '--share', '1.5')).toMatch(
    /^2 .*--share: expected a number above 0/s,
  );
}, 60_000);
