/**
 * The page of a truth run: what it shows is what the records say, and what a model wrote stays
 * text.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { decimal, percent } from '../../src/text/figures.js';
import { truthText } from '../../src/cli/truth/screen.js';
import { truthDocument } from '../../src/operations/truth/truth-run.js';
import {
  truthFolders,
  truthLine,
  truthShown,
  truthTrajectory,
} from '../../src/server/page/truth-view.js';
import { setupText } from '../../src/report/setup-text.js';
import { visible } from '../../src/visible-text.js';
import { truthReportHtml, writeTruthReport } from '../../src/report/truth-page.js';
import { policyName, scoredRuns, whoseBeliefs } from '../../src/truth-seeking/analysis/from-run.js';
import { crossRunDifference } from '../../src/truth-seeking/analysis/run-difference.js';
import { tokenHeat } from '../../src/truth-seeking/analysis/token-heat.js';
import { readTruthRun, type TruthRun } from '../../src/truth-seeking/run/folder.js';
import { runTruth } from '../../src/truth-seeking/run/evaluation-run.js';
import { slopeWithoutNoiseIn } from '../../src/truth-seeking/analysis/slope-without-noise.js';
import { scriptedReasoner } from '../../src/truth-seeking/scripted-reasoner.js';

const root = mkdtempSync(path.join(tmpdir(), 'isopro-truth-page-'));
const home = path.join(root, 'home');
afterAll(() => rmSync(root, { recursive: true, force: true }));

const HOSTILE = '<img src=x onerror=alert(1)></pre><script>alert(2)</script>\u202e';
/** Believes the more in the first option the more steps it has read. */
const reasoner = (name: string, per: number) => ({
  ...scriptedReasoner({
    name,
    reply: (messages, seed) =>
      `First ${messages.at(-1)!.content.length}.\n\nThen ${HOSTILE}.\n\nLast ${seed % 97n}.`,
    answers: (text) => {
      const p =
        0.3 +
        per * ((text.split('assistant: ').at(-1)!.match(/\n\n/g)?.length ?? 0) % 5) +
        0.05 * (text.length % 3);
      return { True: p, False: 1 - p };
    },
  }),
  identity: { kind: 'scripted', name },
});

let run: TruthRun;
let other: TruthRun;
beforeAll(async () => {
  const made = async (name: string, per: number): Promise<TruthRun> => {
    const out = path.join(root, name);
    const config = {
      problems: 4,
      seed: '7',
      signer: 'single-process',
      systemPrompt: ['none', 'critical'],
    } as const;
    await runTruth(
      { ...config, systemPrompt: [...config.systemPrompt] },
      { out, home, policies: { evaluated: reasoner(name, per), predictor: null } },
    );
    return readTruthRun(out);
  };
  [run, other] = [await made('here', 0.1), await made('there', 0.05)];
});

const UNCHECKED = { outcome: 'unchecked', reason: 'nobody asked' } as const;

test('what analyzers read of a folder is what its results say', () => {
  const scored = scoredRuns(run);
  expect(scored.map(({ value }) => value)).toEqual(run.state.results.map(({ value }) => value));
  expect(new Set(scored.map(({ setup }) => setup.systemPrompt))).toEqual(
    new Set(['none', 'critical']),
  );
  expect(
    scored.every(
      ({ scores }) => scores.length === 4 && scores.every(({ features }) => features.steps === 3),
    ),
  ).toBe(true);
});

test('results, beliefs and trajectories as the records have them; nothing is fetched, and what a model wrote is text', () => {
  const page = truthReportHtml(run, UNCHECKED);
  for (const { value } of run.state.results)
    expect(page).toContain(`<td>${decimal(value).replace('-', '−')}</td>`);
  expect(page.match(/<svg /g)).toHaveLength(3);
  const [first] = run.state.trajectories;
  const last = run.state.beliefs(first!.trajectory.id)!.readout.readings.at(-1)!.belief!.p0;
  const { correctOption } = run.state.problem(first!.trajectory.problemId) as {
    correctOption: number;
  };
  expect(page).toContain(`→ ${percent(correctOption === 0 ? last : 1 - last)} %`);
  expect(page.match(/<details class="rollout"/g)).toHaveLength(8);
  expect(page).not.toContain('<img');
  expect(page).not.toContain('alert(2)</script>');
  expect(page).toContain('[U+202E]');
  expect(page.replace(/http:\/\/www\.w3\.org\/\S*/g, '')).not.toMatch(
    /https?:|@import|src=["']?[^"'x]|url\((?!#)/,
  );
  expect(truthReportHtml(run, UNCHECKED)).toBe(page);
});

test('a slope stands with and without noise on the page, in the terminal, for the server and in JSON', () => {
  const slopes = run.state.results.filter(({ strategy }) => strategy.startsWith('martingale'));
  expect(slopes).toHaveLength(2);
  const [page, screen] = [
    truthReportHtml(run, UNCHECKED),
    truthText(run, { width: 80, color: false }),
  ];
  const { results } = truthDocument(run, false) as unknown as {
    results: { strategy: string; withoutNoise?: { value: number } }[];
  };
  const shown = truthShown('here', run);
  expect(page.match(/, without noise<\/(bdi|td)>/g)).toHaveLength(2);
  expect(screen.match(/ {4}the same without noise/g)).toHaveLength(2);
  expect(results.filter(({ withoutNoise }) => withoutNoise !== undefined)).toHaveLength(2);
  expect(shown.results.filter(({ withoutNoise }) => withoutNoise !== null)).toHaveLength(2);
  for (const each of slopes) {
    const corrected = slopeWithoutNoiseIn(each)!;
    const { withoutNoise } = each.details as { withoutNoise: { slope: { slope: number } | null } };
    expect(corrected.value).toBe(withoutNoise.slope?.slope ?? null);
    expect(corrected.value).not.toBeNull();
    expect(corrected.value).not.toBeCloseTo(each.value!, 3);
    expect(page).toContain(`<td>${decimal(corrected.value).replace('-', '−')}</td>`);
    expect(screen).toContain(`${corrected.value!.toFixed(4)} `);
  }
  // of what is no slope of differences there is none
  expect(slopeWithoutNoiseIn({ strategy: 'accuracy', details: slopes[0]!.details })).toBeNull();
  expect(
    slopeWithoutNoiseIn({ strategy: 'martingale:change=sign', details: slopes[0]!.details }),
  ).toBeNull();
});

test('whose beliefs a trajectory has stands beside them, also where nobody else read any', () => {
  const { id } = run.state.trajectories[0]!.trajectory;
  const shown = truthTrajectory(run, id)!;
  expect(shown.readers.map(({ whose }) => whose)).toEqual([
    whoseBeliefs(run, run.state.readers[0]!),
  ]);
  expect(shown.readers[0]!.whose).toMatch(
    /^beliefs read from the policy itself \(reader [0-9a-f]{8}\)$/,
  );
  expect(shown.readers[0]!.beliefs).toHaveLength(4);
  expect(truthShown('here', run).whose).toBe(shown.readers[0]!.whose);
  const page = truthReportHtml(run, UNCHECKED);
  expect(page.slice(page.indexOf('id="trajectories"')).split(shown.readers[0]!.whose)).toHaveLength(
    9,
  );
});

test('a server lists truth runs by name, with what they are, and one that cannot be read says why', () => {
  expect(truthFolders(root).map((folder) => path.basename(folder))).toEqual(['here', 'there']);
  expect(truthFolders(path.join(root, 'nowhere'))).toEqual([]);
  const line = truthLine(run.folder);
  expect(line).toEqual({
    ...{
      name: 'here',
      policy: policyName(run),
      domains: run.start.config.domain,
      seed: '7',
      state: 'ended',
      reason: null,
    },
    ...{ trajectories: run.state.trajectories.length, results: run.state.results.length },
  });
  expect(truthShown('here', run).line).toEqual(line);
  expect(truthLine(path.join(root, 'nowhere'))).toEqual({
    ...{
      name: 'nowhere',
      policy: '',
      domains: [],
      seed: '',
      state: 'unreadable',
      reason: expect.stringMatching(/./),
    },
    ...{ trajectories: 0, results: 0 },
  });
});

test('a server shows of a truth run what its records say, and of long texts the beginning', () => {
  const shown = truthShown('here', run);
  expect(shown.results).toEqual(
    run.state.results
      .map((result) => ({
        ...{
          setup: setupText(result.setup),
          strategy: result.strategy,
          direction: result.direction,
          value: result.value,
        },
        ...{
          interval: result.interval,
          n: result.n,
          withoutNoise: slopeWithoutNoiseIn(result),
          reader: expect.anything(),
        },
      }))
      .map((each, i) => ({ ...each, reader: shown.results[i]!.reader })),
  );
  expect(shown.trajectories).toHaveLength(8);
  for (const [i, { trajectory, setup }] of run.state.trajectories.entries()) {
    const problem = run.state.problem(trajectory.problemId) as unknown as {
      question: string;
      options: [string, string];
      correctOption: 0 | 1;
    };
    const readings = run.state.beliefs(trajectory.id)!.readout.readings;
    const common = {
      id: trajectory.id,
      setup: setupText(setup),
      question: problem.question,
      correctOption: problem.correctOption,
    };
    expect(shown.trajectories[i]).toEqual({
      ...common,
      beliefs: readings.map(({ belief }) => belief!.p0),
    });
    expect(truthTrajectory(run, trajectory.id)).toEqual({
      ...common,
      options: problem.options,
      prompt: trajectory.prompt.map(({ role, content }) => ({ role, content: visible(content) })),
      steps: trajectory.steps.map(({ content, trainable }) => ({
        content: visible(content),
        trainable,
      })),
      readers: [
        {
          whose: shown.whose,
          beliefs: readings.map(({ belief }) => ({ p0: belief!.p0, error: belief!.error ?? null })),
        },
      ],
    });
  }
  expect(truthTrajectory(run, '00'.repeat(32))).toBeNull();
  // of more and longer ones
  const [first] = run.state.trajectories;
  const long = 'q'.repeat(1000);
  const setup = { ...first!.setup, domain: long };
  const state = {
    trajectories: Array(501).fill({ ...first!, setup }),
    results: [{ ...run.state.results[0]!, setup, reader: null }],
    readers: [],
    complete: null,
    problem: () => ({ kind: 'open', question: long }),
    beliefs: () => null,
  } as never;
  const { trajectories, results, whose, line } = truthShown('x', { ...run, state });
  expect([trajectories.length, whose, line.state]).toEqual([500, null, 'unfinished']);
  expect(trajectories[0]).toEqual({
    ...{
      id: first!.trajectory.id,
      setup: `${'q'.repeat(119)}…`,
      question: `${'q'.repeat(199)}…`,
      beliefs: null,
      correctOption: null,
    },
  });
  expect([results[0]!.setup.length, results[0]!.reader]).toEqual([120, null]);
});

test('a log that disagrees with itself is said to', () => {
  const tampered = {
    outcome: 'tampered',
    disagreement: null,
    signer: 'witness',
    records: 1,
    signedRecords: 1,
    heads: 1,
    resumes: 0,
  } as never;
  const page = truthReportHtml(run, {
    ...(tampered as object),
    root: '',
    key: { text: '', ownedByThisUser: false },
  } as never);
  expect(page).toContain('Nothing on this page is reliable.');
  expect(page).toContain('badge bad');
});

test('two runs beside each other: differences over the problems of both', () => {
  const { rows, multiplicity } = crossRunDifference(run, other);
  // each slope has two figures: as measured, and without noise
  const slopes = run.state.results.flatMap((result) => slopeWithoutNoiseIn(result) ?? []);
  expect(slopes).toHaveLength(2);
  expect(rows).toHaveLength(run.state.results.length + slopes.length);
  expect(
    rows.filter(({ setup }) => setup.config.endsWith('(without noise)')).map(({ here }) => here),
  ).toEqual(slopes.map(({ value }) => value));
  for (const { here, there, change, setup } of rows) {
    if (setup.strategy === 'martingale') expect(change).toBeNull();
    else {
      expect(change!.difference.value).toBeCloseTo(here! - there!, 12);
      expect(change).toMatchObject({ problems: 4, claim: 'effect' });
    }
  }
  expect(multiplicity.tests).toBe(6);
  const page = truthReportHtml(run, UNCHECKED, { other });
  expect(page).toContain('Compared with another run');
  expect(page).toContain(other.runId);
  expect(page.split('Compared with another run').at(-1)).toMatch(
    /martingale, difference, steps \(without noise\)/,
  );
});

test('tokens by their log-probability', async () => {
  const { trajectory } = run.state.trajectories[0]!;
  const policy = scriptedReasoner({ name: 'typist', answers: () => ({ '\n': 0.5 }) });
  const heat = await tokenHeat(policy, trajectory, (id) => String.fromCodePoint(id));
  expect(heat.tokens.map(({ text }) => text).join('')).toBe(
    trajectory.steps.map(({ content }) => `${content}\n\n`).join(''),
  );
  expect(heat.tokens.at(-1)!.logprob).toBeCloseTo(Math.log(0.5), 12);
  const page = truthReportHtml(run, UNCHECKED, { tokens: { heat: [heat], evidence: [] } });
  expect(page.match(/style="--h:/g)).toHaveLength(heat.tokens.length);
  expect(page.indexOf('class="heat"')).toBeLessThan(page.indexOf('</details>'));
});

test('written to a file, with what this machine knows of the log', async () => {
  process.env.ISOPRO_HOME = home;
  const file = path.join(root, 'report.html');
  await writeTruthReport(run.folder, { file, against: other.folder });
  expect(readFileSync(file, 'utf8')).toContain('log consistent, signed by the run itself');
});
