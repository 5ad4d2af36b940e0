/** The seam between loop and algorithm: what one more of them would touch. */
import { describe, expect, test } from '@jest/globals';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { fates } from '../../src/algorithms/admission.js';
import { algorithm, type Group, type Sample } from '../../src/algorithms/algorithm.js';
import {
  ALGORITHM_IDS,
  ALGORITHM_SETTINGS,
  algorithmOf,
  ALGORITHMS,
} from '../../src/algorithms/index.js';
import { resolveSettings } from '../../src/index.js';

const sample = (kind: 'pass' | 'fail' | 'none', finish = 'stop'): Sample => ({
  tokenIds: [1, 2],
  finish,
  verdict: { kind },
});

describe('an algorithm', () => {
  test('is named in its own file alone: nothing else in src knows which ones there are', () => {
    const source = path.join(process.cwd(), 'src');
    const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((file) =>
      file.endsWith('.ts'),
    );
    const named = files.filter((file) => {
      const text = readFileSync(path.join(source, file), 'utf8');
      return ALGORITHM_IDS.some((id) => text.includes(`'${id}'`));
    });
    expect(named.map((file) => file.replaceAll(path.sep, '/')).sort()).toEqual(
      ALGORITHM_IDS.map((id) => `algorithms/${id}.ts`).sort(),
    );
  });

  test('has settings of its own, each of which stands for one thing', () => {
    const fields = ALGORITHMS.flatMap(({ settings }) => Object.keys(settings.shape));
    expect(new Set(fields).size).toBe(fields.length);
    expect(Object.keys(ALGORITHM_SETTINGS).sort()).toEqual([...fields].sort());
    expect(() => resolveSettings({ algorithm: { id: 'rft', clipLow: 0.1 } })).toThrow(
      /clipLow: a setting of grpo/,
    );
  });

  test('reads its own settings by its schema, and those of admission and learning beside them', async () => {
    const seen: object[] = [];
    const third = algorithm({
      id: 'third',
      title: 'every other one',
      settings: z.object({ every: z.int().default(2) }),
      contradictions: () => [],
      readsReasoning: () => false,
      admit: <S extends Sample>(
        groups: readonly Group<S>[],
        { settings }: { readonly settings: { readonly algorithm: { readonly every: number } } },
      ) =>
        fates(groups, ({ rollouts }) => ({
          weight: 1,
          fateOf: (rollout) => ({
            admission:
              rollouts.indexOf(rollout) % settings.algorithm.every === 0 ? 'admitted' : 'failed',
          }),
        })),
      learn: ({ settings }) => {
        seen.push(settings);
        return Promise.resolve([]);
      },
    });
    const rollouts = [
      sample('pass'),
      sample('fail'),
      sample('none'),
      sample('pass', 'length'),
      sample('fail'),
    ];
    const settings = {
      algorithm: { id: 'third' },
      buffer: { kind: 'classic', accept: 'passing' },
    } as const;
    const admitted = third.admit([{ tier: 'T', rollouts }], {
      settings,
      iteration: 1,
      runSeed: 1n,
      contradicts: () => false,
    });
    expect(rollouts.map((rollout) => admitted.get(rollout)!.admission)).toEqual([
      'admitted',
      'failed',
      'undecided',
      'incomplete',
      'admitted',
    ]);
    const learning = {
      ...settings,
      algorithm: { id: 'third', every: 3 },
      optimiser: { stepsPerIteration: 7 },
    };
    await third.learn({ settings: learning } as never);
    expect(seen).toEqual([learning]);
    await expect(
      (async () => third.learn({ settings: { algorithm: { every: 'x' } } } as never))(),
    ).rejects.toThrow(z.ZodError);
  });
});

describe('the random verdicts of rft', () => {
  const settings = {
    algorithm: { id: 'rft' },
    buffer: { kind: 'classic', accept: 'random' },
  } as const;
  /** Which of the samples are taken, by their place. */
  const taken = (
    groups: readonly Group<Sample>[],
    { runSeed = 1n, iteration = 1 } = {},
  ): number[] => {
    const fateOf = algorithmOf(settings).admit(groups, {
      settings,
      iteration,
      runSeed,
      contradicts: () => false,
    });
    return groups
      .flatMap(({ rollouts }) => rollouts)
      .flatMap((rollout, at) => (fateOf.get(rollout)!.admission === 'admitted' ? [at] : []));
  };
  /** 100 problems of two tiers, the passes where they are told to be. */
  const groups = (
    passes: (problem: number, sample: number) => boolean,
    tier = (problem: number) => (problem < 50 ? 'A' : 'B'),
  ) =>
    Array.from({ length: 100 }, (_, problem) => ({
      tier: tier(problem),
      rollouts: Array.from({ length: 4 }, (_, at) => sample(passes(problem, at) ? 'pass' : 'fail')),
    }));

  test('are the same whichever replies passed, in whichever tier, as long as as many did', () => {
    const first = taken(groups((problem) => problem < 30));
    expect(taken(groups((problem) => problem >= 70))).toEqual(first);
    expect(
      taken(
        groups(
          (problem, at) => (problem + at) % 10 < 3,
          () => 'A',
        ),
      ),
    ).toEqual(first);
    expect(
      taken(
        groups((problem) => problem < 30),
        { runSeed: 2n },
      ),
    ).not.toEqual(first);
    expect(
      taken(
        groups((problem) => problem < 30),
        { iteration: 2 },
      ),
    ).not.toEqual(first);
  });

  test('fall as often as replies passed', () => {
    // 400 coins at 0.3 and at 0.05: four deviations are 37 and 17
    expect(Math.abs(taken(groups((problem) => problem < 30)).length - 120)).toBeLessThan(37);
    expect(Math.abs(taken(groups((problem) => problem < 5)).length - 20)).toBeLessThan(17);
    expect(taken(groups(() => false))).toEqual([]);
    expect(taken(groups(() => true))).toHaveLength(400);
  });

  test('take no reply that was cut off or that nobody judged, and these move no other coin', () => {
    const [whole, cut] = [groups((problem) => problem < 30), groups((problem) => problem < 30)];
    cut[0]!.rollouts[1] = sample('pass', 'length');
    cut[99]!.rollouts[3] = sample('none');
    const [before, after] = [taken(whole), taken(cut)];
    expect(after).not.toContain(1);
    expect(after).not.toContain(399);
    const moved = before
      .filter((at) => !after.includes(at))
      .concat(after.filter((at) => !before.includes(at)));
    expect(moved.length).toBeLessThanOrEqual(4); // the rate has changed by a thousandth
  });
});
