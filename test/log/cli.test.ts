import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { SingleProcessSigner } from '../../src/log/signer.js';
import { WitnessClient } from '../../src/log/witness-client.js';
import { CommandLines, runCli, type CliResult } from '../cli/run-cli.js';
import { temporaryFolder, writeLog } from '../models/signed-log.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

const folder = temporaryFolder();
const home = join(folder.path, 'home');
const runFolder = join(folder.path, 'run');
const env = { ISOPRO_HOME: home, NO_COLOR: '1' };
const lines = new CommandLines(env);
afterAll(() => lines.end());
const isopro = (...args: string[]): Promise<CliResult> => lines.run(args);

beforeAll(async () => {
  mkdirSync(runFolder);
  const witness = await WitnessClient.open(home);
  await writeLog({
    folder: runFolder,
    name: 'log.sqlite',
    runId: 'ab12'.repeat(8),
    records: 40,
    headEvery: 10,
    signer: witness,
  });
  await witness.close();
});
afterAll(folder.remove);

describe('isopro-native log', () => {
  test('verify: ok in words and in JSON, with the key of a file too', async () => {
    const words = await isopro('log', 'verify', runFolder);
    expect([words.code, words.stderr]).toEqual([0, '']);
    expect(words.stdout).toMatch(/^ok: /);
    expect(words.stdout).toContain('of this user');
    const key = join(folder.path, 'witness.pub');
    writeFileSync(key, (await isopro('witness', '--show-key')).stdout);
    const json = JSON.parse(
      (await isopro('log', 'verify', runFolder, '--key', key, '--json')).stdout,
    ) as object;
    expect(json).toMatchObject({
      outcome: 'ok',
      records: 40,
      signedRecords: 40,
      signer: 'witness',
      disagreement: null,
    });
  });

  test(
    'verify: 4 with the first record that disagrees, 3 for a run that has not ended, 1 where nothing can be checked, 2 for bad ' +
      'flags',
    async () => {
      const copy = join(folder.path, 'copy.sqlite');
      const source = new Database(join(runFolder, 'log.sqlite'), { readonly: true });
      writeFileSync(copy, source.serialize());
      source.close();
      const db = new Database(copy);
      const trigger = db
        .prepare("SELECT sql FROM sqlite_schema WHERE name = 'log_update'")
        .pluck()
        .get() as string;
      db.exec('DROP TRIGGER log_update');
      db.exec("UPDATE log SET payload = replace(payload, 'answer', 'ANSWER') WHERE gseq = 17");
      db.exec(trigger);
      db.close();
      const bad = await isopro('log', 'verify', copy);
      expect(bad.code).toBe(4);
      expect(bad.stdout).toMatch(/^tampered: .*\n[^]*first {4}log 17: its hash/);
      const single = new SingleProcessSigner(home);
      const { EventLog } = await import('../../src/log/event-log.js');
      const open = join(folder.path, 'open.sqlite');
      (
        await EventLog.create({
          streams: RUN_STREAMS,
          path: open,
          runId: 'cd34'.repeat(8),
          signer: single,
          runConfig: null,
          digests: {},
        })
      ).close();
      await single.close();
      const unterminated = await isopro('log', 'verify', open);
      expect(unterminated.code).toBe(3);
      expect(unterminated.stdout).toContain('single process');
      expect((await isopro('log', 'verify', join(folder.path, 'nowhere'))).code).toBe(1);
      expect((await isopro('log', 'verify')).code).toBe(2);
      expect((await isopro('log', 'show', runFolder, '--stream', 'nonsense')).code).toBe(2);
      expect((await isopro('log', 'show', runFolder, '--from', '-3')).code).toBe(2);
    },
  );

  test('show and export print records; export is JSONL with what JSON cannot say marked', async () => {
    expect(
      (await isopro('log', 'show', runFolder, '--limit', '3')).stdout.trim().split('\n'),
    ).toHaveLength(3);
    const lines = (await isopro('log', 'export', runFolder)).stdout
      .trim()
      .split('\n')
      .map(
        (line) =>
          JSON.parse(line) as { gseq: number; payload: { gradNorm?: unknown; seed?: unknown } },
      );
    expect(lines.map(({ gseq }) => gseq)).toEqual(Array.from({ length: 40 }, (_, i) => i));
    expect(lines[8]?.payload.gradNorm).toBe('#NaN');
    expect(lines[3]?.payload.seed).toBe('#1152921504606846976');
    expect(
      (await isopro('log', 'export', runFolder, '--stream', 'decisions', '--json')).stdout
        .trim()
        .split('\n'),
    ).toHaveLength(9);
  });

  test('prove prints documents that hold', async () => {
    expect(
      JSON.parse((await isopro('log', 'prove', runFolder, '--record', '17')).stdout),
    ).toMatchObject({
      holds: true,
      record: { gseq: 17 },
    });
    expect(
      JSON.parse((await isopro('log', 'prove', runFolder, '--from', '10', '--to', '40')).stdout),
    ).toMatchObject({ holds: true });
    expect((await isopro('log', 'prove', runFolder, '--record', '99')).code).toBe(1);
    expect((await isopro('log', 'prove', runFolder)).code).toBe(2);
  });

  test('bench log prints both rates, and memory stays flat', async () => {
    const result = JSON.parse(
      (await runCli(['bench', 'log', '--records', '40000', '--json'], env)).stdout,
    ) as {
      appendedPerSecond: number;
      verifiedPerSecond: number;
      verifyGrowthBytes: number;
      appendGrowthBytes: number;
    };
    expect(result.appendedPerSecond).toBeGreaterThan(0);
    expect(result.verifiedPerSecond).toBeGreaterThan(0);
    expect(Math.max(result.appendGrowthBytes, result.verifyGrowthBytes)).toBeLessThan(
      64 * 1024 * 1024,
    );
  });
});
