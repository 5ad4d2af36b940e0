/**
 * What ends a run by its own judgement: a verifier that decides nothing, steps that are not finite,
 * a policy that is none; and measures.
 */
import { expect, test } from '@jest/globals';
import { exchange } from '../../src/rollouts/episode.js';
import {
  createExecutor,
  policyOf,
  refuseUnapplied,
  refuseUntrained,
} from '../../src/training/monitoring.js';
import { probeSequences } from '../../src/training/probe-sequences.js';
import { policyShift, samplerGap } from '../../src/training/policy-shift.js';
import { countVerdict, report, shownHits } from '../../src/training/run-state.js';
import { refuseUndecided } from '../../src/training/verifier-check.js';

const reasons = (kind: 'pass' | 'fail' | 'none', count: number, formed = true) =>
  Array.from({ length: count }, () => ({
    kind,
    why: kind === 'none' ? ['late'] : [],
    formed,
    finish: 'stop' as const,
  }));

test.each([
  [[], false],
  [reasons('none', 1), true],
  [[...reasons('none', 1), ...reasons('fail', 1, false)], false],
  [[...reasons('fail', 1, false), ...reasons('none', 2)], true],
  [[...reasons('fail', 198, false), ...reasons('none', 2)], false],
  [[...reasons('fail', 197, false), ...reasons('none', 3)], true],
  [[...reasons('none', 31), ...reasons('pass', 1)], false],
  [[...reasons('none', 31), ...reasons('fail', 1)], false],
  [[...reasons('none', 32), ...reasons('pass', 100)], true],
])(
  'replies %#: a verifier that decided none of them, or none of the first 32, is refused',
  (replies, refused) => {
    const undecided = replies.filter(({ kind }) => kind === 'none').length;
    const others = replies.length - undecided;
    const refuse = (): void => refuseUndecided({ id: 'the task' }, replies);
    if (!refused) expect(refuse).not.toThrow();
    else
      expect(refuse).toThrow(
        `the verifier of the task could not decide any of ${undecided} ` +
          `replies${others === 0 ? '' : `; ${others} more contained no answer`}: late`,
      );
  },
);

test('steps of which none was finite end an iteration without an executed remedy, and a run whatever was tried', () => {
  const step = (applied: boolean, ...nonFinite: string[]) => ({ applied, nonFinite });
  const sick = [step(false, 'a', 'b'), step(false, 'b', 'c', 'd')];
  const unapplied =
    (steps: object[], effects: object[] = []) =>
    () =>
      refuseUnapplied({ iteration: 3, steps } as never, { effects } as never);
  const remedy = (rule: string, executed: boolean): object => ({ rule, executed });
  const words =
    'none of the 2 steps of iteration 3 was finite (a, b, c), and no remedy was executed';
  expect(unapplied(sick)).toThrow(words);
  expect(unapplied(sick, [remedy('R7', false), remedy('R1', true)])).toThrow(words);
  for (const fine of [
    unapplied([]),
    unapplied([...sick, step(true)]),
    unapplied(sick, [remedy('R7', true)]),
  ])
    expect(fine).not.toThrow();
  const untrained =
    (...iterations: object[][]) =>
    () =>
      refuseUntrained(iterations.map((steps) => ({ steps })) as never);
  expect(untrained(sick, [], sick)).toThrow(
    'none of the 4 training steps had a finite loss and gradient (a, b, c), so there is no trained adapter',
  );
  for (const fine of [untrained(), untrained([], []), untrained(sick, [step(true)])])
    expect(fine).not.toThrow();
});

test('who decides goes by a name of 1 to 100 characters that no policy has, within 1 to 2^31 - 1 ms', () => {
  const settings = { monitor: { policy: 'observe' as const } };
  const named = (name: string, timeout?: number) =>
    policyOf(settings, { name, decide: () => [] } as never, timeout);
  expect(policyOf(settings).policy?.name).toBe('observe');
  expect([named('a', 1).timeout, named('a'.repeat(100), 2 ** 31 - 1).timeout]).toEqual([
    1,
    2 ** 31 - 1,
  ]);
  for (const name of ['', 'a'.repeat(101), 'a b', 'scripted', 'observe'])
    expect(() => named(name)).toThrow(/^policy/);
  for (const timeout of [0, 2 ** 31, 1.5])
    expect(() => named('a', timeout)).toThrow(/^policyTimeout/);
});

test('a remedy changes what the run goes on with: batch, adapter, the iteration that it is of, the end', async () => {
  const digests = ['ab', 'cd', 'ef'].map((pair) => pair.repeat(32)) as [string, string, string];
  const [best, sound, other] = digests;
  const restored: number[] = [];
  let applied = other;
  const trainer = {
    rollbackTo: async (snapshot: Uint8Array) => {
      restored.push(snapshot[0]!);
      applied = digests[snapshot[0]!]!;
    },
    setOptimiser: async () => undefined,
  };
  const state = {
    ...{ batchSize: 8, learningRate: 0.01, maxNorm: 1, epsilon: 1e-8 },
    ...{ adapterId: other, adapterIteration: 7, stop: null as string | null, settled: false },
    best: { adapterId: best, iteration: 2, verdicts: [], snapshot: Uint8Array.of(0) },
    sound: { adapterId: sound, iteration: 5, snapshot: Uint8Array.of(1) },
  };
  const learner = { trainer, dropout: 0, apply: async () => applied } as never;
  const executor = createExecutor(learner, state);
  expect(await executor.execute({ op: 'set_batch', from: 8, to: 16 })).toEqual({
    sequencesPerStep: 16,
  });
  expect(state.batchSize).toBe(16);
  const back = { op: 'rollback', to: sound, learningRate: 0.002, maxNorm: 0.5 } as const;
  expect(await executor.execute(back)).toMatchObject({ restored: sound });
  expect(state).toMatchObject({
    ...{ adapterId: sound, adapterIteration: 5, learningRate: 0.002, maxNorm: 0.5, stop: null },
    settled: false,
  });
  expect(await executor.execute({ op: 'stop', restore: best })).toEqual({ restored: best });
  expect(state).toMatchObject({
    ...{ adapterId: best, adapterIteration: 2, settled: true },
    stop: 'no gain on the dev problems (rule R3)',
  });
  expect(restored).toEqual([1, 0]);
  await expect(executor.execute({ op: 'stop', restore: other })).rejects.toThrow(
    `there is no saved state ${other}`,
  );
});

test('shift and gap are means over the labelled, or sampled, tokens alone', () => {
  const rows = (...values: number[]): Float32Array[] => [Float32Array.of(...values)];
  const mask = (...labels: number[]) => [{ labelMask: Uint8Array.of(...labels) }];
  const kl = (x: number): number => Math.exp(x) * x - (Math.exp(x) - 1);
  expect(policyShift(rows(-9, -2, -3), rows(-1, -1.5, -3.25), mask(0, 1, 1))).toBeCloseTo(
    (kl(0.5) + kl(-0.25)) / 2,
    12,
  );
  expect(policyShift(rows(-9, -2), rows(-1, -1), mask(0, 0))).toBeNull();
  const episode = exchange(Int32Array.of(1, 2), Int32Array.of(3, 4));
  const probe = { episode, rollout: { sampledLogprobs: Float32Array.of(-1, -3) } } as never;
  expect(samplerGap(rows(-7, -8, -1.5, -2.25), [probe])).toBe(0.625);
  expect(samplerGap([], [])).toBeNull();
});

test('progress has neutral values beside what a stage knows; verdicts are counted by tier', () => {
  const told: unknown[] = [];
  report(
    {
      settings: { iterations: 7 },
      hooks: { onProgress: (progress: unknown) => told.push(progress) },
    } as never,
    {
      stage: 'dev',
      done: 2,
    },
  );
  expect(told).toEqual([
    {
      stage: 'dev',
      iteration: 0,
      iterations: 7,
      done: 2,
      total: 0,
      tokens: 0,
      hits: {},
      loss: null,
    },
  ]);
  const hits = new Map<string, { passed: number; decided: number }>();
  for (const kind of ['pass', 'fail', 'none', 'pass'] as const) countVerdict(hits, 'easy', kind);
  countVerdict(hits, 'hard', 'none');
  const shown = shownHits(hits);
  countVerdict(hits, 'easy', 'pass');
  expect(shown).toEqual({ easy: { passed: 2, decided: 3 }, hard: { passed: 0, decided: 0 } });
});

test('the probe is the first accepted traces of the iteration, else what passed, else prompts', () => {
  const episodeOf = (id: number) => exchange(Int32Array.of(id, id), Int32Array.of(id + 1));
  const rollout = (id: number, kind = 'fail', finish = 'stop') => ({
    episode: episodeOf(id),
    verdict: { kind },
    finish,
  });
  const trace = (iteration: number, id: number) => ({ iteration, episode: episodeOf(id) });
  const groups = (...rollouts: object[][]) => rollouts.map((of) => ({ rollouts: of })) as never;
  const probed = (traces: object[], ...rollouts: object[][]) =>
    probeSequences({ traces } as never, groups(...rollouts), 2).map(({ tokenIds, labelMask }) =>
      [[...tokenIds], [...labelMask]].join(' '),
    );
  const whole = (id: number): string => `${id},${id},${id + 1} 0,0,1`;
  const passes = [rollout(10), rollout(20, 'pass')];
  expect(probed([trace(1, 30), trace(2, 40)], passes)).toEqual([whole(40)]);
  expect(probed([trace(1, 30)], passes, [rollout(50, 'pass', 'length')])).toEqual([whole(20)]);
  expect(probed([], [rollout(10), rollout(20)], [rollout(60)])).toEqual(['10,10 0,1', '60,60 0,1']);
  // an adapter that acts from the reply on changes nothing before it
  expect(
    probeSequences({ traces: [] } as never, groups([rollout(10), rollout(20)]), 2, 'reply'),
  ).toEqual([{ tokenIds: Int32Array.of(10, 10, 11), labelMask: Uint8Array.of(0, 0, 1) }]);
  const nine = Array.from({ length: 9 }, (_, i) => 10 * i);
  expect(
    probed(
      nine.map((id) => trace(2, id)),
      passes,
    ),
  ).toEqual(nine.slice(0, 8).map(whole));
  expect(probed([], ...nine.map((id) => [rollout(id)]))).toHaveLength(8);
});
