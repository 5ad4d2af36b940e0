/**
 * The variants of grpo against numbers that do not come from this code: each paper's objective
 * written down in Python as it stands there, for the replies below, and its gradient by central
 * differences (step 1e-5) with respect to each token's log-probability, rounded to 1e-7.
 */
import { describe, expect, test } from '@jest/globals';
import { grpo, replyRatios } from '../../src/algorithms/grpo.js';
import { advantages } from '../../src/engine/group-advantages.js';
import { BoundaryCache, keyedRollouts } from '../../src/algorithms/sequences.js';
import { shuffledBatches } from '../../src/algorithms/steps.js';
import { resolveSettings, type Trainer, type TrainSequence } from '../../src/index.js';
import { Random } from '../../src/random.js';
import { exchange } from '../../src/rollouts/episode.js';
import type { JudgedRollout, RolloutGroup } from '../../src/rollouts/sample.js';

/** One problem, four replies of 2, 3, 4 and 3 tokens: pass, fail, pass, fail. */
const OLD = [
  [-1.0, -0.7],
  [-0.25, -1.1, -0.9],
  [-0.35, -0.45, -0.8, -0.12],
  [-0.8, -0.2, -0.5],
];
const NEW = [
  [-0.9, -0.48],
  [-0.2, -1.3, -0.6],
  [-0.3, -0.5, -0.8, -0.1],
  [-1.2, -0.3, -0.7],
];
const MAX_TOKENS = 8;

const EXPECTED = {
  grpo: [
    -0.0920974, 0, 0.0876057, 0.0682274, 0.112488, -0.0876057, -0.079269, -0.0833332, -0.0850166, 0,
    0.075403, 0.0682274,
  ],
  'dr-grpo': [
    -0.0172683, 0, 0.0164261, 0.0127927, 0.0210915, -0.0164261, -0.014863, -0.015625, -0.0159406, 0,
    0.0141381, 0.0127927,
  ],
  dapo: [
    -0.0920974, -0.1038395, 0.0876057, 0.0682274, 0.112488, -0.0876057, -0.079269, -0.0833332,
    -0.0850166, 0, 0.075403, 0.0682274,
  ],
};

const PROMPT = Int32Array.of(1);
const group: RolloutGroup = {
  problem: { id: 'p', tier: 'T' },
  rollouts: OLD.map(
    (row, i) =>
      ({
        sampleIndex: i,
        tokenIds: Int32Array.from(row, () => 10 + i),
        episode: exchange(
          PROMPT,
          Int32Array.from(row, () => 10 + i),
        ),
        finish: 'stop',
        verdict: { kind: i % 2 === 0 ? 'pass' : 'fail', violations: [], metrics: {} },
      }) as unknown as JudgedRollout,
  ),
};
const replyOf = ({ tokenIds }: TrainSequence): number => tokenIds[1]! - 10;
const padded = (row: readonly number[]): Float32Array => Float32Array.of(0, ...row);

/**
 * What the trainer makes of a step (docs/training.md): the slope of its loss in each token's
 * log-probability, replies in their order.
 */
function slopes(
  sequences: readonly TrainSequence[],
  { clipLow, clipHigh }: { readonly clipLow: number; readonly clipHigh: number },
): number[] {
  const tokens = sequences.reduce((sum, { tokenIds }) => sum + tokenIds.length - 1, 0);
  return [...sequences]
    .sort((a, b) => replyOf(a) - replyOf(b))
    .flatMap(({ weight = 1, advantages: of, oldLogprobs, ...sequence }) =>
      NEW[replyOf(sequence)]!.map((now, t) => {
        const ratio = oldLogprobs === undefined ? 1 : Math.exp(now - oldLogprobs[t + 1]!);
        const advantage = of![t + 1]!;
        const bounded = Math.min(1 + clipHigh, Math.max(1 - clipLow, ratio));
        return bounded * advantage < ratio * advantage ? 0 : (-weight * ratio * advantage) / tokens;
      }),
    );
}

/** The second step of an iteration: the first one has moved OLD to NEW. */
async function secondStep(own: object): Promise<number[]> {
  const resolved = resolveSettings({
    algorithm: { id: 'grpo', ...own },
    sampling: { samples: 4, maxTokens: MAX_TOKENS },
    optimiser: { stepsPerIteration: 2 },
  });
  const steps: {
    sequences: readonly TrainSequence[];
    objective: { clipLow: number; clipHigh: number };
  }[] = [];
  const trainer = {
    info: { lowestTrained: 0 },
    evaluate: (sequences: readonly TrainSequence[]) =>
      Promise.resolve({
        sequences: sequences.map((each) => ({
          logprobs: padded((steps.length === 0 ? OLD : NEW)[replyOf(each)]!),
        })),
      }),
    step: (
      sequences: readonly TrainSequence[],
      { objective }: { objective: { clipLow: number; clipHigh: number } },
    ) => {
      steps.push({ sequences, objective });
      return Promise.resolve({});
    },
  } as unknown as Trainer;
  const boundaries = new BoundaryCache(trainer, 0);
  await grpo.learn({
    trainer,
    boundaries,
    buffer: null as never,
    groups: [group],
    settings: resolved,
    iteration: 1,
    batchSize: 4,
  });
  expect(steps).toHaveLength(2);
  return slopes(steps[1]!.sequences, steps[1]!.objective);
}

const close = (values: readonly number[]): unknown[] =>
  values.map((value) => expect.closeTo(value, 6));

test("dr-grpo's advantages are rewards less their mean", () => {
  expect(advantages([1, 0, 0, 0, null], false)).toEqual([0.75, -0.25, -0.25, -0.25, null]);
});

describe('the gradient of a step', () => {
  test.each(Object.entries(EXPECTED))('%s: as its paper has it', async (variant, expected) => {
    expect(await secondStep({ variant })).toEqual(close(expected));
  });

  test('gspo: as its paper has it, with the loss and the clipped part of the same numbers', async () => {
    const clip = { clipLow: 0.1, clipHigh: 0.15 };
    expect(await secondStep({ variant: 'gspo', ...clip })).toEqual(
      close([
        0, 0, 0.0876057, 0.0876057, 0.0876057, -0.0628132, -0.0628132, -0.0628132, -0.0628132, 0, 0,
        0,
      ]),
    );
    expect(await secondStep({ variant: 'gspo' })).toEqual(
      close([0, 0, 0.0876057, 0.0876057, 0.0876057, 0, 0, 0, 0, 0, 0, 0]),
    );
    const replies = OLD.map((row, i) => ({
      advantage: (i % 2 === 0 ? 1 : -1) * 0.999998,
      old: Float32Array.from(row),
      now: Float32Array.from(NEW[i]!),
    }));
    expect(replyRatios(replies, clip)).toMatchObject({
      loss: expect.closeTo(-0.0509353, 6),
      clipFraction: expect.closeTo(5 / 12, 9),
    });
    expect(() =>
      resolveSettings({ algorithm: { id: 'grpo', variant: 'gspo', klCoefficient: 0.1 } }),
    ).toThrow(/klCoefficient: gspo/);
    for (const own of [{ id: 'grpo' }, { id: 'distill', teacher: 'tiny' }] as const)
      expect(() => resolveSettings({ algorithm: own, layers: { dropout: 0.1 } })).toThrow(
        /layers\.dropout: .* needs probabilities without dropout/,
      );
  });

  test('dapo clips higher by default, and a clip that is given comes first', () => {
    expect(resolveSettings({ algorithm: { id: 'grpo', variant: 'dapo' } }).algorithm).toMatchObject(
      { clipLow: 0.2, clipHigh: 0.28 },
    );
    expect(
      resolveSettings({ algorithm: { id: 'grpo', variant: 'dapo', clipHigh: 0.3 } }).algorithm,
    ).toMatchObject({
      clipLow: 0.2,
      clipHigh: 0.3,
    });
    expect(resolveSettings({ algorithm: { id: 'grpo' } }).algorithm).toMatchObject({
      variant: 'grpo',
      clipLow: 0.2,
      clipHigh: 0.2,
    });
  });
});

describe('what a group is compared by', () => {
  const sample = (kind: string, score?: number, finish = 'stop') => ({
    tokenIds: [1],
    finish,
    verdict: { kind, ...(score === undefined ? {} : { score }) },
  });
  const fatesOf = (rollouts: ReturnType<typeof sample>[], reward: 'score' | 'verdict') => {
    const settings = resolveSettings({ algorithm: { id: 'grpo', variant: 'dr-grpo', reward } });
    const fates = grpo.admit([{ tier: 'T', rollouts }], {
      settings,
      iteration: 1,
      runSeed: 1n,
      contradicts: () => false,
    });
    return rollouts
      .map((rollout) => fates.get(rollout)!)
      .map(({ admission, advantage }) => advantage ?? admission);
  };

  test('by their scores, replies that all failed differ: what is half right is raised, what is wrong is lowered', () => {
    const failed = [
      sample('fail', 0.5),
      sample('fail', 0.25),
      sample('fail', 0),
      sample('none'),
      sample('fail', 0.25, 'length'),
    ];
    expect(fatesOf(failed, 'score')).toEqual([0.25, 0, -0.25, 'undecided', 'incomplete']);
    expect(fatesOf(failed, 'verdict')).toEqual([
      'uninformative',
      'uninformative',
      'uninformative',
      'undecided',
      'incomplete',
    ]);
  });

  test('a task without scores has its verdicts, and equal scores have nothing to contrast', () => {
    expect(fatesOf([sample('pass'), sample('fail')], 'score')).toEqual([0.5, -0.5]);
    expect(fatesOf([sample('fail', 0.5), sample('fail', 0.5)], 'score')).toEqual([
      'uninformative',
      'uninformative',
    ]);
  });
});

test('each pass takes every problem once, and the samples of a problem one after the other', () => {
  const samples = Array.from({ length: 6 }, (_, p) => ({
    ...group,
    problem: { id: `p${p}`, tier: 'T' },
  })).flatMap((each) => keyedRollouts([each], 1));
  const order = shuffledBatches(samples, 12, 4, new Random(1n)).map((batch) =>
    batch.map(({ problem }) => problem.id),
  );
  for (const batch of order) expect(new Set(batch).size).toBe(1);
  const passes = [order.slice(0, 6), order.slice(6)].map((batches) => batches.map(([id]) => id));
  for (const pass of passes) expect([...pass].sort()).toEqual(['p0', 'p1', 'p2', 'p3', 'p4', 'p5']);
  expect(passes[0]).not.toEqual(passes[1]);
});
