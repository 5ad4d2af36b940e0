/** The sentence and the badges that stand above everything else that a run says of itself. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { table } from '../../src/cli/estimate-tables.js';
import { Random } from '../../src/random.js';
import { conclusion, gotWorse, shortcoming, toneOfConclusion } from '../../src/text/conclusion.js';
import { checkIntegrity, type Integrity } from '../../src/report/integrity.js';
import { judgedBadge, readJudged } from '../../src/report/judge-badge.js';
import {
  columnsOf,
  fitted,
  painted,
  terminalStyle,
  wrapped,
} from '../../src/text/terminal-style.js';
import { writeReport } from '../../src/report/write-report.js';
import { testComparison, testFinding } from '../../src/run-folder/comparison.js';
import { readRun, type LoggedEvaluation, type RunRecord } from '../../src/run-folder/read-run.js';
import { SUMMARY_SEED, summarise } from '../../src/statistics/index.js';
import { writeRunFolder } from '../models/run-folder.js';

let root: string;
const at = (name: string): string => path.join(root, name);
const ID = 'ab'.repeat(16);
let whole: RunRecord;
beforeAll(async () => {
  root = mkdtempSync(path.join(tmpdir(), 'isopro-conclusion-'));
  process.env.ISOPRO_HOME = at('home');
  await writeRunFolder({
    folder: at('whole'),
    home: at('home'),
    runId: ID,
    iterations: 2,
    rollouts: 8,
  });
  await writeRunFolder({
    folder: at('begun'),
    home: at('home'),
    runId: 'cd'.repeat(16),
    iterations: 2,
    rollouts: 4,
    until: 'before',
  });
  whole = readRun(at('whole'));
});
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(root, { recursive: true, force: true });
});

/**
 * The run with other verdicts after training: of the problems that failed before, the first so many
 * pass; of the others, so many fail.
 */
function changed(gained: number, lost: number): RunRecord {
  const before = whole.evaluations.find(({ set, when }) => set === 'test' && when === 'before')!;
  let [up, down] = [gained, lost];
  const outcomes = before.outcomes.map(([id, tier, kind]) => [
    id,
    tier,
    kind === 'fail' ? (up-- > 0 ? 'pass' : kind) : down-- > 0 ? 'fail' : kind,
  ]);
  // what the sentence prints; the pairs are the outcomes'
  const mean = before.summary.mean! + (gained - lost) / before.outcomes.length;
  const after = {
    ...before,
    when: 'after',
    outcomes,
    summary: { ...before.summary, mean },
  } as typeof before;
  return { ...whole, evaluations: [before, after] };
}
/** With the evaluations before and after in each other's place. */
const turned = (run: RunRecord): RunRecord => ({
  ...run,
  evaluations: run.evaluations.map(
    (each) => ({ ...each, when: each.when === 'before' ? 'after' : 'before' }) as typeof each,
  ),
});
interface Pairs {
  readonly n: number;
  readonly gained: number;
  readonly lost: number;
}
const pairs = (n: number, gained: number, lost: number): Pairs => ({ n, gained, lost });
/**
 * The run with tiers of its own: so many problems each, of which so many are gained and lost; half
 * of the others pass.
 */
function ofPairs(given: readonly Pairs[]): RunRecord {
  const tiers = given.map((_, i) => ({ id: `T${i}`, title: '', trains: true }));
  const outcomes = (when: 'before' | 'after'): LoggedEvaluation['outcomes'] =>
    given.flatMap(({ n, gained, lost }, tier) =>
      Array.from({ length: n }, (_, i) => {
        const passes =
          i < gained ? when === 'after' : i < gained + lost ? when === 'before' : i % 2 === 0;
        return [`${tier} ${i}`, `T${tier}`, passes ? 'pass' : 'fail'] as const;
      }),
    );
  const evaluations = (['before', 'after'] as const).map((when): LoggedEvaluation => {
    const of = outcomes(when);
    const summary = summarise(
      of.map(([, tier, kind]) => ({ tier, kind })),
      tiers,
      { seed: SUMMARY_SEED },
    );
    return {
      ...whole.evaluations.find((each) => each.set === 'test' && each.when === when)!,
      outcomes: of,
      summary,
      mean: summary.mean,
    };
  });
  return { ...whole, tiers, evaluations };
}
const solved = (mean: number): string => `${(100 * mean).toFixed(1)} %`;

describe('the conclusion', () => {
  test('of a gain that is no chance names before, after and the best program', () => {
    const [before, after] = ['before', 'after'].map(
      (when) =>
        whole.evaluations.find((each) => each.set === 'test' && each.when === when)!.summary.mean!,
    );
    expect(after! - before!).toBeGreaterThan(0.2);
    expect(conclusion(whole)).toBe(
      `Solves ${solved(after!)} of the test problems (mean over tiers) instead of ${solved(before!)}; ` +
        'a program without a model (answer_zero) solves 20.0 %.',
    );
  });

  test('calls six gained and none lost a change, five a difference that may be chance, and none no change', () => {
    expect(conclusion(changed(6, 0))).toMatch(/ instead of /); // 2 * 2^-6 = 0.031
    expect(conclusion(changed(5, 0))).toMatch(
      / before: a difference that may be chance \(p = 0\.0625\);/,
    ); // 2 * 2^-5
    expect(conclusion(changed(3, 3))).toMatch(/may be chance \(p = 1\.0000\)/);
    expect(conclusion(turned(changed(5, 0)))).toMatch(
      /^Solves .* before: a difference that may be chance \(p = 0\.0625\);/,
    );
    expect(conclusion(turned(changed(6, 0)))).toMatch(/^Got worse: solves .* instead of /);
    expect(conclusion(changed(0, 0))).toMatch(
      /^Solves \S+ % of the test problems \(mean over tiers\), as before;/,
    );
  });

  test('makes no claim where the means that are printed and those that are tested point to different sides', () => {
    const run = changed(9, 0);
    const [before, after] = run.evaluations as [
      (typeof run.evaluations)[number],
      (typeof run.evaluations)[number],
    ];
    const weighed = { ...after, summary: { ...after.summary, mean: before.summary.mean! - 0.01 } };
    expect(conclusion({ ...run, evaluations: [before, weighed] })).toMatch(/may be chance/);
  });

  test.each<readonly [string, readonly Pairs[], 'better' | 'worse' | 'chance']>([
    ['a fall with more problems gained than lost', [pairs(100, 20, 0), pairs(20, 0, 16)], 'worse'],
    ['a gain with more problems lost than gained', [pairs(100, 0, 20), pairs(20, 16, 0)], 'better'],
    [
      'a fall in one of three tiers',
      [pairs(150, 14, 0), pairs(60, 3, 3), pairs(30, 0, 21)],
      'worse',
    ],
    [
      'a gain of one small tier beside large ones that lose',
      [pairs(120, 0, 9), pairs(90, 0, 6), pairs(15, 12, 0)],
      'better',
    ],
    ['tiers that outweigh each other', [pairs(100, 20, 0), pairs(20, 0, 4)], 'chance'],
    ['three problems lost', [pairs(30, 0, 3), pairs(30, 0, 0)], 'chance'],
    ['three problems gained', [pairs(30, 3, 0), pairs(30, 0, 0)], 'chance'],
    ['as many gained as lost', [pairs(40, 6, 6), pairs(40, 2, 2)], 'chance'],
    ['nothing that changed', [pairs(40, 0, 0), pairs(40, 0, 0)], 'chance'],
  ])(
    'goes by the mean over tiers and its p, not by how many were gained and lost: %s',
    (_, tiers, finding) => {
      const run = ofPairs(tiers);
      expect(testFinding(run)).toBe(finding);
      expect(gotWorse(run)).toBe(finding === 'worse');
      expect(toneOfConclusion(run)).toBe({ better: 'good', worse: 'bad', chance: 'fair' }[finding]);
      expect(conclusion(run)).toMatch(
        {
          better: /^Solves .* instead of /,
          worse: /^Got worse: solves .* instead of /,
          chance: /^Solves .*(a difference that may be chance|, as before)/,
        }[finding],
      );
    },
  );

  test('says the same of drawn verdicts as the sign of the difference of the means and its p', () => {
    const random = new Random(35n);
    const seen = new Set<string>();
    for (let draw = 0; draw < 30; draw++) {
      // a large tier in which some problems change, and a small one in which many do, or about as
      // few
      const tiers = [
        [random.nextInteger(80, 120), 0.15],
        [random.nextInteger(8, 20), draw % 3 === 0 ? 0.2 : 0.8],
      ].map(([n, share]) => {
        const [most, fewest] = [
          Math.round(n! * share! * (0.8 + random.nextDouble() / 5)),
          random.nextInteger(0, 1),
        ];
        return random.nextInteger(0, 1) === 1 ? pairs(n!, most, fewest) : pairs(n!, fewest, most);
      });
      const run = ofPairs(tiers);
      const { p, difference, gained, lost } = testComparison(run)!;
      const expected = p < 0.05 ? (difference!.mean > 0 ? 'better' : 'worse') : 'chance';
      seen.add(`${expected} ${Math.sign(gained - lost)}`);
      expect(testFinding(run)).toBe(expected);
      expect(conclusion(run).startsWith('Got worse: ')).toBe(expected === 'worse');
      expect(conclusion(run)).toMatch(
        expected === 'chance' ? /may be chance|as before/ : / instead of /,
      );
    }
    expect([...seen]).toEqual(
      expect.arrayContaining([
        'better -1',
        'better 1',
        'worse -1',
        'worse 1',
        'chance -1',
        'chance 1',
      ]),
    );
  });

  test('says first what a run lacks', () => {
    const nothing = new Map(
      [...whole.rollouts].map(([i, tiers]) => [
        i,
        new Map([...tiers].map(([id, of]) => [id, { ...of, admitted: 0 }])),
      ]),
    );
    const undecided = whole.evaluations.map((each) => ({
      ...each,
      summary: { ...each.summary, valid: false },
    }));
    expect(conclusion({ ...whole, rollouts: nothing })).toMatch(
      /^Nothing was trained: .*; the model solves .*answer_zero/,
    );
    expect(conclusion({ ...whole, end: { ...whole.end!, adapterIteration: 0 } })).toMatch(
      /^The adapter changes nothing: /,
    );
    expect(conclusion({ ...whole, evaluations: undecided })).toBe(
      'No result: the verifier reached no verdict on more than 1 % of the replies to the test problems.',
    );
    expect(conclusion(readRun(at('begun')))).toMatch(
      /^The run has not ended; the model solves .* before; a program/,
    );
    expect(conclusion({ ...readRun(at('begun')), evaluations: [] })).toBe('The run has not ended.');
    expect(shortcoming(whole)).toBeNull();
  });
});

describe('the badges of a report', () => {
  let integrity: Integrity;
  beforeAll(async () => {
    integrity = await checkIntegrity(at('whole'));
  });
  const judged = (trace: object): void =>
    writeFileSync(
      at('whole/judge-trace.json'),
      JSON.stringify({
        format: 'isopro.judge.v1',
        runId: ID,
        verdict: 'pass',
        failure: null,
        ...trace,
      }),
    );
  const badge = (run = whole, log = integrity): string[] =>
    Object.values(judgedBadge(readJudged(run), run, log)) as string[];

  test('are green for a run that a judge passed and that came to something, and for no other', () => {
    expect(badge()).toEqual(['not judged', 'fair']);
    judged({});
    expect(badge()).toEqual(['the judge found the log intact', 'good']);
    expect(badge(turned(changed(6, 0)))).toEqual([
      'the judge found the log intact; the model got worse',
      'bad',
    ]);
    const chance = [
      'the judge found the log intact; the model is not better beyond chance',
      'fair',
    ];
    for (const run of [changed(5, 0), turned(changed(5, 0)), changed(3, 3), changed(0, 0)])
      expect(badge(run)).toEqual(chance);
    expect(badge(ofPairs([pairs(100, 20, 0), pairs(20, 0, 16)]))[1]).toBe('bad');
    expect(badge(ofPairs([pairs(100, 0, 20), pairs(20, 16, 0)]))[1]).toBe('good');
    expect(badge({ ...whole, end: null })[1]).toBe('fair');
    expect(badge({ ...whole, end: { ...whole.end!, adapterIteration: 0 } })[1]).toBe('fair');
    expect(badge(whole, { ...integrity, outcome: 'tampered' } as Integrity)[1]).toBe('fair');
    judged({
      verdict: 'hard_fail',
      failure: { name: 'adapter_loads', detail: 'a tensor is not finite' },
    });
    expect(badge()).toEqual(['the judge rejected it: a tensor is not finite', 'bad']);
    judged({ verdict: 'not_verified' });
    expect(badge()[1]).toBe('fair');
    judged({ runId: 'ef'.repeat(16) }); // of another run
    expect(badge()).toEqual(['not judged', 'fair']);
    writeFileSync(at('whole/judge-trace.json'), '{"verdict":"pass"}');
    expect(badge()).toEqual(['not judged: judge-trace.json could not be read', 'fair']);
  });

  test('believe a file about a run of somebody else no further than that it says so', () => {
    judged({});
    if (integrity.outcome === 'unchecked') throw new Error('the log was checked');
    expect(
      badge(whole, { ...integrity, key: { ...integrity.key, ownedByThisUser: false } })[1],
    ).toBe('fair');
  });

  test('stand above the figures, below the conclusion, and only the one of a judge is green', async () => {
    judged({ verdict: 'hard_fail', failure: { name: 'adapter_loads', detail: '<b>not finite' } });
    const page = readFileSync((await writeReport(at('whole'))).file, 'utf8');
    const [first, ...others] = [
      ...page.matchAll(/<p class="conclusion">([^<]*)<|<span class="badge (\w+)">([^<]*)</g),
    ];
    expect(first![1]).toBe(conclusion(whole));
    expect(others.map(([, , tone, text]) => [tone, text])).toEqual([
      ['bad', 'the judge rejected it: &lt;b&gt;not finite'],
      ['fair', 'log complete, signed by the run itself'],
    ]);
    expect(page.indexOf('class="cards"')).toBeGreaterThan(page.indexOf('class="badge'));
  });
});

describe('text for a terminal', () => {
  test('of 0 columns, or of none that it tells, has 80', () => {
    for (const columns of [0, undefined]) {
      expect(columnsOf({ columns })).toBe(80);
      expect(terminalStyle({ isTTY: true, columns }, {})).toMatchObject({ width: 80, prose: 80 });
    }
    expect(terminalStyle({ isTTY: true, columns: 200 }, {})).toMatchObject({
      width: 200,
      prose: 200,
    });
  });

  test('is wrapped at blanks, with its indent, and not at all in a file', () => {
    const text = '  one sentence of some length, in which averyveryverylongword stands alone';
    const lines = wrapped(text, { prose: 20 }, 2).split('\n');
    expect(lines.join(' ').replace(/\s+/g, ' ').trim()).toBe(text.trim());
    expect(lines.filter((line) => line.length > 20)).toEqual(['    averyveryverylongword']);
    expect(lines[0]).toMatch(/^ {2}one/);
    expect(lines.slice(1).every((line) => /^ {4}\S/.test(line))).toBe(true);
    expect(wrapped(text, {})).toBe(text);
    const labelled = 'file     /a/path/of/more/than/a/line (3 MB)';
    expect(wrapped(labelled, { prose: 20 }, 9)).toBe(
      'file     /a/path/of/more/than/a/line\n         (3 MB)',
    );
  });

  test('breaks what is too long for it, below its label, and leaves commands and files alone', () => {
    const red = '\u001b[31mten columns\u001b[0m';
    const text = `${red}\nT1  first and second and third\nsome words of one sentence\nnext: npx isopro-native report runs/one`;
    expect(fitted(text, { prose: 20 })).toBe(
      `${red}\nT1  first and second\n    and third\nsome words of one\n  sentence\nnext: npx isopro-native report runs/one`,
    );
    expect(fitted(text, {})).toBe(text);
  });

  test('has tables whose tiers come below each other where they do not fit beside each other, each with its figures', () => {
    const byTier = Object.fromEntries(
      Array.from({ length: 12 }, (_, i) => [`tier${i}`, { mean: i / 100, low: 0, high: 1, n: i }]),
    );
    const rows = [['greedy', { mean: 0.5, low: 0, high: 1, n: 66, byTier }]] as const;
    const [whole, narrow] = [table(rows, {}), table(rows, { prose: 60 })];
    expect(whole.split('\n')).toHaveLength(4);
    for (const line of narrow.split('\n')) expect(line.length).toBeLessThanOrEqual(60);
    const words = (text: string, row: RegExp): string[] =>
      text.split('\n').flatMap((line) => (row.test(line) ? line.trim().split(/\s+/).slice(1) : []));
    for (const row of [/^greedy/, /^n /]) expect(words(narrow, row)).toEqual(words(whole, row));
    const long = table(
      [
        [
          'greedy',
          {
            ...rows[0][1],
            byTier: { tens: byTier.tier0!, 'hundreds of thousands': byTier.tier1! },
          },
        ],
      ],
      {},
    );
    const [head, , figures] = long.split('\n');
    expect(head!.trim().split(/ {2,}/)).toEqual(['tens', 'hundreds of thousands', 'mean']);
    expect(figures!.length).toBe(head!.length);
  });

  test('has colours by meaning, and none where NO_COLOR forbids them', () => {
    expect(painted('lost', 'bad', terminalStyle({ isTTY: true }, {}))).toBe(
      '\u001b[31mlost\u001b[0m',
    );
    for (const style of [
      terminalStyle({ isTTY: true }, { NO_COLOR: '1' }),
      terminalStyle({}, {}),
      terminalStyle({ isTTY: true }, { TERM: 'dumb' }),
    ])
      expect(painted('lost', 'bad', style)).toBe('lost');
  });
});
