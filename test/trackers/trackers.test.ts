/**
 * The files of trackers, read back: by readers of this test, which know the formats and none of our
 * code, and by the trackers' own Python packages where they are installed.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { crc32 } from 'node:zlib';
import Database from 'better-sqlite3';
import { afterAll, describe, expect, test } from '@jest/globals';
import { TRACKER_NAMES, Trackers, type TrackersOptions } from '../../src/trackers/trackers.js';

const root = mkdtempSync(path.join(tmpdir(), 'isopro-trackers-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const notices: string[] = [];
const options = (folder: string, more: Partial<TrackersOptions> = {}): TrackersOptions => {
  let clock = 1_700_000_000_000;
  return {
    folder,
    project: 'a project',
    name: 'run 1.gguf',
    config: { rank: 8, model: 'tiny', layers: ['q', 'k'], none: null },
    resumed: false,
    onNotice: (text) => notices.push(text),
    now: () => clock++,
    ...more,
  };
};

/** Long enough that wandb's blocks of 32 kB end within records, and within their headers. */
const STEPS = 400;
const lossOf = (step: number): number => 1 / step;
function write(folder: string): string {
  const trackers = new Trackers(TRACKER_NAMES, options(folder));
  for (let step = 1; step <= STEPS; step++) {
    trackers.log(step, {
      'train/loss': lossOf(step),
      'train/rewards/chosen': -step,
      'train/none': null,
      'train/broken': NaN,
    });
    if (step === 2) trackers.log(step, { 'eval/loss': 0.25 });
  }
  trackers.end('finished');
  return folder;
}
const folder = write(path.join(root, 'whole'));
const only = (...parts: string[]): string => {
  // MLflow makes a folder for its waste
  const names = readdirSync(path.join(folder, ...parts)).filter((name) => !name.startsWith('.'));
  expect(names).toHaveLength(1);
  return path.join(folder, ...parts, names[0]!);
};

/** Fields of a message: numbers of whole ones, bytes of the others. */
function fields(bytes: Buffer): [number, bigint | Buffer][] {
  const found: [number, bigint | Buffer][] = [];
  let at = 0;
  const varint = (): bigint => {
    for (let [value, shift] = [0n, 0n]; ; shift += 7n) {
      const byte = bytes[at++]!;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(varint());
    const kind = tag & 7;
    if (kind === 0) found.push([tag >> 3, varint()]);
    else {
      const length = kind === 1 ? 8 : kind === 5 ? 4 : Number(varint());
      found.push([tag >> 3, bytes.subarray(at, at + length)]);
      at += length;
    }
  }
  return found;
}
const all = (bytes: Buffer, field: number): Buffer[] =>
  fields(bytes).flatMap(([name, value]) => (name === field ? [value as Buffer] : []));

/** Bit by bit: the remainder by the polynomial of Castagnoli, 0x1edc6f41, reflected. */
function crc32c(bytes: Uint8Array): number {
  let rest = 0xffffffff;
  for (const byte of bytes) {
    for (let bit = 0; bit < 8; bit++) {
      const odd = (rest ^ (byte >> bit)) & 1;
      rest = (rest >>> 1) ^ (odd === 1 ? 0x82f63b78 : 0);
    }
  }
  return (rest ^ 0xffffffff) >>> 0;
}

test('TensorBoard: every record has its masked checksums, and holds the steps and figures', () => {
  // RFC 3720, B.4 has the polynomial; the check value is the catalogue's
  expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
  const bytes = readFileSync(only('tensorboard', 'run 1.gguf'));
  const masked = (data: Uint8Array): number => {
    const crc = crc32c(data);
    return Number((((BigInt(crc) >> 15n) | (BigInt(crc) << 17n)) + 0xa282ead8n) & 0xffffffffn);
  };
  const events: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = Number(bytes.readBigUInt64LE(at));
    expect(bytes.readUInt32LE(at + 8)).toBe(masked(bytes.subarray(at, at + 8)));
    const data = bytes.subarray(at + 12, at + 12 + length);
    expect(bytes.readUInt32LE(at + 12 + length)).toBe(masked(data));
    events.push(data);
    at += 16 + length;
  }
  expect(all(events[0]!, 3).map(String)).toEqual(['brain.Event:2']);
  const rows = events.slice(1).map((event) => ({
    step: fields(event).find(([field]) => field === 2)![1],
    seconds: all(event, 1)[0]!.readDoubleLE(),
    values: all(all(event, 5)[0]!, 1).map((value) => [
      String(all(value, 1)[0]),
      all(value, 2)[0]!.readFloatLE(),
    ]),
  }));
  expect(rows).toHaveLength(STEPS + 1);
  expect(rows[0]).toMatchObject({
    step: 1n,
    values: [
      ['train/loss', 1],
      ['train/rewards/chosen', -1],
    ],
  });
  expect(rows[2]).toMatchObject({ step: 2n, values: [['eval/loss', 0.25]] });
  expect(rows[0]!.seconds).toBeCloseTo(1_700_000_000, 0);
});

test('wandb: the pieces of every record join over the ends of blocks', () => {
  const bytes = readFileSync(
    only('wandb') +
      `/${path.basename(only('wandb')).replace(/^offline-run-\d+_\d+-/, 'run-')}.wandb`,
  );
  expect(bytes.subarray(0, 7)).toEqual(Buffer.from(':W&B\xe1\xbe\0', 'latin1'));
  const records: Buffer[] = [];
  let data: Buffer[] = [];
  for (let at = 7; at < bytes.length; ) {
    const left = 32_768 - (at % 32_768);
    if (left < 7) {
      at += left;
      continue;
    }
    const [sum, length, kind] = [
      bytes.readUInt32LE(at),
      bytes.readUInt16LE(at + 4),
      bytes.readUInt8(at + 6),
    ];
    expect(crc32(bytes.subarray(at + 6, at + 7 + length))).toBe(sum);
    expect(length + 7).toBeLessThanOrEqual(left);
    expect([1, 2].includes(kind)).toBe(data.length === 0);
    data.push(bytes.subarray(at + 7, at + 7 + length));
    at += 7 + length;
    if (kind === 2 || kind === 3) continue;
    records.push(Buffer.concat(data));
    data = [];
  }
  expect(bytes.length).toBeGreaterThan(32_768);
  expect(records.map((record) => fields(record)[0])).toEqual(
    records.map((_, i) => [1, BigInt(i + 1)]),
  );
  const kinds = records.map((record) => fields(record)[1]![0]);
  expect([kinds.slice(0, 3), kinds.at(-1), kinds.length]).toEqual([[21, 17, 2], 18, STEPS + 4]);
  const history = all(records.at(-2)!, 2)[0]!;
  const items = all(history, 1).map((item) => [
    String(all(item, 2)[0]),
    JSON.parse(String(all(item, 16)[0])),
  ]);
  expect(Object.fromEntries(items)).toMatchObject({
    'train/loss': lossOf(STEPS),
    'train/rewards/chosen': -STEPS,
    _step: STEPS,
  });
});

test('JSON lines, the rows of Trackio and the lines of MLflow', () => {
  const lines = readFileSync(path.join(folder, 'jsonl', 'metrics.jsonl'), 'utf8')
    .trim()
    .split('\n');
  expect(lines).toHaveLength(STEPS + 1);
  expect(JSON.parse(lines[0]!)).toEqual({ step: 1, 'train/loss': 1, 'train/rewards/chosen': -1 });
  const database = new Database(path.join(folder, 'trackio', 'aproject.db'), { readonly: true });
  const rows = database
    .prepare('SELECT run_name, step, metrics FROM metrics ORDER BY id')
    .all() as { step: number; metrics: string }[];
  expect(rows).toHaveLength(STEPS + 1);
  expect(rows[2]).toEqual({ run_name: 'run 1.gguf', step: 2, metrics: '{"eval/loss":0.25}' });
  database.close();
  const experiment = only('mlflow');
  const run = path.join(experiment, readdirSync(experiment).find((name) => name !== 'meta.yaml')!);
  expect(readFileSync(path.join(run, 'metrics', 'eval', 'loss'), 'utf8')).toMatch(
    /^\d{13} 0\.25 2\n$/,
  );
  expect(readFileSync(path.join(run, 'params', 'layers'), 'utf8')).toBe('["q","k"]');
  expect(readFileSync(path.join(run, 'meta.yaml'), 'utf8')).toMatch(/^status: 3$/m);
});

describe("the trackers' own packages", () => {
  const reader = fileURLToPath(new URL('read.py', import.meta.url));
  const { status, stdout } = spawnSync(process.env.ISOPRO_PYTHON ?? 'python3', [reader, folder], {
    encoding: 'utf8',
  });
  const read = (status === 0 ? JSON.parse(stdout.trim().split('\n').at(-1)!) : {}) as Record<
    string,
    unknown
  >;
  const missing = ['tensorboard', 'mlflow', 'trackio', 'wandb'].filter(
    (name) => (read[name] ?? null) === null,
  );
  if (missing.length > 0)
    console.warn(
      `skipped, not installed for Python (ISOPRO_PYTHON names another one): ${missing.join(', ')}`,
    );
  const having = (name: string): typeof test =>
    missing.includes(name) ? (test.skip as typeof test) : test;
  const steps = Array.from({ length: STEPS }, (_, i) => i + 1);

  having('tensorboard')('TensorBoard', () => {
    expect(read.tensorboard).toEqual({
      'train/loss': steps.map((step) => [step, Math.fround(lossOf(step))]),
      'train/rewards/chosen': steps.map((step) => [step, -step]),
      'eval/loss': [[2, 0.25]],
    });
  });
  having('mlflow')('MLflow', () => {
    const [status, params, history] = (read.mlflow as Record<string, [string, object, object]>)[
      'a project/run 1.gguf'
    ]!;
    expect([status, params]).toEqual([
      'FINISHED',
      { rank: '8', model: 'tiny', layers: '["q","k"]', none: 'null' },
    ]);
    expect(history).toEqual({
      'train/loss': steps.map((step) => [step, lossOf(step)]),
      'train/rewards/chosen': steps.map((step) => [step, -step]),
      'eval/loss': [[2, 0.25]],
    });
  });
  having('trackio')('Trackio', () => {
    const [project, runs, rows] = read.trackio as [string, string[], object[]];
    expect([project, runs, rows.length]).toEqual(['aproject', ['run 1.gguf'], STEPS + 1]);
    expect(rows[0]).toMatchObject({ step: 1, 'train/loss': 1, 'train/rewards/chosen': -1 });
  });
  having('wandb')('Weights & Biases', () => {
    const records = read.wandb as unknown[][];
    expect(records[1]).toEqual([
      'run',
      'a project',
      'run 1.gguf',
      { rank: 8, model: 'tiny', layers: ['q', 'k'], none: null },
    ]);
    expect(records.filter(([kind]) => kind === 'history')).toHaveLength(STEPS + 1);
    expect(records[2]).toEqual(['history', 1, { 'train/loss': 1, 'train/rewards/chosen': -1 }]);
    expect(records.at(-1)).toEqual(['exit']);
  });
});

test('a training that goes on adds to its files, one that begins anew replaces them', () => {
  const again = path.join(root, 'again');
  const lines = (): number =>
    readFileSync(path.join(again, 'jsonl', 'metrics.jsonl'), 'utf8').split('\n').length - 1;
  const rows = (): number => {
    const database = new Database(path.join(again, 'trackio', 'aproject.db'), { readonly: true });
    const { count } = database.prepare('SELECT count(*) AS count FROM metrics').get() as {
      count: number;
    };
    database.close();
    return count;
  };
  const train = (resumed: boolean, from: number): void => {
    const now = (): number => 1_800_000_000_000 + 1000 * from;
    const trackers = new Trackers(
      ['jsonl', 'trackio', 'mlflow', 'tensorboard'],
      options(again, { resumed, now }),
    );
    trackers.log(from, { loss: 1 });
    trackers.end('failed');
  };
  train(false, 1);
  train(true, 2);
  expect([
    lines(),
    rows(),
    readdirSync(path.join(again, 'tensorboard', 'run 1.gguf')).length,
  ]).toEqual([2, 2, 2]);
  train(false, 1);
  expect([
    lines(),
    rows(),
    readdirSync(path.join(again, 'tensorboard', 'run 1.gguf')).length,
  ]).toEqual([1, 1, 1]);
});

test('a tracker that cannot write says so once, and the others go on', () => {
  const blocked = path.join(root, 'blocked');
  notices.length = 0;
  const trackers = new Trackers(['jsonl', 'mlflow'], options(blocked));
  rmSync(path.join(blocked, 'mlflow'), { recursive: true });
  writeFileSync(path.join(blocked, 'mlflow'), 'a file');
  for (const step of [1, 2, 3]) trackers.log(step, { loss: 1 });
  trackers.end('finished');
  expect(notices).toEqual([expect.stringMatching(/^logging to mlflow stopped: /)]);
  expect(
    readFileSync(path.join(blocked, 'jsonl', 'metrics.jsonl'), 'utf8')
      .trim()
      .split('\n'),
  ).toHaveLength(3);
  const none = new Trackers(['tensorboard'], options(path.join(blocked, 'mlflow')));
  none.log(1, { loss: 1 });
  expect([none.commands, notices.length]).toEqual([[], 2]);
  expect(existsSync(path.join(blocked, 'mlflow', 'tensorboard'))).toBe(false);
});
