/**
 * What is compiled beside the addon: the C++ tests, so that `npm test` is all of them, and the
 * addon of the benchmarks.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { loadBenchAddon } from '../../bench/addon.js';
import { inspectModel } from '../../src/engine/inspect.js';
import { runCli } from '../cli/run-cli.js';
import { writeSyntheticModel } from '../models/synthetic.js';

// one suite, since both are built in one folder
test(
  'the native tests',
  () => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [path.resolve('scripts/test-native.mjs')],
      {
        encoding: 'utf8',
        maxBuffer: 1 << 26,
      },
    );
    if (status !== 0) console.error(stdout.slice(-8000), stderr.slice(-8000));
    expect(status).toBe(0);
    expect(stdout).toMatch(/\n\d+ tests, 0 failed checks\n/);
  },
  process.env.ISOPRO_FULL === '1' ? 7_200_000 : 900_000,
);

const place = mkdtempSync(path.join(tmpdir(), 'isopro-bench-'));
afterAll(() => rmSync(place, { recursive: true, force: true }));

describe('the benchmarks of a fresh installation', () => {
  test('bench serve measures the server, and says where there is no llama-server', async () => {
    const sizes = [
      '--clients',
      '1,2',
      '--requests',
      '1',
      '--rounds',
      '1',
      '--tokens',
      '3',
      '--prompt-tokens',
      '8',
      '--adapter-clients',
      '4',
    ];
    const { code, stdout, stderr } = await runCli([
      'bench',
      'serve',
      '--model',
      'tiny',
      ...sizes,
      '--peer',
      './nothing',
      '--json',
    ]);
    expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
    const times = { p50: expect.any(Number), p99: expect.any(Number) };
    const row = {
      ours: expect.any(Number),
      peer: null,
      firstTokenMs: times,
      peerFirstTokenMs: null,
    };
    expect(JSON.parse(stdout)).toEqual({
      rows: [
        { clients: 1, ...row },
        { clients: 2, ...row },
      ],
      mixedAdapters: { ours: expect.any(Number), peer: null },
      peerMissing: 'there is no ./nothing',
    });
  });

  test('bench kernels measures both products', async () => {
    const { code, stdout } = await runCli([
      'bench',
      'kernels',
      '--rows',
      '64',
      '--columns',
      '256',
      '--tokens',
      '8',
      '--types',
      'q8_0',
      '--threads',
      '1',
      '--rounds',
      '1',
      '--json',
    ]);
    expect(code).toBe(0);
    const { rows } = JSON.parse(stdout) as { rows: { op: string; gflops: number }[] };
    expect(rows.map(({ op }) => op)).toEqual(['Y', 'dX']);
    for (const { gflops } of rows) expect(gflops).toBeGreaterThan(0);
  });

  test('bench loop tells the stages of a task apart', async () => {
    const sizes = {
      rollouts: 4,
      samples: 2,
      tokens: 12,
      steps: 1,
      'batch-size': 2,
      'top-layers': 1,
      'dev-size': 1,
      threads: 1,
      iterations: 1,
    };
    const flags = Object.entries(sizes).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const { code, stdout } = await runCli([
      'bench',
      'loop',
      '--model',
      'tiny',
      '--task',
      'scheduling',
      ...flags,
      '--profile',
      '--json',
    ]);
    expect(code).toBe(0);
    const { stages, replies, tokens, matmul, operations } = JSON.parse(stdout) as {
      matmul: string;
      operations: { operation: string; computer: string; nodes: number; seconds: number }[];
      stages: { stage: string; seconds: number; share: number }[];
      replies: number;
      tokens: { sampled: number; trained: number };
    };
    const seconds = new Map(stages.map(({ stage, seconds: of }) => [stage, of]));
    const done = [
      'load',
      'prefill',
      'decode',
      'draw',
      'verdicts',
      'boundaries',
      'forward',
      'head',
      'backward',
      'optimiser',
      'adapter',
    ];
    for (const stage of done) expect([stage, seconds.get(stage)! > 0]).toEqual([stage, true]);
    expect(stages.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1);
    expect(replies).toBe(4);
    expect(tokens.sampled).toBeGreaterThan(4);
    expect(tokens.trained).toBeGreaterThan(0);
    // with the kernels of a run, which `models inspect` names
    const { types } = await inspectModel('tiny');
    const { kernels } = types.find(({ type }) => type === 'q8_0')!;
    expect(matmul).toBe(kernels);
    const of = (operation: string) => operations.filter((each) => each.operation === operation);
    expect(of('product q8_0').map(({ computer }) => computer)).toEqual([
      kernels === 'own' ? 'own' : expect.stringMatching(/^(ggml|repacked|amx)$/),
    ]);
    for (const { nodes, seconds: spent } of [...of('product q8_0'), ...of('attention')])
      expect([nodes > 0, spent > 0]).toEqual([true, true]);
    expect(of('attention')).toHaveLength(1);
    expect((await runCli(['bench', 'loop', '--task', 'scheduling'])).code).toBe(2);
    expect((await runCli(['bench', 'loop', '--profile'])).code).toBe(2);
  });

  test('the bare loop of bench rollout', async () => {
    const file = path.join(place, 'model.gguf');
    writeSyntheticModel(file, { architecture: 'qwen2' });
    const addon = loadBenchAddon();
    const model = await addon.openModel(file, 0, 'f16');
    expect(
      await addon.bareLoop(model, [Int32Array.of(1, 2, 3), Int32Array.of(4)], 2, 3, 1),
    ).toBeGreaterThan(0);
    await expect(addon.openModel(path.join(place, 'absent.gguf'), 0, 'f16')).rejects.toMatchObject({
      code: 'MODEL_NOT_FOUND',
    });
  });
});
