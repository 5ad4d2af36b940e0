/** The gap between test problems and fresh ones: when it keeps a verdict from being a pass. */
import { describe, expect, test } from '@jest/globals';
import { freshDoubts, gapP, type Fresh } from '../../src/judge/fresh-problems.js';
import { summarise, SUMMARY_SEED, type Outcome, type Summary } from '../../src/statistics/index.js';

const TIERS = [
  { id: 'A', title: '', trains: true },
  { id: 'B', title: '', trains: true, group: 'G' },
  { id: 'C', title: '', trains: true, group: 'G' },
];

/** Of each tier so many that pass, fail and have no verdict. */
function summaryOf(
  counts: readonly (readonly [passed: number, failed: number, none?: number])[],
): Summary {
  const outcomes = counts.flatMap(([passed, failed, none = 0], i): Outcome[] =>
    (
      [
        ['pass', passed],
        ['fail', failed],
        ['none', none],
      ] as const
    ).flatMap(([kind, of]) => Array.from({ length: of }, () => ({ tier: TIERS[i]!.id, kind }))),
  );
  return summarise(outcomes, TIERS, { seed: SUMMARY_SEED });
}

function freshOf(tested: Summary, measured: Summary): Fresh {
  const gap = tested.mean === null || measured.mean === null ? null : tested.mean - measured.mean;
  return { measured, gap, p: gapP(tested, measured, TIERS) };
}

describe('is no pass', () => {
  test('where the test problems were learned by heart', () => {
    const fresh = freshOf(
      summaryOf([80, 80, 80].map((passed) => [passed, 100 - passed])),
      summaryOf([8, 8, 8].map((n) => [n, 25 - n])),
    );
    expect(fresh.p).toBeLessThan(1e-3);
    expect(freshDoubts(fresh)).toEqual([
      expect.stringMatching(
        /^the submitted adapter solves 48.0 percentage points more of the test problems/,
      ),
    ]);
  });

  test('below p = 0.001, and not at it', () => {
    const { measured } = freshOf(summaryOf([[5, 5]]), summaryOf([[5, 5]]));
    const doubts = (p: number): number => freshDoubts({ measured, gap: 0.3, p }).length;
    expect([doubts(0.00099), doubts(0.001), doubts(0.5)]).toEqual([1, 0, 0]);
  });

  test('where the judge found too few verdicts', () => {
    const fresh = freshOf(summaryOf([[10, 10]]), summaryOf([[12, 12, 1]]));
    expect(freshDoubts(fresh)).toEqual([
      'the accuracy on fresh problems is not valid: 1 verdict could not be determined',
    ]);
    const none = freshOf(summaryOf([[10, 10]]), summaryOf([[0, 0, 25]]));
    expect([none.gap, none.p]).toEqual([null, 1]);
    expect(freshDoubts(none)).toHaveLength(1);
  });
});

describe('is no reason against a pass', () => {
  const all = (n: number): Summary => summaryOf([0, 1, 2].map(() => [n, 0]));
  test.each<readonly [string, Summary, Summary]>([
    ['an adapter that solves all, of however few fresh problems', all(100), all(1)],
    ['more of the fresh problems', summaryOf([[40, 60]]), summaryOf([[25, 0]])],
    ['a gap that chance explains', summaryOf([[64, 36]]), summaryOf([[12, 13]])],
  ])('%s', (_, tested, measured) => {
    expect(freshDoubts(freshOf(tested, measured))).toEqual([]);
  });

  test('a group of tiers counts as one', () => {
    // A alone falls, which is half of the mean; B and C are a quarter each
    const [tested, measured] = [
      summaryOf([
        [3, 0],
        [2, 2],
        [2, 2],
      ]),
      summaryOf([
        [0, 3],
        [2, 2],
        [2, 2],
      ]),
    ]; // prettier-ignore
    expect(freshOf(tested, measured).gap).toBeCloseTo(0.5, 12);
    expect(freshOf(summaryOf([[3, 0]]), summaryOf([[0, 3]])).p).toBeCloseTo(1 / 20, 12);
  });
});
