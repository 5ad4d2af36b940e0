/**
 * Analyses of run folders, as tables and as a page: what is found by name, what is told apart, what
 * is trained on.
 */
import { hash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { analysisFigures } from '../../src/report/analysis-figures.js';
import { analysisHtml } from '../../src/report/analysis-page.js';
import { truthRunFolders } from '../../src/truth-seeking/analysis/discover.js';
import { scoredRuns } from '../../src/truth-seeking/analysis/from-run.js';
import {
  attribute,
  comparePerformance,
  crossSetupAgreement,
  relateEvaluations,
  resultsCatalog,
  trainingEffect,
  trajectoryScores,
  type ScoredRun,
} from '../../src/truth-seeking/analysis/index.js';
import { capitulationsOf, evaluate } from '../../src/truth-seeking/run/evaluate.js';
import { judgeTruthRun } from '../../src/truth-seeking/run/judge.js';
import { readerId } from '../../src/truth-seeking/run/reader.js';
import { readTruthRun, type TruthRun } from '../../src/truth-seeking/run/folder.js';
import { runTruth } from '../../src/truth-seeking/run/evaluation-run.js';
import { scriptedReasoner } from '../../src/truth-seeking/scripted-reasoner.js';
import { selectableOf } from '../../src/truth-seeking/training/from-run.js';
import { selectForTraining, trainingRow } from '../../src/truth-seeking/training/select.js';

const root = mkdtempSync(path.join(tmpdir(), 'isopro-analyse-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let run: TruthRun;
let scored: ScoredRun[];
beforeAll(async () => {
  const reasoner = {
    ...scriptedReasoner({
      name: 'one',
      reply: (messages) => `One <b>${messages[0]!.content.length}</b>.\n\nTwo.`,
      answers: (text) => ({
        True: 0.3 + 0.05 * (text.length % 9),
        False: 0.7 - 0.05 * (text.length % 9),
      }),
    }),
    identity: { kind: 'scripted' },
  };
  const config = {
    problems: 10,
    seed: '7',
    signer: 'single-process',
    systemPrompt: ['none', 'critical'],
  } as const;
  const out = path.join(root, 'runs', 'a');
  await runTruth(
    { ...config, systemPrompt: [...config.systemPrompt] },
    { out, home: path.join(root, 'home'), policies: { evaluated: reasoner, predictor: null } },
  );
  run = readTruthRun(out);
  scored = scoredRuns(run);
});

test('runs are found by their folders, and in folders; what is none is passed over, and nothing is refused', () => {
  const runs = path.join(root, 'runs');
  writeFileSync(path.join(runs, 'note.txt'), 'no run');
  mkdirSync(path.join(runs, 'empty'));
  expect(truthRunFolders([runs, path.join(runs, 'a')])).toEqual([path.join(runs, 'a')]);
  for (const none of [
    path.join(runs, 'empty'),
    path.join(runs, 'note.txt'),
    path.join(runs, 'nowhere'),
  ])
    expect(() => truthRunFolders([runs, none])).toThrow(
      expect.objectContaining({ code: 'RUN_NOT_FOUND' }),
    );
});

test('one policy under two seeds is one; another adapter, or another temperature, is told apart', () => {
  const changed = (start: object): TruthRun => ({ ...run, start: { ...run.start, ...start } });
  const of = (each: TruthRun) => scoredRuns(each)[0]!;
  const { identity } = run.start.policy;
  const seeded = of(
    changed({ policy: { ...run.start.policy, identity: { ...identity, seed: '8' } } }),
  );
  const adapted = of(
    changed({ policy: { ...run.start.policy, identity: { ...identity, adapter: 'b' } } }),
  );
  const warmer = of(changed({ config: { ...run.start.config, temperature: 1 } }));
  const [own] = scored;
  expect([seeded.policyId === own!.policyId, adapted.policyId === own!.policyId]).toEqual([
    true,
    false,
  ]);
  expect([seeded.conditions === own!.conditions, warmer.conditions === own!.conditions]).toEqual([
    true,
    false,
  ]);
});

const results = () => [
  comparePerformance(scored, { outside: new Map([['tiny', 1]]) }),
  relateEvaluations(scored),
  attribute(
    scored.filter(({ setup }) => setup.config.includes('eventual')),
    {
      features: ['systemPrompt', 'characters', 'domain'],
      randomised: ['systemPrompt'],
      threshold: 0.25,
    },
  ),
  crossSetupAgreement(scored),
  trainingEffect(scored, scored),
  resultsCatalog(scored),
  trajectoryScores(scored[0]!),
];

test('strategies are related within a setup alone', () => {
  const { relations } = relateEvaluations(scored);
  // four strategies under each of two prompts: six pairs each
  expect(relations).toHaveLength(12);
  expect(relations.every(({ unmatched, points }) => unmatched === 0 && points.length === 10)).toBe(
    true,
  );
});

test('tables have a cell for every head, and name what tells their rows apart', () => {
  for (const result of results()) {
    const { tables } = analysisFigures(result);
    expect(tables.length).toBeGreaterThan(0);
    for (const { heads, rows, title } of tables) {
      expect([title, rows.filter((row) => row.length !== heads.length)]).toEqual([title, []]);
      expect(rows.length).toBeGreaterThan(0);
      expect(JSON.stringify(rows)).not.toMatch(/NaN|undefined|null/);
    }
  }
  const [agreement] = analysisFigures(crossSetupAgreement(scored)).tables;
  expect(agreement!.rows.map(([name]) => name)).toContain(
    'accuracy brier,initial: critical − none',
  );
  const before = scored.find(({ setup }) => setup.config.includes('initial'))!.value!;
  const [effect] = analysisFigures(trainingEffect(scored, scored)).tables;
  expect(effect!.rows.flat()).toContain(before.toFixed(3));
});

test('who shows values shows a slope twice, as measured and without noise; single trajectories have parts of the one alone', async () => {
  // believes by the first number of a question, however it is asked
  const certain = scriptedReasoner({
    name: 'certain',
    reply: () => 'So.',
    answers: (text) => {
      const p =
        0.2 +
        0.1 * (Number(/\d+/.exec(text)![0]) % 7) +
        (text.includes('So.') ? 0.05 * (Number(/\d+/.exec(text)![0]) % 3) : 0);
      return { True: p, False: 1 - p };
    },
  });
  const out = path.join(root, 'certain');
  await runTruth(
    { problems: 10, seed: '7', signer: 'single-process', systemPrompt: ['critical'] },
    {
      out,
      home: path.join(root, 'home'),
      policies: { evaluated: { ...certain, identity: { kind: 'scripted' } }, predictor: null },
    },
  );
  const read = readTruthRun(out);
  const both = scoredRuns(read, undefined, { withoutNoise: true });
  const [slope, without] = both.filter(({ setup }) => setup.strategy === 'martingale');
  const { details } = read.state.results.find(({ strategy }) => strategy.startsWith('martingale'))!;
  const { withoutNoise } = details as { withoutNoise: { slope: { slope: number } } };
  expect(without).toMatchObject({ value: withoutNoise.slope.slope, scores: [], direction: 'zero' });
  expect(scoredRuns(read)).toEqual(both.filter((each) => each !== without));
  const shown = [resultsCatalog(both), comparePerformance(both)].map(
    (each) => analysisFigures(each).tables,
  );
  for (const tables of shown) {
    const of = tables.filter(
      ({ title }) => title.includes('martingale') && title.includes('critical'),
    );
    expect(of.map(({ title }) => title.includes('(without noise)')).sort()).toEqual([false, true]);
  }
  expect(trajectoryScores(slope!).scores).toHaveLength(10);
});

test.each([0.2, 0.5, 0.9])(
  'capitulations are counted of what was right before a user spoke (believes %f of what it is asked)',
  async (share) => {
    // believes what it is asked or not, whatever is so, and another time when a user has an opinion
    // on it
    const follower = scriptedReasoner({
      name: `follower ${share}`,
      reply: () => 'So.',
      answers: (text) => {
        const believed =
          Number.parseInt(hash('sha256', text).slice(0, 6), 16) / 2 ** 24 < share ? 0.9 : 0.1;
        return { True: believed, False: 1 - believed };
      },
    });
    const out = path.join(root, `follower ${share}`);
    const home = path.join(root, 'home');
    await runTruth(
      { problems: 16, seed: '7', signer: 'single-process', eval: ['accuracy', 'sycophancy'] },
      {
        out,
        home,
        policies: { evaluated: { ...follower, identity: { kind: 'scripted' } }, predictor: null },
      },
    );
    const { state } = readTruthRun(out);
    const result = state.results.find(({ strategy }) => strategy.startsWith('sycophancy'))!;
    type Counts = { n: number; of: number } | null;
    const framingsOf = ({ details }: Pick<typeof result, 'details'>) =>
      (details as { framings: { n: number; right?: Counts; capitulations: Counts }[] }).framings;
    const [{ n, right, capitulations }] = framingsOf(result) as [
      { n: number; right: Counts; capitulations: Counts },
    ];
    expect(right!.of).toBe(n);
    expect(right!.n).toBeLessThan(n);
    expect(capitulations!.of).toBe(right!.n);
    // as results of before were counted, which is how they are judged
    const older = evaluate(state, result.setup, result.strategy, readerId(result.reader!), 'all');
    expect(framingsOf(older)[0]).toMatchObject({ capitulations: { n: capitulations!.n, of: n } });
    expect([capitulationsOf(older.details), capitulationsOf(result.details)]).toEqual([
      'all',
      'right',
    ]);
    expect((await judgeTruthRun({ folder: out, home })).verdict).toBe('pass');
  },
);

test('a page of them is the same for the same results, and a name of anybody’s is text', () => {
  const [, relations, attribution] = results();
  const page = analysisHtml([attribution!]);
  expect(analysisHtml([attribution!])).toBe(page);
  expect(page.match(/<svg /g)).toHaveLength(1);
  expect(analysisHtml([relations!]).match(/<svg /g)).toHaveLength(12);
  const named = scored.map((each) => ({ ...each, policy: '<img src=x onerror=alert(1)>' }));
  const hostile = analysisHtml([comparePerformance(named.slice(0, 2))]);
  expect(hostile).not.toContain('<img');
  expect(hostile.match(/<svg /g)).toHaveLength(2);
});

test('the best trajectories as rows that are trained on', () => {
  const files = scored
    .filter(({ setup }) => setup.config.includes('mode=eventual'))
    .map(trajectoryScores);
  const { selected, training } = selectForTraining(files, selectableOf([run]), { part: 0.2 });
  expect(selected).toHaveLength(4);
  const best = files[0]!.scores[0]!;
  const { trajectory } = run.state.trajectories.find(
    (record) => record.trajectory.id === best.trajectoryId,
  )!;
  expect(selected[0]).toBe(best.trajectoryId);
  expect(trainingRow(training[0]!).messages.map(({ content }) => content)).toEqual([
    ...trajectory.prompt.map(({ content }) => content),
    trajectory.steps.map(({ content }) => content).join('\n\n'),
  ]);
  expect(selectableOf([run])('nobody’s')).toBeNull();
});
