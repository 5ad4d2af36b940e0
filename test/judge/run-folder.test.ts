import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, describe, expect, test } from '@jest/globals';
import { asJson } from '../../src/canonical-json.js';
import { evaluationSet } from '../../src/evaluation/evaluation-set.js';
import { probeBatch } from '../../src/evaluation/probe.js';
import { DEFAULT_RULES } from '../../src/monitor/rules.js';
import { playbook } from '../../src/trainees/lora/playbook.js';
import {
  codeVersion,
  isSameMachine,
  machineClass,
  machineText,
} from '../../src/run-folder/machine.js';
import {
  readManifest,
  changesText,
  startChanges,
  startDifferences,
  startDigests,
  writeManifest,
  type RunManifest,
  type RunStart,
} from '../../src/run-folder/manifest.js';
import { makeRunFolder } from '../../src/run-folder/paths.js';
import { byPart, readWrittenSettings } from '../../src/run-folder/written-settings.js';
import { inUse, resolveSettings } from '../../src/training/settings.js';
import { frozenSet } from '../../src/tasks/frozen-sets.js';
import { Random } from '../../src/random.js';
import { openTask } from '../../src/tasks/open-task.js';
import { writeLetterTask } from '../models/letters.js';
import { temporaryFolder } from '../models/signed-log.js';

const folder = temporaryFolder();
afterAll(folder.remove);

const set = {
  origin: 'frozen',
  file: '11'.repeat(32),
  perTier: 2,
  problems: 4,
  sha256: '22'.repeat(32),
} as const;
const start: RunStart = {
  code: { version: '0.1.0', javascript: '34'.repeat(32), addon: '33'.repeat(32) },
  machine: { platform: 'linux', arch: 'x64', llamaRelease: 'b1', features: ['AVX2=1'] },
  model: { sha256: '44'.repeat(32), name: 'tiny', architecture: 'qwen2', quantisation: 'Q8_0' },
  task: { id: 'scheduling', version: '1', file: null },
  sets: { dev: set, test: set },
  evaluation: {
    style: 'cot',
    maxTokens: 64,
    maxSequences: 8,
    contextTokens: 4096,
    threads: 1,
    rendererId: '55'.repeat(32),
  },
  schedule: { schedule: 'constant', warmupSteps: 0, totalSteps: 0, finalFactor: 0 },
  rules: DEFAULT_RULES,
  policy: 'scripted',
  settings: { seed: '42', iterations: 3 },
};
const manifest: RunManifest = {
  format: 'isopro.run.v2',
  runId: 'ab'.repeat(16),
  start,
  result: null,
};

describe('the manifest', () => {
  test('is read as it was written', async () => {
    makeRunFolder(folder.path);
    await writeManifest(folder.path, manifest);
    expect(readManifest(folder.path)).toEqual(manifest);
    await writeManifest(folder.path, { ...manifest, result: { adapter: '66'.repeat(32) } });
    expect(readManifest(folder.path).result).toEqual({ adapter: '66'.repeat(32) });
  });

  test('classes of machines are those of own kernels, or of ggml with its addon', async () => {
    const own = (version: number, addon = start.code.addon): RunStart => ({
      ...start,
      code: { ...start.code, addon },
      machine: { arch: 'x64', kernels: 'own', version },
    });
    await writeManifest(folder.path, { ...manifest, start: own(1) });
    expect(readManifest(folder.path).start).toEqual(own(1));
    expect(isSameMachine(own(1), own(1, '99'.repeat(32)))).toBe(true);
    expect(isSameMachine(own(1), own(2))).toBe(false);
    expect(isSameMachine(own(1), start)).toBe(false);
    expect(isSameMachine(start, { ...start })).toBe(true);
    const other = { ...start.code, addon: '99'.repeat(32) };
    expect(isSameMachine(start, { ...start, code: other })).toBe(false);
    const older = { ...start, evaluation: { ...start.evaluation, matmul: 'own' as const } };
    expect([own(2), start, older].map(machineText)).toEqual([
      'own kernels (bits of version 2) on x64',
      'llama.cpp b1 on linux x64',
      'llama.cpp b1 with own matrix kernels on linux x64',
    ]);
  });

  test('every part of the start is under a digest of its own name, and under the whole', () => {
    const digests = startDigests(start);
    expect(Object.keys(digests).sort()).toEqual([
      'code',
      'devSet',
      'model',
      'playbook',
      'rules',
      'settings',
      'start',
      'task',
      'testSet',
    ]);
    const changes: [string[], Partial<RunStart>][] = [
      [['code'], { code: { ...start.code, version: '0.2.0' } }],
      [['model'], { model: { ...start.model, sha256: '77'.repeat(32) } }],
      [['task'], { task: { ...start.task, version: '2' } }],
      [['devSet'], { sets: { dev: { ...set, sha256: '77'.repeat(32) }, test: set } }],
      [['testSet'], { sets: { test: { ...set, sha256: '77'.repeat(32) }, dev: set } }],
      [['playbook', 'rules'], { rules: { ...DEFAULT_RULES, alpha: 0.5 } }],
      [['settings'], { settings: { ...start.settings, seed: '43' } }],
      [[], { evaluation: { ...start.evaluation, threads: 2 } }],
    ];
    for (const [names, change] of changes) {
      const other = startDigests({ ...start, ...change });
      expect(
        Object.keys(digests)
          .filter((name) => other[name] !== digests[name])
          .sort(),
      ).toEqual([...names, 'start'].sort());
    }
    expect(playbook(DEFAULT_RULES)).toContain('R7');
  });

  test('differences between two starts are named by their path', () => {
    expect(startDifferences(start, structuredClone(start))).toEqual([]);
    expect(
      startDifferences(start, {
        ...start,
        settings: { seed: '43', iterations: 3, extra: true },
        policy: 'observe',
      }),
    ).toEqual(['policy', 'settings.extra', 'settings.seed']);
    const digest = { ...start.task, file: 'ab'.repeat(32) };
    expect(
      changesText(
        startChanges(start, {
          ...start,
          task: digest,
          settings: { ...start.settings, seed: '43', note: 'x'.repeat(99) },
        }),
      ),
    ).toBe(
      `settings.note nothing (now "${'x'.repeat(59)}…), settings.seed "42" (now "43"), task.file null (now abababababab…)`,
    );
  });

  test('of version 1 is read as it was written, its settings by part', async () => {
    // of `run --model tiny --rollouts 64 --iterations 1 --dev-size 4 --test-size 4`
    const written = JSON.parse(
      readFileSync(new URL('./settings-v1.json', import.meta.url), 'utf8'),
    ) as RunStart['settings'];
    const old: RunManifest = {
      ...manifest,
      format: 'isopro.run.v1',
      start: { ...start, settings: written },
    };
    await writeManifest(folder.path, old);
    const read = readManifest(folder.path);
    expect(read).toEqual(old);
    expect(startDigests(read.start)).toEqual(startDigests(old.start));
    const settings = resolveSettings({
      iterations: 1,
      sampling: { rollouts: 64 },
      evaluation: { devSize: 4, testSize: 4 },
    });
    const now = asJson(
      inUse(settings, {
        model: { info: { threads: 1, matmul: 'ggml', vocabularySize: 1088 } },
        task: { turns: 1 },
      }),
    ) as RunStart['settings'];
    // what version 1 never measured, nor had
    const { matmul, ...model } = now.model as Record<string, unknown>;
    const { forgetting, constrained, ...evaluation } = now.evaluation as Record<string, unknown>;
    const { reward, fromBase, headroom, pressure, ...algorithm } = now.algorithm as Record<
      string,
      unknown
    >;
    expect(matmul).toBe('ggml');
    expect([forgetting, constrained, reward, fromBase, headroom, pressure]).toEqual([
      0,
      false,
      'verdict',
      false,
      0.05,
      'reverse-kl',
    ]);
    expect(byPart(read.start.settings)).toEqual({ ...now, model, algorithm, evaluation });
    expect(byPart(now)).toBe(now);
    expect(readWrittenSettings(written)).toEqual(
      readWrittenSettings({ ...now, model, algorithm, evaluation }),
    );
    expect(readWrittenSettings(now)).toMatchObject({
      seed: '42',
      profile: 'embedded',
      buffer: { tierCap: 1000 },
      evaluation: { gate: true },
    });
    expect(
      startDifferences(old.start, {
        ...start,
        settings: { ...now, model, algorithm, evaluation, seed: '43' },
      } as never),
    ).toEqual(['settings.seed']);
  });

  test.each([
    {},
    { seed: 5 },
    { sampling: 3, buffer: [], evaluation: null },
    { buffer: 'balanced' },
    [],
    null,
    'x',
  ])('settings that are none, %j, have no members', (written) => {
    expect(readWrittenSettings(written)).toEqual({
      sampling: {},
      layers: {},
      evaluation: {},
      buffer: isDeepStrictEqual(written, { buffer: 'balanced' }) ? { kind: 'balanced' } : {},
    });
  });

  test.each([
    ['not json', '{'],
    ['another format', JSON.stringify({ ...manifest, format: 'x' })],
    ['an unknown member', JSON.stringify({ ...manifest, extra: 1 })],
    ['no start', JSON.stringify({ ...manifest, start: {} })],
  ])('%s is refused', (_, text) => {
    writeFileSync(join(folder.path, 'manifest.json'), text);
    expect(() => readManifest(folder.path)).toThrow(
      expect.objectContaining({ code: 'RUN_MANIFEST_INVALID' }) as never,
    );
  });

  test('no damage to it is anything but a typed error', () => {
    const text = Buffer.from(JSON.stringify(manifest));
    const random = new Random(7n);
    const texts = Array.from({ length: 300 }, () => {
      const bytes = Buffer.from(text);
      for (let flips = random.nextInteger(1, 4); flips > 0; flips--)
        bytes[random.nextInteger(0, bytes.length - 1)] = random.nextInteger(0, 255);
      return bytes.subarray(
        0,
        random.nextInteger(0, 3) === 0 ? random.nextInteger(0, bytes.length) : bytes.length,
      );
    });
    const deep = '['.repeat(50_000);
    texts.push(
      Buffer.from(
        JSON.stringify({ ...manifest, start: { ...start, settings: { deep: '@' } } }).replace(
          '"@"',
          deep + deep.replaceAll('[', ']'),
        ),
      ),
      Buffer.alloc(5_000_000, 0x20),
    );
    const outcomes = texts.map((bytes) => {
      writeFileSync(join(folder.path, 'manifest.json'), bytes);
      try {
        return readManifest(folder.path).format;
      } catch (error) {
        return (error as { code?: string }).code ?? String(error);
      }
    });
    expect(new Set(outcomes.slice(-2))).toEqual(new Set(['RUN_MANIFEST_INVALID']));
    // a changed digit may well be valid
    expect([...new Set(outcomes)].sort()).toEqual(['RUN_MANIFEST_INVALID', 'isopro.run.v2']);
  });

  test('a folder without one is no run', () => {
    expect(() => readManifest(join(folder.path, 'none'))).toThrow(
      expect.objectContaining({ code: 'RUN_NOT_FOUND' }) as never,
    );
  });

  test('code and machine are described', async () => {
    const code = await codeVersion();
    expect([code.addon, code.javascript]).toEqual([
      expect.stringMatching(/^[0-9a-f]{64}$/),
      expect.stringMatching(/^[0-9a-f]{64}$/),
    ]);
    expect(await codeVersion()).toEqual(code);
    expect(machineClass([])).toMatchObject({ platform: process.platform, arch: process.arch });
  });
});

describe('evaluation sets', () => {
  test('a prefix of each tier of the committed file', async () => {
    await using task = await openTask('scheduling');
    const small = await evaluationSet(task, 'test', 2);
    const large = await evaluationSet(task, 'test', 3);
    const file = frozenSet('scheduling', 'test');
    expect(small).toMatchObject({ origin: 'frozen', file: file.sha256, perTier: 2 });
    for (const { id } of task.tiers) {
      const all = file.problems
        .filter(({ problem }) => problem.tier === id)
        .map(({ problem }) => problem.id);
      expect(small.problems.filter(({ tier }) => tier === id).map((problem) => problem.id)).toEqual(
        all.slice(0, 2),
      );
      expect(large.problems.filter(({ tier }) => tier === id).map((problem) => problem.id)).toEqual(
        all.slice(0, 3),
      );
    }
    expect(small.sha256).not.toBe(large.sha256);
    await expect(evaluationSet(task, 'dev', 21)).rejects.toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never,
    );
  });

  test('of a task without one: generated, the same each time, test apart from dev', async () => {
    writeLetterTask(join(folder.path, 'letters.mjs'));
    await using task = await openTask(join(folder.path, 'letters.mjs'));
    const dev = await evaluationSet(task, 'dev', 20);
    const held = await evaluationSet(task, 'test', 10);
    expect(held).toMatchObject({ origin: 'generated', file: null });
    expect((await evaluationSet(task, 'test', 10)).sha256).toBe(held.sha256);
    const ids = new Set(dev.problems.map(({ id }) => id));
    expect(held.problems.length).toBeGreaterThan(0);
    expect(held.problems.some(({ id }) => ids.has(id))).toBe(false);
    expect(new Set(held.problems.map(({ id }) => id)).size).toBe(held.problems.length);
  });
});

test('the probe batch depends on the nonce and stays within the vocabulary', () => {
  const a = probeBatch('00'.repeat(32), 50);
  expect(probeBatch('00'.repeat(32), 50).sha256).toBe(a.sha256);
  expect(probeBatch(`${'00'.repeat(31)}01`, 50).sha256).not.toBe(a.sha256);
  const ids = a.sequences.flatMap(({ tokenIds }) => [...tokenIds]);
  expect([Math.min(...ids) >= 0, Math.max(...ids) < 50, ids.length]).toEqual([true, true, 128]);
});
