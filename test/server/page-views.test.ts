/**
 * What the page shows of runs is what their logs hold: counted again here, record by record; and no
 * text is longer than a page bears.
 */
import { appendFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { LogReader } from '../../src/log/read.js';
import { runPaths } from '../../src/run-folder/paths.js';
import { readRun, type RunRecord } from '../../src/run-folder/read-run.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';
import {
  devProblems,
  devReplies,
  findRollouts,
  readRollout,
} from '../../src/server/page/rollout-views.js';
import { RunShelf } from '../../src/server/page/run-shelf.js';
import { detailOf, lineOf } from '../../src/server/page/run-view.js';
import { HOSTILE } from '../models/hostile.js';
import type { Parsed } from '../models/parsed.js';
import { writeRunFolder } from '../models/run-folder.js';

const root = mkdtempSync(path.join(tmpdir(), 'isopro-views-'));
const runs = path.join(root, 'runs');
const folderOf = (name: string): string => path.join(runs, name);
const LONG = 'long '.repeat(400).trim();
const small = {
  home: path.join(root, 'home'),
  iterations: 3,
  rollouts: 6,
  problems: 3,
  tiers: [{ id: 'T0', title: 'warm-up' }, { id: 'T1' }],
};
let run: RunRecord;
beforeAll(async () => {
  await writeRunFolder({
    ...small,
    folder: folderOf('many'),
    reply: (i) => (i % 5 === 0 ? `a River ${i}` : `reply ${i}\u202e`),
  });
  await writeRunFolder({
    ...small,
    folder: folderOf('long'),
    runId: 'cd'.repeat(16),
    iterations: 1,
    skill: 0,
    reply: () => LONG,
    prompt: LONG,
    verdict: {
      violations: Array(25).fill(LONG),
      details: Array(25).fill(LONG),
      reason: LONG,
      score: 0.25,
      results: { found: HOSTILE[0], expected: 'b' },
    },
  });
  run = readRun(folderOf('many'));
}, 60_000);
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Payloads of a stream, in the order of the log. */
function payloads(
  name: string,
  stream: 'rollouts' | 'evaluations' | 'metrics',
): { gseq: number; payload: Parsed }[] {
  const reader = new LogReader(runPaths(folderOf(name)).log, RUN_STREAMS);
  try {
    return [...reader.records({ stream })].map(({ gseq, payload }) => ({ gseq, payload }));
  } finally {
    reader.close();
  }
}

describe('rollouts', () => {
  /** Each with the prompt that stands before it. */
  const all = (name: string) => {
    let prompt = '';
    return payloads(name, 'rollouts').flatMap(({ gseq, payload }) => {
      if (payload.kind === 'problem') prompt = payload.prompt;
      return payload.kind === 'rollout' ? [{ gseq, payload, prompt }] : [];
    });
  };

  test('those that a filter leaves are found, as many as are asked for, behind so many', () => {
    const every = all('many');
    expect(every).toHaveLength(36);
    const problem = every[7]!.payload.problemId;
    const filters = [
      {},
      ...['T0', 'T1', 'T2'].map((tier) => ({ tier })),
      ...[0, 1, 3].map((iteration) => ({ iteration })),
      ...(['pass', 'fail', 'none'] as const).map((verdict) => ({ verdict })),
      { problem },
      { problem, iteration: 2 },
      ...[
        'RIVER',
        ' river  5 ',
        'reply',
        'schedule',
        'deadline',
        'river reply',
        'river 5 tier',
        '',
      ].map((text) => ({ text })),
      { tier: 'T1', iteration: 2, verdict: 'fail' as const, text: 'reply' },
    ];
    let some = 0;
    for (const filter of filters) {
      const {
        tier,
        iteration,
        verdict,
        problem: of,
        text,
      } = filter as Partial<Record<string, Parsed>>;
      const wanted = every.filter(({ payload, prompt }) => {
        const said = [prompt, payload.text, ...payload.verdict.violations].join('\n').toLowerCase();
        const words = (text ?? '')
          .toLowerCase()
          .split(' ')
          .filter((word: string) => word !== '');
        return [
          tier === undefined || payload.tier === tier,
          iteration === undefined || payload.iteration === iteration,
          verdict === undefined || payload.verdict.kind === verdict,
          of === undefined || payload.problemId === of,
          ...words.map((word: string) => said.includes(word)),
        ].every(Boolean);
      });
      for (const [offset, limit] of [
        [0, 200],
        [1, 5],
        [35, 3],
      ] as const) {
        const page = findRollouts(folderOf('many'), { ...filter, offset, limit });
        expect([filter, page.data.map(({ id }) => id)]).toEqual([
          filter,
          wanted.slice(offset, offset + limit).map(({ gseq }) => gseq),
        ]);
        expect([page.total, page.tiers, page.iterations]).toEqual([
          wanted.length,
          ['T0', 'T1'],
          [1, 2, 3],
        ]);
      }
      if (wanted.length > 0 && wanted.length < 36) some++;
    }
    expect(some).toBeGreaterThan(9);
  });

  test('a line has what its record has', () => {
    const { data } = findRollouts(folderOf('many'), { offset: 0, limit: 200 });
    for (const [i, { gseq, payload }] of all('many').entries())
      expect(data[i]).toMatchObject({
        id: gseq,
        iteration: payload.iteration,
        tier: payload.tier,
        problem: payload.problemId,
        sample: payload.sample,
        verdict: payload.verdict.kind,
        violations: payload.verdict.violations,
        tokens: 3,
        meanLogprob: -0.5,
        text: payload.text.replace('\u202e', '[U+202E]'),
      });
  });

  test('one as a whole has its prompt, its samples and its ids; what is not there is none', () => {
    const every = all('many');
    for (const { gseq, payload, prompt } of [every[0]!, every[6]!, every.at(-1)!]) {
      const siblings = every.filter((each) => each.payload.problemId === payload.problemId);
      expect(readRollout(folderOf('many'), gseq)).toMatchObject({
        id: gseq,
        prompt,
        finish: 'stop',
        admission: payload.admission,
        advantage: null,
        seed: payload.seed,
        details: payload.verdict.details,
        reason: null,
        score: null,
        results: null,
        turns: [],
        siblings: siblings.map((each) => ({
          id: each.gseq,
          iteration: payload.iteration,
          sample: each.payload.sample,
          verdict: each.payload.verdict.kind,
        })),
        promptIds: [1, 2, 3],
        tokenIds: [4, 5, 6],
      });
    }
    expect(readRollout(folderOf('many'), 1)).toBeNull();
    expect(readRollout(folderOf('many'), 10 ** 6)).toBeNull();
  });

  test('long texts are cut where lists show them, and whole where one is looked at', () => {
    const { data } = findRollouts(folderOf('long'), { offset: 0, limit: 1 });
    const [line] = data as [(typeof data)[number]];
    expect([line.question, line.text].map((text) => [text.length, text.at(-1)])).toEqual([
      [160, '…'],
      [160, '…'],
    ]);
    expect(line.violations.map(({ length }) => length)).toEqual(Array(20).fill(80));
    const whole = readRollout(folderOf('long'), line.id)!;
    expect([whole.prompt, whole.text, whole.score]).toEqual([LONG, LONG, 0.25]);
    expect(whole.details.map(({ length }) => length)).toEqual(Array(20).fill(320));
    expect(whole.reason).toHaveLength(300);
    expect(whole.results!.expected).toBe('b');
    expect(whole.results!.found).not.toContain('\u202e');
  });
});

test('dev problems have their verdict of each iteration, in the order of the log', () => {
  const evaluations = payloads('many', 'evaluations')
    .map(({ payload }) => payload)
    .filter(({ kind, set }) => kind === 'held_out' && set === 'dev');
  expect(evaluations.map(({ iteration }) => iteration)).toEqual([0, 1, 2, 3]);
  const problems = devProblems(run);
  expect(problems.map(({ problem, tier }) => [problem, tier])).toEqual(
    evaluations[0].outcomes.map(([problem, tier]: [string, string]) => [problem, tier]),
  );
  for (const { problem, verdicts } of problems)
    expect(verdicts).toEqual(
      evaluations.map(({ iteration, outcomes }) => ({
        iteration,
        verdict: outcomes.find(([id]: [string]) => id === problem)[2],
      })),
    );
  const [first] = problems as [(typeof problems)[number]];
  // the log of this run holds no replies to them
  expect(devReplies(run, first.problem)).toEqual({
    problem: first.problem,
    tier: 'T0',
    replies: [],
  });
  expect(devReplies(run, 'ff'.repeat(32))).toBeNull();
});

describe('a run', () => {
  const detail = (more: Partial<RunRecord> = {}) => detailOf('many', 'stamp', { ...run, ...more });

  test('has hits, kept rollouts and losses as they can be counted again', () => {
    const rollouts = payloads('many', 'rollouts').filter(
      ({ payload }) => payload.kind === 'rollout',
    );
    const { hits, steps, iterations, buffer, dev } = detail();
    expect(hits.map(({ iteration }) => iteration)).toEqual([1, 2, 3]);
    for (const { iteration, all, byTier } of hits) {
      const of = rollouts
        .filter(({ payload }) => payload.iteration === iteration)
        .map(({ payload }) => payload);
      const rate = (some: Parsed[]) => ({
        n: some.length,
        mean: some.filter(({ verdict }) => verdict.kind === 'pass').length / some.length,
      });
      expect(all).toMatchObject(rate(of));
      expect(byTier.map(({ tier }) => tier)).toEqual(['T0', 'T1']);
      for (const each of byTier)
        expect(each).toMatchObject(rate(of.filter(({ tier }) => tier === each.tier)));
      expect([all.low <= all.mean!, all.mean! <= all.high, all.low >= 0, all.high <= 1]).toEqual([
        true,
        true,
        true,
        true,
      ]);
    }
    const logged = payloads('many', 'metrics').filter(({ payload }) => payload.kind === 'step');
    expect(steps.map(({ step, iteration }) => [step, iteration])).toEqual(
      logged.map(({ payload }, i) => [i + 1, payload.iteration]),
    );
    expect(
      iterations.map(({ iteration, learningRate, tokens }) => [iteration, learningRate, tokens]),
    ).toEqual([1, 2, 3].map((iteration) => [iteration, 1e-3, { sampled: 100, trained: 50 }]));
    expect(buffer.map(({ iteration }) => iteration)).toEqual([1, 2, 3]);
    expect(dev.map(({ iteration, all }) => [iteration, all.n])).toEqual(
      [0, 1, 2, 3].map((iteration) => [iteration, 6]),
    );
  });

  test('hits come by iteration, also where the log has them otherwise, and of nothing decided there is no mean', () => {
    const counts = (passed: number, failed: number) =>
      new Map([['T0', { passed, failed, none: 9, admitted: 0 } as never]]);
    const rollouts = new Map([
      [11, counts(1, 3)],
      [2, counts(0, 0)],
      [1, counts(2, 0)],
    ]);
    expect(
      detail({ rollouts }).hits.map(({ iteration, all: { mean, n } }) => [iteration, mean, n]),
    ).toEqual([
      [1, 1, 2],
      [2, null, 0],
      [11, 0.25, 4],
    ]);
  });

  test('begins and ends when its log does, and has what its end says', () => {
    const {
      startedAt,
      lastAt,
      state,
      stopped,
      end,
      rollouts,
      adapter,
      layers,
      runId,
      stamp,
      defects,
    } = detail();
    expect([startedAt, lastAt]).toEqual(
      [run.time!.first, run.time!.last].map((us) => new Date(us / 1000).toISOString()),
    );
    expect(end).toEqual({ seconds: 75, peakRssBytes: 3e8, sampled: 20, trained: 30 });
    expect([state, stopped, rollouts, defects]).toEqual(['ended', 'all iterations done', 36, []]);
    expect([adapter, layers, runId, stamp]).toEqual([
      run.submission!.adapter,
      [2, 7, 8, 9, 10, 11],
      'ab'.repeat(16),
      'stamp',
    ]);
    expect(detail({ end: null }).state).toBe('unfinished');
    expect(detail({ defects: ['x'] }).state).toBe('damaged');
    expect(detail({ time: null, end: null, submission: null, layers: null })).toMatchObject({
      ...{ startedAt: null, lastAt: null, stopped: null, end: null, adapter: null, layers: [] },
    });
  });

  test.each([1999, 2000, 2001, 4001])(
    'of %i steps at most 2000 are shown, evenly, with the last',
    (count) => {
      const steps = Array.from({ length: count }, (_, i) => ({
        ...run.steps[0]!,
        iteration: i,
        loss: i,
      }));
      const shown = detail({ steps }).steps;
      expect([shown.length, shown.at(-1)]).toEqual([
        Math.min(2000, count),
        { step: count, iteration: count - 1, loss: count - 1 },
      ]);
      for (const { step, iteration, loss } of shown)
        expect([iteration, loss]).toEqual([step - 1, step - 1]);
      const gaps = shown.map(({ step }, i) => step - (i === 0 ? 0 : shown[i - 1]!.step));
      expect(Math.max(...gaps) - Math.min(...gaps)).toBeLessThanOrEqual(1);
      expect(Math.min(...gaps)).toBeGreaterThanOrEqual(1);
    },
  );

  test('has at most 1000 events, the first ones', () => {
    const gates = Array.from(
      { length: 1500 },
      (_, i) =>
        ({ ...{ kind: 'gate', restored: '' }, iteration: i + 10, cause: `cause ${i}` }) as never,
    );
    const shown = detail({ gates }).events;
    expect(shown).toHaveLength(1000);
    const before = shown.filter(({ what }) => !what.startsWith('gate')).length;
    expect(shown[before]).toMatchObject({ iteration: 10, text: 'cause 0' });
  });

  test('no text of it is longer than its place', () => {
    const long = 'w'.repeat(5000);
    const tier = { id: long, title: long, trains: true } as RunRecord['tiers'][number];
    const { start } = run.manifest;
    const summary = Object.values(run.policies)[0]!;
    const shown = detail({
      tiers: [tier],
      manifest: {
        ...run.manifest,
        start: {
          ...start,
          model: { ...start.model, name: long },
          task: { ...start.task, id: long },
          settings: { ...start.settings, seed: long } as never,
        },
      },
      end: { ...run.end!, stopped: long },
      defects: [long],
      policies: { [long]: summary },
      gates: [{ kind: 'gate', iteration: 1, cause: long, restored: '' } as never],
      ruleEvaluations: [],
      decisions: [
        {
          iteration: 1,
          cites: [long],
          event_type: 'x',
          remedy_direction: 'y',
          justification: long,
        } as never,
      ],
      effects: [],
      rollouts: new Map([[1, new Map([[long, { passed: 1, failed: 1 } as never]])]]),
      iterations: [{ ...run.iterations[0]!, buffer: { [long]: 3 } }],
    });
    const lengths = {
      ...{
        model: shown.model,
        task: shown.task,
        seed: shown.seed,
        stopped: shown.stopped!,
        defect: shown.defects[0]!,
      },
      ...{
        tier: shown.tiers[0]!.id,
        title: shown.tiers[0]!.title,
        policy: shown.policies[0]!.name,
        hit: shown.hits[0]!.byTier[0]!.tier,
      },
      kept: Object.keys(shown.buffer[0]!.byTier)[0]!,
      ...{ what: shown.events[0]!.what, text: shown.events[0]!.text, cause: shown.events[1]!.text },
    };
    expect(
      Object.fromEntries(Object.entries(lengths).map(([name, text]) => [name, text.length])),
    ).toEqual({
      ...{ model: 80, task: 80, seed: 20, stopped: 200, defect: 400 },
      ...{ tier: 80, title: 80, policy: 80, hit: 80, kept: 80, what: 80, text: 300, cause: 300 },
    });
    const line = lineOf('x', {
      folder: '',
      runId: 'i',
      state: 'damaged',
      reason: long,
      model: long,
      task: long,
    });
    expect([line.reason, line.model, line.task].map((text) => text!.length)).toEqual([400, 80, 80]);
    expect(lineOf('x', { folder: '', runId: 'i', state: 'unreadable' })).toEqual({
      ...{
        name: 'x',
        runId: 'i',
        state: 'unreadable',
        reason: null,
        model: null,
        task: null,
        seed: null,
        startedAt: null,
      },
      ...{ iterations: 0, before: null, after: null, pairedP: null, finding: null, n: 0 },
    });
  });
});

describe('the shelf', () => {
  test('lists the newest first, and of the same time by name', () => {
    const shelf = new RunShelf(runs);
    const times = shelf.list().map(({ name, startedAt }) => [name, startedAt]);
    expect(times.map(([name]) => name)).toEqual(['long', 'many']);
    expect(times[0]![1]! > times[1]![1]!).toBe(true);
    // two without a log have no time
    const empty = path.join(root, 'empty');
    for (const name of ['b', 'a', 'c']) {
      mkdirSync(path.join(empty, name), { recursive: true });
      appendFileSync(runPaths(path.join(empty, name)).manifest, '{}');
    }
    expect(new RunShelf(empty).list().map(({ name, state }) => [name, state])).toEqual(
      ['a', 'b', 'c'].map((name) => [name, 'unreadable']),
    );
    expect(new RunShelf(path.join(root, 'nowhere')).list()).toEqual([]);
  });

  test('reads a run again where one of its files has changed, and only then', () => {
    const shelf = new RunShelf(runs);
    const { stamp } = shelf.run('many')!;
    expect(stamp).toMatch(/^[0-9a-f]{16}$/);
    expect(shelf.run('many', stamp)).toBeNull();
    expect(shelf.run('many')).toBe(shelf.run('many'));
    const other = shelf.run('long')!;
    expect(other.stamp).not.toBe(stamp);
    expect(shelf.run('many', other.stamp)).not.toBeNull();
    for (const file of [
      runPaths(folderOf('many')).judgeTrace,
      runPaths(folderOf('many')).comparison,
    ]) {
      const before = shelf.run('many')!.stamp;
      appendFileSync(file, ' ');
      const now = shelf.run('many', before);
      expect(now).toMatchObject({ name: 'many', rollouts: 36 });
      expect(now!.stamp).not.toBe(before);
      rmSync(file);
    }
    expect(shelf.run('many', stamp)).toBeNull();
  });

  test('keeps the records of the latest six runs', async () => {
    const six = path.join(root, 'six');
    const names = [0, 1, 2, 3, 4, 5, 6].map((i) => `run-${i}`);
    for (const [i, name] of names.entries())
      await writeRunFolder({
        ...small,
        folder: path.join(six, name),
        iterations: 1,
        rollouts: 1,
        runId: `${i}`.repeat(32),
      });
    const shelf = new RunShelf(six);
    shelf.list(); // the first reader puts a log in order
    const seen = names.map((name) => shelf.run(name)!);
    expect(names.slice(1).map((name, i) => shelf.run(name) === seen[i + 1])).toEqual(
      Array(6).fill(true),
    );
    expect(shelf.run(names[0]!) === seen[0]).toBe(false);
    // that one took the place of the one that was asked for longest ago
    expect(names.slice(2).map((name, i) => shelf.run(name) === seen[i + 2])).toEqual(
      Array(5).fill(true),
    );
    expect(shelf.run(names[1]!) === seen[1]).toBe(false);
  });

  test('says what is not there, by its name', () => {
    const shelf = new RunShelf(runs);
    const said = (call: () => unknown): string => {
      try {
        call();
        return 'found';
      } catch (error) {
        const { code, message } = error as { code: string; message: string };
        return `${code} ${message}`;
      }
    };
    expect(said(() => shelf.run('none'))).toBe(
      'RUN_NOT_FOUND there is no run "none" in the runs folder',
    );
    expect(said(() => shelf.truth('many'))).toBe(
      'RUN_NOT_FOUND there is no run "many" in the runs folder',
    );
    const long = said(() => shelf.run('n'.repeat(500)));
    expect(long).toBe(`RUN_NOT_FOUND there is no run "${'n'.repeat(79)}…" in the runs folder`);
    expect(said(() => shelf.rollout('many', 1))).toBe('RUN_NOT_FOUND the run has no rollout 1');
    expect(said(() => shelf.replies('many', 'x'))).toBe(
      'RUN_NOT_FOUND the run has no such dev problem',
    );
    expect(shelf.truths()).toEqual([]);
  });

  test('tells what a run is of and where its adapter lies', () => {
    const shelf = new RunShelf(runs);
    const { modelSha256, adapterFile } = shelf.origin('many');
    expect([modelSha256, adapterFile]).toEqual([
      '44'.repeat(32),
      runPaths(folderOf('many')).adapter(run.submission!.adapter!),
    ]);
  });

  test('two runs stand beside each other: whose is whose, tier by tier, and in which settings they differ', async () => {
    await writeRunFolder({
      ...small,
      folder: folderOf('other'),
      runId: 'ef'.repeat(16),
      seed: 7n,
      skill: 0.95,
      names: { model: 'n'.repeat(200) },
    });
    const compared = new RunShelf(runs).compare('many', 'other');
    const other = readRun(folderOf('other'));
    const outcomes = (of: RunRecord) =>
      of.evaluations.find(({ set, when }) => set === 'test' && when === 'after')!.outcomes;
    const passes = (of: RunRecord, tier?: string) => {
      const some = outcomes(of).filter(([, each]) => tier === undefined || each === tier);
      return {
        n: some.length,
        mean: some.filter(([, , kind]) => kind === 'pass').length / some.length,
      };
    };
    expect([compared.a.name, compared.b.name]).toEqual(['many', 'other']);
    expect(compared.aAfter).toMatchObject(passes(run));
    expect(compared.bAfter).toMatchObject(passes(other));
    expect(compared.byTier).toMatchObject(
      ['T0', 'T1'].map((tier) => ({ tier, a: passes(run, tier), b: passes(other, tier) })),
    );
    const [won, lost] = ['pass', 'fail'].map(
      (kind) =>
        outcomes(other).filter(
          ([id, , now]) => now === kind && outcomes(run).find(([same]) => same === id)![2] !== kind,
        ).length,
    );
    expect(compared.test).toMatchObject({ n: 6, gained: won, lost });
    const values = Object.fromEntries(
      compared.differences.map(({ member, a, b }) => [member, [a, b]]),
    );
    expect(values['settings.seed']).toEqual(['"42"', '"7"']);
    expect(values['model.name']).toEqual(['"tiny"', `"${'n'.repeat(118)}…`]);
  });
});
