import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { SingleProcessSigner } from '../../src/log/signer.js';
import { WitnessClient } from '../../src/log/witness-client.js';
import { temporaryFolder, writeLog } from '../models/signed-log.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

const program = fileURLToPath(new URL('../../dist/program/main.js', import.meta.url));
const folder = temporaryFolder();
const home = join(folder.path, 'home');
const runFolder = join(folder.path, 'run');
const isopro = (...args: string[]): { status: number | null; stdout: string; stderr: string } =>
  spawnSync(process.execPath, [program, ...args], {
    encoding: 'utf8',
    env: { ...process.env, ISOPRO_HOME: home, NO_COLOR: '1' },
  });

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
  test('verify: ok in words and in JSON, with the key of a file too', () => {
    const words = isopro('log', 'verify', runFolder);
    expect([words.status, words.stderr]).toEqual([0, '']);
    expect(words.stdout).toMatch(/^ok: /);
    expect(words.stdout).toContain('of this user');
    const key = join(folder.path, 'witness.pub');
    writeFileSync(key, isopro('witness', '--show-key').stdout);
    const json = JSON.parse(
      isopro('log', 'verify', runFolder, '--key', key, '--json').stdout,
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
      const bad = isopro('log', 'verify', copy);
      expect(bad.status).toBe(4);
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
      const unterminated = isopro('log', 'verify', open);
      expect(unterminated.status).toBe(3);
      expect(unterminated.stdout).toContain('single process');
      expect(isopro('log', 'verify', join(folder.path, 'nowhere')).status).toBe(1);
      expect(isopro('log', 'verify').status).toBe(2);
      expect(isopro('log', 'show', runFolder, '--stream', 'nonsense').status).toBe(2);
      expect(isopro('log', 'show', runFolder, '--from', '-3').status).toBe(2);
    },
  );

  test('show and export print records; export is JSONL with what JSON cannot say marked', () => {
    expect(isopro('log', 'show', runFolder, '--limit', '3').stdout.trim().split('\n')).toHaveLength(
      3,
    );
    const lines = isopro('log', 'export', runFolder)
      .stdout.trim()
      .split('\n')
      .map(
        (line) =>
          JSON.parse(line) as { gseq: number; payload: { gradNorm?: unknown; seed?: unknown } },
      );
    expect(lines.map(({ gseq }) => gseq)).toEqual(Array.from({ length: 40 }, (_, i) => i));
    expect(lines[8]?.payload.gradNorm).toBe('#NaN');
    expect(lines[3]?.payload.seed).toBe('#1152921504606846976');
    expect(
      isopro('log', 'export', runFolder, '--stream', 'decisions', '--json')
        .stdout.trim()
        .split('\n'),
    ).toHaveLength(9);
  });

  test('prove prints documents that hold', () => {
    expect(JSON.parse(isopro('log', 'prove', runFolder, '--record', '17').stdout)).toMatchObject({
      holds: true,
      record: { gseq: 17 },
    });
    expect(
      JSON.parse(isopro('log', 'prove', runFolder, '--from', '10', '--to', '40').stdout),
    ).toMatchObject({ holds: true });
    expect(isopro('log', 'prove', runFolder, '--record', '99').status).toBe(1);
    expect(isopro('log', 'prove', runFolder).status).toBe(2);
  });

  test('bench log prints both rates, and memory stays flat', () => {
    const result = JSON.parse(isopro('bench', 'log', '--records', '40000', '--json').stdout) as {
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
