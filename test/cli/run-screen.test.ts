/**
 * What a person sees of a run while it goes on, on a terminal of the tests' own and by their clock.
 */
import { afterEach, describe, expect, test } from '@jest/globals';
import { resumedNotice } from '../../src/operations/run.js';
import { RunScreen } from '../../src/cli/run/run-screen.js';
import { TimeLeft } from '../../src/cli/run/time-estimate.js';
import { plannedWork } from '../../src/operations/planned-work.js';
import type { BegunRun, IterationReport, RunProgress, Stage } from '../../src/training/hooks.js';
import { resolveSettings } from '../../src/training/settings.js';
import { Terminal } from '../models/terminal.js';

const at = (
  stage: Stage,
  iteration: number,
  done: number,
  total: number,
  more: Partial<RunProgress> = {},
): RunProgress => ({
  stage,
  iteration,
  iterations: 3,
  done,
  total,
  tokens: 10 * done,
  hits: {},
  loss: null,
  ...more,
});

/** A run whose stages take what is said here, in seconds; iteration by iteration. */
const COURSE: readonly (readonly [Stage, iteration: number, units: number, seconds: number])[] = [
  ['before', 0, 40, 40],
  ['dev', 0, 20, 20],
  ...[1, 2, 3].flatMap((i) => [
    ['rollouts', i, 60, 60] as const,
    ['training', i, 10, 30] as const,
    ['dev', i, 20, 20] as const,
  ]),
  ['after', 3, 40, 40],
];
const WHOLE = COURSE.reduce((sum, [, , , seconds]) => sum + seconds, 0);
const PLANNED = { testSize: 8, devSize: 4, rollouts: 60 };

/** Every tenth of each stage, with the time that has gone by, in seconds. */
function* course(): Generator<readonly [RunProgress, number]> {
  let begun = 0;
  for (const [stage, iteration, units, seconds] of COURSE) {
    for (let tenth = 0; tenth <= 10; tenth++)
      yield [at(stage, iteration, (units * tenth) / 10, units), begun + (seconds * tenth) / 10];
    begun += seconds;
  }
}

describe('the time left', () => {
  test('is the whole rest of a steady run, the test after training included, once an iteration has been seen', () => {
    const time = new TimeLeft(PLANNED);
    let checked = 0;
    for (const [progress, seconds] of course()) {
      time.take(progress, 1000 * seconds);
      if (progress.iteration < 2) continue;
      checked++;
      expect(time.left(1000 * seconds)).toBeCloseTo(WHOLE - seconds, 6);
    }
    expect(checked).toBeGreaterThan(70);
  });

  test('is not known before the first answers, and includes what no stage has shown yet from then on', () => {
    const time = new TimeLeft(PLANNED);
    time.take(at('load', 0, 0, 0), 0);
    expect(time.left(0)).toBeNull();
    time.take(at('before', 0, 0, 40), 0);
    expect(time.left(0)).toBeNull();
    time.take(at('before', 0, 10, 40), 10_000);
    // 30 more problems, 20 dev problems four times, the test again, and three times 60 replies at
    // the same pace, without training
    expect(time.left(10_000)!).toBeGreaterThanOrEqual(30 + 4 * 20 + 40 + 3 * 60);
  });

  test('is about right where stages are unequal, answers end eight at a time, and forgetting is a fifth of the run', () => {
    // seconds a unit as a run of SmolLM2-135M on rows of a table had them, each stage another one
    const STAGES: readonly (readonly [
      Stage,
      iteration: number,
      units: number,
      each: number,
      tokens: number,
    ])[] = [
      ['before', 0, 40, 1, 16],
      ['dev', 0, 24, 0.8, 16],
      ...[1, 2].flatMap((i) => [
        ['rollouts', i, 128, 0.47, 16] as const,
        ['training', i, 12, 12.5, 0] as const,
        ['dev', i, 24, 1, 12] as const,
      ]),
      ['after', 2, 40, 0.9, 12],
      ['forgetting', 2, 232, 0.74, 0],
    ];
    const WHOLE_RUN = STAGES.reduce((sum, [, , units, each]) => sum + units * each, 0);
    const time = new TimeLeft({
      testSize: 40,
      devSize: 24,
      rollouts: 128,
      samples: 4,
      together: 8,
      trained: 192,
      forgetting: 100,
    });
    const ratios: { readonly iteration: number; readonly ratio: number }[] = [];
    let begun = 0;
    for (const [stage, iteration, units, each, tokens] of STAGES) {
      const together = stage === 'training' ? 1 : 8;
      // nothing is heard of a stage before its first answers end, the first stage excepted
      for (let done = stage === 'before' ? 0 : 1; done <= units; done++) {
        const seconds =
          begun + Math.min(units, Math.ceil(done / together) * together) * each + done / 1000;
        time.take(
          { ...at(stage, iteration, done, units, { tokens: tokens * done }), iterations: 2 },
          1000 * seconds,
        );
        const [left, rest] = [time.left(1000 * seconds), WHOLE_RUN - seconds];
        if (done > 0 && rest > 60) ratios.push({ iteration, ratio: left! / rest });
      }
      begun += units * each;
    }
    expect(ratios.length).toBeGreaterThan(400);
    for (const { ratio } of ratios)
      expect([ratio, ratio > 0.5 && ratio < 2]).toEqual([ratio, true]);
    // from a quarter of the first evaluation on
    for (const { ratio } of ratios.slice(10))
      expect([ratio, ratio > 0.6 && ratio < 1.5]).toEqual([ratio, true]);
    for (const { iteration, ratio } of ratios)
      if (iteration === 2) expect([ratio, ratio > 0.7 && ratio < 1.4]).toEqual([ratio, true]);
  });

  test('counts the steps that accepted rollouts are enough for, and not all that are allowed', () => {
    const planned = plannedWork(resolveSettings({ profile: 'small', sampling: { rollouts: 64 } }));
    expect(planned).toMatchObject({
      trained: 192,
      reuse: { uses: 4, passing: true, earlier: true },
    });
    const { trained: _, reuse: __, ...untrained } = planned;
    /** Seconds of the steps of three iterations, at a second a reply. */
    const steps = (passed: number): number => {
      const [left, others] = [planned, untrained].map((of) => {
        const time = new TimeLeft(of);
        time.take(at('before', 0, 0, 40), 0);
        time.take(at('before', 0, 40, 40, { hits: { all: { passed, decided: 40 } } }), 40_000);
        return time.left(40_000)!;
      });
      return left! - others!;
    };
    expect(steps(40)).toBeCloseTo(3 * 192, 0);
    // one of twenty passes: some 3, 6 and 9 rollouts, each four times
    expect(steps(1)).toBeGreaterThan(4 * (1 + 2 + 3));
    expect(steps(1)).toBeLessThan(4 * (5 + 10 + 15));
  });

  test('goes down while nothing is reported', () => {
    const time = new TimeLeft(PLANNED);
    time.take(at('before', 0, 0, 40), 0);
    time.take(at('before', 0, 10, 40), 10_000);
    expect(time.left(15_000)!).toBeCloseTo(time.left(10_000)! - 5, 6);
  });
});

describe('the screen', () => {
  const open: RunScreen[] = [];
  const screenOn = (
    terminal: Terminal,
    clock: { now: number },
    title = 'tiny on scheduling',
  ): RunScreen => {
    const screen = new RunScreen({
      title,
      planned: PLANNED,
      stream: terminal,
      now: () => clock.now,
      tick: 0,
    });
    open.push(screen);
    return screen;
  };
  afterEach(() => {
    for (const screen of open.splice(0)) screen[Symbol.dispose]();
  });

  test('has a stage, a bar and a time from the first moment on, while the model loads', () => {
    const terminal = new Terminal(80);
    const screen = screenOn(terminal, { now: 0 });
    expect(terminal.shown).toMatch(
      /^tiny on scheduling {3}loading {3}0:00, time left unknown\n\[-+\]$/,
    );
    screen.onDownload({ downloadedBytes: 250e6, totalBytes: 500e6 });
    expect(terminal.shown).toMatch(/\n\[#{15}-{15}\] fetched 250 MB of 500 MB$/);
  });

  test.each([80, 0, undefined, 48, 200])('of %s columns neither wraps nor cuts', (columns) => {
    const terminal = new Terminal(columns);
    const clock = { now: 0 };
    const screen = screenOn(
      terminal,
      clock,
      `/a/long/path/to/some/folder/with/${'a'.repeat(60)}/model.gguf on scheduling`,
    );
    const hits = Object.fromEntries(
      Array.from({ length: 9 }, (_, i) => [`tier-${i}`, { passed: 100 + i, decided: 200 }]),
    );
    for (const [progress, seconds] of course()) {
      clock.now = 1000 * seconds + 200;
      screen.onProgress({
        ...progress,
        tokens: 123_456 * progress.done,
        hits: progress.stage === 'rollouts' ? hits : {},
      });
      const lines = terminal.shown.split('\n');
      for (const line of lines) expect([line, line.length < terminal.width]).toEqual([line, true]);
      expect(lines.length).toBeLessThanOrEqual(9); // redrawn in place
      if (progress.iteration > 1) expect(terminal.shown).toMatch(/ left\n/);
      if (progress.stage === 'rollouts' && progress.done > 10 && terminal.width >= 80)
        for (const [tier, { passed, decided }] of Object.entries(hits))
          expect(terminal.shown).toContain(`${tier} ${passed}/${decided}`);
      if (progress.stage === 'training') expect(terminal.shown).toContain('resident');
    }
  });

  test('leaves nothing of itself, nor of what a terminal echoes of Ctrl-C', () => {
    const terminal = new Terminal(80);
    const screen = screenOn(terminal, { now: 0 });
    screen.onProgress(at('before', 0, 3, 40));
    terminal.write('^C');
    screen[Symbol.dispose]();
    terminal.write('error ABORTED\n');
    expect(terminal.shown).toBe('error ABORTED');
    screen.onProgress(at('before', 0, 9, 40)); // comes too late
    expect(terminal.shown).toBe('error ABORTED');
  });

  test('keeps the lines that are said for good, wrapped within the width', () => {
    const terminal = new Terminal(60);
    const screen = screenOn(terminal, { now: 0 });
    screen.onProgress(at('before', 0, 3, 40));
    screen.onNotice('a checkpoint was refused, since another version of the code had written it');
    screen.onProgress(at('dev', 0, 0, 20));
    screen.clear();
    expect(terminal.shown.replace(/\s+/g, ' ').trim()).toBe(
      '0:00 a checkpoint was refused, since another version of the code had written it',
    );
    for (const line of terminal.shown.split('\n')) expect(line.length).toBeLessThanOrEqual(60);
  });

  test('has colours, and none with NO_COLOR', () => {
    const shownWith = (value: string | undefined): Terminal => {
      const before = process.env.NO_COLOR;
      if (value === undefined) delete process.env.NO_COLOR;
      else process.env.NO_COLOR = value;
      try {
        const terminal = new Terminal(80);
        const screen = screenOn(terminal, { now: 0 });
        screen.onNotice('a notice');
        screen.onProgress(at('before', 0, 20, 40));
        return terminal;
      } finally {
        if (before === undefined) delete process.env.NO_COLOR;
        else process.env.NO_COLOR = before;
      }
    };
    const [painted, plain] = [shownWith(undefined), shownWith('1')];
    expect(painted.paints.size).toBeGreaterThan(0);
    expect(plain.paints.size).toBe(0);
    expect(plain.shown.replace(/\d+ MB/, '')).toBe(painted.shown.replace(/\d+ MB/, ''));
  });

  test('elsewhere is plain lines: one a stage, one before the first step, and with the time left where a stage is long', () => {
    const written: string[] = [];
    const clock = { now: 0 };
    const screen = new RunScreen({
      title: 'm',
      planned: PLANNED,
      stream: { write: (text: string) => written.push(text) },
      now: () => clock.now,
    });
    open.push(screen);
    for (const [progress, seconds] of course()) {
      clock.now = 1000 * seconds;
      screen.onProgress(progress);
    }
    expect(written.filter((line) => /test set|dev set|rollouts|training,/.test(line)).length).toBe(
      COURSE.length,
    );
    expect(
      written.filter((line) => line.includes('60 of 60 samples; first step running')).length,
    ).toBe(3);
    expect(written.filter((line) => /about \d+:\d\d left/.test(line)).length).toBeGreaterThan(3);
    for (const line of written) expect(line).toMatch(/^[\x20-\x7e]+\n$/);
  });
});

test('an iteration in which nothing passes says at once what to change', () => {
  const written: string[] = [];
  const screen = new RunScreen({
    title: 'm on rows.csv',
    stream: { write: (text) => written.push(text) },
  });
  screen.onBegin({
    folder: 'runs/x',
    runId: 'x',
    settings: resolveSettings({
      model: { name: 'm.gguf' },
      task: 'rows.csv',
      sampling: { maxTokens: 16, style: 'plain' },
    }),
    resumedAfter: null,
    resumedFrom: null,
    spentSeconds: 0,
  });
  const report = {
    iteration: 1,
    hitRate: 0,
    rollouts: {},
    refused: {},
    steps: 0,
    loss: null,
    dev: { mean: 0 },
    gate: null,
    rulesFired: [],
  };
  const rows = [{ kind: 'truncated', why: '', count: 3, example: null }] as const;
  screen.onIteration(report as unknown as IterationReport, { replies: 4, passed: 1, rows });
  expect(written.join('')).not.toContain('--examples');
  screen.onIteration(report as unknown as IterationReport, { replies: 3, passed: 0, rows });
  expect(written.join('').replace(/\s+/g, ' ')).toMatch(
    /3 of 3 replies were cut off at 16 tokens\. --examples 3 puts .* If answers are longer, raise --max-tokens.*; if/,
  );
  screen[Symbol.dispose]();
});

test('a run that goes on says so, and from where; one that begins says nothing', () => {
  const said = (
    begun: Pick<BegunRun, 'resumedAfter' | 'resumedFrom'> & Partial<BegunRun>,
  ): string => {
    const written: string[] = [];
    using screen = new RunScreen({
      title: 'm on t',
      stream: { write: (text) => written.push(text) },
    });
    screen.onBegin({
      folder: 'runs/x',
      runId: 'x',
      settings: resolveSettings({}),
      spentSeconds: 0,
      ...begun,
    });
    const notice = resumedNotice({ folder: 'runs/x', settings: resolveSettings({}), ...begun });
    if (notice !== null) screen.onNotice(notice);
    return written.join('');
  };
  expect(said({ resumedAfter: null, resumedFrom: null })).toBe('');
  expect(said({ resumedAfter: 0, resumedFrom: 'prepared' })).toMatch(
    /continues the run in runs\/x: the first evaluations are done/,
  );
  expect(said({ resumedAfter: 2, resumedFrom: 'iteration' })).toMatch(
    /continues the run in runs\/x: iteration 2 of 6 is done\n$/,
  );
  expect(said({ resumedAfter: 6, resumedFrom: 'submitted' })).toMatch(
    /: training and the last evaluations are done/,
  );
  expect(said({ resumedAfter: 2, resumedFrom: 'iteration', spentSeconds: 725 })).toMatch(
    /^ *12:05 {2}continues/,
  );
});

test('an iteration says how many passing replies are left out, and why', () => {
  const written: string[] = [];
  using screen = new RunScreen({
    title: 'm on t',
    stream: { write: (text) => written.push(text) },
  });
  const rollouts = { T0: { sampled: 64, passed: 19, failed: 45, undecided: 0, admitted: 7 } };
  const report = {
    iteration: 1,
    hitRate: 19 / 64,
    rollouts,
    steps: 2,
    loss: null,
    dev: { mean: 0 },
    gate: null,
    rulesFired: [],
  };
  const none = { replies: 64, passed: 19, rows: [] };
  screen.onIteration(
    { ...report, refused: { incomplete: 1, duplicate: 11 } } as unknown as IterationReport,
    none,
  );
  expect(written.join('')).toMatch(
    /29\.7 %, 7 to train on \(12 more passed: 11 nearly the same as another reply .*, 1 cut off\), 2 steps/,
  );
  screen.onIteration({ ...report, refused: { failed: 12 } } as unknown as IterationReport, none);
  expect(written.at(-1)).toMatch(
    /7 to train on \(12 more passed: 12 not what this control trains on\), 2 steps/,
  );
  screen.onIteration({ ...report, refused: {} } as unknown as IterationReport, none);
  expect(written.at(-1)).toMatch(/7 to train on, 2 steps/);
});
