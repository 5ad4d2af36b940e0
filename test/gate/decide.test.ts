/**
 * The decisions of the gate: the vectors of each policy, what invalidates evidence, and what holds
 * for any evidence.
 */
import { describe, expect, test } from '@jest/globals';
import { IsoproError } from '../../src/errors.js';
import {
  alphaOf,
  decide,
  gatePolicy,
  minimumBlocks,
  pairedTInterval,
  twoSidedThreshold,
  type GatePolicyInput,
  type GateEvidence,
  type TrialInput,
} from '../../src/gate/index.js';
import { wins } from '../../src/gate/sign.js';
import { Random } from '../../src/random.js';
import { normalTail } from '../../src/statistics/index.js';
import { both, decided, NEW, OLD, scored, verdicts } from '../models/gate-trials.js';

const ONCE = { kind: 'e-process', spending: 'once' } as const;
const codeOf = (call: () => unknown): string => {
  try {
    call();
  } catch (error) {
    if (error instanceof IsoproError) return error.code;
    throw error;
  }
  return 'nothing thrown';
};

describe('the default policy', () => {
  test.each([
    [7, 0, 'accepted', 31.9],
    [18, 5, 'accepted', 20.7],
    [20, 5, 'accepted', 48.5],
    [6, 0, 'needs-more-trials', 18.1],
    [15, 5, 'needs-more-trials', 6.4],
    [0, 7, 'rejected', 0.125],
  ] as const)('one gate at alpha .05: %i-%i is %s', (won, lost, decision, e) => {
    const result = decided(verdicts(won, lost, 40), ONCE);
    expect(result.decision).toBe(decision);
    expect(result.blocks).toBe(won + lost + 40);
    const { statistic } = result;
    if (statistic?.kind !== 'e-process') throw new Error('an e-process has an e-value');
    expect(Math.exp(statistic.logE!)).toBeCloseTo(e, e === 0.125 ? 12 : 1);
    expect(Math.exp(statistic.logThreshold)).toBeCloseTo(20, 10);
  });

  test('over the life of a name the first attempt asks for 32.9: 8-0 reaches it, 7-0 does not; the tenth for 100 times as much', () => {
    expect(decided(verdicts(7, 0)).decision).toBe('needs-more-trials');
    const { decision, alpha, statistic } = decided(verdicts(8, 0));
    expect(decision).toBe('accepted');
    expect(statistic).toMatchObject({ kind: 'e-process', logThreshold: -Math.log(alpha) });
    expect(1 / alpha).toBeCloseTo(32.9, 1);
    expect(decided(verdicts(8, 0), undefined, { attempt: 2 }).decision).toBe('needs-more-trials');
    expect(decided(verdicts(8, 0), undefined, { attempt: 10 }).alpha).toBeCloseTo(alpha / 100, 15);
  });

  test('every schedule stays within alpha, for any number of attempts', () => {
    const policies: GatePolicyInput[] = [
      { kind: 'e-process' },
      ONCE,
      { kind: 'sign', margin: 0.1 },
      { kind: 'paired-t' },
    ];
    for (const given of policies) {
      const policy = gatePolicy.parse(given);
      let sum = 0;
      for (let attempt = 1; attempt <= 20_000; attempt++) {
        const alpha = alphaOf(policy, attempt);
        if (!(alpha >= 0 && alpha <= policy.alpha))
          throw new Error(`attempt ${attempt} spends ${alpha}`);
        sum += alpha;
      }
      expect(sum).toBeLessThanOrEqual(policy.alpha * (1 + 1e-9));
      expect(sum).toBeGreaterThan(policy.alpha * 0.9999);
    }
    expect(decided(verdicts(50, 0), ONCE, { attempt: 2 })).toMatchObject({
      decision: 'inconclusive',
      alpha: 0,
    });
  });

  test('ends without a decision after the planned problems, and sooner where nothing could help', () => {
    expect(decided(verdicts(3, 3, 30), { ...ONCE, most: 60 }).decision).toBe('needs-more-trials');
    expect(decided(verdicts(3, 3, 34), { ...ONCE, most: 40 }).decision).toBe('inconclusive');
    expect(decided(verdicts(0, 3, 34), { ...ONCE, most: 40 })).toMatchObject({
      decision: 'inconclusive',
    }); // 3-3 at best
    expect(decided(verdicts(9, 0, 91), { ...ONCE, most: 40 }).decision).toBe('accepted');
    expect(decided(scored([0.1, -0.9]), { ...ONCE, measure: 'score', most: 5 }).decision).toBe(
      'inconclusive',
    );
    expect(decided([], ONCE)).toMatchObject({
      decision: 'needs-more-trials',
      blocks: 0,
      statistic: { logE: 0, mean: null },
    });
  });

  test('scores: the mean difference counts, the samples of a problem are one unit, and an effect may be asked for', () => {
    const score = { ...ONCE, measure: 'score' } as const;
    // won by a little nearly always, and lost by all now and then
    const rare = Array.from({ length: 300 }, (_, i) => (i % 50 === 49 ? -0.98 : 0.02));
    expect(decided(scored(rare), score).decision).toBe('needs-more-trials');
    expect(decided(scored(rare.map(Math.abs)), score).decision).toBe('accepted');
    const half = new Array<number>(30).fill(0.5);
    expect(decided(scored(half), score).decision).toBe('accepted');
    expect(decided(scored(half), { ...score, minimumEffect: 0.49 }).decision).toBe(
      'needs-more-trials',
    );
    expect(decided(scored(half), { ...score, minimumEffect: 0.9 }).decision).toBe('rejected');
    // 20 samples of three problems are three units
    const samples = [0, 1, 2].flatMap((problem) =>
      Array.from({ length: 20 }, (_, sample) =>
        both(`problem ${problem}`, 1, 0, { sample }),
      ).flat(),
    );
    expect(decided(samples, score)).toMatchObject({
      decision: 'needs-more-trials',
      blocks: 3,
      pairs: 60,
    });
    expect(decided(samples, ONCE).decision).toBe('invalid');
    expect(decided(scored([0.5]), ONCE).decision).toBe('invalid');
  });

  test('on verdicts both measures agree, up to 255 problems that tell', () => {
    const random = new Random(8n);
    for (let trial = 0; trial < 30; trial++) {
      const trials = verdicts(
        random.nextInteger(0, 40),
        random.nextInteger(0, 30),
        random.nextInteger(0, 10),
      );
      const [one, other] = (['verdict', 'score'] as const).map((measure) =>
        decided(trials, { kind: 'e-process', measure }),
      );
      expect([other!.decision, other!.blocks]).toEqual([one!.decision, one!.blocks]);
      const logs = [one!, other!].map(({ statistic }) => (statistic as { logE: number }).logE);
      expect(logs[1]).toBeCloseTo(logs[0]!, 9);
    }
  });

  test('100,000 pairs give finite numbers that JSON keeps', () => {
    const many = verdicts(52_000, 48_000);
    for (const measure of ['verdict', 'score'] as const) {
      const result = decided(
        many,
        { kind: 'e-process', measure, most: 100_000 },
        { attempt: 1_000 },
      );
      expect(result).toMatchObject({ decision: 'accepted', pairs: 100_000 });
      expect(JSON.parse(JSON.stringify(result))).toEqual(result);
    }
    const all = decided(scored(new Array<number>(2_000).fill(-1)), {
      kind: 'e-process',
      measure: 'score',
      fraction: 1,
    });
    expect(all).toMatchObject({ decision: 'rejected', statistic: { logE: null } });
    expect(JSON.parse(JSON.stringify(all))).toEqual(all);
  });
});

describe('A9: the paired t', () => {
  const family = 2 * normalTail(1.96);

  test('intervals of four effects at one look and at nine, and of twelve', () => {
    const interval = (effects: readonly number[], looks: number): number[] =>
      Object.values(pairedTInterval(effects, family, looks)!);
    const close = (actual: readonly number[], expected: readonly number[]): void =>
      actual.forEach((value, i) => {
        expect(value).toBeCloseTo(expected[i]!, 6);
      });
    close(interval([0.02, 0.03, 0.05, 0.04], 1), [0.0144567, 0.0555433]);
    close(interval([0.02, 0.03, 0.05, 0.04], 9), [-0.0113795, 0.0813795]);
    close(interval(TWELVE, 9), [0.0445268, 0.0621399]);
    expect(pairedTInterval([0.02], family, 1)).toBeNull();
    expect(interval([0.25, 0.25, 0.25], 9)).toEqual([0.25, 0.25]);
  });
  const TWELVE = [0.05, 0.06, 0.04, 0.07, 0.05, 0.06, 0.05, 0.04, 0.06, 0.05, 0.05, 0.06];

  test('the level is spent by halves, at thresholds of 12 decimals', () => {
    const policy = gatePolicy.parse({ kind: 'paired-t' });
    expect([1, 2, 3].map((attempt) => alphaOf(policy, attempt))).toEqual([0.025, 0.0125, 0.00625]);
    expect([0.025, 0.0125, 0.04, 0.02, 0.01].map(twoSidedThreshold)).toEqual([
      2.241402727605, 2.497705474412, 2.053748910632, 2.326347874041, 2.575829303549,
    ]);
    const other = gatePolicy.parse({ kind: 'paired-t', alpha: 0.08 });
    expect([1, 2, 3].map((attempt) => alphaOf(other, attempt))).toEqual([0.04, 0.02, 0.01]);
  });

  test('screen, confirmation, held-out: each step of the way', () => {
    const lanes = (
      screen: readonly number[],
      confirmation: readonly number[],
      heldOut: readonly number[],
    ): TrialInput[] => [
      ...scored(screen, { lane: 'screen' }, 'screen'),
      ...scored(confirmation, {}, 'confirm'),
      ...scored(heldOut, { lane: 'held-out' }, 'held'),
    ];
    const ask = (...of: Parameters<typeof lanes>): string =>
      decided(lanes(...of), { kind: 'paired-t' }).decision;
    const held = [0.05, 0.04, 0.06, 0.05];
    const why = (...of: Parameters<typeof lanes>): string =>
      decided(lanes(...of), { kind: 'paired-t' }).reasons.join();
    expect(why([0.05], [], [])).toContain('1 of 2 problems in the lane screen');
    expect(why([0.05, 0.04], [0.05, 0.06], [])).toContain(
      '2 of 4 problems in the lane confirmation',
    );
    expect(why([0.05, 0.04], TWELVE, [0.05])).toContain('1 of 4 problems in the lane held-out');
    expect(why([0.05, 0.04, 0.05], TWELVE, held)).toContain(
      '3 problems in the lane screen, but the policy allows 2',
    );
    expect(ask([0.05], [], [])).toBe('needs-more-trials');
    expect(ask([-0.2, -0.2], [], [])).toBe('rejected');
    expect(ask([0.05, 0.04], [0.05, 0.06], [])).toBe('needs-more-trials');
    expect(ask([0.05, 0.04], [0.02, 0.03, 0.05, 0.04], [])).toBe('needs-more-trials');
    expect(ask([0.05, 0.04], TWELVE, [])).toBe('needs-more-trials');
    expect(ask([0.05, 0.04], TWELVE, held)).toBe('accepted');
    expect(ask([0.05, 0.04], TWELVE, [0, 0, 0, 0.01])).toBe('rejected');
    expect(ask([0.05, 0.04], [...TWELVE.slice(0, 11), -0.5], held)).toBe('inconclusive');
    expect(ask([0.05, 0.04], [...TWELVE, 0.05], held)).toBe('invalid'); // evidence after the fact
    expect(ask([0.05, 0.04, 0.05], TWELVE, held)).toBe('invalid');
    expect(
      decided(lanes([0.05, 0.04], TWELVE, held), { kind: 'paired-t' }, { attempt: 5_000 }).decision,
    ).toBe('inconclusive');
  });
});

describe('A9: the sign e-process', () => {
  const sign = { kind: 'sign', margin: 0.1 } as const;

  test('the fewest blocks of a level', () => {
    expect([0.05, 0.01, 0.005, 0.001, 0.0005].map(minimumBlocks)).toEqual([5, 7, 8, 10, 11]);
    expect(minimumBlocks(2 ** -1074)).toBe(1074);
  });

  test('eight blocks of eight are 2^-8, and one that is not won ends it', () => {
    const won = new Array<number>(8).fill(0.2);
    expect(decided(scored(won), sign)).toMatchObject({
      decision: 'accepted',
      alpha: 0.005,
      statistic: { logE: 8 * Math.LN2, wins: 8, blocks: 8 },
    });
    expect(decided(scored(won.with(3, 0.0999)), sign)).toMatchObject({
      decision: 'inconclusive',
      statistic: { logE: null, wins: 7 },
    });
    expect(decided(scored(won.slice(1)), sign).decision).toBe('needs-more-trials');
    expect(decided(scored([...won, 0.2]), sign).decision).toBe('invalid');
    expect(decided(scored(won), sign, { attempt: 10 }).decision).toBe('accepted');
    expect(decided(scored(won), sign, { attempt: 11 }).decision).toBe('inconclusive');
    const most = { ...sign, blocks: 1074 };
    expect(decided(scored(new Array<number>(1074).fill(1)), most).decision).toBe('accepted');
    expect(codeOf(() => decided([], { ...sign, blocks: 1075 }))).toBe('GATE_POLICY_INVALID');
    // 2^-7 > .05 / 10
    expect(codeOf(() => decided([], { ...sign, blocks: 7 }))).toBe('GATE_POLICY_INVALID');
    // ties would win
    expect(codeOf(() => decided([], { ...sign, margin: 0 }))).toBe('GATE_POLICY_INVALID');
  });

  test('a tie at the boundary wins, compared as decimals and not as doubles', () => {
    const block = (challenger: number[], incumbent: number[]) =>
      ({ lane: 'confirmation', challenger, incumbent }) as const;
    expect(0.1 + 0.2 <= 0.3).toBe(false);
    expect(wins(block([0.3], [0.2]), 0.1)).toBe(true);
    expect(wins(block([0.3], [0.1]), 0.2)).toBe(true);
    expect(wins(block([0.30000000000000004], [0.2]), 0.1)).toBe(true);
    expect(wins(block([0.29999999999999993], [0.2]), 0.1)).toBe(false);
    expect(wins(block([1e-7, 0.2], [0, 0]), 0.1)).toBe(true); // means: 0.10000005 and 0
    expect(wins(block([5e-324], [0]), 5e-324)).toBe(true);
    expect(wins(block([0], [0]), 5e-324)).toBe(false);
  });
});

describe('guards', () => {
  const better = verdicts(9, 0, 60);
  const safety = { kind: 'safety', name: 'refusals', least: 20 } as const;
  const forgetting = { kind: 'non-inferiority', name: 'other task', margin: 0.1 } as const;
  const guarded = (
    guards: GateEvidence['guards'],
    given: readonly (
      | typeof safety
      | { kind: 'non-inferiority'; name: string; margin: number; ceiling?: number }
    )[],
  ) => decided(better, { ...ONCE, guards: [...given] }, guards === undefined ? {} : { guards });

  test('safety: nothing may come out worse, and nothing seen is not enough', () => {
    const same = scored(new Array<number>(20).fill(0));
    expect(guarded({ refusals: same }, [safety])).toMatchObject({
      decision: 'accepted',
      guards: [
        {
          name: 'refusals',
          state: 'shown',
          statistic: { kind: 'safety', blocks: 20, regressed: 0, rateBelow: 1 - 0.05 ** (1 / 20) },
        },
      ],
    });
    expect(guarded({ refusals: same.slice(2) }, [safety]).decision).toBe('needs-more-trials');
    expect(guarded(undefined, [safety]).decision).toBe('needs-more-trials');
    // one that is worse is not outweighed by many that are better
    expect(
      guarded({ refusals: scored([...new Array<number>(50).fill(1), -0.01]) }, [safety]).decision,
    ).toBe('rejected');
  });

  test('non-inferiority: the margin has to be refuted, and is explicit', () => {
    const drift = (difference: number, count: number): TrialInput[] =>
      scored(new Array<number>(count).fill(difference));
    expect(guarded({ 'other task': drift(0, 20) }, [forgetting]).decision).toBe(
      'needs-more-trials',
    );
    expect(guarded({ 'other task': drift(0, 60) }, [forgetting]).decision).toBe('accepted');
    expect(guarded({ 'other task': drift(-0.05, 150) }, [forgetting]).decision).toBe('accepted');
    expect(guarded({ 'other task': drift(-0.1, 900) }, [forgetting]).decision).toBe(
      'needs-more-trials',
    );
    expect(guarded({ 'other task': drift(-0.1, 1_000) }, [forgetting]).decision).toBe(
      'inconclusive',
    );
    expect(guarded({ 'other task': drift(-0.4, 60) }, [forgetting]).decision).toBe('rejected');
    expect(
      codeOf(() =>
        decide(
          NEW,
          OLD,
          { attempt: 1, trials: [] },
          { kind: 'e-process', guards: [{ kind: 'non-inferiority', name: 'x' } as never] },
        ),
      ),
    ).toBe('GATE_POLICY_INVALID');
  });

  test.each([
    [1, 0.5],
    [-1, 0.25],
    [0.4, 0.1],
    [-0.3, 0.6],
  ])(
    'a difference of %f with a margin of %f is a bet on their sum as a part of the scale, which the margin makes longer',
    (value, margin) => {
      // one bet of every part of the wealth, evenly: half of what it is on
      const bet = (won: number): unknown => expect.closeTo(Math.log1p(won / 2), 12);
      const [found] = guarded({ 'other task': scored([value]) }, [
        { ...forgetting, margin },
      ]).guards;
      expect(found!.statistic).toMatchObject({ logE: bet((value + margin) / (1 + margin)) });
      const above = decided(scored([value]), { ...ONCE, measure: 'score', minimumEffect: margin });
      expect(above.statistic).toMatchObject({ logE: bet((value - margin) / (1 + margin)) });
    },
  );

  test('costs have a ceiling, and their margin is in their unit', () => {
    const latency = { kind: 'non-inferiority', name: 'latency', margin: 0.2, ceiling: 2 } as const;
    const seconds = (challenger: number, incumbent: number, count = 60): TrialInput[] =>
      Array.from({ length: count }, (_, i) => both(`problem ${i}`, challenger, incumbent)).flat();
    expect(guarded({ latency: seconds(1, 1) }, [latency]).decision).toBe('accepted');
    expect(guarded({ latency: seconds(1.9, 0.5) }, [latency]).decision).toBe('rejected');
    // both beyond the ceiling
    expect(guarded({ latency: seconds(900, 30) }, [latency]).decision).toBe('accepted');
    expect(guarded({ latency: seconds(-1, 1) }, [latency]).decision).toBe('invalid');
    expect(guarded({ latency: seconds(Infinity, 1) }, [latency]).decision).toBe('invalid');
  });

  test('one that is refuted rejects, whatever the target shows; one without a policy is invalid', () => {
    const worse = scored([-1]);
    expect(
      guarded({ refusals: worse, 'other task': scored(new Array<number>(60).fill(0)) }, [
        safety,
        forgetting,
      ]).decision,
    ).toBe('rejected');
    expect(guarded({ unknown: worse }, [safety]).decision).toBe('invalid');
    expect(
      guarded(JSON.parse('{"__proto__": []}') as Record<string, TrialInput[]>, [safety]).decision,
    ).toBe('invalid');
    expect(guarded({ refusals: [...worse, ...worse] }, [safety]).decision).toBe('invalid');
  });
});

describe('evidence', () => {
  const good = verdicts(9, 0, 5);
  const [first, ...rest] = good as [TrialInput, ...TrialInput[]];

  test.each<[string, readonly TrialInput[]]>([
    ['a trial twice', [...good, first]],
    ['a trial twice with another score', [...good, { ...first, score: 0 }]],
    ['a trial again in another lane', [...good, { ...first, lane: 'screen' }]],
    [
      'a problem in two lanes',
      [...good, ...both(first.problem, 1, 0, { sample: 1, lane: 'held-out' })],
    ],
    ['half a pair', rest],
    ['another evaluator epoch', [...good, ...both('more', 1, 0, { epoch: 'epoch 2' })]],
    ['another epoch in one arm', [{ ...first, epoch: 'epoch 2' }, ...rest]],
    ['another verifier', [...good, ...both('more', 1, 0, { verifier: 'digest 2' })]],
    ['another version', [...good, { ...first, version: 'third', problem: 'more' }]],
    ['a score that is none', [{ ...first, score: NaN }, ...rest]],
    ['an infinite score', [{ ...first, score: Infinity }, ...rest]],
    ['a score above 1', [{ ...first, score: 1.0000001 }, ...rest]],
    ['a score below 0', [{ ...first, score: -0.1 }, ...rest]],
    ['score and error', [{ ...first, error: 'timeout' }, ...rest]],
  ])('%s is invalid', (_, trials) => {
    const result = decided(trials, ONCE);
    expect(result).toMatchObject({ decision: 'invalid', alpha: 0.05, statistic: null });
    expect(result.reasons.length).toBeGreaterThan(0);
    expect(decided(good, ONCE).decision).toBe('accepted');
  });

  test('a challenger that is the incumbent is invalid', () => {
    expect(decide(NEW, NEW, { attempt: 1, trials: [] }).decision).toBe('invalid');
  });

  test('a failed trial is an infrastructure error, never a rejection, and its alpha is spent; measured again it is forgotten', () => {
    const failed = (trial: TrialInput): TrialInput => {
      const { score: _, ...without } = trial;
      return { ...without, error: 'the verifier timed out' };
    };
    for (const trials of [good, verdicts(0, 30)]) {
      const [head, ...tail] = trials as [TrialInput, ...TrialInput[]];
      const result = decided([failed(head), ...tail], undefined, { attempt: 3 });
      expect(result).toMatchObject({ decision: 'infrastructure-error', attempt: 3 });
      expect(result.alpha).toBeCloseTo((0.05 * 6) / (9 * Math.PI ** 2), 15);
      expect(result.reasons.join()).toContain('the verifier timed out');
    }
    // and half a pair beside
    expect(decided([failed(first), ...rest.slice(1)], ONCE).decision).toBe('invalid');
    const inGuard = { kind: 'safety', name: 'refusals' } as const;
    expect(
      decided(
        good,
        { ...ONCE, guards: [inGuard] },
        { guards: { refusals: [failed(first), rest[0]!] } },
      ).decision,
    ).toBe('infrastructure-error');
  });

  test('two tasks may have a verifier each', () => {
    const other = both('problem 0', 1, 0, { task: 'extract', verifier: 'digest 2' });
    expect(decided([...good, ...other], ONCE)).toMatchObject({ decision: 'accepted', blocks: 15 });
  });

  test('thousands of faults are named by a few', () => {
    const { reasons } = decided(
      Array.from({ length: 5_000 }, (_, i) => ({
        ...first,
        version: 'x'.repeat(400),
        problem: `p${i}`,
      })),
    );
    expect(reasons).toHaveLength(6);
    expect(reasons.join().length).toBeLessThan(2_000);
  });

  test.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['a list', []],
    ['no attempt', { trials: [] }],
    ['attempt 0', { attempt: 0, trials: [] }],
    ['half an attempt', { attempt: 1.5, trials: [] }],
    ['trials that are text', { attempt: 1, trials: 'aaa' }],
    ['a trial that is null', { attempt: 1, trials: [null] }],
    ['a score that is text', { attempt: 1, trials: [{ ...first, score: '1' }] }],
    ['a negative sample', { attempt: 1, trials: [{ ...first, sample: -1 }] }],
    ['an unknown member', { attempt: 1, trials: [{ ...first, weight: 100 }] }],
    ['an unknown member beside', { attempt: 1, trials: [], force: true }],
    ['a problem without a name', { attempt: 1, trials: [{ ...first, problem: '' }] }],
    ['a name without end', { attempt: 1, trials: [{ ...first, problem: 'x'.repeat(501) }] }],
    ['guards that are text', { attempt: 1, trials: [], guards: 'no' }],
  ])('%s is refused with GATE_EVIDENCE_INVALID', (_, evidence) => {
    expect(codeOf(() => decide(NEW, OLD, evidence as GateEvidence))).toBe('GATE_EVIDENCE_INVALID');
  });

  test.each<[string, unknown]>([
    ['null', null],
    ['an unknown kind', { kind: 'mean' }],
    ['alpha 0', { kind: 'e-process', alpha: 0 }],
    ['alpha 1', { kind: 'e-process', alpha: 1 }],
    ['an unknown member', { kind: 'e-process', force: true }],
    ['an effect on verdicts', { kind: 'e-process', minimumEffect: 0.1 }],
    ['least above most', { kind: 'paired-t', least: 9, most: 8 }],
    [
      'two guards of a name',
      { kind: 'e-process', guards: [1, 2].map(() => ({ kind: 'safety', name: 'a' })) },
    ],
    [
      'a margin of everything',
      { kind: 'e-process', guards: [{ kind: 'non-inferiority', name: 'a', margin: 1 }] },
    ],
  ])('the policy %s is refused with GATE_POLICY_INVALID', (_, policy) => {
    expect(
      codeOf(() => decide(NEW, OLD, { attempt: 1, trials: [] }, policy as GatePolicyInput)),
    ).toBe('GATE_POLICY_INVALID');
  });

  test('versions without an id are refused', () => {
    for (const id of [undefined, '', 7])
      expect(codeOf(() => decide({ id } as never, OLD, { attempt: 1, trials: [] }))).toBe(
        'GATE_EVIDENCE_INVALID',
      );
  });
});

describe('any evidence', () => {
  const policies: GatePolicyInput[] = [
    { kind: 'e-process' },
    { kind: 'e-process', measure: 'score', most: 40 },
    { kind: 'sign', margin: 0.1 },
    { kind: 'paired-t' },
  ];
  /** Sequences of problems, a quarter of them with something wrong. */
  function anyTrials(random: Random): TrialInput[] {
    const lanes = ['screen', 'confirmation', 'held-out'] as const;
    const score = (): number => random.nextInteger(0, 4) / 4;
    const trials = Array.from({ length: random.nextInteger(0, 25) }, (_, i) =>
      both(`problem ${i}`, score(), score(), { lane: lanes[random.nextInteger(0, 2)]! }),
    ).flat();
    if (trials.length > 0 && random.nextInteger(0, 3) === 0)
      trials.splice(random.nextInteger(0, trials.length - 1), 1);
    return trials;
  }

  test('gives one of the six decisions, the same again and in any order, and leaves its arguments alone', () => {
    const random = new Random(9n);
    const seen = new Set<string>();
    for (let round = 0; round < 150; round++) {
      const trials = anyTrials(random);
      const policy = policies[round % policies.length]!;
      const before = JSON.stringify([trials, policy]);
      const result = decided(trials, policy);
      seen.add(result.decision);
      expect(JSON.stringify([trials, policy])).toBe(before);
      expect(decided(trials, policy)).toEqual(result);
      const shuffled = decided(random.shuffle(trials), policy);
      expect([shuffled.decision, shuffled.blocks, shuffled.pairs]).toEqual([
        result.decision,
        result.blocks,
        result.pairs,
      ]);
      expect(result.reasons.length).toBeGreaterThan(0);
    }
    expect([...seen].sort()).toEqual(['inconclusive', 'invalid', 'needs-more-trials', 'rejected']);
  });

  test('a better score never takes an acceptance away, a worse one never gives it', () => {
    const random = new Random(10n);
    let accepted = 0;
    for (let round = 0; round < 60; round++) {
      const differences = Array.from({ length: 40 }, () =>
        Math.max(-1, Math.min(1, random.nextInteger(-5, 9) / 10)),
      );
      const policy = { ...ONCE, measure: 'score' } as const;
      const was = decided(scored(differences), policy).decision === 'accepted';
      if (was) accepted++;
      const i = random.nextInteger(0, 39);
      const moved = differences.with(
        i,
        was ? Math.min(1, differences[i]! + 0.3) : Math.max(-1, differences[i]! - 0.3),
      );
      expect(decided(scored(moved), policy).decision === 'accepted').toBe(was);
    }
    expect(accepted).toBeGreaterThan(5);
    expect(accepted).toBeLessThan(55);
  });

  test('challenger and incumbent changed over, nobody is accepted twice', () => {
    const random = new Random(11n);
    for (let round = 0; round < 60; round++) {
      const trials = verdicts(random.nextInteger(0, 20), random.nextInteger(0, 20), 5);
      const evidence = { attempt: 1, trials };
      const [forth, back] = [decide(NEW, OLD, evidence, ONCE), decide(OLD, NEW, evidence, ONCE)];
      expect(forth.decision === 'accepted').toBe(back.decision === 'rejected');
      expect(forth.decision === 'rejected').toBe(back.decision === 'accepted');
    }
  });
});
