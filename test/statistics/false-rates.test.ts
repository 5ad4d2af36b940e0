/**
 * Each procedure that says whether something is more than chance, held to its level: how often it
 * finds something where nothing is, and how often where there is as much as the test's name says.
 * 200 draws, 2,000 with ISOPRO_FULL=1.
 */
import { describe, expect, test } from '@jest/globals';
import { splitExamples } from '../../src/fine-tuning/validation-split.js';
import { decideRollback, type GuardInput, type TrialInput } from '../../src/gate/index.js';
import { gapP } from '../../src/judge/fresh-problems.js';
import { Random } from '../../src/random.js';
import { Looks } from '../../src/registry/looks.js';
import { compareEvaluations, findingOf, LEVEL } from '../../src/run-folder/comparison.js';
import type { LoggedEvaluation, TierInfo } from '../../src/run-folder/read-run.js';
import { correlate } from '../../src/truth-seeking/analysis/correlation.js';
import { trainingEffect } from '../../src/truth-seeking/analysis/training-effect.js';
import type { ScoredRun } from '../../src/truth-seeking/analysis/scored-run.js';
import { decided, NEW, OLD, scored, verdicts } from '../models/gate-trials.js';

const DRAWS = process.env.ISOPRO_FULL === '1' ? 2000 : 200;
/** Share of draws in which something is found. */
function rate(seed: bigint, finds: (random: Random) => boolean): number {
  const random = new Random(seed);
  let found = 0;
  for (let draw = 0; draw < DRAWS; draw++) if (finds(random)) found++;
  return found / DRAWS;
}
/** Standard error of a share. */
const errorOf = (share: number): number => Math.sqrt((share * (1 - share)) / DRAWS);
const holds = (found: number): void =>
  expect(found).toBeLessThanOrEqual(LEVEL + 3 * errorOf(LEVEL));
/** A name states the least power that there is. */
const hasPower = (found: number, least: number): void =>
  expect(found).toBeGreaterThanOrEqual(least - 3 * errorOf(least));

const normal = (random: Random): number =>
  Math.sqrt(-2 * Math.log(1 - random.nextDouble())) * Math.cos(2 * Math.PI * random.nextDouble());
const coin = (random: Random, chance: number): boolean => random.nextDouble() < chance;
const times = <T>(count: number, of: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => of(i));

describe('what a run came to, over seeds of before and after', () => {
  /** Problems of a tier, its group, and the chances that a problem is gained and lost. */
  type Tier = readonly [problems: number, group: string | null, gains: number, losses: number];
  type Outcomes = LoggedEvaluation['outcomes'][number][];
  const evaluation = (outcomes: Outcomes) => ({ outcomes, setSha256: '0'.repeat(64) });
  function finding(random: Random, given: readonly Tier[]) {
    const tiers = given.map(
      ([, group], i): TierInfo => ({
        id: `T${i}`,
        title: '',
        trains: true,
        ...(group === null ? {} : { group }),
      }),
    );
    const [before, after]: [Outcomes, Outcomes] = [[], []];
    for (const [tier, [problems, , gains, losses]] of given.entries())
      for (let i = 0; i < problems; i++) {
        const [place, passes] = [random.nextDouble(), coin(random, 0.5)];
        const is = (passed: boolean): Outcomes[number] => [
          `${tier} ${i}`,
          `T${tier}`,
          passed ? 'pass' : 'fail',
        ];
        before.push(is(place < gains ? false : place < gains + losses ? true : passes));
        after.push(is(place < gains ? true : place < gains + losses ? false : passes));
      }
    return findingOf(
      compareEvaluations(evaluation(before) as never, evaluation(after) as never, tiers),
    );
  }
  const LADDER = (gains: number, losses: number): Tier[] => [
    ...times(4, (): Tier => [20, null, gains, losses]),
    ...times(3, (): Tier => [20, 'G', gains, losses]),
  ];

  const OPPOSITE: Tier[] = [
    [20, null, 0.3, 0.1],
    [200, null, 0.05, 0.25],
  ];

  test.each<readonly [string, readonly Tier[]]>([
    ['four tiers alike', times(4, () => [50, null, 0.1, 0.1])],
    ['a group of three as one of five', LADDER(0.15, 0.15)],
    [
      'two that go opposite ways, one of them a large group',
      [...LADDER(0.1, 0.1).slice(0, 3), [20, null, 0.2, 0.05], [60, null, 0.05, 0.2]],
    ],
    ['unlike sizes that go opposite ways', OPPOSITE],
  ])('finds nothing where the mean stands still: %s', (_, tiers) => {
    holds(rate(1n, (random) => finding(random, tiers) !== 'chance'));
  });

  test.each<readonly [string, 'better' | 'worse', number, readonly Tier[]]>([
    ['200 problems of four tiers', 'worse', 0.65, times(4, () => [50, null, 0.1, 0.2])],
    ['140 problems, a group of three as one of five', 'better', 0.3, LADDER(0.25, 0.15)],
  ])('of 10 points in %s, %s: power of %f or more', (_, side, least, tiers) => {
    hasPower(
      rate(2n, (random) => finding(random, tiers) === side),
      least,
    );
  });
});

describe('the causal effect of a training, over its seeds', () => {
  const setup = { strategy: 's', config: 'c', domain: 'd', mode: 'm', systemPrompt: 'none' };
  const run = (policy: string, scores: readonly number[]): ScoredRun => ({
    ...{
      runId: policy,
      policyId: policy,
      policy,
      seed: '0',
      setup,
      direction: 'lower',
      value: 0,
      interval: null,
      skipped: {},
    },
    ...{ n: scores.length, aggregate: 'mean' },
    scores: scores.map((score, i) => ({
      trajectoryId: `${policy} ${i}`,
      problemId: `p${i}`,
      score,
      features: {},
    })),
  });
  /**
   * Seeds, problems, and how far a seed, a problem's answers before and a single answer after lie
   * from what is true.
   */
  type Spread = readonly [
    seeds: number,
    problems: number,
    bySeed: number,
    byProblem: number,
    byCell: number,
  ];
  function isFound(
    random: Random,
    [seeds, problems, bySeed, byProblem, byCell]: Spread,
    effect = 0,
  ): boolean {
    const truth = times(problems, () => 0.5 + 0.1 * normal(random));
    const before = truth.map((value) => value + byProblem * normal(random));
    const after = times(seeds, (seed) => {
      const shift = effect + bySeed * normal(random);
      return run(
        `trained ${seed}`,
        truth.map((value) => value + shift + byCell * normal(random)),
      );
    });
    const { p } = trainingEffect([run('base', before)], after).changes[0]!.overSeeds;
    return p !== null && p < LEVEL;
  }

  test.each<readonly [string, Spread]>([
    ['one shared run before is what varies', [3, 40, 0, 0.1, 0.05]],
    ['so of many seeds', [10, 30, 0, 0.1, 0.05]],
    ['seeds vary', [3, 40, 0.05, 0, 0.05]],
    ['both vary alike', [4, 25, 0.02, 0.1, 0.05]],
    ['few of either', [3, 5, 0.05, 0.1, 0.05]],
    ['answers after alone vary', [5, 20, 0, 0, 0.1]],
  ])('finds none where there is none: %s', (_, spread) => {
    holds(rate(3n, (random) => isFound(random, spread)));
  });

  test.each([
    [0.05, 5, 0.7],
    [0.1, 3, 0.88],
  ])(
    'of an effect of %f, where seeds lie 0.02 apart and 40 problems 0.1: power over %i seeds of %f or more',
    (effect, seeds, least) => {
      hasPower(
        rate(4n, (random) => isFound(random, [seeds, 40, 0.02, 0.1, 0.05], effect)),
        least,
      );
    },
  );
});

describe('a gate that is looked at several times', () => {
  const ONCE = { kind: 'e-process', spending: 'once', most: 200 } as const;
  /** Verdicts of problems that tell the two apart. */
  const told = (random: Random, count: number, wins: number): number[] =>
    times(count, () => (coin(random, wins) ? 1 : -1));
  const look = (differences: readonly number[], from: number): TrialInput[] =>
    scored(differences).map((each, i) => ({
      ...each,
      problem: `problem ${from + Math.floor(i / 2)}`,
    }));

  /**
   * Whether somebody who tries all trials and, first, the new ones alone has it accepted, of looks
   * that hold what was seen before.
   */
  function isAccepted(random: Random, wins: number, looks: number, each: number): boolean {
    const [seen, all] = [new Looks(), [] as TrialInput[]];
    for (let at = 0; at < looks; at++) {
      const fresh = look(told(random, each, wins), at * each);
      all.push(...fresh);
      // what is refused is GATE_EVIDENCE_INVALID, and was seen all the same
      for (const trials of [fresh, all])
        if (seen.take({ trials }).length === 0 && decided(trials, ONCE).decision === 'accepted')
          return true;
    }
    return false;
  }

  test('accepts no better challenger more often than alpha, whatever is left out at a look', () => {
    holds(rate(5n, (random) => isAccepted(random, 0.5, 3, 12)));
  });

  test.each([
    [0.7, 4, 12, 0.45],
    [0.8, 4, 12, 0.93],
  ])(
    'of one that wins %f of the problems that tell: power in %i looks at %i more each of %f or more',
    (wins, looks, each, least) => {
      hasPower(
        rate(7n, (random) => isAccepted(random, wins, looks, each)),
        least,
      );
    },
  );
});

describe('the watch over a version in use', () => {
  const taken = (differences: readonly number[], margin: number): boolean =>
    decideRollback(NEW, OLD, scored(differences), { margin }).decision === 'rollback';
  /** In [-1, 1], with the mean given. */
  const verdict = (random: Random, mean: number): number => {
    const place = random.nextDouble();
    return place < 0.2 + mean / 2 ? 1 : place < 0.4 ? -1 : 0;
  };

  test.each([
    [0, 0],
    [0.1, 0.1],
  ])(
    'takes a version back that is worse by no more than the margin, %f of %f, no more often than alpha',
    (margin, worse) => {
      holds(
        rate(8n, (random) =>
          taken(
            times(80, () => verdict(random, -worse)),
            margin,
          ),
        ),
      );
    },
  );

  test.each([
    [0.2, 0.4],
    [0.3, 0.9],
  ])(
    'of one that becomes worse by %f after 30 problems: power within 100 more of %f or more',
    (worse, least) => {
      hasPower(
        rate(9n, (random) =>
          taken(
            times(130, (i) => verdict(random, i < 30 ? 0 : -worse)),
            0,
          ),
        ),
        least,
      );
    },
  );
});

describe('the guard of slopes', () => {
  const MARGIN = 0.2;
  const guard: GuardInput = {
    kind: 'non-inferiority',
    name: 'slope',
    margin: MARGIN,
    ceiling: 1,
    most: 1000,
  };
  function stateOf(random: Random, now: number, before: number, blocks: number): string {
    const trials = times(blocks, (i) =>
      [now, before].map((slope, side): TrialInput => {
        const of = {
          version: (side === 0 ? NEW : OLD).id,
          task: 'slopes',
          epoch: '1',
          verifier: 'v',
          problem: `block ${i}`,
        };
        return { ...of, score: slope + 0.2 * normal(random), signed: true };
      }),
    ).flat();
    const once = { kind: 'e-process', spending: 'once' } as const;
    return decided(verdicts(60, 0), { ...once, guards: [guard] }, { guards: { slope: trials } })
      .guards[0]!.state;
  }

  test.each([
    [MARGIN, 0],
    [-0.25 - MARGIN, 0.25],
    [0.29, 0],
  ])(
    'a slope of %f in place of %f is shown to be within the margin no more often than alpha',
    (now, before) => {
      holds(rate(10n, (random) => stateOf(random, now, before, 80) === 'shown'));
    },
  );

  test('a slope that is worse by the margin is refuted no more often than alpha', () => {
    holds(rate(11n, (random) => stateOf(random, -0.4, 0.2, 80) === 'refuted'));
  });

  test.each([
    [0, 'shown', 0.9],
    [0.5, 'refuted', 0.9],
  ] as const)(
    'of a slope of %f in place of 0, %s: a power of %f or more of 80 blocks',
    (now, state, least) => {
      hasPower(
        rate(12n, (random) => stateOf(random, now, 0, 80) === state),
        least,
      );
    },
  );
});

describe('correlations', () => {
  type Side = (random: Random) => number;
  const right =
    (chance: number): Side =>
    (random) =>
      coin(random, chance) ? 1 : 0;
  const skewed: Side = (random) => -Math.log(1 - random.nextDouble());
  function isFound(
    x: readonly number[],
    y: readonly number[],
    clusters?: readonly string[],
  ): boolean {
    const p = correlate(x, y, clusters).pearson?.p ?? null;
    return p !== null && p < LEVEL;
  }

  test.each<readonly [string, number, Side, Side]>([
    ['4 right and wrong ones', 4, right(0.5), right(0.5)],
    ['8 right and wrong ones', 8, right(0.5), right(0.3)],
    ['10 right and wrong ones', 10, right(0.5), right(0.5)],
    ['10, most of them right', 10, right(0.1), right(0.2)],
    ['16, most of them right', 16, right(0.1), right(0.1)],
    ['10, one or two of them right', 10, right(0.1), right(0.15)],
    ['12, few of one and half of the other', 12, right(0.08), right(0.5)],
    ['30, most of them right', 30, right(0.05), right(0.1)],
    ['60, most of them right', 60, right(0.03), right(0.05)],
    ['30 scores, few of them of right ones', 30, right(0.05), normal],
    ['12 skewed scores, some right', 12, skewed, right(0.2)],
    ['12 skewed scores', 12, skewed, skewed],
    ['40 skewed scores', 40, skewed, skewed],
  ])(
    'of what goes together by nothing are found no more often than alpha: %s',
    (_, n, one, other) => {
      const found = rate(13n, (random) => {
        const pairs = times(n, () => [one(random), other(random)] as const);
        return isFound(
          pairs.map(([x]) => x),
          pairs.map(([, y]) => y),
        );
      });
      holds(found);
    },
  );

  test.each([
    [12, 0.9, 0.7],
    [30, 0.8, 0.85],
  ])(
    'of %i right and wrong ones that are alike with a chance of %f: power of %f or more',
    (n, alike, least) => {
      const found = rate(19n, (random) => {
        const x = times(n, () => right(0.5)(random));
        return isFound(
          x,
          x.map((value) => (coin(random, alike) ? value : 1 - value)),
        );
      });
      hasPower(found, least);
    },
  );

  /** Pairs in groups, whose members share as much as they have of their own. */
  function inGroups(random: Random, groups: number, each: number, effect: number): boolean {
    const shared = times(groups, () => [normal(random), normal(random)] as const);
    const pairs = times(groups * each, (i) => {
      const [own, other] = shared[i % groups]!;
      const x = own + normal(random);
      return [x, effect * x + other + normal(random), `g${i % groups}`] as const;
    });
    return isFound(
      pairs.map(([x]) => x),
      pairs.map(([, y]) => y),
      pairs.map(([, , name]) => name),
    );
  }

  test.each([
    [6, 10],
    [12, 5],
    [30, 3],
  ])('of %i groups of %i', (groups, each) => {
    holds(rate(14n, (random) => inGroups(random, groups, each, 0)));
  });

  test.each([
    [8, 0.7, 0.5],
    [12, 0.7, 0.7],
    [30, 0.5, 0.75],
  ])('of %i pairs of scores that go together by %f: power of %f or more', (n, r, least) => {
    const found = rate(15n, (random) => {
      const x = times(n, () => normal(random));
      return isFound(
        x,
        x.map((value) => r * value + Math.sqrt(1 - r ** 2) * normal(random)),
      );
    });
    hasPower(found, least);
  });

  test('of 12 groups of 5, whose scores rise by 0.8 a unit of the other: power of 0.65 or more', () => {
    hasPower(
      rate(16n, (random) => inGroups(random, 12, 5, 0.8)),
      0.65,
    );
  });
});

describe('the gap between test problems and fresh ones', () => {
  /**
   * Problems of each of eight tiers, a group of three among them, and the chances that they are
   * solved.
   */
  function isFound(
    random: Random,
    tested: number,
    fresh: number,
    solved: readonly number[],
    known: number,
  ): boolean {
    const tiers = times(8, (i) => ({
      id: `T${i}`,
      title: '',
      trains: true,
      ...(i < 3 ? { group: 'G' } : {}),
    }));
    const of = (n: number, more: number) => ({
      byTier: Object.fromEntries(
        tiers.map(({ id }, i) => {
          const chance = Math.min(1, solved[i % solved.length]! + more);
          return [id, { passed: times(n, () => coin(random, chance)).filter(Boolean).length, n }];
        }),
      ),
    });
    return gapP(of(tested, known) as never, of(fresh, 0) as never, tiers) < LEVEL;
  }

  test.each<readonly [string, number, number, readonly number[]]>([
    ['half of them solved', 100, 25, [0.5]],
    ['nearly all of them', 100, 25, [0.97]],
    ['nearly all, and few fresh ones', 100, 5, [0.97, 0.9]],
    ['all or few, by the tier', 25, 25, [1, 0.05, 0.6]],
    ['hardly any', 100, 25, [0.02]],
  ])(
    'is found no more often than alpha where both are of one kind: %s',
    (_, tested, fresh, solved) => {
      holds(rate(20n, (random) => isFound(random, tested, fresh, solved, 0)));
    },
  );

  test.each([
    [0.15, 0.9],
    [0.1, 0.65],
  ])('of %f that were learned by heart: power of %f or more', (known, least) => {
    hasPower(
      rate(21n, (random) => isFound(random, 100, 25, [0.5, 0.3], known)),
      least,
    );
  });
});

describe('what is held out of conversations', () => {
  /** Least number right of so many guesses at which one of 20 draws at most has as many. */
  function isMoreThanGuessed(right: number, of: number): boolean {
    let [term, tail] = [0.5 ** of, 0];
    for (let k = 0; k <= of; k++) {
      if (k >= right) tail += term;
      term *= (of - k) / (k + 1);
    }
    return of > 0 && tail < LEVEL;
  }
  /**
   * A model that has learned by heart what is trained on of each conversation, and knows a rule
   * that holds for a part of them, is measured on one answer of each conversation that is held out.
   */
  function seemsToKnow(random: Random, rule: number): boolean {
    const conversations = times(160, (i) => ({
      name: `c${i}`,
      label: coin(random, 0.5),
      turns: random.nextInteger(1, 4),
    }));
    const answers = conversations.flatMap((each) =>
      times(each.turns, () => ({ ...each, text: random.nextInteger(0, 2 ** 30) })),
    );
    const { training, validation } = splitExamples(
      answers,
      0.25,
      ({ text }) => Int32Array.of(text),
      ({ name }) => name,
    );
    const learned = new Map(training.map(({ name, label }) => [name, label]));
    const measured = [...new Map(validation.map((each) => [each.name, each])).values()];
    const isRight = ({ name, label }: (typeof measured)[number]): boolean =>
      learned.has(name) ? learned.get(name) === label : coin(random, rule);
    return isMoreThanGuessed(measured.filter(isRight).length, measured.length);
  }

  test('what was learned by heart is no knowledge of it, but by chance', () => {
    holds(rate(17n, (random) => seemsToKnow(random, 0.5)));
  });

  test.each([
    [0.7, 0.7],
    [0.8, 0.95],
  ])('a rule that holds for %f of 40 conversations: power of %f or more', (rule, least) => {
    hasPower(
      rate(18n, (random) => seemsToKnow(random, rule)),
      least,
    );
  });
});
