/**
 * grpo: the update against numbers worked out by hand, and a whole run of which log and report say
 * what was done.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  createTrainer,
  resolveSettings,
  run,
  type RunSettingsInput,
  type StepStatistics,
  type Trainer,
  type TrainSequence,
} from '../../src/index.js';
import { grpo } from '../../src/algorithms/grpo.js';
import { BoundaryCache, trainSequence } from '../../src/algorithms/sequences.js';
import { temperedLogprobs } from '../../src/algorithms/steps.js';
import { hashFile } from '../../src/engine/adapter.js';
import { evaluationSet } from '../../src/evaluation/evaluation-set.js';
import { LogReader } from '../../src/log/read.js';
import { judgeRun } from '../../src/judge/judge.js';
import { exchange } from '../../src/rollouts/episode.js';
import type { JudgedRollout, RolloutGroup } from '../../src/rollouts/sample.js';
import { openTask } from '../../src/tasks/open-task.js';
import { policyShift, samplerGap, shiftProbes } from '../../src/training/policy-shift.js';
import type { RunResult } from '../../src/training/result.js';
import { mergeSettings } from '../../src/training/settings.js';
import type { RolloutRecord } from '../../src/run-folder/rollout-records.js';
import { runCli } from '../cli/run-cli.js';
import { writeLetterModel, writeLetterTask } from '../models/letters.js';
import { writeSyntheticModel } from '../models/synthetic.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

let folder: string;
const file = (name: string): string => path.join(folder, name);
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-grpo-'));
  process.env.ISOPRO_HOME = file('home');
});
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

const PASS = 'pass',
  FAIL = 'fail',
  NONE = 'none';
/** A group whose i-th reply has i + 2 tokens, so that replies and tokens weigh differently. */
const group = (
  id: string,
  verdicts: readonly ('pass' | 'fail' | 'none')[],
  cutOff: readonly number[] = [],
): RolloutGroup => ({
  problem: { id, tier: 'T' },
  rollouts: verdicts.map((kind, i) => {
    const tokenIds = Int32Array.from(
      { length: i + 2 },
      (_, t) => 5 + ((7 * t + 3 * i + id.length) % 40),
    );
    return {
      promptIndex: 0,
      sampleIndex: i,
      tokenIds,
      episode: exchange(Int32Array.of(1, 2, 3, id.length), tokenIds),
      verdict: { kind, violations: [], metrics: {} },
      finish: cutOff.includes(i) ? 'length' : 'stop',
    } as unknown as JudgedRollout;
  }),
});
/**
 * One of three passed: advantages √2, -1/√2, -1/√2. Two of four, one of them cut off: 1, -1, 1, -1.
 * The last two teach nothing.
 */
const GROUPS = [
  group('a', [PASS, FAIL, FAIL]),
  group('bb', [PASS, FAIL, PASS, FAIL], [3]),
  group('ccc', [PASS, PASS]),
  group('dddd', [NONE, FAIL]),
];
const ADVANTAGES = new Map([
  ['a', [Math.SQRT2, -Math.SQRT1_2, -Math.SQRT1_2]],
  ['bb', [1, -1, 1]],
]);
const used = GROUPS.slice(0, 2).flatMap(({ problem: { id }, rollouts }) =>
  ADVANTAGES.get(id)!.map((advantage, i) => ({
    advantage,
    tokenIds: rollouts[i]!.tokenIds,
    sequence: trainSequence(rollouts[i]!.episode),
  })),
);

describe('the update', () => {
  const trainers: Trainer[] = [];
  afterAll(async () => {
    for (const trainer of trainers) await trainer.dispose();
  });
  const open = async (): Promise<Trainer> => {
    const at = file('model.gguf');
    if (!existsSync(at)) writeSyntheticModel(at, { architecture: 'qwen2', layers: 3 });
    trainers.push(
      await createTrainer(
        { path: at },
        { lora: { rank: 4 }, optimiser: { learningRate: 0.02 }, seed: 3n, threads: 1 },
      ),
    );
    return trainers.at(-1)!;
  };
  const learn = (
    trainer: Trainer,
    stepsPerIteration: number,
    more: RunSettingsInput = {},
    onBatch: (batch: readonly TrainSequence[]) => void = () => undefined,
  ): Promise<StepStatistics[]> =>
    grpo.learn({
      trainer,
      boundaries: new BoundaryCache(trainer, 1e9),
      buffer: null as never,
      groups: GROUPS,
      iteration: 1,
      batchSize: used.length,
      onBatch,
      settings: resolveSettings(
        mergeSettings(more, { algorithm: { id: 'grpo' }, optimiser: { stepsPerIteration } }),
      ),
    });

  test("takes complete replies of groups that disagree, once a pass, each token with its reply's advantage", async () => {
    const batches: (readonly TrainSequence[])[] = [];
    await learn(await open(), 2, {}, (batch) => batches.push(batch));
    const sorted = (batch: readonly TrainSequence[]): string[] =>
      batch
        .map(
          ({ tokenIds, advantages }) =>
            `${tokenIds.join()}: ${[...new Set(advantages)].map((value) => value.toFixed(4)).join()}`,
        )
        .sort();
    const expected = used
      .map(({ sequence, advantage }) => `${sequence.tokenIds.join()}: ${advantage.toFixed(4)}`)
      .sort();
    expect(batches.map(sorted)).toEqual([expected, expected]);
  });

  test('is the first time that of the likelihood weighted with the advantages, to the bit', async () => {
    const [ours, theirs] = [await open(), await open()];
    let order: readonly TrainSequence[] = [];
    const [first] = await learn(
      ours,
      1,
      { sampling: { temperature: 1 } },
      (batch) => (order = batch),
    );
    await theirs.step(
      order.map(({ tokenIds, labelMask, advantages }) => ({
        tokenIds,
        labelMask,
        weight: advantages![0]!,
      })),
      { microBatches: [3, 3] },
    );
    expect(await ours.exportAdapter(file('ours.gguf'))).toBe(
      await theirs.exportAdapter(file('theirs.gguf')),
    );
    // by hand: -(sum of A n) / (sum of n), a mean over tokens and not over replies
    const tokens = used.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
    expect(first!.loss).toBeCloseTo(
      -used.reduce((sum, { advantage, tokenIds }) => sum + advantage * tokenIds.length, 0) / tokens,
      5,
    );
    expect(first!.oldPolicyGap).toBe(0);
  });

  test("is later that of clipped ratios at the rollouts' temperature, and of the divergence from the base model", async () => {
    const settings = { temperature: 0.7, klCoefficient: 0.3, clipLow: 0.1, clipHigh: 0.15 };
    const { temperature, ...own } = settings;
    const given = { sampling: { temperature }, algorithm: own };
    const sequences = used.map(({ sequence }) => sequence);
    const measured = { temperature };
    const once = await open();
    const old = await temperedLogprobs(once, sequences, measured);
    await learn(once, 1, given);
    const now = await temperedLogprobs(once, sequences, measured);
    const base = await temperedLogprobs(once, sequences, { ...measured, adapter: false });
    const second = (await learn(await open(), 2, given))[1]!;

    let [loss, byReply, clipped, tokens, kl, gap] = [0, 0, 0, 0, 0, 0];
    for (const [i, { advantage, tokenIds }] of used.entries()) {
      let own = 0;
      for (let t = 4; t < 4 + tokenIds.length; t++) {
        const ratio = Math.exp(now[i]![t]! - old[i]![t]!);
        const [free, bounded] = [
          ratio * advantage,
          Math.min(1.15, Math.max(0.9, ratio)) * advantage,
        ];
        const d = base[i]![t]! - now[i]![t]!;
        own += -Math.min(free, bounded) + 0.3 * (Math.exp(d) - d - 1);
        kl += Math.exp(d) - d - 1;
        gap += Math.abs(now[i]![t]! - old[i]![t]!);
        if (bounded < free) clipped++;
        tokens++;
      }
      loss += own;
      byReply += own / tokenIds.length / used.length;
    }
    expect(second.loss).toBeCloseTo(loss / tokens, 5);
    // what the paper's own loss would be
    expect(Math.abs(second.loss - byReply)).toBeGreaterThan(0.01);
    expect(second.clipFraction).toBeCloseTo(clipped / tokens, 9);
    expect(clipped).toBeGreaterThan(0);
    expect(second.klToReference).toBeCloseTo(kl / tokens, 5);
    expect(second.oldPolicyGap).toBeCloseTo(gap / tokens, 5);
  });
});

describe("what is measured on an iteration's own tokens", () => {
  test('is any of its rollouts, whatever their verdict, tier or end, and the same ones each time', () => {
    const groups = [...'abcdefghij'].map((id, i) =>
      group(id, i < 5 ? [PASS, FAIL] : [FAIL, FAIL, NONE], [1]),
    );
    const seen = {
      problems: new Set<string>(),
      kinds: new Set<string>(),
      finishes: new Set<string>(),
    };
    const counts = new Map<string, number>();
    for (let seed = 0n; seed < 400n; seed++) {
      const probes = shiftProbes(groups, seed, 1);
      expect(new Set(probes.map(({ key }) => key)).size).toBe(8);
      for (const { key, rollout } of probes) {
        counts.set(key, (counts.get(key) ?? 0) + 1);
        seen.kinds.add(rollout.verdict.kind);
        seen.finishes.add(rollout.finish);
      }
    }
    expect(shiftProbes(groups, 7n, 1)).toEqual(shiftProbes(groups, 7n, 1));
    expect([counts.size, seen.kinds.size, seen.finishes.size]).toEqual([25, 3, 2]);
    // 400 draws of 8 of 25: 128 each, standard deviation 9.3
    for (const count of counts.values()) expect(Math.abs(count - 128)).toBeLessThan(40);
  });

  test('the gap between sampler and trainer is over sampled tokens alone', () => {
    const rollout = { sampledLogprobs: Float32Array.of(-1, -2) } as unknown as JudgedRollout;
    const once = { episode: exchange(Int32Array.of(1, 2), Int32Array.of(3, 4)), rollout };
    expect(samplerGap([Float32Array.of(9, 9, -1.5, -2.25)], [once])).toBe(0.375);
    const twice = {
      episode: [
        ...exchange(Int32Array.of(1), Int32Array.of(2)),
        ...exchange(Int32Array.of(3), Int32Array.of(4)),
      ],
      rollout,
    };
    expect(samplerGap([Float32Array.of(9, -1.5, 9, -2.25)], [twice])).toBe(0.375);
    expect(samplerGap([], [])).toBeNull();
    expect(policyShift([], [], [])).toBeNull();
  });
});

describe('a run with grpo', () => {
  let result: RunResult;
  let wall: number;
  const rollouts = (): readonly RolloutRecord[] => {
    const reader = new LogReader(path.join(file('run'), 'log.sqlite'), RUN_STREAMS);
    try {
      return [...reader.records({ stream: 'rollouts' })]
        .filter(({ payload }) => payload.kind === 'rollout')
        .map(({ payload }) => payload as unknown as RolloutRecord);
    } finally {
      reader.close();
    }
  };

  beforeAll(async () => {
    writeLetterModel(file('letters.gguf'));
    writeLetterTask(file('letters.mjs'), { numbers: 400 });
    const begun = performance.now();
    result = await run(
      {
        task: file('letters.mjs'),
        seed: '1',
        iterations: 3,
        signer: 'single-process',
        profile: 'downloaded',
        model: { name: file('letters.gguf'), threads: 1 },
        algorithm: { id: 'grpo', klCoefficient: 0.01 },
        sampling: { rollouts: 64, samples: 8, maxTokens: 4 },
        optimiser: { stepsPerIteration: 100, batchSize: 8, learningRate: 0.003, warmupSteps: 2 },
        layers: { rank: 4, topLayers: 2 },
        evaluation: { devSize: 5, testSize: 20 },
        monitor: { patience: 9 },
      },
      { out: file('run') },
    );
    wall = (performance.now() - begun) / 1000;
  }, 300_000);

  test('the seconds of the stages are parts of the time that the run took', () => {
    const reader = new LogReader(path.join(file('run'), 'log.sqlite'), RUN_STREAMS);
    const seconds = [...reader.records()].flatMap(({ payload }) =>
      payload.kind === 'iteration_report' ? Object.values(payload.seconds as object) : [],
    ) as number[];
    reader.close();
    expect(seconds).toHaveLength(9);
    expect(Math.min(...seconds)).toBeGreaterThan(0);
    expect(seconds.reduce((sum, each) => sum + each, 0)).toBeLessThan(wall);
  });

  test('learns from what passed and what did not', () => {
    expect(result.test.after.byTier.L0!.mean).toBeGreaterThan(
      result.test.before.byTier.L0!.mean! + 0.5,
    );
    expect(result.test.pairedP).toBeLessThan(0.001);
  });

  test('is found again by the judge: verdicts, advantages, what was trained on', async () => {
    const { verdict, steps } = await judgeRun({
      folder: file('run'),
      model: file('letters.gguf'),
      task: file('letters.mjs'),
    });
    expect([
      verdict,
      steps.filter(({ step, status }) => [12, 13].includes(step) && status === 'pass').length,
    ]).toEqual(['pass', 2]);
  });

  test('logs of each rollout how it was used: advantages of those that were trained on, failures among them', () => {
    const groups = new Map<string, RolloutRecord[]>();
    for (const record of rollouts()) {
      const key = `${record.iteration}/${record.problemId}`;
      groups.set(key, [...(groups.get(key) ?? []), record]);
    }
    const seen = new Set<string>();
    for (const records of groups.values()) {
      const rewards = records.map(({ verdict }) => (verdict.kind === 'pass' ? 1 : 0));
      const mean = rewards.reduce<number>((sum, reward) => sum + reward, 0) / rewards.length;
      for (const [i, { admission, advantage, finish, verdict }] of records.entries()) {
        const expected =
          finish !== 'stop'
            ? 'incomplete'
            : mean === 0 || mean === 1
              ? 'uninformative'
              : 'contrasted';
        expect(admission).toBe(expected);
        expect(advantage).toEqual(
          expected === 'contrasted'
            ? expect.closeTo((rewards[i]! - mean) / Math.sqrt(mean * (1 - mean)), 4)
            : undefined,
        );
        seen.add(`${admission} ${verdict.kind}`);
      }
    }
    for (const kind of ['contrasted pass', 'contrasted fail', 'uninformative fail'])
      expect(seen).toContain(kind);
  });

  test('trains on exactly those: four passes over their tokens', () => {
    const contrasted = rollouts().filter(({ admission }) => admission === 'contrasted');
    expect(result.accepted).toBe(contrasted.length);
    for (const { iteration, tokens, buffer, rollouts: counts } of result.iterations) {
      const own = contrasted.filter((record) => record.iteration === iteration);
      expect(tokens.trained).toBe(4 * own.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0));
      expect(Object.values(counts).reduce((sum, { admitted }) => sum + admitted, 0)).toBe(
        own.length,
      );
      expect(buffer).toEqual({}); // nothing is replayed
    }
    expect(readFileSync(path.join(file('run'), 'report.html'), 'utf8')).toContain(
      'trained on with its advantage over the other samples of its problem: -',
    );
  });

  test('measures how far trainer and sampler are apart, and how far the policy moved', () => {
    for (const { samplerGap: gap } of result.iterations) {
      expect(gap).toBeGreaterThan(0);
      expect(gap).toBeLessThan(0.02); // F32 weights; keys and values are f16
    }
    const reader = new LogReader(path.join(file('run'), 'log.sqlite'), RUN_STREAMS);
    const shifts = [...reader.records({ stream: 'metrics' })]
      .filter(({ payload }) => payload.kind === 'iteration')
      .map(({ payload }) => payload.kl as number);
    reader.close();
    expect(shifts).toHaveLength(3);
    expect(shifts[0]).toBeGreaterThan(0);
  });

  test('trains on no problem of the whole dev and test sets, of which it evaluated a quarter and a fifth', async () => {
    await using task = await openTask(file('letters.mjs'));
    const whole = new Set(
      [
        ...(await evaluationSet(task, 'dev', 20)).problems,
        ...(await evaluationSet(task, 'test', 100)).problems,
      ].map(({ id }) => id),
    );
    const trained = rollouts();
    expect(whole.size).toBe(360);
    expect(trained.filter(({ problemId }) => whole.has(problemId))).toEqual([]);
  });

  test('names the adapter that it wrote', async () => {
    expect(await hashFile(result.adapter.file)).toBe(result.adapter.sha256);
  });

  test('is refused where the samples are not drawn from the distribution that the ratios are of', async () => {
    const { code, stderr } = await runCli([
      'run',
      '--algorithm',
      'grpo',
      '--top-p',
      '0.9',
      '--out',
      file('never'),
    ]);
    expect([code, existsSync(file('never'))]).toEqual([2, false]);
    expect(stderr).toMatch(/--top-p: grpo/);
    expect(() => resolveSettings({ sampling: { topP: 0.9 } })).not.toThrow();
  });
});
