/**
 * run() with a caller's policy: it decides, the log holds what it decided, and the judge passes the
 * run and names it.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { run, type Policy, type RunOptions, type RunResult } from '../../src/index.js';
import { judgeRun } from '../../src/judge/judge.js';
import { LogReader, type LogRecord } from '../../src/log/read.js';
import { runCli } from '../cli/run-cli.js';
import { REMEDY_RUNS, SETTINGS, writeRemedyInputs } from '../models/remedy-runs.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-policy-'));
  process.env.ISOPRO_HOME = path.join(folder, 'home');
  writeRemedyInputs(folder);
});
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

/** A run in which R1 fires on its high side after every iteration. */
const fast = (out: string, options: RunOptions): Promise<RunResult> =>
  run(
    {
      ...SETTINGS,
      model: { ...SETTINGS.model, name: path.join(folder, 'letters.gguf') },
      task: path.join(folder, 'tiers.mjs'),
    },
    { out: path.join(folder, out), rules: REMEDY_RUNS['set_lr down']!.rules, ...options },
  );
function logged(out: string, kind: string): LogRecord['payload'][] {
  const reader = new LogReader(path.join(folder, out, 'log.sqlite'), RUN_STREAMS);
  try {
    return [...reader.records()]
      .filter(({ payload }) => payload.kind === kind)
      .map(({ payload }) => payload);
  } finally {
    reader.close();
  }
}
const judged = (out: string): ReturnType<typeof judgeRun> =>
  judgeRun({
    folder: path.join(folder, out),
    model: path.join(folder, 'letters.gguf'),
    task: path.join(folder, 'tiers.mjs'),
  });

/**
 * Quarters the rate where R1 is high, once it has looked at what was measured; waits out everything
 * else.
 */
const quarter: Policy = {
  name: 'quarter-the-rate',
  decide: async ({ rule, evaluations, measurements, settings: { learningRate } }) => {
    const { iteration, rules } = evaluations.at(-1)!;
    const ratios = measurements.steps.flatMap(({ modules }) =>
      Object.values(modules).map(({ updateRatio }) => updateRatio),
    );
    return rule === 'R1' && rules.R1.side === 'high' && Math.max(...ratios) > 0
      ? {
          event_type: 'hyperparameter_change',
          cites: ['R1'],
          justification: `up to ${Math.max(...ratios)} a step`,
          remedy_direction: 'decrease_lr',
          edit: [{ op: 'set_lr', from: learningRate, to: learningRate / 4 }],
          deferral: null,
        }
      : {
          event_type: 'rule_triggered_no_action',
          cites: [rule],
          justification: 'wait',
          remedy_direction: 'none',
          edit: [],
          deferral: { until: iteration + 3, reason: 'wait' },
        };
  },
};

describe("a caller's policy", () => {
  test('decides, in the log and by name before the judge; a run that was cancelled while it decided goes on with it', async () => {
    const result = await fast('whole', { policy: quarter });
    const decisions = logged('whole', 'decision').filter(
      ({ cites }) => (cites as string[])[0] === 'R1',
    );
    expect(decisions[0]).toMatchObject({
      iteration: 2,
      edit: [{ op: 'set_lr', from: 0.01, to: 0.0025 }],
    });
    expect(logged('whole', 'effect')[0]).toMatchObject({
      executed: true,
      measured: { learningRate: 0.0025 },
    });
    expect(result.iterations.map(({ learningRate }) => learningRate)).toEqual([
      0.01, 0.0025, 0.0025,
    ]);

    const report = await judged('whole');
    expect(report).toMatchObject({ verdict: 'pass', policy: 'quarter-the-rate' });
    expect(report.violations.filter(({ rule }) => rule === 'R1')).toEqual([]);
    const judge = [
      'judge',
      path.join(folder, 'whole'),
      '--model',
      path.join(folder, 'letters.gguf'),
      '--held-out',
      'none',
    ];
    expect((await runCli(judge)).stdout).toMatch(/^policy +quarter-the-rate$/m);

    const cancel = new AbortController();
    const waiting: Policy = {
      name: quarter.name,
      decide: (context, options) => {
        if (context.measurements.iteration < 2) return quarter.decide(context, options);
        setTimeout(() => cancel.abort(), 10);
        return new Promise<never>(() => undefined);
      },
    };
    await expect(
      fast('cancelled', { policy: waiting, signal: cancel.signal }),
    ).rejects.toMatchObject({ code: 'ABORTED' });
    expect((await fast('cancelled', { policy: quarter })).adapter.sha256).toBe(
      result.adapter.sha256,
    );
    expect(await judged('cancelled')).toMatchObject({
      verdict: 'pass',
      policy: 'quarter-the-rate',
    });
  }, 120_000);

  test('that throws, hangs or answers rubbish leaves its rule without an answer, typed, logged and told; the run goes on', async () => {
    const failing: Policy = {
      name: 'failing',
      decide: ({ measurements: { iteration } }) => {
        if (iteration === 1) throw new Error('the network is down');
        return iteration === 2 ? new Promise<never>(() => undefined) : ('decrease_lr' as never);
      },
    };
    const notices: string[] = [];
    const reports: unknown[] = [];
    const result = await fast('failing', {
      policy: failing,
      policyTimeout: 50,
      onNotice: (text) => notices.push(text),
      onRule: ({ refused }) => reports.push(refused?.code),
    });
    expect(result.iterations).toHaveLength(3);
    expect(result.iterations.map(({ learningRate }) => learningRate)).toEqual([0.01, 0.01, 0.01]);
    const codes = ['POLICY_FAILED', 'POLICY_TIMEOUT', 'DECISION_INVALID'];
    expect(logged('failing', 'refused').map(({ code }) => code)).toEqual(codes);
    expect(reports).toEqual(codes);
    expect(
      notices.filter((text) =>
        /gave no valid answer to R\d in iteration \d: the policy failing threw: the network is down/.test(
          text,
        ),
      ),
    ).toHaveLength(1);
    expect([...logged('failing', 'decision'), ...logged('failing', 'effect')]).toEqual([]);
    const report = await judged('failing');
    expect(report).toMatchObject({ verdict: 'pass', policy: 'failing' });
    // a rule that nobody answered is what the process score counts
    expect(report.violations).toContainEqual(
      expect.objectContaining({ kind: 'missing', rule: 'R1' }),
    );
  }, 120_000);

  test.each<[string, RunOptions, RegExp]>([
    ['no policy', { policy: 'scripted' as never }, /policy: expected/],
    ['no name', { policy: { decide: quarter.decide } as never }, /policy: expected/],
    [
      'a name that steers a terminal',
      { policy: { ...quarter, name: 'a\u001b[2J' } },
      /policy: expected/,
    ],
    [
      "another's name",
      { policy: { ...quarter, name: 'scripted' } },
      /is reserved for a built-in policy/,
    ],
    ['no time at all', { policy: quarter, policyTimeout: 0 }, /policyTimeout/],
    ['all the time', { policy: quarter, policyTimeout: Infinity }, /policyTimeout/],
  ])('with %s is refused before anything is opened', async (_, options, message) => {
    await expect(fast('refused', options)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(message),
    });
  });
});
