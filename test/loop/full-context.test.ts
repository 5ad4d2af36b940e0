/**
 * Episodes whose next turn has no room in the context: they end there, the run goes on, and its
 * judge knows such an end.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { EMBEDDED_MODEL } from '../../src/engine/model-aliases.js';
import {
  evaluateGreedy,
  loadModel,
  localBackend,
  openTask,
  run,
  type Model,
  type OpenTask,
  type Problem,
} from '../../src/index.js';
import { judgeRun } from '../../src/judge/judge.js';
import { ReplyReader } from '../../src/judge/replies.js';
import { verifyRollouts } from '../../src/judge/rollouts.js';
import type { LogReader, LogRecord } from '../../src/log/read.js';
import { readManifest } from '../../src/run-folder/manifest.js';
import type { RolloutRecord } from '../../src/run-folder/rollout-records.js';
import type { RunProgress } from '../../src/training/hooks.js';
import { planRun } from '../../src/training/dry-run.js';
import type { RunResult } from '../../src/training/result.js';
import { logRecords, rolloutsOf } from '../models/log-records.js';
import { shortestRun, writeLetterModel, writeLetterTask } from '../models/letters.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-full-context-'));
const file = (name: string): string => path.join(folder, name);
process.env.ISOPRO_HOME = file('home');
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

describe('a run whose context holds one, two or three turns, as the problem is', () => {
  /**
   * In 512 tokens: a question has 47 to 159 of them, a reply 39 to 160, what is said of it 90 to
   * 300.
   */
  const SETTINGS = {
    task: 'scheduling',
    iterations: 1,
    signer: 'single-process',
    model: { name: EMBEDDED_MODEL, threads: 1, contextTokens: 512 },
    sampling: { rollouts: 28, samples: 4, maxTokens: 170, turns: 3 },
    optimiser: { stepsPerIteration: 1, batchSize: 4 },
    layers: { rank: 2, topLayers: 1 },
    evaluation: { devSize: 1, testSize: 1, forgetting: 0 },
  } as const;
  let whole: RunResult;
  let records: readonly LogRecord[];
  const recordsOf = (name: string): LogRecord[] => logRecords(file(name));
  const full = ({ finish }: RolloutRecord): boolean => finish === 'context';

  beforeAll(async () => {
    whole = await run(SETTINGS, { out: file('whole') });
    records = recordsOf('whole');
  }, 300_000);

  test('goes on to its end; an episode without room for its next turn fails as one that was cut off, and is not trained on', () => {
    const rollouts = rolloutsOf(records);
    expect(rollouts).toHaveLength(SETTINGS.sampling.rollouts);
    expect(new Set(rollouts.filter(full).map(({ turns = [] }) => turns.length))).toEqual(
      new Set([0, 1]),
    );
    for (const { verdict, form, admission } of rollouts.filter(full))
      expect([verdict.kind, verdict.violations, form, admission]).toEqual([
        'fail',
        ['truncated'],
        null,
        'incomplete',
      ]);
    expect(rollouts.some((rollout) => !full(rollout) && rollout.turns !== undefined)).toBe(true);
  });

  test('comes to the same when it is interrupted among such episodes and goes on', async () => {
    const stop = new AbortController();
    const onProgress = ({ stage, done }: Pick<RunProgress, 'stage' | 'done'>): void => {
      if (stage === 'rollouts' && done >= 20) stop.abort();
    };
    const stopped = run(SETTINGS, {
      out: file('stopped'),
      signal: stop.signal,
      keepSeconds: 0,
      onProgress,
    });
    await expect(stopped).rejects.toMatchObject({ code: 'ABORTED' });
    const resumed = await run(SETTINGS, { out: file('stopped') });
    expect(resumed.adapter.sha256).toBe(whole.adapter.sha256);
    expect(rolloutsOf(recordsOf('stopped'))).toEqual(rolloutsOf(records));
  }, 300_000);

  test('is found again by the judge, its evaluations too', async () => {
    const { steps } = await judgeRun({ folder: file('whole'), heldOut: 'both', fresh: 2 });
    expect(steps.filter(({ status }) => status === 'hard_fail')).toEqual([]);
    expect(
      steps.filter(({ step, status }) => [10, 12, 13].includes(step) && status === 'pass'),
    ).toHaveLength(3);
  }, 300_000);

  describe('its log', () => {
    let model: Model;
    beforeAll(async () => {
      model = await loadModel(EMBEDDED_MODEL, { threads: 1 });
    });
    afterAll(() => model.dispose());

    const verify = async (
      changed: readonly LogRecord[],
      contextTokens = 512,
      turns = 3,
      as = (task: OpenTask): OpenTask => task,
    ): Promise<unknown> => {
      await using opened = await openTask('scheduling', { turns });
      const task = as(opened);
      const { start } = readManifest(file('whole'));
      const reader = {
        records: ({ stream }: { stream: string }) =>
          changed.filter((record) => record.stream === stream),
      };
      return verifyRollouts({
        reader: reader as unknown as LogReader,
        start: { ...start, evaluation: { ...start.evaluation, contextTokens } },
        task,
        model,
        replies: new ReplyReader(model, start.evaluation.maxTokens),
        figures: { policies: null, settings: start.settings } as never,
      });
    };
    /** The first rollout of a kind changed, with the verdict that such an end has. */
    const forged = (
      of: (rollout: RolloutRecord) => boolean,
      change: (rollout: RolloutRecord) => Partial<RolloutRecord>,
    ): LogRecord[] => {
      const at = records.findIndex(
        ({ payload }) => payload.kind === 'rollout' && of(payload as unknown as RolloutRecord),
      );
      return records.map((record, i) =>
        i === at
          ? {
              ...record,
              payload: {
                ...record.payload,
                ...change(record.payload as unknown as RolloutRecord),
              } as never,
            }
          : record,
      );
    };
    const ended: Partial<RolloutRecord> = {
      finish: 'context',
      form: null,
      verdict: { kind: 'fail', violations: ['truncated'] },
      admission: 'incomplete',
    };

    test('is verified as it stands', async () => {
      expect(await verify(records)).toMatchObject({ undecided: 0, unverified: 0 });
    });

    test('is not refused where the judge finds no verdict on a reply that was answered, but counted', async () => {
      // a verifier that runs out of time on one reply for good: nothing follows it, and it has no
      // verdict
      const [{ text }] = rolloutsOf(records).filter(full) as [RolloutRecord];
      const losing = (task: OpenTask): OpenTask =>
        new Proxy(task, {
          get: (of, name) => {
            if (name === 'step')
              return async (problem: Problem, replies: readonly string[]) =>
                replies.at(-1) === text ? null : of.step(problem, replies);
            if (name === 'judge')
              return async (...given: Parameters<OpenTask['judge']>) => {
                const judged = await of.judge(...given);
                return given[1] === text && given[2] === 'stop'
                  ? { ...judged, verdict: { ...judged.verdict, kind: 'none' } }
                  : judged;
              };
            const value: unknown = Reflect.get(of, name, of);
            return typeof value === 'function' ? value.bind(of) : value;
          },
        });
      const found = (await verify(records, 512, 3, losing)) as { unverified: number };
      expect(found.unverified).toBeGreaterThan(0);
    });

    test('may end where the run found no verdict on a reply', async () => {
      const none = { kind: 'none', violations: [] } as unknown as RolloutRecord['verdict'];
      const ended = forged(full, () => ({ finish: 'stop', verdict: none }));
      expect(await verify(ended)).toMatchObject({ undecided: 1 });
    });

    test.each<[string, () => LogRecord[], RegExp]>([
      [
        'an episode that ended early, with room for its next turn',
        () =>
          forged(
            ({ turns }) => turns !== undefined,
            ({ tokenIds, turns }) => ({
              ...ended,
              tokenIds: tokenIds.slice(0, turns![0]!.tokens),
              text: turns![0]!.text,
              turns: undefined,
            }),
          ),
        /ended for lack of room, but the context of 512 tokens has room/,
      ],
      [
        'a reply that ended its episode as the task has it',
        () =>
          forged(
            ({ verdict }) => verdict.kind === 'pass',
            () => ended,
          ),
        /ended for lack of room, but the task ends there/,
      ],
      [
        'an end for want of room that is called one of the task',
        () => forged(full, () => ({ finish: 'stop' })),
        /the task continues after/,
      ],
      [
        'and one of the limit of tokens',
        () => forged(full, () => ({ finish: 'length' })),
        /cut off contains an end token/,
      ],
    ])('%s is a hard fail', async (_, changed, message) => {
      await expect(verify(changed())).rejects.toThrow(message);
    });

    test('of a run that says that it had more room, or less, is a hard fail', async () => {
      await expect(verify(records, 1024)).rejects.toThrow(/has room for another reply/);
      await expect(verify(records, 400)).rejects.toThrow(/has no room for reply 2/);
    });

    test('of a task without turns has no such end', async () => {
      await expect(
        verify(
          records.filter(
            ({ payload: { kind, turns } }) => kind !== 'rollout' || turns === undefined,
          ),
          512,
          1,
        ),
      ).rejects.toThrow(/the task ends there/);
    });
  });
});

describe('the last token of room', () => {
  const MAX_TOKENS = 120;
  beforeAll(() => {
    writeLetterModel(file('letters.gguf'));
    writeLetterTask(file('pair.mjs'), {
      members:
        "  limits: { turns: 2 },\n  step: (problem, replies) => (replies.length < 2 ? 'And another letter?' : null),\n",
    });
  });

  /** How an episode ended, after how many replies, and what the last one came to. */
  const ending = async (
    contextTokens: number,
    judgeTruncated = false,
  ): Promise<{ end: unknown[]; promptTokens: number }> => {
    await using model = await loadModel(file('letters.gguf'), { threads: 1, contextTokens });
    await using task = await openTask(file('pair.mjs'), { judgeTruncated });
    const end: unknown[] = [];
    let promptTokens = 0;
    await evaluateGreedy(localBackend(model), task, [await task.generate('L0', 1n)], {
      style: 'cot',
      maxTokens: MAX_TOKENS,
      onReply: ({ earlier, rollout, judgement: { verdict, form } }) => {
        end.push(rollout.finish, earlier.length + 1, verdict.violations[0]?.category ?? form);
        promptTokens = rollout.promptIds.length;
      },
    });
    return { end, promptTokens };
  };

  test('is used; with one token less the first reply ends the episode', async () => {
    const { end, promptTokens } = await ending(1024);
    const enough = promptTokens + MAX_TOKENS;
    expect(await ending(enough)).toEqual({ end, promptTokens });
    expect(end.slice(0, 2)).toEqual(['stop', 2]);
    expect((await ending(enough - 1)).end).toEqual(['context', 1, 'truncated']);
    expect((await ending(enough - 1, true)).end).not.toContain('truncated');
  });

  test('of a first question is not: that it has no room is an error', async () => {
    await expect(ending(128)).rejects.toMatchObject({
      code: 'CONTEXT_OVERFLOW',
      message: expect.stringMatching(
        /^the prompt of problem [0-9a-f]{12} of tier L0 \(".+"\) has \d+ tokens/,
      ),
    });
  });
});

describe('rows of which some are longer than the context', () => {
  const LONG = 'ab '.repeat(2000);
  const row = (i: number, isLong: boolean): string =>
    `${JSON.stringify({ prompt: `${isLong ? LONG : ''}${i}`, answer: 'a' })}\n`;
  const write = (long: ReadonlySet<number>): void =>
    writeFileSync(
      file('rows.jsonl'),
      Array.from({ length: 60 }, (_, i) => row(i, long.has(i))).join(''),
    );
  /**
   * So many of those that are trained on are made long ones: the evaluation sets stay as they are.
   */
  const lengthen = async (count: number): Promise<void> => {
    write(new Set());
    await using task = await openTask(file('rows.jsonl'));
    const trained = task.rows!.trained('all') as unknown as readonly {
      readonly messages: readonly { readonly content: string }[];
    }[];
    write(new Set(trained.slice(0, count).map(({ messages }) => Number(messages[0]!.content))));
  };
  beforeAll(() => writeLetterModel(file('letters.gguf')));
  const SHORTEST = shortestRun(file('rows.jsonl'), file('letters.gguf'));
  const settings = { ...SHORTEST, sampling: { ...SHORTEST.sampling, rollouts: 400 } };

  test('are not drawn, which is said once; the run goes on and is judged', async () => {
    await lengthen(5);
    const notices: string[] = [];
    const result = await run(settings, {
      out: file('rows'),
      onNotice: (text) => notices.push(text),
    });
    expect(notices.filter((text) => text.includes('are not used'))).toEqual([
      expect.stringMatching(
        /^the prompt of problem [0-9a-f]{12} of tier all \("ab .*…"\) has \d{4} tokens.*; this problem and others like it are not used/,
      ),
    ]);
    expect(result.iterations).toHaveLength(1);
    const { steps } = await judgeRun({
      folder: file('rows'),
      model: file('letters.gguf'),
      heldOut: 'both',
      fresh: 2,
    });
    expect(steps.filter(({ status }) => status === 'hard_fail')).toEqual([]);
  }, 120_000);

  test('in the test set end a run, and are told before it by --dry-run', async () => {
    const isTested = async (): Promise<boolean> => {
      await using task = await openTask(file('rows.jsonl'));
      return JSON.stringify(task.rows!.heldOut.test).includes(LONG);
    };
    for (let i = 0; i === 0 || !(await isTested()); i++) write(new Set([i]));
    const error = {
      code: 'CONTEXT_OVERFLOW',
      message: expect.stringMatching(/^the prompt of problem [0-9a-f]{12} of tier all \("ab ab/),
    };
    const all = { ...settings, evaluation: { ...settings.evaluation, testSize: 30 } };
    await expect(planRun(all)).rejects.toMatchObject(error);
    await expect(run(all, { out: file('tested') })).rejects.toMatchObject(error);
  });

  test('are all that there is to train on: an error says so', async () => {
    await lengthen(60);
    const error = {
      code: 'CONTEXT_OVERFLOW',
      message: expect.stringMatching(
        /^there is nothing to train on: the prompt of problem .* exceeds the context of 1024$/,
      ),
    };
    await expect(planRun(settings)).rejects.toMatchObject(error);
    await expect(run(settings, { out: file('long') })).rejects.toMatchObject(error);
  });
});
