/**
 * What the gate says: at the boundary to the last bit, which state comes before which, and in which
 * words with which numbers.
 */
import { describe, expect, test } from '@jest/globals';
import {
  decide,
  decideRollback,
  pairedTInterval,
  twoSidedThreshold,
  type GateDecision,
  type GatePolicyInput,
  type GuardInput,
  type Statistic,
  type TrialInput,
} from '../../src/gate/index.js';
import {
  BettingProcess,
  fixedBet,
  RestartingProcess,
  uniformBets,
} from '../../src/gate/e-process.js';
import { shownE } from '../../src/gate/outcome.js';
import { wins } from '../../src/gate/sign.js';
import { differenceOf, pair, trial, type Trial } from '../../src/gate/trials.js';
import { twoSided } from '../../src/gate/two-sided.js';
import { normalTail, studentQuantile } from '../../src/statistics/index.js';
import { both, decided, NEW, OLD, scored, verdicts } from '../models/gate-trials.js';

const close = (value: number, digits = 10): number =>
  expect.closeTo(value, digits) as unknown as number;
const fill = (value: number, count: number): number[] => new Array<number>(count).fill(value);
const logEOf = (statistic: Statistic | null): number => (statistic as { logE: number }).logE;

/** A level of which the threshold is that logarithm, to the last bit. */
function levelOf(logE: number): number {
  const bits = new BigInt64Array(1);
  const value = new Float64Array(bits.buffer);
  for (let step = -50n; step <= 50n; step++) {
    value[0] = Math.exp(-logE);
    bits[0]! += step;
    if (-Math.log(value[0]!) === logE) return value[0]!;
  }
  throw new Error('no level has that threshold');
}
test('an e-value is shown as a number of four digits up to e^100, and as a power of e from there', () => {
  expect([0, Math.log(32.899), -Math.LN2, 99.9999, 100, 250.4].map(shownE)).toEqual([
    '1.000',
    '32.90',
    '0.5000',
    '2.688e+43',
    'e^100',
    'e^250',
  ]);
});

describe('the default policy', () => {
  const once = { kind: 'e-process', spending: 'once' } as const;
  const said = (
    trials: readonly TrialInput[],
    policy: GatePolicyInput,
    attempt = 1,
  ): [string, string] => {
    const { decision, reasons } = decided(trials, policy, { attempt });
    return [decision, reasons.join('; ')];
  };

  test('all in on five wins is 32, which is enough where 32 is asked for, and in the other direction too', () => {
    const policy = { ...once, fraction: 1, alpha: 1 / 32 };
    expect(said(verdicts(5, 0), policy)).toEqual(['accepted', 'E is 32.00; 32.00 is required']);
    expect(said(verdicts(0, 5), policy)).toEqual([
      'rejected',
      'against the challenger: E is 32.00; 32.00 is required',
    ]);
    expect(said(verdicts(4, 0), policy)).toEqual([
      'needs-more-trials',
      'E is 16.00; 32.00 is required',
    ]);
    // the fifth, which is the last, would just do
    expect(said(verdicts(4, 0), { ...policy, most: 5 })[0]).toBe('needs-more-trials');
    expect(said(verdicts(4, 0, 1), { ...policy, most: 5 })).toEqual([
      'inconclusive',
      'E is 16.00; 32.00 is required, after 5 problems',
    ]);
    expect(said(verdicts(3, 0, 1), { ...policy, most: 5 })).toEqual([
      'inconclusive',
      'E is 8.000; 32.00 is required; winning all the rest of 5 problems would not be enough',
    ]);
  });

  test('the mixture: a threshold that is reached to the last bit is reached', () => {
    const logE = logEOf(decided(verdicts(7, 0), once).statistic);
    const alpha = levelOf(logE);
    expect(said(verdicts(7, 0), { ...once, alpha })[0]).toBe('accepted');
    expect(said(verdicts(0, 7), { ...once, alpha })[0]).toBe('rejected');
    expect(said(verdicts(6, 0), { ...once, alpha, most: 7 })[0]).toBe('needs-more-trials');
    expect(said(verdicts(6, 0), { ...once, alpha, most: 6 })[0]).toBe('inconclusive');
    expect(said(verdicts(5, 0, 1), { ...once, alpha, most: 7 })[1]).toContain(
      'would not be enough',
    );
  });

  test('one fraction: what winning all that is left would come to, with an effect asked for and without', () => {
    // 1.5^5 = 7.59; a win of 1 above an effect of a half is a third of the scale: (7/6)^4 = 1.85,
    // (7/6)^5 = 2.16
    const half = { ...once, fraction: 0.5, most: 5 };
    expect(said(verdicts(2, 0), { ...half, alpha: 1 / 7.6 })[1]).toContain('would not be enough');
    expect(said(verdicts(2, 0), { ...half, alpha: 1 / 7.5 })[0]).toBe('needs-more-trials');
    const effect = { ...half, measure: 'score', minimumEffect: 0.5, alpha: 0.5 } as const;
    expect(said([], effect)[0]).toBe('needs-more-trials');
    expect(said([], { ...effect, most: 4 })[1]).toContain('would not be enough');
    expect(logEOf(decided(scored([1, 0.5, 0]), effect).statistic)).toBeCloseTo(
      Math.log((7 / 6) * 1 * (5 / 6)),
      12,
    );
    // the mixture on scores: no more than twice the wealth a problem
    const score = { ...once, measure: 'score', most: 4 } as const;
    expect(said([], { ...score, alpha: 1 / 15.9 })[0]).toBe('needs-more-trials');
    expect(said([], { ...score, alpha: 1 / 16 })[1]).toContain('would not be enough');
  });

  test('what is no verdict, and an attempt without alpha, say so', () => {
    const several =
      'measure verdict takes one sample of each problem; for several use measure score';
    const other = 'measure verdict takes scores of 0 and 1; for others use measure score';
    expect(said([...both('p', 1, 0), ...both('p', 1, 0, { sample: 1 })], once)).toEqual([
      'invalid',
      several,
    ]);
    expect([said(both('p', 1, 0.5), once), said(both('p', 0.5, 1), once)]).toEqual([
      ['invalid', other],
      ['invalid', other],
    ]);
    expect(said(verdicts(9, 0), once, 2)).toEqual([
      'inconclusive',
      'no alpha is left for this attempt',
    ]);
    expect(decided(verdicts(3, 1), once, { attempt: 2 }).statistic).toEqual({
      kind: 'e-process',
      logE: 0,
      logThreshold: Number.MAX_VALUE,
      mean: 0.5,
    });
    expect(decided(verdicts(3, 1, 4), once).statistic).toEqual({
      kind: 'e-process',
      logE: close(Math.log((1 + 5 + 10 + 10) / (5 * 4))),
      logThreshold: close(Math.log(20)),
      mean: 0.25,
    });
  });
});

describe('the sign', () => {
  const policy = { kind: 'sign', margin: 0.1 } as const;
  const of = (won: number, lost: number, more = {}, attempt = 1): [string, string] => {
    const { decision, reasons } = decided(
      scored([...fill(0.2, won), ...fill(0, lost)]),
      { ...policy, ...more },
      { attempt },
    );
    return [decision, reasons.join()];
  };

  test('says how many blocks were won', () => {
    expect(of(8, 0)).toEqual(['accepted', '8 of 8 blocks won']);
    expect(of(7, 1)).toEqual([
      'inconclusive',
      '7 of 8 blocks won: only winning every block counts as evidence',
    ]);
    expect(of(3, 0)).toEqual(['needs-more-trials', '3 of 3 blocks won, of 8 planned']);
    expect(of(9, 0)).toEqual([
      'invalid',
      '9 blocks, but the policy allows 8: more evidence than planned',
    ]);
    expect(of(8, 0, {}, 11)).toEqual(['inconclusive', 'no alpha is left for this attempt']);
    // 2^-8 is all of an eighth of a 32nd
    expect(of(8, 0, { alpha: 1 / 32, proposals: 8 })[0]).toBe('accepted');
  });

  test('has 2^wins where all are won, and the threshold of its part of alpha', () => {
    const statistic = (attempt: number) =>
      decided(scored(fill(0.2, 8)), policy, { attempt }).statistic;
    expect(statistic(1)).toEqual({
      kind: 'sign',
      logE: close(8 * Math.LN2),
      logThreshold: close(Math.log(200)),
      blocks: 8,
      wins: 8,
    });
    expect(statistic(11)).toMatchObject({ logThreshold: Number.MAX_VALUE });
    expect(decided([], policy).statistic).toMatchObject({ logE: 0, blocks: 0, wins: 0 });
  });

  test('the samples of a block count by their mean, of decimals of any length', () => {
    const block = (challenger: number[], incumbent: number[]) =>
      ({ lane: 'confirmation', challenger, incumbent }) as const;
    expect(wins(block([0.3, 0.3], [0.2, 0.2]), 0.1)).toBe(true);
    expect(wins(block([0.3, 0.29], [0.2, 0.2]), 0.1)).toBe(false);
    expect(wins(block([0.25, 0.345], [0.2, 0.195]), 0.1)).toBe(true);
    expect(wins(block([0.25, 0.344999], [0.2, 0.195]), 0.1)).toBe(false);
    expect(wins(block([1, 1], [0, 0]), 1)).toBe(true);
    expect(wins(block([1], [1e-12]), 1)).toBe(false);
    expect(wins(block([1.5e-7], [5e-8]), 1e-7)).toBe(true);
  });
});

describe('the paired t', () => {
  const policy = { kind: 'paired-t', minimumEffect: 0.25 } as const;
  const lanes = (
    screen: readonly number[],
    confirmation: readonly number[],
    heldOut: readonly number[],
  ): TrialInput[] => [
    ...scored(screen, { lane: 'screen' }, 'screen'),
    ...scored(confirmation, {}, 'confirm'),
    ...scored(heldOut, { lane: 'held-out' }, 'held'),
  ];
  const said = (of: Parameters<typeof lanes>, more = {}, attempt = 1): [string, string] => {
    const { decision, reasons } = decided(lanes(...of), { ...policy, ...more }, { attempt });
    return [decision, reasons.join()];
  };
  const [two, four] = [fill(0.25, 2), fill(0.25, 4)];

  test('goes its way in words, and an effect that is reached to the last bit is reached', () => {
    const words = 'more evidence than planned';
    expect(said([fill(0.25, 3), [], []])).toEqual([
      'invalid',
      `3 problems in the lane screen, but the policy allows 2: ${words}`,
    ]);
    expect(said([two, fill(0.25, 13), []])).toEqual([
      'invalid',
      `13 problems in the lane confirmation, but the policy allows 12: ${words}`,
    ]);
    expect(said([two, four, fill(0.25, 5)])).toEqual([
      'invalid',
      `5 problems in the lane held-out, but the policy allows 4: ${words}`,
    ]);
    expect(said([[0.25], [], []])).toEqual([
      'needs-more-trials',
      '1 of 2 problems in the lane screen',
    ]);
    expect(said([fill(0.125, 2), [], []])).toEqual([
      'rejected',
      "the screen's upper limit 0.125 is below 0.25",
    ]);
    expect(said([two, fill(0.25, 3), []])).toEqual([
      'needs-more-trials',
      '3 of 4 problems in the lane confirmation',
    ]);
    expect(said([two, fill(0.125, 4), four])).toEqual([
      'needs-more-trials',
      'the lower limit 0.125 is below 0.25',
    ]);
    expect(said([two, fill(0.125, 12), four])).toEqual([
      'inconclusive',
      'the lower limit 0.125 is below 0.25',
    ]);
    expect(said([two, four, fill(0.25, 3)])).toEqual([
      'needs-more-trials',
      '3 of 4 problems in the lane held-out',
    ]);
    expect(said([two, four, [0.25, 0.25, 0.25, 0]])).toEqual([
      'rejected',
      'the held-out mean 0.1875 is below 0.25',
    ]);
    expect(said([two, four, four])).toEqual([
      'accepted',
      'the lower limit 0.25 and the held-out mean 0.25 reach 0.25',
    ]);
    expect(said([two, fill(0.25, 12), four])[0]).toBe('accepted');
  });

  test('has no alpha left below 1e-100', () => {
    // halves: 0.05 / 2^k
    expect(said([two, four, four], {}, 327)[0]).toBe('accepted');
    expect(said([two, four, four], {}, 328)).toEqual([
      'inconclusive',
      'no alpha is left for this attempt',
    ]);
  });

  test('its interval pays for every look that the policy allows', () => {
    const effects = [0.3, 0.5, 0.25, 0.6];
    const centre = 0.4125;
    const deviation = Math.sqrt(effects.reduce((sum, each) => sum + (each - centre) ** 2, 0) / 3);
    for (const [most, looks] of [
      [12, 9],
      [4, 1],
      [5, 2],
    ] as const) {
      const half = (studentQuantile(0.025 / looks / 2, 3) * deviation) / 2;
      const { statistic } = decided(lanes(two, effects, [0.5]), { ...policy, most });
      expect(statistic).toEqual({
        kind: 'paired-t',
        screen: 2,
        confirmation: 4,
        heldOut: 1,
        mean: close(centre),
        interval: { low: close(centre - half, 8), high: close(centre + half, 8) },
      });
      expect(pairedTInterval(effects, 2 * normalTail(twoSidedThreshold(0.025)), looks)).toEqual({
        low: close(centre - half, 8),
        high: close(centre + half, 8),
      });
    }
    expect(decided(lanes([0.5], [], []), policy).statistic).toMatchObject({
      screen: 1,
      confirmation: 0,
      heldOut: 0,
      mean: null,
      interval: null,
    });
    // of two, Cauchy's: the quantile of a quarter is 1
    expect(pairedTInterval([0.25, 0.75], 0.5, 1)).toEqual({ low: close(0.25), high: close(0.75) });
    expect([pairedTInterval([], 0.5, 1), pairedTInterval([0.5], 0.5, 1)]).toEqual([null, null]);
  });
});

describe('guards', () => {
  const of = (
    guard: GuardInput,
    trials: readonly TrialInput[],
    more: GatePolicyInput = { kind: 'e-process', spending: 'once' },
  ) =>
    decided(verdicts(9, 0), { ...more, guards: [guard] }, { guards: { [guard.name]: trials } })
      .guards[0]!;
  const safety = { kind: 'safety', name: 'a', margin: 0.25, least: 3 } as const;

  test('safety: worse by the margin to the last bit is not worse; a rate from no regression in so many', () => {
    const held = (differences: readonly number[]) => of(safety, scored(differences));
    expect(held([-0.25, -0.25, 0])).toEqual({
      name: 'a',
      state: 'shown',
      reason: '0 of 3 problems got worse',
      statistic: { kind: 'safety', blocks: 3, regressed: 0, rateBelow: close(1 - 0.05 ** (1 / 3)) },
    });
    expect(held([0, 0]).state).toBe('open');
    expect(held([-0.25000001, 1, -1])).toMatchObject({
      state: 'refuted',
      reason: '2 of 3 problems got worse',
      statistic: { regressed: 2, rateBelow: null },
    });
    expect(held([])).toMatchObject({
      state: 'open',
      statistic: { blocks: 0, regressed: 0, rateBelow: null },
    });
    // a cost of up to 2 seconds, half a second more
    const slower = of({ ...safety, margin: 0.5, ceiling: 2, least: 1 }, both('p', 1.5, 1));
    expect(slower.state).toBe('shown');
    expect(of({ ...safety, margin: 0.5, ceiling: 2 }, both('p', 1.51, 1)).state).toBe('refuted');
  });

  test('non-inferiority: a threshold reached to the last bit is reached, and after the planned problems it is over', () => {
    const guard = { kind: 'non-inferiority', name: 'a', margin: 0, most: 9 } as const;
    const seen = of(guard, scored(fill(1, 8)));
    expect(seen).toMatchObject({
      state: 'shown',
      reason: 'E is 56.78 for a mean worse by less than the margin',
    });
    expect(seen.statistic).toEqual({
      kind: 'e-process',
      logE: close(Math.log(511 / 9)),
      logThreshold: close(Math.log(20)),
      mean: 1,
    });
    const policy = {
      kind: 'e-process',
      spending: 'once',
      alpha: levelOf(logEOf(seen.statistic)),
    } as const;
    expect(of(guard, scored(fill(1, 8)), policy).state).toBe('shown');
    expect(of(guard, scored(fill(-1, 8)), policy)).toMatchObject({
      state: 'refuted',
      reason: 'the mean is worse by more than the margin',
    });
    expect(of(guard, scored(fill(0, 8))).state).toBe('open');
    expect(of(guard, scored(fill(0, 9))).state).toBe('inconclusive');
    expect(of(guard, []).statistic).toMatchObject({ logE: 0, mean: null });
    // without alpha nothing is enough
    const second = {
      kind: 'e-process',
      spending: 'once',
      guards: [guard],
    } satisfies GatePolicyInput;
    const spent = decided([], second, { attempt: 2, guards: { a: scored(fill(1, 8)) } });
    expect(spent.guards[0]).toMatchObject({
      state: 'open',
      statistic: { logThreshold: Number.MAX_VALUE },
    });
    // the margin is in the unit of the cost: 0.5 of 2 seconds is a quarter, and half a second more
    // that far below 0
    const cost = of({ ...guard, margin: 0.5, ceiling: 2 }, both('p', 1.5, 1));
    expect(cost.statistic).toMatchObject({ logE: close(0), mean: -0.25 });
  });

  test('of signed costs: every pair of sides has a bet of its own', () => {
    const side = (value: number) => ({ up: value, down: -value });
    const block = (now: number, before: number) => ({
      lane: 'confirmation' as const,
      challenger: [1 - Math.abs(now)],
      incumbent: [1 - Math.abs(before)],
      costs: { challenger: [side(now)], incumbent: [side(before)] },
    });
    const margin = 0.2;
    for (const [now, before] of [
      [0.5, 0.1],
      [-0.7, 0.3],
      [0.1, -0.9],
      [-1, 1],
      [0.4, 0.4],
    ] as const) {
      // a bet of every part of the wealth on one difference, evenly: half of what it is on, and no
      // more than all
      const e = (difference: number): number => 1 + Math.min(1, difference) / 2;
      const better = [1, -1].map((own) => {
        const [a, b] = [1, -1].map((other) =>
          e((other * before - own * now + margin) / (2 - margin)),
        );
        return (a! + b!) / 2;
      });
      const worse = [1, -1].map((own) =>
        Math.min(
          ...[1, -1].map((other) => e((own * now - other * before - margin) / (2 + margin))),
        ),
      );
      const found = twoSided([block(now, before)], margin);
      expect(found).toEqual({
        notWorse: close(Math.log(Math.min(...better))),
        worse: close(Math.log((worse[0]! + worse[1]!) / 2)),
        mean: close(Math.abs(before) - Math.abs(now)),
      });
    }
    expect(twoSided([], margin)).toMatchObject({ notWorse: 0, worse: 0, mean: NaN });
  });

  test('which state comes before which: invalid, rejected, inconclusive, more trials, accepted', () => {
    const states = {
      shown: [{ kind: 'safety', name: 'shown' }, scored([0])],
      open: [{ kind: 'safety', name: 'open', least: 2 }, scored([0])],
      inconclusive: [
        { kind: 'non-inferiority', name: 'inconclusive', margin: 0, most: 1 },
        scored([0]),
      ],
      refuted: [{ kind: 'safety', name: 'refuted' }, scored([-1])],
    } as const satisfies Record<string, readonly [GuardInput, readonly TrialInput[]]>;
    const asked = (
      target: readonly TrialInput[],
      ...names: (keyof typeof states)[]
    ): GateDecision =>
      decided(
        target,
        { kind: 'e-process', spending: 'once', guards: names.map((name) => states[name][0]) },
        { guards: Object.fromEntries(names.map((name) => [name, states[name][1]])) },
      );
    const good = verdicts(9, 0);
    expect(asked(good, 'shown').decision).toBe('accepted');
    expect(asked(good, 'shown', 'open').decision).toBe('needs-more-trials');
    expect(asked(good, 'open', 'inconclusive', 'shown').decision).toBe('inconclusive');
    expect(asked(good, 'open', 'inconclusive', 'refuted').decision).toBe('rejected');
    expect(asked(verdicts(1, 0), 'inconclusive').decision).toBe('inconclusive');
    expect(asked(verdicts(0, 9), 'inconclusive', 'open').decision).toBe('rejected');
    expect(asked(both('p', 1, 0.5), 'refuted').decision).toBe('invalid');
    const { reasons, guards } = asked(good, 'refuted', 'shown');
    expect(reasons).toEqual([
      'E is 102.3; 20.00 is required',
      'guard refuted: 1 of 1 problems got worse',
      'guard shown: 0 of 1 problems got worse',
    ]);
    expect(guards.map(({ name, state }) => [name, state])).toEqual([
      ['refuted', 'refuted'],
      ['shown', 'shown'],
    ]);
  });

  test('what is wrong or failed names the guard, cut short, after what is wrong with the target', () => {
    const [first, ...rest] = verdicts(9, 0) as [TrialInput, ...TrialInput[]];
    const guard = { kind: 'safety', name: 'g' } as const;
    const ask = (trials: readonly TrialInput[], guards: Record<string, readonly TrialInput[]>) =>
      decide(NEW, NEW, { attempt: 1, trials, guards }, { kind: 'e-process', guards: [guard] });
    expect(ask([], { ['x'.repeat(70)]: [] })).toMatchObject({
      decision: 'invalid',
      reasons: [
        'challenger and incumbent are the same version',
        `the policy has no guard ${'x'.repeat(60)}`,
      ],
      statistic: null,
      guards: [],
    });
    const half = both('p', 1, 0).slice(1);
    const policy: GatePolicyInput = { kind: 'e-process', guards: [guard] };
    expect(decided(rest, policy, { guards: { g: half } })).toMatchObject({
      decision: 'invalid',
      reasons: [
        'sql problem 0 sample 0: only the incumbent has it',
        'guard g: sql p sample 0: only the incumbent has it',
      ],
      blocks: 8,
      pairs: 8,
    });
    const failed = both('p', 1, 0).map((each) => ({
      ...each,
      score: undefined,
      error: 'no memory',
    }));
    const { score: _, ...without } = first;
    expect(
      decided([{ ...without, error: 'timeout' }, ...rest], policy, { guards: { g: failed } }),
    ).toMatchObject({
      decision: 'infrastructure-error',
      reasons: [
        'sql problem 0 sample 0 of the challenger: timeout',
        'guard g: sql p sample 0 of the challenger: no memory',
        'guard g: sql p sample 0 of the incumbent: no memory',
      ],
      statistic: null,
      guards: [],
    });
  });
});

describe('pairs of trials', () => {
  const of = (given: readonly TrialInput[], ceiling?: number) =>
    pair(
      given.map((each): Trial => trial.parse(each)),
      NEW.id,
      OLD.id,
      ceiling,
    );
  const [now, before] = both('p', 0.75, 0.5) as [TrialInput, TrialInput];
  const long = 'v'.repeat(61);
  const short = `${'v'.repeat(60)}…`;

  test.each<readonly [string, readonly TrialInput[], readonly string[]]>([
    [
      'another version',
      [now, before, { ...now, version: long }],
      [`sql p sample 0: version ${short} is neither the challenger nor the incumbent`],
    ],
    [
      'a version of 60 characters',
      [{ ...now, version: 'v'.repeat(60) }],
      [`sql p sample 0: version ${'v'.repeat(60)} is neither the challenger nor the incumbent`],
    ],
    [
      'another epoch',
      [now, { ...before, epoch: long }],
      [`sql p sample 0: evaluator epoch ${short} differs from epoch 1`],
    ],
    [
      'another verifier',
      [now, { ...before, verifier: long }],
      [`sql p sample 0: verifier ${short} differs from digest 1`],
    ],
    [
      'two lanes',
      [now, before, ...both('p', 1, 1, { sample: 3, lane: 'held-out' })],
      [3, 3].map((sample) => `sql p sample ${sample}: is in the lanes confirmation and held-out`),
    ],
    ['a trial twice', [now, now, before], ['sql p sample 0: the challenger has it twice']],
    ['the other twice', [now, before, before], ['sql p sample 0: the incumbent has it twice']],
    [
      'neither score nor error',
      [{ ...now, score: undefined }, before],
      ['sql p sample 0: needs either a score or an error'],
    ],
    [
      'both',
      [{ ...now, error: 'x' }, before],
      ['sql p sample 0: needs either a score or an error'],
    ],
    [
      'a signed score',
      [{ ...now, signed: true }, before],
      ['sql p sample 0: a signed score needs a guard with a ceiling'],
    ],
    [
      'a score above 1',
      [{ ...now, score: 1.5 }, before],
      ['sql p sample 0: score 1.5 of the challenger is not in [0, 1]'],
    ],
    [
      'a score below 0',
      [now, { ...before, score: -0.5 }],
      ['sql p sample 0: score -0.5 of the incumbent is not in [0, 1]'],
    ],
    ['half a pair', [now], ['sql p sample 0: only the challenger has it']],
    ['the other half', [before], ['sql p sample 0: only the incumbent has it']],
    [
      'long names',
      [{ ...now, task: `t${long}`, problem: long }],
      [`t${'v'.repeat(59)}… ${short} sample 0: only the challenger has it`],
    ],
  ])('%s', (_, given, faults) => {
    const found = of(given);
    expect([found.faults, found.errors]).toEqual([faults, []]);
  });

  test('scores from 0 to 1 are kept as they are; blocks stand in the order of their first trial, samples in theirs', () => {
    const given = [...both('b', 1, 0), ...both('a', 0, 1), ...both('b', 0.5, 0.25, { sample: 2 })];
    const { blocks, pairs, faults } = of(given);
    expect(faults).toEqual([]);
    expect(pairs).toBe(3);
    expect(blocks).toStrictEqual([
      { lane: 'confirmation', challenger: [1, 0.5], incumbent: [0, 0.25] },
      { lane: 'confirmation', challenger: [0], incumbent: [1] },
    ]);
    expect(blocks.map(differenceOf)).toEqual([0.625, -1]);
  });

  test('a task and a problem are two names: a b of c is not a of b c', () => {
    const { blocks } = of([
      ...both('b c', 1, 0, { task: 'a' }),
      ...both('c', 1, 0, { task: 'a b' }),
    ]);
    expect(blocks).toHaveLength(2);
  });

  test('costs become what is left of the ceiling, signed ones on both sides of 0', () => {
    const plain = of(both('p', 0.5, 9), 2);
    expect(plain.blocks).toStrictEqual([
      { lane: 'confirmation', challenger: [0.75], incumbent: [0] },
    ]);
    expect(of(both('p', -0.5, 0), 2).faults).toEqual([
      'sql p sample 0: score -0.5 of the challenger is not a finite cost',
    ]);
    expect(of(both('p', 0, Infinity), 2).faults).toEqual([
      'sql p sample 0: score Infinity of the incumbent is not a finite cost',
    ]);
    const [signed, distance] = [
      { ...now, score: -0.5, signed: true as const },
      { ...before, score: 1 },
    ];
    const far = both('q', -9, 9, { signed: true });
    expect(of([signed, distance, ...far], 2).blocks).toEqual([
      {
        lane: 'confirmation',
        challenger: [0.75],
        incumbent: [0.5],
        costs: { challenger: [{ up: -0.25, down: 0.25 }], incumbent: [{ up: 0.5, down: 0.5 }] },
      },
      {
        lane: 'confirmation',
        challenger: [0],
        incumbent: [0],
        costs: { challenger: [{ up: -1, down: 1 }], incumbent: [{ up: 1, down: -1 }] },
      },
    ]);
  });

  test('a failed trial takes its partner with it, and is named with its reason, cut short', () => {
    const { score: _, ...without } = now;
    const found = of([
      { ...without, error: long },
      before,
      ...both('p', 1, 0, { sample: 1 }),
      ...both('q', 1, 0),
    ]);
    expect(found).toMatchObject({
      pairs: 2,
      faults: [],
      errors: [`sql p sample 0 of the challenger: ${short}`],
    });
    expect(found.blocks.map(({ challenger }) => challenger)).toEqual([[1], [1]]);
    const none = of([{ ...without, error: '' }, before]);
    expect([none.blocks, none.pairs, none.errors]).toEqual([
      [],
      0,
      ['sql p sample 0 of the challenger: '],
    ]);
  });

  test('five are named, and how many more there are', () => {
    const halves = (count: number): TrialInput[] =>
      Array.from({ length: count }, (_, i) => ({ ...now, problem: `p${i}` }));
    expect(of(halves(5)).faults).toEqual(
      [0, 1, 2, 3, 4].map((i) => `sql p${i} sample 0: only the challenger has it`),
    );
    expect(of(halves(7)).faults).toEqual([...of(halves(5)).faults, 'and 2 more']);
  });
});

describe('the watch', () => {
  test('takes a version back at the problem where the evidence is there to the last bit, and keeps the largest', () => {
    const process = new RestartingProcess();
    const logs = fill(1, 12).map((difference) => {
      process.add(difference);
      return process.logE();
    });
    const alpha = levelOf(logs[7]!);
    const found = decideRollback(NEW, OLD, scored([...fill(-1, 12), 1, 1]), { alpha });
    expect(found).toEqual({
      decision: 'rollback',
      reasons: [`E reached ${shownE(logs[11]!)}; ${shownE(logs[7]!)} is required`],
      blocks: 14,
      at: 8,
      logE: logs[11],
      logThreshold: logs[7],
      failed: [],
    });
    expect(decideRollback(NEW, OLD, scored(fill(-1, 7)), { alpha })).toMatchObject({
      decision: 'keep',
      at: null,
      logE: logs[6],
    });
  });

  test('a fall counts beyond the margin, as a part of the scale that the margin makes longer', () => {
    // half of the wealth bets on the first difference, evenly over all parts of it
    const e = (fall: number, margin: number) => {
      const moved = (fall - margin) / (1 + margin);
      return (
        decideRollback(NEW, OLD, scored([-fall]), { margin }).logE -
        Math.max(0, Math.log(0.5 + 0.5 * (1 + moved / 2)))
      );
    };
    for (const [fall, margin] of [
      [1, 0],
      [0.5, 0.25],
      [1, 0.25],
      [0.25, 0.25],
      [0.1, 0.25],
    ] as const)
      expect(e(fall, margin)).toBeCloseTo(0, 12);
  });

  test('what fits no pair is invalid in the words of the pairing, and has no evidence', () => {
    const found = decideRollback(NEW, OLD, scored(fill(-1, 30)).slice(1));
    expect(found).toMatchObject({
      decision: 'invalid',
      reasons: ['sql problem 0 sample 0: only the incumbent has it'],
      blocks: 29,
      at: null,
      logE: 0,
      logThreshold: close(Math.log(20)),
    });
  });
});

describe('e-processes', () => {
  test('the 128 parts of the uniform mixture have its moments', () => {
    const { fractions, weights } = uniformBets();
    expect(fractions).toHaveLength(128);
    for (const power of [0, 1, 2, 3, 10, 100, 254, 255])
      expect(
        fractions.reduce((sum, fraction, i) => sum + weights[i]! * fraction ** power, 0) *
          (power + 1),
      ).toBeCloseTo(1, 11);
    expect(fixedBet(0.3)).toEqual({ fractions: Float64Array.of(0.3), weights: Float64Array.of(1) });
  });

  test('what lies on the end of the scale is a difference, and what lies beyond is refused by its number', () => {
    for (const Process of [BettingProcess, RestartingProcess]) {
      const process = new Process(fixedBet(0.5));
      for (const difference of [-1, 1]) process.add(difference);
      expect(Number.isFinite(process.logE())).toBe(true);
      expect(() => process.add(1.5)).toThrow('a difference must be in [-1, 1], got 1.5');
      expect(() => process.add(-1.5)).toThrow('a difference must be in [-1, 1], got -1.5');
    }
  });

  test('one that waits is what waits and one begun at each difference, however many there are', () => {
    const differences = Array.from({ length: 100 }, (_, i) => ((i * 37) % 21) / 10 - 1);
    const process = new RestartingProcess(fixedBet(0.5));
    for (const [at, difference] of differences.entries()) {
      process.add(difference);
      let expected = 1 / (at + 2);
      let product = 1;
      for (let start = at; start >= 0; start--) {
        product *= 1 + differences[start]! / 2;
        expected += product / ((start + 1) * (start + 2));
      }
      expect(process.logE()).toBeCloseTo(Math.log(expected), 10);
    }
    // a fortune: 1.5^n from the first difference, and what began later beside it
    const rich = new RestartingProcess(fixedBet(0.5));
    for (let i = 0; i < 3000; i++) rich.add(1);
    let later = 0;
    for (let start = 1; start < 200; start++) later += 1.5 ** -start / ((start + 1) * start);
    expect(rich.logE()).toBeCloseTo(3001 * Math.log(1.5) + Math.log(later), 7);
  });

  test('a betting process asked between its problems goes on as if it had not been', () => {
    const [asked, not] = [new BettingProcess(), new BettingProcess()];
    for (let i = 0; i < 100; i++) {
      const difference = ((i * 37) % 21) / 10 - 1;
      for (const each of [asked, not]) each.add(difference);
      asked.logE();
    }
    expect(asked.logE()).toBeCloseTo(not.logE(), 12);
  });
});
