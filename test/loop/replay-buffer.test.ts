import { describe, expect, test } from '@jest/globals';
import { RolloutTally } from '../../src/run-folder/derived-figures.js';
import { ReplayBuffer } from '../../src/algorithms/replay-buffer.js';
import type { ProblemRecord, RolloutRecord } from '../../src/run-folder/rollout-records.js';
import { allocate } from '../../src/rollouts/allocation.js';

function records(
  iteration: number,
  tier: string,
  problem: number,
  verdicts: readonly ('pass' | 'fail' | 'none')[],
): (ProblemRecord | RolloutRecord)[] {
  const problemId = `${tier}-${problem}`;
  const passed = verdicts.filter((kind) => kind === 'pass').length;
  return [
    { kind: 'problem', iteration, problemId, tier, problem: {}, promptIds: [problem] },
    ...verdicts.map(
      (kind, sample): RolloutRecord => ({
        kind: 'rollout',
        iteration,
        problemId,
        tier,
        sample,
        seed: '0',
        tokenIds: [sample],
        text: '',
        finish: 'stop',
        adapterId: null,
        meanLogprob: null,
        form: null,
        verdict: { kind, violations: [] },
        admission: kind === 'pass' ? 'admitted' : 'failed',
        weight: 1 - (passed + 1) / (verdicts.length + 2),
      }),
    ),
  ];
}

function bufferOf(tierCap: number, ...stream: (ProblemRecord | RolloutRecord)[][]): ReplayBuffer {
  const buffer = new ReplayBuffer(tierCap);
  for (const record of stream.flat()) buffer.take(record);
  return buffer;
}
const many = (
  iteration: number,
  tier: string,
  count: number,
): (ProblemRecord | RolloutRecord)[][] =>
  Array.from({ length: count }, (_, problem) =>
    records(iteration, tier, 100 * iteration + problem, ['pass', 'fail']),
  );
const draw = (
  buffer: ReplayBuffer,
  wanted: number,
  more: { newShare?: number; accumulate?: boolean; runSeed?: bigint; iteration?: number } = {},
) =>
  buffer.drawBalanced({
    runSeed: 7n,
    iteration: 2,
    wanted,
    newShare: 0.5,
    accumulate: true,
    ...more,
  });
const countBy = <T>(items: readonly T[], key: (item: T) => string): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const item of items) counts[key(item)] = (counts[key(item)] ?? 0) + 1;
  return counts;
};

describe('the buffer as a view of the rollouts stream', () => {
  test('holds admitted rollouts with their prompt, and counts the rest', () => {
    const buffer = bufferOf(
      10,
      records(1, 'A', 1, ['pass', 'fail', 'none']),
      records(2, 'B', 2, ['fail', 'pass']),
    );
    expect(
      buffer.traces.map(({ key, episode }) => [key, ...episode.map(({ ids }) => [...ids])]),
    ).toEqual([
      ['1/A-1/0', [1], [0]],
      ['2/B-2/1', [2], [1]],
    ]);
    expect(buffer.tally.of(1).get('A')).toEqual({
      sampled: 3,
      passed: 1,
      failed: 1,
      undecided: 1,
      admitted: 1,
    });
    expect(buffer.tally.informative(1)).toBe(1);
    const unmixed = bufferOf(
      10,
      records(1, 'A', 1, ['pass', 'pass']),
      records(1, 'A', 2, ['fail', 'fail']),
    );
    // where all passed, there is something to train on
    expect(unmixed.tally.informative(1)).toBe(0.5);
    expect(buffer.composition()).toEqual({ A: 1, B: 1 });
  });

  test('keeps the newest of a tier up to the cap, and the other tiers untouched', () => {
    const buffer = bufferOf(3, ...many(1, 'A', 5), ...many(1, 'B', 2), ...many(2, 'A', 1));
    expect(buffer.composition()).toEqual({ A: 3, B: 2 });
    expect(buffer.traces.filter(({ tier }) => tier === 'A').map(({ key }) => key)).toEqual([
      '1/A-103/0',
      '1/A-104/0',
      '2/A-200/0',
    ]);
  });

  test('counts what it keeps as readers of the log do, and refuses a rollout that does not follow its problem', () => {
    const stream = [
      ...many(1, 'A', 5),
      ...many(1, '__proto__', 2),
      ...many(2, 'A', 1),
      ...many(3, 'B', 4),
    ];
    const [buffer, tally] = [bufferOf(3, ...stream), new RolloutTally()];
    for (const record of stream.flat()) if (record.kind === 'rollout') tally.take(record);
    expect(buffer.composition()).toEqual(tally.buffer(3, 3));
    for (const [tier, kept] of Object.entries(buffer.composition()))
      expect([tier, kept]).toEqual([
        tier,
        buffer.traces.filter((trace) => trace.tier === tier).length,
      ]);
    expect(buffer.tally.counts).toEqual(tally.counts);
    expect(() => bufferOf(3, records(1, 'A', 1, ['pass']).slice(1))).toThrow(
      expect.objectContaining({ code: 'LOG_UNREADABLE' }),
    );
  });

  test('older verdicts count half as much with each iteration', () => {
    const buffer = bufferOf(
      9,
      records(1, 'A', 1, ['pass', 'pass']),
      records(2, 'A', 2, ['fail', 'pass']),
    );
    expect(buffer.records(3).get('A')).toEqual({ passed: 2, failed: 1 });
    expect(buffer.records(2).get('A')).toEqual({ passed: 2, failed: 0 });
  });
});

describe('balanced drawing', () => {
  test('gives tiers the same part however skewed the buffer is, and half to the newest', () => {
    const buffer = bufferOf(
      1000,
      ...many(1, 'A', 90),
      ...many(1, 'B', 10),
      ...many(2, 'A', 60),
      ...many(2, 'B', 10),
    );
    const drawn = draw(buffer, 64);
    expect(countBy(drawn, ({ tier }) => tier)).toEqual({ A: 32, B: 32 });
    expect(countBy(drawn, ({ iteration }) => String(iteration))).toEqual({ 1: 32, 2: 32 });
  });

  test.each([
    [5, 100],
    [100, 5],
    [9, 7],
    [0, 100],
    [100, 0],
  ])('%i new and %i earlier ones give the 64 that are wanted', (fresh, earlier) => {
    const drawn = draw(bufferOf(1000, ...many(1, 'A', earlier), ...many(2, 'A', fresh)), 64);
    expect(drawn).toHaveLength(64);
    const byIteration = countBy(drawn, ({ iteration }) => String(iteration));
    expect(byIteration['2'] ?? 0).toBe(Math.min(4 * fresh, Math.max(32, 64 - 4 * earlier)));
    expect(Math.max(...Object.values(countBy(drawn, ({ key }) => key)))).toBeLessThanOrEqual(4);
  });

  test('uses no trace more than four times, and then rather draws fewer', () => {
    const buffer = bufferOf(1000, ...many(2, 'A', 2));
    const drawn = draw(buffer, 64);
    expect(drawn).toHaveLength(8);
    expect(Object.values(countBy(drawn, ({ key }) => key))).toEqual([4, 4]);
  });

  test('prefers traces of problems that are rarely solved', () => {
    const rare = Array.from({ length: 50 }, (_, i) =>
      records(2, 'A', i, ['pass', 'fail', 'fail', 'fail', 'fail', 'fail']),
    );
    const easy = Array.from({ length: 10 }, (_, i) =>
      records(2, 'A', 100 + i, ['pass', 'pass', 'pass', 'pass', 'pass']),
    );
    let rarely = 0;
    for (let seed = 0n; seed < 200n; seed++)
      rarely += draw(bufferOf(1000, ...rare, ...easy), 10, { runSeed: seed }).filter(
        ({ weight }) => weight > 0.5,
      ).length;
    // 50 of weight 0.75 and 50 of weight 1/7: without weights half of the draws
    expect(rarely / 2000).toBeGreaterThan(0.75);
    expect(rarely / 2000).toBeLessThan(0.92);
  });

  test('without accumulation takes the newest only, and depends on the seed and nothing else', () => {
    const buffer = bufferOf(1000, ...many(1, 'A', 30), ...many(2, 'A', 30));
    expect(draw(buffer, 20, { accumulate: false }).every(({ iteration }) => iteration === 2)).toBe(
      true,
    );
    const keys = (seed: bigint): string[] =>
      draw(buffer, 20, { runSeed: seed }).map(({ key }) => key);
    expect(keys(1n)).toEqual(keys(1n));
    expect(keys(1n)).not.toEqual(keys(2n));
  });

  test('classic takes everything once', () => {
    const buffer = bufferOf(Infinity, ...many(1, 'A', 30), ...many(2, 'B', 5));
    const drawn = buffer.drawClassic(3n, 2);
    expect(new Set(drawn.map(({ key }) => key)).size).toBe(35);
    expect(drawn).toHaveLength(35);
  });
});

describe('allocation', () => {
  const tiers = ['solved', 'open', 'hopeless', 'unknown'];
  const known = new Map([
    ['solved', { passed: 99, failed: 1 }],
    ['open', { passed: 50, failed: 50 }],
    ['hopeless', { passed: 0, failed: 100 }],
  ]);

  test('gives more to tiers in between, and no tier less than the floor', () => {
    const counts = allocate({ tiers, problems: 100, records: known, floor: 0.4 });
    expect([...counts.values()].reduce((sum, count) => sum + count, 0)).toBe(100);
    expect(counts.get('solved')).toBeGreaterThanOrEqual(10);
    expect(counts.get('hopeless')).toBeGreaterThanOrEqual(10);
    expect(counts.get('open')).toBeGreaterThan(3 * counts.get('solved')!);
    expect(counts.get('unknown')).toBeGreaterThan(2 * counts.get('hopeless')!);
  });

  test('is uniform at a floor of 1 and without evidence, up to rounding', () => {
    expect(
      [...allocate({ tiers, problems: 21, records: known, floor: 1 }).values()].sort(),
    ).toEqual([5, 5, 5, 6]);
    expect([...allocate({ tiers, problems: 8, records: new Map(), floor: 0 }).values()]).toEqual([
      2, 2, 2, 2,
    ]);
  });
});
