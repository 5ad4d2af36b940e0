import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import {
  attemptOf,
  exclusionOf,
  feedbackOf,
  processFinding,
  standingOf,
  type Attempt,
} from '../../src/harness/attempts.js';
import { IsoproError } from '../../src/errors.js';
import { goldScenarios, readReviews } from '../../src/harness/reviews.js';
import { judgeRun, type JudgeReport } from '../../src/judge/judge.js';
import type { Violation } from '../../src/judge/obligations.js';
import { LogReader } from '../../src/log/read.js';
import { harnessAgree } from '../../src/operations/harness-agree.js';
import { harnessReview } from '../../src/operations/harness-review.js';
import { makeAttempts, type AttemptsOptions } from '../../src/operations/harness-run.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';
import { mergeSettings } from '../../src/training/settings.js';
import { SETTINGS, writeRemedyInputs } from '../models/remedy-runs.js';
import { temporaryFolder } from '../models/signed-log.js';

const folder = temporaryFolder();
afterAll(folder.remove);

const attempt = (index: number, change: Partial<Attempt> = {}): Attempt => ({
  format: 'isopro.attempt.v1',
  index,
  settings: 's',
  run: `attempt-0${index}/run`,
  verdict: 'pass',
  failedStep: null,
  exercised: true,
  processScore: 0.9,
  obligations: 10,
  distinctRules: 3,
  violations: [],
  accuracy: 0.5,
  feedback: null,
  ...change,
});
const chance = (): 'chance' => 'chance';

describe('the best attempt', () => {
  test('fault 8: a lead in the third decimal, which may be chance, replaces nothing', () => {
    const attempts = [attempt(1), attempt(2, { processScore: 0.904, accuracy: 0.504 })];
    const { best, reasons } = standingOf(attempts, chance);
    expect(best).toBe(1);
    expect(reasons[1]).toBe(
      'attempt 2 does not replace attempt 1: accuracy not told apart from chance, process not told apart from chance',
    );
  });

  test('is replaced by one that is better on one axis and worse on none', () => {
    const better = attempt(2, { processScore: 1, obligations: 60 });
    const attempts = [attempt(1, { processScore: 0.2, obligations: 60 }), better];
    expect(processFinding(attempts[0]!, better)).toBe('better');
    expect(standingOf(attempts, chance).best).toBe(2);
    expect(standingOf(attempts, () => 'worse').best).toBe(1);
    expect(standingOf([attempt(1), attempt(2)], () => 'better').best).toBe(2);
  });

  test('fault 11, X16: a run in which nothing fired has no score, and cannot win', () => {
    const silent = attempt(2, {
      exercised: false,
      processScore: null,
      obligations: 0,
      distinctRules: 0,
      accuracy: 1,
    });
    expect(standingOf([attempt(1), silent], () => 'better').best).toBe(1);
    expect(standingOf([silent], () => 'better').best).toBeNull();
    expect(exclusionOf(silent)).toBe('its process was not exercised: 0 obligations of 0 rules');
  });

  test('an attempt that failed hard, or whose run has not ended, cannot win', () => {
    const failed = attempt(1, { verdict: 'hard_fail', failedStep: 'chain_integrity' });
    const { best, reasons } = standingOf([failed, attempt(2)], () => 'worse');
    expect(best).toBe(2);
    expect(reasons[0]).toBe('attempt 1 cannot win: it failed at chain_integrity');
    expect(standingOf([attempt(1, { verdict: 'not_ended' })], chance).best).toBeNull();
  });

  test('fault 9: violations have one order, whatever the order in which they were found', () => {
    const found: Violation[] = [
      { kind: 'missing', rule: 'R6', iteration: 4, detail: 'd' },
      { kind: 'late', rule: 'R1', iteration: 4, detail: 'c' },
      { kind: 'missing', rule: 'R1', iteration: 2, detail: 'b' },
      { kind: 'duplicate', rule: 'R1', iteration: 2, detail: 'a' },
    ];
    const of = (violations: readonly Violation[]): Attempt =>
      attemptOf(
        {
          verdict: 'pass',
          failure: null,
          violations,
          scores: {
            process_score: 0.5,
            process_axis_exercised: true,
            obligations: 8,
            violations: 4,
            distinct_rules_fired: 2,
          },
        } as unknown as JudgeReport,
        { index: 1, settings: 's', run: 'attempt-01/run', accuracy: null, feedback: null },
      );
    expect(of(found).violations.map(({ detail }) => detail)).toEqual(['a', 'b', 'c', 'd']);
    expect(of([...found].reverse())).toEqual(of(found));
    expect(feedbackOf([of([...found].reverse())])).toBe(feedbackOf([of(found)]));
  });

  test('feedback names scores and violations, a bounded number of them, and no test result', () => {
    const violations = Array.from({ length: 11 }, (_, i) => ({
      kind: 'missing',
      rule: 'R1',
      iteration: i,
      detail: 'x'.repeat(500),
    }));
    const text = feedbackOf([attempt(1, { violations, accuracy: 0.4321 }), attempt(2)])!;
    expect(text).toContain('Attempt 1: process score 0.90 of 10 obligations, 11 violations.');
    expect(text).toContain('- and 3 more');
    expect(text).toContain('Attempt 2: ');
    expect(text).not.toContain('0.43');
    expect(text.length).toBeLessThan(2500);
    expect(feedbackOf([])).toBeNull();
  });
});

describe('attempts at a real run', () => {
  writeRemedyInputs(folder.path);
  const out = join(folder.path, 'attempts');
  const settings = mergeSettings(SETTINGS, {
    iterations: 4,
    model: { name: join(folder.path, 'letters.gguf') },
    task: join(folder.path, 'letters.mjs'),
    monitor: { policy: 'human' },
  });
  const shown: string[] = [];
  const begun: string[] = [];
  const make = (change: Partial<AttemptsOptions> = {}) =>
    makeAttempts(settings, {
      out,
      attempts: 2,
      rules: {
        persistence: 1,
        coolDown: 0,
        r1: { updateRatioLow: 1e2, updateRatioHigh: 1e3 },
        r6: { relativeGradientLow: 1e6, minSteps: 0 },
      },
      ask: async (text) => {
        shown.push(text);
        return 'defer 1';
      },
      onBegin: ({ folder: run }) => void begun.push(run),
      ...change,
    });

  test('fault 4: an error ends the attempts; it does not repeat one', async () => {
    let calls = 0;
    const onBegin = (): void => {
      calls++;
      throw new TypeError('x is not a function');
    };
    await expect(make({ out: join(folder.path, 'failing'), onBegin })).rejects.toThrow(
      'x is not a function',
    );
    expect(calls).toBe(1);
    expect(readdirSync(join(folder.path, 'failing'))).toEqual(['attempt-01']);
    expect(existsSync(join(folder.path, 'failing', 'attempt-01', 'attempt.json'))).toBe(false);
  });

  test('fault 3, X17: the second is shown what came of the first, in the prompt that the log has the hash of', async () => {
    const { attempts, best } = await make();
    expect(attempts.map(({ verdict }) => verdict)).not.toContain('hard_fail');
    expect(attempts[0]!.violations.length).toBeGreaterThan(0);
    expect(best).toBe(1);
    const feedback = readFileSync(join(out, 'attempt-02', 'feedback.txt'), 'utf8');
    expect(feedback).toBe(feedbackOf(attempts.slice(0, 1)));
    expect(attempts.map((each) => each.feedback)).toEqual([
      null,
      createHash('sha256').update(feedback).digest('hex'),
    ]);
    const told = shown.filter((text) => text.includes('> Attempt 1: process score'));
    expect(told.length).toBeGreaterThan(0);
    expect(told.length).toBeLessThan(shown.length);
    const reader = new LogReader(join(out, 'attempt-02', 'run', 'log.sqlite'), RUN_STREAMS);
    const prompts: unknown[] = [];
    for await (const { payload } of reader.records())
      if (payload.kind === 'question') prompts.push(payload.prompt);
    reader.close();
    expect(prompts).toEqual(told.map((text) => createHash('sha256').update(text).digest('hex')));
  }, 120_000);

  test('fault 5: the same call makes no attempt again, and the best is not the last', async () => {
    begun.length = 0;
    const file = join(out, 'attempt-02', 'attempt.json');
    const judged = JSON.parse(readFileSync(file, 'utf8')) as object;
    writeFileSync(
      file,
      JSON.stringify({ ...judged, verdict: 'hard_fail', failedStep: 'chain_integrity' }),
    );
    const { best, reasons } = await make();
    expect(begun).toEqual([]);
    expect(best).toBe(1);
    expect(reasons[1]).toBe('attempt 2 cannot win: it failed at chain_integrity');
    // attempts with other settings are not compared with these
    const other = mergeSettings(settings, { seed: '4' });
    await expect(makeAttempts(other, { out, attempts: 2 })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('attempt-01 holds an attempt with other settings'),
    });
    expect(begun).toEqual([]);
  });

  test('a person reviews its decisions; gold ones become scenarios with their true history', async () => {
    const run = join(out, 'attempt-01', 'run');
    const said = ['what?', 'gold', 'b too early', 'skip'];
    const asked: string[] = [];
    const result = await harnessReview
      .run(
        { run },
        {
          ask: async ([message]) => {
            asked.push(message!.content);
            const words = said.shift();
            if (words === undefined) throw new IsoproError('ABORTED', 'the input ended');
            return words;
          },
        },
      )
      .catch((error: unknown) => error);
    // the input ended before the last decision: what was said is kept
    expect(result).toMatchObject({ code: 'ABORTED' });
    expect(asked[0]).toBe(asked[1]);
    expect(asked[0]).toMatch(/^Decision 1 of \d+: iteration 1, R6\nfired on its low side: /);
    expect(readReviews(run)).toEqual([
      { iteration: 1, rule: 'R6', verdict: 'gold', note: null },
      expect.objectContaining({ verdict: 'bad', note: 'too early' }),
      expect.objectContaining({ verdict: 'skip', note: null }),
    ]);
    const rest = await harnessReview.run({ run }, { ask: async () => 'gold, as it should be' });
    expect(rest.verdicts).toMatchObject({ bad: 1, skip: 1 });
    expect(rest.scenarios).toBe(rest.verdicts.gold);
    expect(rest.withoutQuestion).toBe(0);
    const { scenarios } = await goldScenarios(run);
    for (const { context, expected, iteration } of scenarios) {
      expect(expected).toBe('defer 1');
      expect(context.measurements.iteration).toBe(iteration);
      expect(context.history.every((each) => each.iteration < iteration)).toBe(true);
    }
    // asked again, the same decider says the same; another one does not
    const agreement = await harnessAgree.run({ runs: [run], policy: 'observe' });
    expect(agreement.asked.length).toBe(scenarios.length);
    expect(agreement.agrees).toBe(0);
    expect(agreement.asked.every(({ choice }) => choice === 'defer 5')).toBe(true);
    await expect(harnessReview.run({ run })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  test('the judge does not mind the reviews', async () => {
    const { verdict } = await judgeRun({
      folder: join(out, 'attempt-01', 'run'),
      model: join(folder.path, 'letters.gguf'),
      task: join(folder.path, 'letters.mjs'),
      heldOut: 'none',
      fresh: 0,
    });
    expect(verdict).not.toBe('hard_fail');
  }, 60_000);
});
