/**
 * What a model makes of a task before training: figures against counting by hand, and a model whose
 * rates are known.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { loadModel } from '../../src/engine/model.js';
import { calibrate, type CalibrationOptions } from '../../src/evaluation/calibrate.js';
import {
  calibrateTier,
  mixedAtK,
  recommend,
  type Calibrated,
  type CalibrationGroup,
  type CalibrationSample,
} from '../../src/evaluation/calibration.js';
import { IsoproError } from '../../src/errors.js';
import { longestReference } from '../../src/evaluation/longest-reference.js';
import { wholeSets } from '../../src/evaluation/evaluation-set.js';
import { dryRunText } from '../../src/cli/run/run-plan.js';
import { openTask } from '../../src/tasks/open-task.js';
import type { OpenTask, Problem } from '../../src/tasks/task.js';
import { planRun } from '../../src/training/dry-run.js';
import { resolveSettings } from '../../src/training/settings.js';
import { runCli } from '../cli/run-cli.js';
import { writeLetterModel, writeLetterTask } from '../models/letters.js';

const sample = (change: Partial<CalibrationSample> = {}): CalibrationSample => ({
  kind: 'fail',
  formed: true,
  finish: 'stop',
  tokens: 10,
  longest: change.tokens ?? 10,
  ...change,
});
const references = (tokens: number | null, unread = 0): Calibrated['references'] => ({
  tokens,
  unread,
});
/** A problem of which so many of eight replies pass. */
const group = (
  tier: string,
  passed: number,
  rest: Partial<CalibrationSample> = {},
): CalibrationGroup => ({
  tier,
  samples: Array.from({ length: 8 }, (_, i) =>
    i < passed ? sample({ kind: 'pass' }) : sample(rest),
  ),
});
const times = <T>(count: number, of: T): T[] => Array.from({ length: count }, () => of);
const tier = (id: string, trains = true) => ({ id, trains });

test('the chance of a mixed group is that of all draws of k of the samples', () => {
  for (let n = 2; n <= 8; n++)
    for (let passed = 0; passed <= n; passed++)
      for (let k = 1; k <= n; k++) {
        let [mixed, all] = [0, 0];
        for (let drawn = 0; drawn < 2 ** n; drawn++) {
          const chosen = Array.from({ length: n }, (_, i) => i).filter(
            (i) => ((drawn >> i) & 1) === 1,
          );
          if (chosen.length !== k) continue;
          all++;
          const hits = chosen.filter((i) => i < passed).length;
          if (hits > 0 && hits < k) mixed++;
        }
        expect(mixedAtK(n, passed, k)).toBeCloseTo(mixed / all, 12);
      }
});

describe('a tier', () => {
  test('counts passes, mixed groups, form and what was cut off, each apart', () => {
    const groups = [
      group('A', 8),
      group('A', 2, { formed: false, finish: 'length', tokens: 30 }),
      group('A', 4),
      group('A', 0),
      group('other', 8),
    ];
    const found = calibrateTier(tier('A'), groups, 8, 4);
    expect(found).toMatchObject({
      problems: 4,
      none: 0,
      advice: 'learn',
      tokensPerReply: (32 * 10 + 6 * 20) / 32,
      repliesPerSecond: 8,
    });
    expect(found.passAt1).toMatchObject({ mean: 14 / 32, n: 4 });
    expect(found.passAtAll.mean).toBe(3 / 4);
    expect(found.mixed.mean).toBe(2 / 4);
    expect(found.format.mean).toBe(26 / 32);
    expect(found.truncated).toBe(6 / 32);
  });

  test('leaves a problem out of which a verdict is missing, and says how many are', () => {
    const found = calibrateTier(
      tier('A'),
      [group('A', 4), group('A', 7, { kind: 'none', formed: false })],
      8,
      null,
    );
    expect(found).toMatchObject({
      problems: 1,
      none: 1,
      passAt1: { mean: 0.5, n: 1 },
      format: { mean: 1 },
      repliesPerSecond: null,
    });
    expect(calibrateTier(tier('A'), [], 8, 1)).toMatchObject({
      problems: 0,
      passAt1: { mean: null },
      advice: 'unknown',
    });
  });

  test.each([
    [[...times(9, group('A', 0)), group('A', 1)], 'learn'],
    [[...times(19, group('A', 0)), group('A', 1)], 'too hard'],
    [[...times(19, group('A', 8)), group('A', 7)], 'solved'],
  ] as const)('is worth training on from a tenth of mixed groups on', (groups, advice) => {
    expect(calibrateTier(tier('A'), groups, 8, 1).advice).toBe(advice);
  });
});

describe('what is recommended', () => {
  const recommended = (
    groups: readonly CalibrationGroup[],
    held: readonly string[] = [],
    known: Partial<Calibrated> = {},
  ): ReturnType<typeof recommend> => {
    const ids = [...new Set(groups.map((each) => each.tier))];
    const tiers = ids.map((id) => calibrateTier(tier(id, !held.includes(id)), groups, 8, 1));
    return recommend(tiers, groups, {
      samples: 8,
      maxTokens: 512,
      mostTokens: 4096,
      references: references(null),
      ...known,
    });
  };

  test('tiers with mixed groups, and a lower floor where others take part', () => {
    const { tiers, settings, reasons } = recommended(
      [...times(9, group('A', 4)), ...times(9, group('B', 0)), ...times(9, group('C', 4))],
      ['C'],
    );
    expect(tiers).toEqual(['A']);
    expect(settings).toEqual({ samples: 4, rollouts: 128, maxTokens: 32, allocationFloor: 0.1 });
    expect(reasons).toEqual([expect.stringMatching(/^B is too hard: for 0 %/)]);
  });

  test('more samples and rollouts the rarer a reply passes, up to a bound', () => {
    expect(recommended(times(9, group('A', 1))).settings).toMatchObject({
      samples: 4,
      rollouts: 512,
    });
    expect(
      recommended([...times(4, group('A', 0)), ...times(5, group('A', 1))]).settings,
    ).toMatchObject({ samples: 8, rollouts: 920 });
    expect(
      recommended([...times(8, group('A', 0)), ...times(2, group('A', 1))]).settings,
    ).toMatchObject({ samples: 16, rollouts: 2048 });
    const three = ['A', 'B', 'C'].flatMap((id) => [
      ...times(8, group(id, 0)),
      ...times(2, group(id, 1)),
    ]);
    // 2,064 is nearer, and above it
    expect(recommended(three).settings).toMatchObject({ samples: 16, rollouts: 42 * 48 });
  });

  test('more tokens where replies are cut off, as many as its reason says', () => {
    const { settings, reasons } = recommended(
      times(9, group('A', 4, { finish: 'length', tokens: 512 })),
    );
    expect(settings).toMatchObject({ maxTokens: 1024 });
    expect(reasons).toEqual([
      expect.stringMatching(/cut off at 512 tokens: allow more, such as 1024$/),
    ]);
  });

  test('never fewer tokens than the longest right reply has, of a tier that is held out, too', () => {
    const known = times(9, group('A', 4));
    expect(recommended(known).settings).toMatchObject({ maxTokens: 32 });
    expect(recommended(known, [], { references: references(75) }).settings).toMatchObject({
      maxTokens: 96,
    });
    const cut = recommended(known, [], { maxTokens: 20, references: references(75) });
    expect(cut.settings).toMatchObject({ maxTokens: 96 });
    expect(cut.reasons).toEqual(['correct replies have up to 75 tokens, but only 20 were allowed']);
    const ended = times(9, group('A', 4, { finish: 'length', tokens: 20 }));
    expect(
      recommended(ended, [], { maxTokens: 20, references: references(75) }).settings,
    ).toMatchObject({ maxTokens: 96 });
    expect(
      recommended(ended, [], { maxTokens: 20, references: references(30) }).settings,
    ).toMatchObject({ maxTokens: 40 });
    const crowded = recommended(known, [], { mostTokens: 600, references: references(9000) });
    expect(crowded.settings).toMatchObject({ maxTokens: 600 });
    expect(crowded.reasons.at(-1)).toMatch(
      /the context has room for 600 tokens, but correct replies have up to \d+: use a larger context$/,
    );
    expect(recommended(known, [], { references: references(75, 3) }).reasons).toEqual([
      'the correct replies to 3 problems were not measured and may be longer',
    ]);
  });

  test('nothing of how hard a tier is on which the verifier does not decide', () => {
    const undecided = times(9, group('A', 0, { kind: 'none' }));
    expect(recommended(undecided)).toEqual({
      tiers: [],
      settings: null,
      reasons: [
        'A is unknown: the verifier gave no verdict on 72 of 72 replies',
        expect.stringMatching(/^it is not known whether A can be learned from: `tasks verify`/),
      ],
    });
    const beside = recommended([...undecided, ...times(9, group('B', 4))]);
    expect([beside.tiers, beside.reasons.length]).toEqual([['B'], 1]);
    const unended = times(9, { tier: 'A', samples: times(3, sample()) });
    expect(recommended(unended).reasons).toEqual([
      'A is unknown: no problem has a complete set of replies',
      expect.stringMatching(
        /^it is not known whether A can be learned from: run `tasks calibrate`/,
      ),
    ]);
    // one lost verdict is not why half of the replies are missing
    const both = times(9, {
      tier: 'A',
      samples: [...times(3, sample()), sample({ kind: 'none' })],
    });
    expect(recommended(both).reasons[0]).toBe(
      'A is unknown: no problem has a complete set of replies',
    );
    // nor does what is known of one tier say anything of another
    expect(recommended([...undecided, ...times(9, group('B', 8))]).reasons.at(-1)).toMatch(
      /^it is not known whether A can be learned from/,
    );
    const none = recommend([calibrateTier(tier('A'), [], 8, 1)], [], {
      samples: 8,
      maxTokens: 16,
      mostTokens: 64,
      references: references(null),
    });
    expect(none.reasons).toEqual([
      'A is unknown: no problem could be drawn from it',
      expect.stringMatching(
        /^it is not known whether A can be learned from: all problems are in the evaluation sets/,
      ),
    ]);
  });

  test('a larger context, and not more tokens, where episodes have no room for their next turn', () => {
    const { settings, reasons } = recommended(
      times(9, group('A', 4, { finish: 'context', formed: false, tokens: 500 })),
    );
    expect(settings).toMatchObject({ maxTokens: 32 });
    expect(reasons).toEqual([
      expect.stringMatching(
        /^A: 50 % of the episodes have no room .*: give the model a larger context/,
      ),
    ]);
    const some = [
      ...times(6, group('A', 4)),
      ...times(3, group('A', 4, { finish: 'context' })),
      ...times(3, group('A', 4, { finish: 'length' })),
    ];
    const both = recommended(some);
    expect(both.settings).toMatchObject({ maxTokens: 512 });
    expect(both.reasons).toEqual([
      expect.stringMatching(
        /^A: 13 % of the episodes have no room .*: give the model a larger context/,
      ),
    ]);
    // whether the form is known cannot be told either
    expect(
      recommended(times(40, group('A', 0, { finish: 'context', formed: false }))).reasons,
    ).toEqual([
      expect.stringMatching(/^A is too hard/),
      expect.stringMatching(
        /^no tier .*: 100 % of a tier's episodes have no room for their next turn, .*: give the model a larger context/,
      ),
    ]);
  });

  test('more tokens first where every reply was cut off, and not easier problems', () => {
    const { tiers, settings, reasons } = recommended(
      times(9, group('A', 0, { finish: 'length', formed: false, tokens: 512 })),
    );
    expect([tiers, settings]).toEqual([[], null]);
    expect(reasons).toEqual([
      expect.stringMatching(/^A is too hard/),
      expect.stringMatching(
        /^9 problems per tier are too few to be sure: for up to \d+ % of the problems, some replies may pass and some fail/,
      ),
      expect.stringMatching(
        new RegExp(
          '^no tier has enough problems of which some replies pass and some fail: 100 % .* cut off at 512 tokens.*: ' +
            'allow more, such as 1024$',
        ),
      ),
    ]);
  });

  test('nothing where nothing is mixed, with what to do instead', () => {
    const hard = recommended(times(9, group('A', 0, { formed: false })));
    expect(hard).toMatchObject({ tiers: [], settings: null });
    expect(hard.reasons.join('\n')).toMatch(
      /too hard[^]*0 % of the replies are well-formed[^]*easier problems/,
    );
    expect(recommended(times(40, group('A', 0))).reasons.join('\n')).not.toContain(
      'too few to be sure',
    );
    expect(recommended(times(9, group('A', 8))).reasons.at(-1)).toContain('harder problems');
    const shown = times(9, group('A', 0));
    expect(recommended(shown, [], { unshown: 'rows' }).reasons.at(-1)).toMatch(
      /first show the model what an answer looks like: --examples 3 .* Otherwise use easier problems/,
    );
    expect(recommended(times(9, group('A', 4)), ['A'])).toEqual({
      tiers: [],
      settings: null,
      reasons: ['all these tiers are held out of training'],
    });
  });
});

describe('the longest right reply', () => {
  /** One token a letter. */
  const model = { tokenize: (text: string) => new Int32Array(text.length) };
  const problems = Array.from({ length: 10 }, (_, i) => ({ id: String(i), tier: 'A' }));
  const taskOf = (referenceReply: (i: number) => string | null): OpenTask =>
    ({
      hasReferences: true,
      referenceReply: ({ id }: Problem) => Promise.resolve().then(() => referenceReply(Number(id))),
    }) as unknown as OpenTask;
  const longest = (reply: (i: number) => string | null, signal?: AbortSignal) =>
    longestReference(model, taskOf(reply), problems, 'plain', signal);

  test('is that of all of which one is known; what fails is passed over and counted', async () => {
    expect(await longest((i) => 'x'.repeat(i))).toEqual({ tokens: 10, unread: 0 });
    expect(await longest(() => null)).toEqual({ tokens: null, unread: 0 });
    const failing = (i: number): string => {
      if (i < 2) throw new IsoproError('TASK_INVALID', 'no reply');
      return 'x'.repeat(10 * i);
    };
    expect(await longest(failing)).toEqual({ tokens: 91, unread: 2 });
  });

  test('is looked for until time runs out or the caller has enough', async () => {
    let now = 0;
    const clock = jest.spyOn(performance, 'now').mockImplementation(() => now);
    const slow = (): string => {
      now += 2_000;
      return 'xx';
    };
    expect(await longest(slow)).toEqual({ tokens: 3, unread: 7 });
    clock.mockRestore();
    const stop = new AbortController();
    const stopping = (i: number): string => {
      if (i === 3) stop.abort();
      return 'x';
    };
    await expect(longest(stopping, stop.signal)).rejects.toMatchObject({ code: 'ABORTED' });
  });
});

describe('a model that says one of eight letters', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'isopro-calibrate-'));
  const at = (name: string): string => path.join(folder, name);
  let task: OpenTask;
  beforeAll(async () => {
    writeLetterModel(at('letters.gguf'));
    writeLetterTask(at('letters.mjs'));
    task = await openTask(at('letters.mjs'));
  });
  afterAll(async () => {
    await task.dispose();
    rmSync(folder, { recursive: true });
  });
  const options: CalibrationOptions = {
    problems: 32,
    samples: 8,
    seed: 1n,
    style: 'plain',
    temperature: 1,
    topP: 1,
    maxTokens: 4,
    maxSequences: 64,
  };

  test('passes about as often as letters are right, in problems that training may draw', async () => {
    await using model = await loadModel(at('letters.gguf'), { threads: 1, contextTokens: 8192 });
    const drawn: string[] = [];
    const watched = new Proxy(task, {
      get: (of, name) => {
        const value: unknown = Reflect.get(of, name, of);
        if (typeof value !== 'function') return value;
        return (...given: unknown[]) => {
          if (name === 'judge') drawn.push((given[0] as Problem).id);
          return value.apply(of, given) as unknown;
        };
      },
    });
    const found = await calibrate(model, watched, options);
    expect(found.replies).toBe(2 * 32 * 8);
    // L2 is held out of training
    expect(found.tiers.map((each) => each.tier)).toEqual(['L0', 'L1']);
    const held = new Set((await wholeSets(task)).map(({ id }) => id));
    expect(drawn.filter((id) => held.has(id))).toEqual([]);
    expect(new Set(drawn).size).toBe(64);
    for (const [i, rate] of [1 / 8, 1 / 4].entries()) {
      const { passAt1, format, mixed } = found.tiers[i]!;
      // 256 replies: four standard errors
      expect(Math.abs(passAt1.mean! - rate)).toBeLessThan(0.08);
      expect(format.mean).toBeGreaterThan(0.9);
      expect(Math.abs(mixed.mean! - (1 - (1 - rate) ** 8 - rate ** 8))).toBeLessThan(0.3);
    }
    const { failures } = found;
    expect(failures.replies).toBe(found.replies);
    expect(failures.replies - failures.passed).toBe(
      failures.rows.reduce((sum, { count }) => sum + count, 0),
    );
    expect(failures.rows[0]).toMatchObject({
      kind: 'wrong',
      example: { tier: expect.stringMatching(/^L[01]$/), text: expect.any(String) },
    });
    const again = await calibrate(model, task, { ...options, tiers: ['L1'] });
    const untimed = ({ repliesPerSecond: _, ...rest }: (typeof found.tiers)[number]) => rest;
    expect(again.tiers.map(untimed)).toEqual([untimed(found.tiers[1]!)]);
    expect(again.recommended.reasons.at(-1)).toBe(
      'a run also trains on tiers that were not calibrated: L0',
    );
    await expect(calibrate(model, task, { ...options, tiers: ['L7'] })).rejects.toMatchObject({
      code: 'TIER_UNKNOWN',
    });
  });

  test('by the command: figures for a program, a table for a reader', async () => {
    const flags = [
      '--model',
      at('letters.gguf'),
      '--task',
      at('letters.mjs'),
      '--problems',
      '4',
      '--samples',
      '4',
      '--max-tokens',
      '4',
      '--threads',
      '1',
    ];
    const { stdout, code } = await runCli(['tasks', 'calibrate', ...flags, '--json']);
    expect(code).toBe(0);
    const found = JSON.parse(stdout) as {
      tiers: { tier: string; problems: number }[];
      recommended: { tiers: string[] };
    };
    expect(found).toMatchObject({
      problems: 4,
      samples: 4,
      maxTokens: 4,
      replies: 32,
      task: { id: 'letters' },
    });
    expect(found.tiers.map(({ tier, problems }) => [tier, problems])).toEqual([
      ['L0', 4],
      ['L1', 4],
    ]);
    const shown = await runCli(['tasks', 'calibrate', ...flags, '--tier', 'L2']);
    expect(shown.stdout).toMatch(
      /problems +pass@1 +pass@4 +mixed +format[^]*^L2 +4 .*\n.*held out$/m,
    );
    expect(shown.stdout).toMatch(/^why 14 of 16 replies did not pass/m);
  });

  test('before a run: --dry-run calibrates a model that is not the embedded one on few problems, and says on how many', async () => {
    const plan = await planRun(
      resolveSettings({
        task: at('letters.mjs'),
        model: { name: at('letters.gguf'), threads: 1 },
        sampling: { maxTokens: 4 },
        layers: { topLayers: 1 },
      }),
    );
    expect(plan.calibration).toMatchObject({ problems: 8, samples: 4, seconds: 30 });
    const [first] = plan.calibration!.tiers;
    expect(first).toMatchObject({ tier: 'L0', trains: true });
    expect(first!.problems).toBeGreaterThan(0);
    expect(first!.problems).toBeLessThanOrEqual(8);
    expect(dryRunText(plan)).toMatch(/short calibration: up to 8 problems per tier[^]*^L0 /m);
  });
});
