/**
 * The parts of an iteration that have an answer of their own: gate, advantages, shift, layers,
 * boundaries, checkpoints, settings.
 */
import { afterAll, describe, expect, test } from '@jest/globals';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createTrainer, loadModel, resolveSettings } from '../../src/index.js';
import { advantages } from '../../src/engine/group-advantages.js';
import { runPaths } from '../../src/run-folder/paths.js';
import { isSignificantDrop, pairedChange, type TierVerdicts } from '../../src/statistics/index.js';
import {
  readCheckpoint,
  sealCheckpoint,
  writeCheckpoint,
  type CheckpointState,
  type SealedCheckpoint,
} from '../../src/training/checkpoints.js';
import { chooseLayers } from '../../src/training/layers.js';
import { withProfile } from '../../src/training/profile.js';
import { PROFILES, type RunSettingsInput } from '../../src/training/settings.js';
import { policyShift } from '../../src/training/policy-shift.js';
import { RolloutTally } from '../../src/run-folder/derived-figures.js';
import { BoundaryCache, trainSequence, type Sampled } from '../../src/algorithms/sequences.js';
import { exchange } from '../../src/rollouts/episode.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-parts-'));
const model = path.join(folder, 'model.gguf');
writeSyntheticModel(model, { architecture: 'qwen2', layers: 6 });
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('the gate', () => {
  const of = (passed: number, n = 40): TierVerdicts[] => [
    { weight: 1, verdicts: 'p'.repeat(passed) + 'f'.repeat(n - passed) },
  ];
  const drops = (before: readonly TierVerdicts[], after: readonly TierVerdicts[]): boolean =>
    isSignificantDrop(pairedChange(before, after), 0.05);

  test('lets an accident pass and stops a significant drop', () => {
    // 5 lost of 5 discordant pairs: p = 2 / 2^5 = 0.0625; 6 of 6: 0.03125
    expect([drops(of(20), of(15)), drops(of(20), of(14)), drops(of(14), of(20))]).toEqual([
      false,
      true,
      false,
    ]);
  });

  test('tests the mean over tiers that it reports, and not the number of problems', () => {
    const tiers = (small: string, large: string): TierVerdicts[] => [
      { weight: 0.5, verdicts: small },
      { weight: 0.5, verdicts: large },
    ];
    // six of ten problems of one tier are lost and eight of a hundred gained: 26 points less
    const [before, after] = [
      tiers('p'.repeat(10), 'f'.repeat(100)),
      tiers('ffffffpppp', 'p'.repeat(8) + 'f'.repeat(92)),
    ];
    expect(pairedChange(before, after)).toMatchObject({
      gained: 8,
      lost: 6,
      difference: expect.closeTo(-0.26, 12),
    });
    expect(drops(before, after)).toBe(true);
    // eight lost and six gained, and the mean rose: no drop, whatever the numbers
    expect(drops(after, before)).toBe(false);
  });
});

describe('learning signals', () => {
  test('advantages have mean 0 and deviation 1 within a group, and leave undecided samples out', () => {
    const values = advantages([1, 0, 0, 0, null], true);
    expect(values[4]).toBeNull();
    expect(values[0]).toBeCloseTo(Math.sqrt(3), 4);
    expect(values[1]).toBeCloseTo(-1 / Math.sqrt(3), 4);
    expect(advantages([1, 1], true).every((value) => value === 0)).toBe(true);
  });

  test('the shift of the policy is 0 where nothing moved, and positive either way', () => {
    const row = (x: number): Float32Array[] => [Float32Array.of(0, x, x)];
    const sequence = [{ labelMask: Uint8Array.of(0, 1, 1) }];
    expect(policyShift(row(-1), row(-1), sequence)).toBe(0);
    expect(policyShift(row(-1), row(-1.1), sequence)).toBeCloseTo(
      Math.exp(-0.1) * -0.1 - (Math.exp(-0.1) - 1),
      6,
    );
    expect(policyShift(row(-1), row(-0.9), sequence)!).toBeGreaterThan(0);
    expect(policyShift([], [], [])).toBeNull();
  });

  /**
   * Objectives of the iterations 1, 2, … from how often each tier passed, failed and was not
   * decided.
   */
  function objectives(
    ...iterations: Readonly<
      Record<string, readonly [passed: number, failed: number, undecided?: number]>
    >[]
  ) {
    const tally = new RolloutTally();
    for (const [i, tiers] of iterations.entries())
      for (const [tier, [passed, failed, undecided = 0]] of Object.entries(tiers))
        for (const [kind, times] of Object.entries({ pass: passed, fail: failed, none: undecided }))
          for (let n = 0; n < times; n++)
            tally.take({
              iteration: i + 1,
              problemId: `${tier}-${n}`,
              tier,
              verdict: { kind },
              admission: 'failed',
            });
    return iterations.map((_, i) => tally.objective(i + 1));
  }

  test('the objective does not fall when a hard tier gets more rollouts', () => {
    const [few, many] = objectives(
      { easy: [9, 1], hard: [0, 10], undecided: [0, 0, 3] },
      { easy: [9, 1], hard: [0, 1000] },
    );
    expect(few).toEqual({
      value: 0.45,
      standardError: expect.closeTo(Math.sqrt(0.09 / 10) / 2, 9),
    });
    expect(many!.value).toBe(0.45);
  });

  test('nor does it move with the tiers that an iteration leaves out: they stand with their last counts', () => {
    const both = { easy: [9, 1], hard: [1, 9] } as const;
    const [first, easyAlone, hardAlone, nothing, later] = objectives(
      both,
      { easy: [9, 1], hard: [0, 0, 5] },
      { hard: [3, 7] },
      {},
      both,
    );
    expect(first!.value).toBe(0.5);
    expect(easyAlone).toEqual(first);
    expect(hardAlone!.value).toBeCloseTo(0.6, 12);
    expect(nothing).toBeNull();
    expect(later).toEqual(first);
    expect(objectives({ hard: [0, 0, 2] })).toEqual([null]);
  });
});

describe('layers', () => {
  const settings = (choice: string, topLayers = 2) => ({
    seed: '3',
    model: { threads: 1 },
    layers: { choice, topLayers, targets: ['q', 'v'] as ('q' | 'v')[], trainerMemory: 1e8 },
  });
  const probes = [trainSequence(exchange(Int32Array.of(1, 2, 3, 4), Int32Array.of(5, 6, 7)))];

  test('are the last, a random or a named set; random is never the last', async () => {
    await using loaded = await loadModel(model, { threads: 1 });
    expect(
      (await chooseLayers({ model: loaded, settings: settings('last'), probes })).layers,
    ).toEqual([4, 5]);
    expect(
      (await chooseLayers({ model: loaded, settings: settings('3,1'), probes })).layers,
    ).toEqual([1, 3]);
    expect(
      (await chooseLayers({ model: loaded, settings: settings('all'), probes })).layers,
    ).toEqual([0, 1, 2, 3, 4, 5]);
    const drawn = new Set<string>();
    for (let seed = 0; seed < 40; seed++)
      drawn.add(
        (
          await chooseLayers({
            model: loaded,
            settings: { ...settings('random'), seed: String(seed) },
            probes,
          })
        ).layers.join(),
      );
    expect(drawn.has('4,5')).toBe(false);
    expect(drawn.size).toBeGreaterThan(5);
    await expect(
      chooseLayers({ model: loaded, settings: settings('6'), probes }),
    ).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: 'layers.choice: the model has layers 0 to 5, no layer 6',
    });
    // the same seed draws the same; a layer that is named twice is one; six of six are all
    const chosen = async (choice: string, topLayers?: number): Promise<unknown> =>
      chooseLayers({ model: loaded, settings: settings(choice, topLayers), probes });
    expect(await chosen('random')).toEqual(await chosen('random'));
    expect(await chosen('5,0,5')).toEqual({ method: 'list', layers: [0, 5], scores: null });
    const all = { layers: [0, 1, 2, 3, 4, 5], scores: null };
    for (const method of ['last', 'random'])
      for (const top of [6, 9]) expect(await chosen(method, top)).toEqual({ method, ...all });
    expect(await chosen('random', 1)).toMatchObject({ layers: [expect.any(Number)] });
  });

  test("by activation have the largest relative update of the residual stream, by the model's own hidden states", async () => {
    await using loaded = await loadModel(model, { threads: 1 });
    const { layers, scores } = await chooseLayers({
      model: loaded,
      settings: settings('activation'),
      probes,
    });
    const half = (bits: number): number => {
      const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
      return (
        (bits & 0x8000 ? -1 : 1) *
        (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15))
      );
    };
    const { tokenIds } = probes[0]!;
    const rows = await loaded.hidden({
      tokens: tokenIds,
      layers: [0, 1, 2, 3, 4, 5, 6],
      reduce: 'rows',
    });
    const width = loaded.info.embeddingSize;
    const norm = (values: readonly number[]): number =>
      Math.sqrt(values.reduce((sum, x) => sum + x * x, 0));
    const meanNorm = (of: (t: number, i: number) => number): number =>
      Array.from(tokenIds, (_, t) =>
        norm(Array.from({ length: width }, (__, i) => of(t, i))),
      ).reduce((a, b) => a + b) / tokenIds.length;
    const at = (layer: number, t: number, i: number): number =>
      half(rows[layer]!.rows[t * width + i]!);
    const expected = [0, 1, 2, 3, 4, 5].map(
      (layer) =>
        meanNorm((t, i) => at(layer + 1, t, i) - at(layer, t, i)) /
        meanNorm((t, i) => at(layer, t, i)),
    );
    for (const [layer, score] of scores!.entries()) expect(score).toBeCloseTo(expected[layer]!, 2);
    expect(layers).toEqual(
      [0, 1, 2, 3, 4, 5]
        .sort((a, b) => expected[b]! - expected[a]!)
        .slice(0, 2)
        .sort((a, b) => a - b),
    );
  });

  test.each(['activation', 'gradient'])('by %s look at eight traces', async (choice) => {
    await using loaded = await loadModel(model, { threads: 1 });
    const traces = Array.from({ length: 9 }, (_, i) =>
      trainSequence(exchange(Int32Array.of(1, 2, i), Int32Array.of(40 + i, 7))),
    );
    const [seven, eight, nine] = await Promise.all(
      [7, 8, 9].map(async (count) => {
        const found = { model: loaded, settings: settings(choice), probes: traces.slice(0, count) };
        return (await chooseLayers(found)).scores;
      }),
    );
    expect(nine).toEqual(eight);
    expect(seven).not.toEqual(eight);
  });

  test('by gradient have the largest gradient in one backward pass', async () => {
    await using loaded = await loadModel(model, { threads: 1 });
    const { layers, scores } = await chooseLayers({
      model: loaded,
      settings: settings('gradient'),
      probes,
    });
    expect(scores!.every((score) => score > 0)).toBe(true);
    const best = scores!
      .map((score, layer) => [score, layer] as const)
      .sort(([a], [b]) => b - a)
      .slice(0, 2)
      .map(([, layer]) => layer);
    expect(layers).toEqual(best.sort((a, b) => a - b));
  });
});

test('boundaries from the cache, evicted or not, give the same step to the last bit', async () => {
  const traces = [1, 2, 3, 4].map((n) => ({
    key: String(n),
    episode: exchange(Int32Array.of(n, 2, 3), Int32Array.of(4, 5, n)),
  }));
  const losses: number[][] = [];
  for (const limit of [0, 1e9]) {
    await using trainer = await createTrainer(
      { path: model },
      { lora: { layers: { top: 2 } }, threads: 1 },
    );
    const cache = new BoundaryCache(trainer, limit);
    const own: number[] = [];
    for (let step = 0; step < 4; step++)
      own.push((await trainer.step(await cache.sequences(traces))).loss);
    expect(cache.bytes > 0).toBe(limit > 0);
    losses.push(own);
  }
  expect(losses[0]).toEqual(losses[1]);
});

test('the cache keeps the rows of a prompt once for its samples, as long as one of them is there', async () => {
  await using trainer = await createTrainer(
    { path: model },
    { lora: { layers: { top: 2 } }, threads: 1 },
  );
  const sample = (prompt: number, number: number): Sampled => ({
    key: `${prompt}/${number}`,
    episode: exchange(Int32Array.of(prompt, 2, 3, 4), Int32Array.of(5, 6, number)),
  });
  const group = [sample(1, 1), sample(1, 2), sample(1, 3)];
  const rowBytes = 2 * trainer.info.width;
  const cache = new BoundaryCache(trainer, 20 * rowBytes);
  const rows = async (samples: readonly Sampled[]): Promise<(Uint16Array | undefined)[]> =>
    (await cache.sequences(samples)).map(({ boundary }) => boundary?.rows);
  const captured = await rows(group);
  expect(cache.bytes).toBe((4 + 3 * 3) * rowBytes);
  expect(await rows(group)).toEqual(captured);
  // the oldest sample makes room for those of another prompt; then its prompt goes with the last of
  // the others
  await rows([sample(2, 1), sample(2, 2)]);
  expect(cache.bytes).toBe((4 + 2 * 3 + 4 + 2 * 3) * rowBytes);
  await rows([sample(3, 1), sample(3, 2), sample(3, 3)]);
  expect(cache.bytes).toBe((4 + 2 * 3 + 4 + 3 * 3 - 3) * rowBytes);
  expect(await rows(group)).toEqual(captured);
});

describe('checkpoints', () => {
  const state = (iteration: number, logSize: number): CheckpointState => ({
    version: 2,
    stage: 'iteration',
    iteration,
    logSize,
    layers: [1],
    learningRate: 1e-3,
    maxNorm: 1,
    epsilon: 1e-8,
    batchSize: 8,
    best: { adapterId: null, iteration: 0 },
    sound: null,
    adapterId: null,
    adapterIteration: 0,
    stop: null,
    settled: false,
    spent: { seconds: 1, peakRssBytes: 1, promptTokens: 1, sampledTokens: 1, trainedTokens: 1 },
  });
  const sealed = (iteration: number): SealedCheckpoint =>
    sealCheckpoint({
      state: state(iteration, 10 * iteration),
      trainer: Buffer.from(`trainer ${iteration}`),
      best: null,
      sound: null,
    });

  test(
    'the newest two are kept, refused ones apart; one that is damaged or that the log does not name at its place is passed ' +
      'over',
    async () => {
      const paths = runPaths(path.join(folder, 'checkpointed'));
      const at = paths.checkpoints;
      for (const iteration of [1, 2, 3]) await writeCheckpoint(at, sealed(iteration));
      expect(existsSync(path.join(at, '0001-iteration'))).toBe(false);
      const names = (...iterations: number[]): Map<number, string> =>
        new Map(iterations.map((iteration) => [10 * iteration, sealed(iteration).digest]));
      expect((await readCheckpoint(paths, names(1, 2, 3))).checkpoint!.state.iteration).toBe(3);
      const unnamed = { name: '0003-iteration', reason: 'it is not the one that the log names' };
      expect(await readCheckpoint(paths, names(1, 2))).toMatchObject({
        checkpoint: { state: { iteration: 2 } },
        refused: [unnamed],
      });
      expect(
        await readCheckpoint(paths, new Map([...names(2), [30, sealed(2).digest]])),
      ).toMatchObject({
        checkpoint: { state: { iteration: 2 } },
        refused: [unnamed],
      });
      expect(await readCheckpoint(paths, new Map())).toMatchObject({
        checkpoint: null,
        refused: [unnamed, { name: '0002-iteration' }],
      });
      const file = path.join(at, '0003-iteration', 'trainer');
      const bytes = readFileSync(file);
      bytes[0]! ^= 1;
      writeFileSync(file, bytes);
      const { checkpoint, refused } = await readCheckpoint(paths, names(2, 3));
      expect(refused).toEqual([
        { name: '0003-iteration', reason: 'its file trainer is not the one that the log names' },
      ]);
      expect(checkpoint!.state.iteration).toBe(2);
      expect(Buffer.from(checkpoint!.trainer!).toString()).toBe('trainer 2');
      rmSync(path.join(at, '0003-iteration', 'state.json'));
      await writeCheckpoint(at, sealed(1));
      await writeCheckpoint(at, sealed(2));
      expect(readdirSync(at)).toEqual(['0001-iteration', '0002-iteration', '0003-iteration']);
      expect((await readCheckpoint(paths, names(1, 2, 3))).refused).toEqual([
        { name: '0003-iteration', reason: 'it is damaged' },
      ]);
    },
  );
});

describe('settings', () => {
  test('come from the profile of the model where they are not given', () => {
    expect(resolveSettings({}).profile).toBe('embedded');
    expect(resolveSettings({ model: { name: 'qwen2.5-3b' } })).toMatchObject({
      profile: 'downloaded',
      iterations: 6,
      sampling: { rollouts: 84, samples: 4 },
      layers: { rank: 16, scale: 2 },
      optimiser: { maxNorm: 1 },
      evaluation: { devSize: 5, testSize: 25 },
    });
    expect(resolveSettings({ profile: 'small', layers: { rank: 4 } })).toMatchObject({
      profile: 'small',
      layers: { ...PROFILES.small.layers, rank: 4 },
    });
    // that trains all layers, unless a number of them is named
    expect(resolveSettings({ profile: 'small' }).layers.choice).toBe('all');
    expect(resolveSettings({ profile: 'small', layers: { topLayers: 2 } }).layers).toMatchObject({
      choice: 'last',
      topLayers: 2,
      rank: 8,
    });
    expect(() =>
      resolveSettings({ profile: 'small', layers: { choice: 'all', topLayers: 2 } }),
    ).toThrow(/all layers are trained already/);
    // one member of a part leaves the profile's others
    expect(resolveSettings({ sampling: { rollouts: 100 } })).toMatchObject({
      sampling: { rollouts: 100, samples: 8 },
      evaluation: { testSize: 100 },
    });
  });

  test('are those of a small model where its file has fewer than 500M parameters, unless a profile is named', async () => {
    /** The header of a file with one tensor, and room for its data that takes none on the disk. */
    const holding = (name: string, rows: number): string => {
      const of = (size: number, write: (bytes: Buffer) => void): Buffer => {
        const bytes = Buffer.alloc(size);
        write(bytes);
        return bytes;
      };
      const whole = (value: number): Buffer =>
        of(8, (bytes) => bytes.writeBigUInt64LE(BigInt(value)));
      const word = (value: number): Buffer => of(4, (bytes) => bytes.writeUInt32LE(value));
      const header = [
        Buffer.from('GGUF'),
        word(3),
        whole(1),
        whole(0),
        whole(1),
        Buffer.from('w'),
        word(2),
        whole(1000),
        whole(rows),
      ];
      const file = path.join(folder, name);
      writeFileSync(file, Buffer.concat([...header, word(0), whole(0)]));
      truncateSync(file, 1024 + 4000 * rows);
      return file;
    };
    const profileOf = async (given: RunSettingsInput): Promise<unknown> =>
      resolveSettings(await withProfile(given)).profile;
    const [small, large] = [holding('small.gguf', 499_999), holding('large.gguf', 500_000)];
    expect(await profileOf({})).toBe('embedded');
    expect(await profileOf({ model: { name: small } })).toBe('small');
    expect(await profileOf({ model: { name: large } })).toBe('downloaded');
    expect(await profileOf({ profile: 'downloaded', model: { name: small } })).toBe('downloaded');
    expect(await profileOf({ profile: 'small', model: { name: large } })).toBe('small');
    // the first of several parts holds next to nothing
    expect(await profileOf({ model: { name: holding('split-00001-of-00002.gguf', 1) } })).toBe(
      'downloaded',
    );
    writeFileSync(path.join(folder, 'damaged.gguf'), 'GGUF');
    expect(await profileOf({ model: { name: path.join(folder, 'damaged.gguf') } })).toBe(
      'downloaded',
    ); // the loader says what it is
    await expect(
      withProfile({ model: { name: path.join(folder, 'absent.gguf') } }),
    ).rejects.toMatchObject({ code: 'MODEL_NOT_FOUND' });
  });

  test.each([
    [{ iterations: 1.5 }, 'iterations: '],
    [{ seed: '-1' }, 'seed: '],
    [{ nonsense: 1 }, 'nonsense: there is no such setting'],
    [{ sampling: { nonsense: 1 } }, 'sampling.nonsense: there is no such setting'],
    [{ temperature: 1 }, 'temperature: there is no such setting, it is sampling.temperature'],
    [{ model: 'tiny' }, 'model: '],
    [{ sampling: null }, 'sampling: '],
    [{ sampling: { temperature: Number.NaN } }, 'sampling.temperature: '],
    [
      { algorithm: { id: 'rft', klCoefficient: 0.1 } },
      'algorithm.klCoefficient: a setting of grpo',
    ],
    [{ sampling: { rollouts: 2 } }, 'sampling.rollouts: 2 are fewer than'],
    [
      { layers: { choice: 'all', topLayers: 2 } },
      'layers.topLayers: all layers are trained already',
    ],
    [
      { buffer: { kind: 'classic' }, optimiser: { stepsPerIteration: 3 } },
      'optimiser.stepsPerIteration: it has no effect with the classic buffer',
    ],
    [{ algorithm: { id: 'grpo' }, sampling: { samples: 1 } }, 'sampling.samples: grpo compares'],
  ])('%j is refused by its path', (given, message) => {
    expect(() => resolveSettings(given as never)).toThrow(
      expect.objectContaining({
        code: 'INVALID_ARGUMENT',
        message: expect.stringMatching(new RegExp(`^${message}`)) as never,
      }) as never,
    );
  });
});
