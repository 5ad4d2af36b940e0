/**
 * What policies and evidence may be: their defaults, each limit from both sides, and which member a
 * refusal names.
 */
import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { IsoproError } from '../../src/errors.js';
import {
  alphaOf,
  decide,
  decideRollback,
  gatePolicy,
  minimumBlocks,
  rollbackPolicy,
  type GatePolicyInput,
  type GateEvidence,
  type TrialInput,
} from '../../src/gate/index.js';
import { parsed } from '../../src/gate/terms.js';
import { geometricAlpha, inverseSquareAlpha, MOST_BLOCKS } from '../../src/gate/spending.js';
import { trial, trials } from '../../src/gate/trials.js';
import { both, NEW, OLD } from '../models/gate-trials.js';

const accepts = (schema: z.ZodType, value: unknown): boolean => schema.safeParse(value).success;
const refusal = (call: () => unknown): string => {
  try {
    call();
  } catch (error) {
    if (error instanceof IsoproError) return `${error.code} ${error.message}`;
    throw error;
  }
  return 'nothing thrown';
};

describe('policies', () => {
  test('have the defaults that are written down', () => {
    expect(gatePolicy.parse({ kind: 'e-process' })).toStrictEqual({
      kind: 'e-process',
      measure: 'verdict',
      alpha: 0.05,
      spending: 'inverse-square',
      minimumEffect: 0,
      most: 1000,
      guards: [],
    });
    expect(gatePolicy.parse({ kind: 'sign', margin: 0.1 })).toStrictEqual({
      kind: 'sign',
      alpha: 0.05,
      proposals: 10,
      blocks: 8,
      margin: 0.1,
      guards: [],
    });
    expect(gatePolicy.parse({ kind: 'paired-t' })).toStrictEqual({
      kind: 'paired-t',
      alpha: 0.05,
      ratio: 0.5,
      minimumEffect: 0.01,
      screen: 2,
      least: 4,
      most: 12,
      heldOut: 4,
      guards: [],
    });
    expect(rollbackPolicy.parse({})).toStrictEqual({ alpha: 0.05, margin: 0 });
    const guards = [
      { kind: 'safety', name: 'a' },
      { kind: 'non-inferiority', name: 'b', margin: 0.2 },
    ];
    expect(gatePolicy.parse({ kind: 'e-process', guards }).guards).toStrictEqual([
      { kind: 'safety', name: 'a', margin: 0, least: 1 },
      { kind: 'non-inferiority', name: 'b', margin: 0.2, most: 1000 },
    ]);
  });

  const score = { kind: 'e-process', measure: 'score' };
  const sign = { kind: 'sign', margin: 0.1 };
  const many = { ...sign, blocks: 100 };
  const t = { kind: 'paired-t' };
  const long = { ...t, most: 1000 };
  const guarded = (guard: object): object => ({ kind: 'e-process', guards: [guard] });
  const COUNT = [
    [1, 1_000_000],
    [0, 1_000_001, 1.5],
  ] as const;
  const LEVEL = [
    [1e-9, 0.5],
    [0, 0.5000001],
  ] as const;
  const FROM_0 = [
    [0, 0.9999],
    [-1e-9, 1],
  ] as const;
  test.each<readonly [string, (value: unknown) => object, readonly (readonly unknown[])[]]>([
    ['alpha', (alpha) => ({ ...score, alpha }), LEVEL],
    ['alpha of the sign', (alpha) => ({ ...many, alpha }), LEVEL],
    ['alpha of the paired t', (alpha) => ({ ...t, alpha }), LEVEL],
    ['minimumEffect', (minimumEffect) => ({ ...score, minimumEffect }), FROM_0],
    [
      'fraction',
      (fraction) => ({ ...score, fraction }),
      [
        [1e-9, 1],
        [0, 1.0001],
      ],
    ],
    ['most', (most) => ({ ...score, most }), COUNT],
    [
      'proposals',
      (proposals) => ({ ...many, proposals }),
      [
        [1, 10_000],
        [0, 10_001, 1.5],
      ],
    ],
    [
      'blocks',
      (blocks) => ({ ...sign, blocks }),
      [
        [8, 1074],
        [7, 8.5, 1075],
      ],
    ],
    [
      'blocks of a level of a quarter',
      (blocks) => ({ ...sign, alpha: 0.5, proposals: 2, blocks }),
      [[2], [1, 0]],
    ],
    [
      'margin of the sign',
      (margin) => ({ ...sign, margin }),
      [
        [1e-9, 1],
        [0, 1.0001],
      ],
    ],
    [
      'ratio',
      (ratio) => ({ ...t, ratio }),
      [
        [1e-9, 0.9999],
        [0, 1],
      ],
    ],
    ['minimumEffect of the paired t', (minimumEffect) => ({ ...t, minimumEffect }), FROM_0],
    [
      'screen',
      (screen) => ({ ...t, screen }),
      [
        [2, 1000],
        [1, 1001, 2.5],
      ],
    ],
    [
      'least',
      (least) => ({ ...long, least }),
      [
        [2, 1000],
        [1, 1001, 2.5],
      ],
    ],
    [
      'most of the paired t',
      (most) => ({ ...t, least: 2, most }),
      [
        [2, 1000],
        [1, 1001, 2.5],
      ],
    ],
    [
      'heldOut',
      (heldOut) => ({ ...t, heldOut }),
      [
        [1, 1000],
        [0, 1001, 1.5],
      ],
    ],
    ['the margin of safety', (margin) => guarded({ kind: 'safety', name: 'a', margin }), FROM_0],
    [
      'the ceiling of safety',
      (ceiling) => guarded({ kind: 'safety', name: 'a', ceiling }),
      [
        [1e-9, 1e9],
        [0, -1],
      ],
    ],
    [
      'its margin beside a ceiling of 2',
      (margin) => guarded({ kind: 'safety', name: 'a', margin, ceiling: 2 }),
      [[1.9999], [2]],
    ],
    ['the least of safety', (least) => guarded({ kind: 'safety', name: 'a', least }), COUNT],
    ['a margin', (margin) => guarded({ kind: 'non-inferiority', name: 'a', margin }), FROM_0],
    [
      'a ceiling',
      (ceiling) => guarded({ kind: 'non-inferiority', name: 'a', margin: 0.5, ceiling }),
      [
        [0.5001, 1e9],
        [0, 0.5],
      ],
    ],
    [
      'the ceiling of no margin',
      (ceiling) => guarded({ kind: 'non-inferiority', name: 'a', margin: 0, ceiling }),
      [[1e-9], [0]],
    ],
    [
      'the most of a guard',
      (most) => guarded({ kind: 'non-inferiority', name: 'a', margin: 0, most }),
      COUNT,
    ],
    [
      'the name of a guard',
      (name) => guarded({ kind: 'safety', name }),
      [
        ['a', 'a'.repeat(200)],
        ['', 'a'.repeat(201)],
      ],
    ],
  ])('%s', (_, policy, [good, bad]) => {
    for (const value of good!)
      expect([value, accepts(gatePolicy, policy(value))]).toEqual([value, true]);
    for (const value of bad!)
      expect([value, accepts(gatePolicy, policy(value))]).toEqual([value, false]);
  });

  test('a hundred guards, each with a name of its own', () => {
    const guards = (count: number): object[] =>
      Array.from({ length: count }, (_, i) => ({ kind: 'safety', name: `g${i}` }));
    const [most, more] = [100, 101].map((count) =>
      accepts(gatePolicy, { kind: 'e-process', guards: guards(count) }),
    );
    expect([most, more]).toEqual([true, false]);
  });

  test('of the watch', () => {
    for (const policy of [{ alpha: 0.5 }, { alpha: 1e-9 }, { margin: 0 }, { margin: 0.9999 }])
      expect(accepts(rollbackPolicy, policy)).toBe(true);
    for (const policy of [
      { alpha: 0 },
      { alpha: 0.5001 },
      { margin: -1e-9 },
      { margin: 1 },
      { most: 3 },
    ])
      expect(accepts(rollbackPolicy, policy)).toBe(false);
  });

  const ask = (policy: unknown) =>
    refusal(() => decide(NEW, OLD, { attempt: 1, trials: [] }, policy as GatePolicyInput));
  test('a refusal names the member, and says what only the whole shows', () => {
    const guard = (more: object) => ({
      kind: 'e-process',
      guards: [
        { kind: 'safety', name: 'a' },
        { kind: 'safety', name: 'b', ...more },
      ],
    });
    expect(ask(guard({ least: 0 }))).toMatch(/^GATE_POLICY_INVALID policy\.guards\.1\.least: /);
    expect(ask(guard({ name: 'a' }))).toBe(
      'GATE_POLICY_INVALID policy.guards: two guards have the same name',
    );
    expect(ask(guard({ margin: 1 }))).toBe(
      'GATE_POLICY_INVALID policy.guards: a margin must be less than the ceiling (default 1)',
    );
    expect(ask({ kind: 'e-process', minimumEffect: 0.1 })).toBe(
      'GATE_POLICY_INVALID policy: minimumEffect requires measure score',
    );
    expect(ask({ ...sign, blocks: 7 })).toBe(
      'GATE_POLICY_INVALID policy: too few blocks: winning all of them would not reach alpha / proposals',
    );
    expect(ask({ ...sign, blocks: 1075 })).toBe(
      'GATE_POLICY_INVALID policy.blocks: must be at most 1074: the e-value of more blocks does not fit a double',
    );
    expect(ask({ ...t, least: 9, most: 8 })).toBe(
      'GATE_POLICY_INVALID policy: least is above most',
    );
    expect(refusal(() => decideRollback(NEW, OLD, [], { margin: 1 }))).toMatch(
      /^GATE_POLICY_INVALID policy\.margin: /,
    );
    expect(refusal(() => decideRollback(NEW, OLD, [{}] as never))).toMatch(
      /^GATE_EVIDENCE_INVALID evidence\.0\.version: /,
    );
  });

  test('of many mistakes five are named', () => {
    const six = {
      kind: 'e-process',
      measure: 'x',
      alpha: 1,
      spending: 'x',
      minimumEffect: 2,
      fraction: 2,
      most: 0,
    };
    const words = ask(six).split('; ');
    expect(words.map((each) => /policy\.(\w+): /.exec(each)?.[1])).toEqual([
      'measure',
      'alpha',
      'spending',
      'minimumEffect',
      'fraction',
    ]);
    expect(parsed(rollbackPolicy, { alpha: 0.1 }, 'policy', 'GATE_POLICY_INVALID')).toEqual({
      alpha: 0.1,
      margin: 0,
    });
  });
});

describe('what an attempt may spend', () => {
  test.each([
    [{ kind: 'e-process', alpha: 0.3 }, [1, 2, 3].map((k) => (0.3 * 6) / (Math.PI * k) ** 2)],
    [{ kind: 'e-process', alpha: 0.3, spending: 'once' }, [0.3, 0, 0]],
    [{ kind: 'sign', margin: 0.1, alpha: 0.5, proposals: 2 }, [0.25, 0.25, 0]],
    [{ kind: 'paired-t', alpha: 0.4, ratio: 0.25 }, [0.3, 0.075, 0.01875]],
  ] as const)('under %j', (policy, expected) => {
    expect([1, 2, 3].map((attempt) => alphaOf(gatePolicy.parse(policy), attempt))).toEqual(
      expected.map((alpha) => expect.closeTo(alpha, 14)),
    );
  });

  test('and the schedules by themselves', () => {
    expect(inverseSquareAlpha(Math.PI ** 2, 3)).toBeCloseTo(6 / 9, 14);
    expect(geometricAlpha(0.5, 0.1, 3)).toBeCloseTo(0.5 * 0.9 * 0.01, 14);
    expect([0.5, 0.25, 0.2499, 2 ** -7, 2 ** -8].map(minimumBlocks)).toEqual([2, 2, 3, 7, 8]);
    expect([2 ** -MOST_BLOCKS > 0, 2 ** -(MOST_BLOCKS + 1)]).toEqual([true, 0]);
  });
});

describe('evidence', () => {
  const [one] = both('p', 1, 0) as [TrialInput];

  test('a trial without sample and lane is the first of the confirmation', () => {
    expect(trial.parse(one)).toStrictEqual({ ...one, sample: 0, lane: 'confirmation' });
  });

  test.each<readonly [keyof TrialInput, good: readonly unknown[], bad: readonly unknown[]]>([
    ...(['version', 'task', 'epoch', 'verifier', 'problem'] as const).map(
      (member) => [member, ['a', 'a'.repeat(500)], ['', 'a'.repeat(501), 7, undefined]] as const,
    ),
    ['sample', [0, 1e6, undefined], [-1, 0.5, '0']],
    ['lane', ['screen', 'confirmation', 'held-out', undefined], ['other', '']],
    ['score', [0, -1, 2, NaN, Infinity, undefined], ['1', null]],
    ['signed', [true, undefined], [false, 1]],
    ['error', ['', 'a'.repeat(2000), undefined], ['a'.repeat(2001), 7]],
  ])('the %s of a trial', (member, good, bad) => {
    for (const value of good)
      expect([value, accepts(trial, { ...one, [member]: value })]).toEqual([value, true]);
    for (const value of bad)
      expect([value, accepts(trial, { ...one, [member]: value })]).toEqual([value, false]);
  });

  test('at most two million trials', () => {
    expect(z.toJSONSchema(trials, { io: 'input', unrepresentable: 'any' }).maxItems).toBe(
      2_000_000,
    );
  });

  const ask = (evidence: unknown, versions: readonly unknown[] = [NEW, OLD]) =>
    refusal(() => decide(versions[0] as never, versions[1] as never, evidence as GateEvidence));
  test('a refusal names the member', () => {
    expect(ask({ attempt: 0, trials: [] })).toMatch(/^GATE_EVIDENCE_INVALID evidence\.attempt: /);
    expect(ask({ attempt: 1, trials: [{ ...one, score: '1' }] })).toBe(
      'GATE_EVIDENCE_INVALID evidence.trials.0.score: expected a number',
    );
    expect(ask({ attempt: 1, trials: [], guards: { a: [7] } })).toMatch(
      /^GATE_EVIDENCE_INVALID evidence\.guards\.a\.0: /,
    );
    expect(ask({ attempt: 1, trials: [], guards: null })).toMatch(
      /^GATE_EVIDENCE_INVALID evidence\.guards: /,
    );
    expect(ask({ attempt: 1, trials: [] })).toBe('nothing thrown');
  });

  test('a version has an id of at most 500 characters, and a refusal says whose it is', () => {
    const [longest, longer] = [500, 501].map((length) => ({ id: 'a'.repeat(length) }));
    const evidence = { attempt: 1, trials: [] };
    expect([ask(evidence, [longest, OLD]), ask(evidence, [NEW, longest])]).toEqual([
      'nothing thrown',
      'nothing thrown',
    ]);
    expect(ask(evidence, [longer, OLD])).toMatch(/^GATE_EVIDENCE_INVALID challenger\.id: /);
    expect(ask(evidence, [NEW, longer])).toMatch(/^GATE_EVIDENCE_INVALID incumbent\.id: /);
  });
});
