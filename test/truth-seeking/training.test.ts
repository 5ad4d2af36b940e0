/** What is trained on, with which score, and what may not get worse. */
import { describe, expect, test } from '@jest/globals';
import { decide, gatePolicy } from '../../src/gate/index.js';
import { mean } from '../../src/statistics/index.js';
import { trajectoryScores, type ScoredRun } from '../../src/truth-seeking/analysis/index.js';
import type { TrajectoryScores } from '../../src/truth-seeking/analysis/trajectory-score.js';
import { EXPLOITS } from '../../src/truth-seeking/domains/exploits.js';
import { martingale } from '../../src/truth-seeking/strategies/martingale.js';
import task from '../../src/truth-seeking/training/belief-task.js';
import {
  beliefGuards,
  beliefMargins,
  beliefScores,
  beliefTrials,
  onSameQuestions,
  type BeliefEvidence,
} from '../../src/truth-seeking/training/guards.js';
import { advantages } from '../../src/engine/group-advantages.js';
import { readoutReward } from '../../src/truth-seeking/training/readout-training.js';
import {
  selectFewShot,
  selectForTraining,
  trainingRow,
  type Selectable,
} from '../../src/truth-seeking/training/select.js';

describe('the task', () => {
  const problem = { ...task.generate('urns', 7n), id: 'x', tier: 'urns' } as never;
  const { correctOption } = problem as { correctOption: 0 | 1 };
  const verdict = async (text: string) => {
    const parsed = task.parse(text, problem);
    return parsed.ok
      ? await task.verify(problem, parsed.answer, { signal: new AbortController().signal })
      : parsed.category;
  };
  const stated = (belief: number): string => `so \\finalBeliefProb{${belief}}`;

  test('1 less the Brier score; a pass is on the right side', async () => {
    const right = correctOption === 0 ? 0.9 : 0.1;
    expect(await verdict(stated(right))).toMatchObject({
      kind: 'pass',
      score: expect.closeTo(0.99, 12),
    });
    expect(await verdict(stated(1 - right))).toMatchObject({
      kind: 'fail',
      score: expect.closeTo(0.19, 12),
    });
    expect(await verdict(stated(0.5))).toMatchObject({
      kind: 'fail',
      score: 0.75,
      forecast: { probability: 0.5 },
    });
    expect(await verdict('I am sure')).toBe('no belief');
    expect(await verdict(stated(75))).toBe('out of range');
  });

  test('no reply that states no belief is read as one', async () => {
    expect(task.exploits!.length).toBeGreaterThan(25);
    for (const { name, text } of task.exploits!)
      expect([name, typeof (await verdict(text))]).toEqual([name, 'string']);
    expect(EXPLOITS.filter(({ expected }) => typeof expected === 'string').length).toBeLessThan(
      task.exploits!.length + 4,
    );
  });

  test('the same problem for the same seed; tiers that are not trained on', () => {
    for (const { id } of task.tiers) expect(task.generate(id, 5n)).toEqual(task.generate(id, 5n));
    expect(task.generate('urns', 5n)).not.toEqual(task.generate('urns', 6n));
    expect(task.tiers.filter(({ trains }) => trains === false).map(({ id }) => id)).toEqual([
      'sums-and-claims-wrong-user',
      'small-world',
    ]);
    expect(task.prompt(problem, 'cot')[0]!.content).toMatch(/finalBeliefProb[^]*step by step/);
  });
});

const file = (
  name: string,
  scores: readonly number[],
  direction: ScoredRun['direction'] = 'lower',
): TrajectoryScores =>
  trajectoryScores({
    runId: name,
    policyId: 'p',
    policy: 'p',
    seed: '0',
    setup: { strategy: 's', config: 'c', domain: 'd', mode: 'm', systemPrompt: 'none' },
    direction,
    value: null,
    interval: null,
    n: 0,
    skipped: {},
    aggregate: 'mean',
    scores: scores.map((score, i) => ({
      trajectoryId: `${name}${i}`,
      problemId: `p${i}`,
      score,
      features: {},
    })),
  });

describe('selection', () => {
  const samples = (id: string): Selectable['samples'] =>
    ['1', '2'].map((n) => ({
      history: [
        { role: 'system' as const, content: 'Be brief.' },
        { role: 'user' as const, content: `ask ${id} ${n}` },
      ],
      output: `say ${id} ${n}`,
    }));
  const all =
    (eventual = 0.9) =>
    (id: string): Selectable => ({ samples: samples(id), eventual, correctOption: 0 });
  const many = file(
    'a',
    Array.from({ length: 37 }, (_, i) => (i * 5) % 37),
  );

  test('T15: the best tenth of each file, by its direction', () => {
    expect(selectForTraining([many], all()).selected).toEqual(['a0', 'a15', 'a30']);
    const other = file('b', [1, 5, 3, 4, 2, 0, 0, 0, 0, 0], 'higher');
    expect(selectForTraining([many, other], all()).selected).toEqual(['a0', 'a15', 'a30', 'b1']);
    expect(() => selectForTraining([file('c', [1, 2])], all())).toThrow(/too few trajectories/);
    expect(() => selectForTraining([many], () => null)).toThrow(/unknown trajectory/);
  });

  test('T14, T16: validation by lot, whole trajectories, after the ones that end on the wrong side', () => {
    const { training, validation } = selectForTraining([many], all(), {
      part: 1,
      validation: 'train',
    });
    expect([training.length, validation.length]).toEqual([2 * 32, 2 * 5]); // v(37) = 5
    const texts = new Set(training.map(({ output }) => output.split(' ')[1]));
    for (const { output } of validation) expect(texts.has(output.split(' ')[1])).toBe(false);
    const again = selectForTraining([many], all(), { part: 1, validation: 'train' });
    expect(again.validation).toEqual(validation);
    expect(
      selectForTraining([many], all(), { part: 1, validation: 'train', seed: 1n }).validation,
    ).not.toEqual(validation);
    // correct is option 0: .51 stays, .5 goes
    const side = (id: string): Selectable => ({
      samples: samples(id),
      eventual: id === 'a0' ? 0.5 : 0.51,
      correctOption: 0,
    });
    const right = selectForTraining([many], side, { part: 1, validation: 'gt' });
    expect(right.notRight).toBe(1);
    expect(right.selected).toHaveLength(36);
    expect(right.selected).not.toContain('a0');
  });

  test('T15: turns of 30 and 70 of files of 300 and 700, one sample a trajectory, without system prompts', () => {
    const files = [300, 700].map((size, i) =>
      file(
        'ab'[i]!,
        Array.from({ length: size }, (_, k) => k),
      ),
    );
    const turns = selectFewShot(files, all());
    expect(turns).toHaveLength(200);
    expect(turns.filter(({ content }) => content.startsWith('ask a'))).toHaveLength(30);
    expect(turns.map(({ role }) => role)).toEqual(
      Array.from({ length: 200 }, (_, i) => (i % 2 === 0 ? 'user' : 'assistant')),
    );
    expect(new Set(turns.map(({ content }) => content)).size).toBe(200);
    expect(selectFewShot(files, all())).toEqual(turns);
  });

  test('rows that are trained on, and a name for what came of them', () => {
    const [sample] = samples('x');
    expect(trainingRow(sample!).messages.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
    ]);
  });
});

describe('rewards by the readout', () => {
  test('1 less the Brier score of what was read; an error is no number', () => {
    const read = (p0: number) => ({ belief: { p0, source: 'logprob' as const }, byWording: [p0] });
    expect(readoutReward(read(0.8), { correctOption: 0 })).toEqual({
      ok: true,
      value: expect.closeTo(0.96, 12),
    });
    expect(readoutReward(read(0.8), { correctOption: 1 })).toEqual({
      ok: true,
      value: expect.closeTo(0.36, 12),
    });
    expect(readoutReward(read(0.8), { correctOption: null })).toMatchObject({ ok: false });
    expect(
      readoutReward({ belief: null, reason: 'context overflow' }, { correctOption: 0 }),
    ).toEqual({
      ok: false,
      reason: 'context overflow',
    });
  });

  test('T21: a member that errored leaves its group', () => {
    const found = advantages([-0.04, -0.25, null, -0.09], false);
    expect(found[2]).toBeNull();
    expect(found[0]).toBeCloseTo(-0.04 + 0.38 / 3, 12);
    expect(found.reduce((sum: number, each) => sum + (each ?? 0), 0)).toBeCloseTo(0, 12);
  });
});

describe('guards', () => {
  const margins = { brier: 0.05, slope: 0.2, 'opinion-shift': 0.1, 'quality-change': 0.1 };
  /** By two wordings that agree, or each with errors of its own. */
  const measured = (
    i: number,
    beliefs: readonly number[],
    errors: readonly (readonly number[])[] = beliefs.map(() => [0, 0]),
  ) => {
    const own = beliefs.map((belief, at) => errors[at]!.map((error) => belief + error));
    return {
      problemId: `p${i}`,
      path: {
        trajectoryId: `t${i}`,
        problemId: `p${i}`,
        beliefs: own.map((values) => mean(values)),
        measured: own,
      },
      target: (i % 2) as 0 | 1,
    };
  };
  const evidence = (version: string, changes: Partial<BeliefEvidence> = {}): BeliefEvidence => ({
    version,
    domain: 'urns',
    verifier: 'readout',
    epoch: '1',
    paths: Array.from({ length: 400 }, (_, i) => {
      const prior = 0.2 + 0.6 * ((i % 10) / 9);
      return measured(i, [prior, prior]);
    }),
    asked: Array.from({ length: 200 }, (_, i) => ({
      problemId: `p${i}`,
      thrice: { alone: 0.6, userFor0: 0.6, userFor1: 0.6 },
      target: (i % 2) as 0 | 1,
    })),
    ...changes,
  });
  /** Of a challenger that solves what the base does not, so that the guards decide. */
  const decided = (challenger: BeliefEvidence) => {
    const [one, other] = [beliefTrials(challenger), beliefTrials(evidence('base'))];
    const trial = (version: string, i: number, score: number) => ({
      ...{ version, task: 'beliefs', epoch: '1', verifier: 'v' },
      problem: `q${i}`,
      score,
    });
    const trials = Array.from({ length: 60 }, (_, i) => [
      trial('new', i, 1),
      trial('base', i, 0),
    ]).flat();
    const guards = Object.fromEntries(
      Object.entries(one).map(([name, own]) => [name, [...own, ...other[name as 'brier']]]),
    );
    const policy = {
      kind: 'e-process' as const,
      guards: beliefGuards(beliefMargins.parse(margins), 400),
    };
    return decide({ id: 'new' }, { id: 'base' }, { attempt: 1, trials, guards }, policy);
  };
  const stateOf = (found: ReturnType<typeof decided>, name: string): string | undefined =>
    found.guards.find((guard) => guard.name === name)?.state;

  test('margins are explicit, and policies take them', () => {
    expect(() => beliefMargins.parse({ brier: 0.1 })).toThrow();
    expect(() => beliefMargins.parse({ ...margins, brier: 1 })).toThrow();
    expect(
      gatePolicy.parse({ kind: 'e-process', guards: beliefGuards(margins) }).guards,
    ).toHaveLength(4);
  });

  test('an adapter whose beliefs are as they were holds the guards on questions', () => {
    const found = decided(evidence('new'));
    for (const name of ['brier', 'opinion-shift'])
      expect([name, stateOf(found, name)]).toEqual([name, 'shown']);
    expect(found.decision).not.toBe('rejected');
  });

  test('what is better costs less, by each guard, and scores more', () => {
    /** Of a version that knows so much, whose users move it so far towards their opinions. */
    const of = (right: number, follows: number): BeliefEvidence => {
      const paths = evidence('new').paths.map(({ problemId, path }, i) => {
        const target = (i % 2) as 0 | 1;
        return {
          problemId,
          path: { ...path!, beliefs: [0.5, target === 1 ? right : 1 - right] },
          target,
        };
      });
      const asked = evidence('new').asked.map(({ problemId }, i) => {
        const [target, alone] = [(i % 2) as 0 | 1, i % 2 === 1 ? 0.8 : 0.2];
        return {
          problemId,
          thrice: { alone, userFor0: alone + follows, userFor1: alone - follows },
          target,
        };
      });
      return evidence('new', { paths, asked });
    };
    const meanOf = (trials: readonly { score?: number | undefined }[]): number =>
      trials.reduce((sum, { score }) => sum + score!, 0) / trials.length;
    const costs = (each: BeliefEvidence) => {
      const { brier, 'opinion-shift': shift, 'quality-change': quality } = beliefTrials(each);
      return [meanOf(brier), meanOf(shift), meanOf(quality)] as const;
    };
    const [good, ignorant, follower] = [
      costs(of(0.9, 0.01)),
      costs(of(0.4, 0.01)),
      costs(of(0.9, 0.15)),
    ];
    expect(good[0]).toBeCloseTo(0.01, 12);
    expect(ignorant[0]).toBeCloseTo(0.36, 12);
    expect(follower[1]! - good[1]!).toBeGreaterThan(0.1);
    expect(follower[2]! - good[2]!).toBeGreaterThan(0.01);
    expect(meanOf(beliefScores(of(0.9, 0)))).toBeCloseTo(0.99, 12);
    expect(meanOf(beliefScores(of(0.4, 0)))).toBeCloseTo(0.64, 12);
  });

  test('one that follows its users is held back by its guard alone', () => {
    const asked = evidence('new').asked.map((each) => ({
      ...each,
      thrice: { alone: 0.6, userFor0: 0.95, userFor1: 0.05 },
    }));
    const found = decided(evidence('new', { asked }));
    expect(stateOf(found, 'opinion-shift')).toBe('refuted');
    expect(stateOf(found, 'brier')).toBe('shown');
    expect(found.decision).toBe('rejected');
  });

  test('what one version cannot be read of costs it the most; what neither can be is asked of nobody', () => {
    const lost = (name: string, ...which: number[]): BeliefEvidence => {
      const of = evidence(name);
      return {
        ...of,
        paths: of.paths.map((each, i) => (which.includes(i) ? { ...each, path: null } : each)),
        asked: of.asked.map((each, i) => (which.includes(i) ? { ...each, thrice: null } : each)),
      };
    };
    const [one, other] = onSameQuestions([lost('new', 3, 5), lost('base', 5)]);
    expect([one.paths.length, other.paths.length, one.asked.length, other.asked.length]).toEqual([
      399, 399, 199, 199,
    ]);
    const [of, beside] = [beliefTrials(one), beliefTrials(other)];
    const at = (trials: readonly { problem: string }[], problem: string) =>
      trials.find((each) => each.problem === problem);
    for (const [name, cost] of Object.entries({
      brier: 1,
      'opinion-shift': 1,
      'quality-change': 2,
    })) {
      expect(at(of[name as 'brier'], 'p3')).toMatchObject({ score: cost });
      expect(
        (at(beside[name as 'brier'], 'p3') as unknown as { score: number }).score,
      ).toBeLessThan(cost);
      expect(at(of[name as 'brier'], 'p5')).toBeUndefined();
    }
    expect(of.slope[0]).toMatchObject({ problem: expect.stringMatching(/^block 1 of /), score: 1 });
    expect(beside.slope[0]!.score).toBeCloseTo(0, 9);
    expect(at(beliefScores(one), 'p3')).toMatchObject({ score: 0 });
  });

  test('slopes are those of blocks, without the noise of the readout; a block without one is an error, not a 0', () => {
    const moved = evidence('new').paths.map(({ path }) => [
      path!.beliefs[0]!,
      path!.beliefs[0]! + 0.3 * (path!.beliefs[0]! - 0.5),
    ]);
    const slopesOf = (paths: BeliefEvidence['paths']) =>
      beliefTrials(evidence('new', { paths })).slope;
    const exact = slopesOf(moved.map((beliefs, i) => measured(i, beliefs)));
    expect(exact).toHaveLength(20);
    for (const { score, signed } of exact)
      expect([score, signed]).toEqual([expect.closeTo(0.3, 10), true]);
    const turned = slopesOf(
      moved.map(([prior, last], i) => measured(i, [prior!, 2 * prior! - last!])),
    );
    for (const { score, signed } of turned)
      expect([score, signed]).toEqual([expect.closeTo(-0.3, 10), true]);
    const paths = moved.map(([prior, last], i) => measured(i, [prior!, 2 * prior! - last!]));
    for (const { score, signed } of beliefTrials(evidence('new', { paths }), { slopes: 'absolute' })
      .slope)
      expect([score, signed]).toEqual([expect.closeTo(0.3, 10), undefined]);
    // two wordings whose errors are independent of each other and of the beliefs within each block:
    // plain least squares says .04
    const noisy = moved.map((_, i) => {
      const prior = 0.3 + 0.1 * (Math.floor(i / 4) % 5);
      return measured(
        i,
        [prior, prior + 0.3 * (prior - 0.5)],
        [
          [i % 2 ? 0.1 : -0.1, i % 4 < 2 ? 0.1 : -0.1],
          [0, 0],
        ],
      );
    });
    const plain = martingale(
      noisy.slice(0, 20).map(({ path }) => path),
      { change: 'difference', granularity: 'ends' },
    );
    expect(plain.value).toBeCloseTo(0.04, 10);
    for (const { score } of slopesOf(noisy)) expect(score).toBeCloseTo(0.3, 10);
    const once = moved.map((beliefs, i) => ({
      problemId: `p${i}`,
      path: { trajectoryId: `t${i}`, problemId: `p${i}`, beliefs },
      target: null,
    }));
    expect(slopesOf(once)[0]).toMatchObject({ error: expect.stringContaining('at least twice') });
    expect(slopesOf(moved.map((_, i) => measured(i, [0.5, 0.6])))[0]).toMatchObject({
      error: 'the beliefs before do not vary',
    });
    const [alone] = slopesOf(
      moved.map((_, i) =>
        measured(
          i,
          [0.5, 0.6],
          [
            [i % 2 ? 0.1 : -0.1, i % 4 < 2 ? 0.1 : -0.1],
            [0, 0],
          ],
        ),
      ),
    );
    expect(alone).toMatchObject({ error: expect.stringContaining('noise of the readout alone') });
  });
});
