/**
 * Tasks of several turns: what the model is told between its replies, what is trained on, what a
 * judge makes of it.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { SampleRequest } from '../../src/backends/backend.js';
import { loadModel, type Model } from '../../src/engine/model.js';
import { evaluateGreedy, openTask, run, type OpenTask } from '../../src/index.js';
import { judgeRun } from '../../src/judge/judge.js';
import { ReplyReader } from '../../src/judge/replies.js';
import { verifyRollouts } from '../../src/judge/rollouts.js';
import type { LogReader, LogRecord } from '../../src/log/read.js';
import { readManifest } from '../../src/run-folder/manifest.js';
import type { RolloutRecord } from '../../src/run-folder/rollout-records.js';
import type { RunResult } from '../../src/training/result.js';
import { logRecords, rolloutsOf } from '../models/log-records.js';
import { writeLetterModel, writeLetterTask } from '../models/letters.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-turns-'));
const file = (name: string): string => path.join(folder, name);
process.env.ISOPRO_HOME = file('home');
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

/**
 * A pair of letters, each asked for in a turn of its own; the second question names the first
 * letter.
 */
const PAIR = `
  limits: { turns: 2 },
  step: (problem, replies) => (replies.length < 2 ? \`You said \${replies[0]}. And another letter?\` : null),
`;
/**
 * Passes where both letters do. The answer is the last one; the first one comes with the problem's
 * earlier replies.
 */
const pairTask = (name: string): void => {
  writeLetterTask(file(name), {
    verifier:
      "{ kind: [...answer].every((letter) => 'cd'.includes(letter)) ? 'pass' : 'fail', violations: [], metrics: {} }",
    numbers: 400,
    members: `${PAIR}
  tiers: [{ id: 'L0' }],
  parse: (text, problem, earlier) =>
    /^[a-h]$/.test(text) ? { ok: true, answer: [...earlier, text].join('') } : { ok: false, category: 'format', detail: 'a letter' },
`,
  });
};
const SETTINGS = {
  task: file('pair.mjs'),
  seed: '1',
  iterations: 3,
  signer: 'single-process',
  profile: 'downloaded',
  model: { name: file('letters.gguf'), threads: 1 },
  sampling: { rollouts: 96, samples: 8, maxTokens: 4 },
  optimiser: { stepsPerIteration: 16, batchSize: 8, learningRate: 0.006, warmupSteps: 2 },
  layers: { rank: 4, topLayers: 2 },
  evaluation: { devSize: 5, testSize: 20 },
  monitor: { patience: 9 },
} as const;

const recordsOf = (name: string): LogRecord[] => logRecords(file(name));

beforeAll(() => {
  writeLetterModel(file('letters.gguf'));
  pairTask('pair.mjs');
});

/** The run with rft, of which the tests below it read. */
let whole: RunResult;

describe.each(['rft', 'grpo'] as const)('a run with %s', (algorithm) => {
  let result: RunResult;
  beforeAll(async () => {
    result = await run({ ...SETTINGS, algorithm: { id: algorithm } }, { out: file(algorithm) });
    if (algorithm === 'rft') whole = result;
  }, 300_000);

  test('learns from whole episodes', () => {
    const { before, after, pairedP } = result.test;
    expect(after.byTier.L0!.mean).toBeGreaterThan(before.byTier.L0!.mean! + 0.3);
    expect(pairedP).toBeLessThan(0.01);
  });

  test('is found again by the judge, greedy episodes too', async () => {
    const { verdict, steps } = await judgeRun({
      folder: file(algorithm),
      model: file('letters.gguf'),
      task: file('pair.mjs'),
      heldOut: 'both',
      fresh: 5,
    });
    expect([
      verdict,
      steps.filter(({ step, status }) => [10, 12, 13].includes(step) && status === 'pass').length,
    ]).toEqual(['pass', 3]);
  });
});

test('a run that is stopped between episodes and started again ends with the adapter that it would have ended with', async () => {
  const settings = { ...SETTINGS, algorithm: { id: 'rft' } } as const;
  const stop = new AbortController();
  const stopped = run(settings, {
    out: file('stopped'),
    signal: stop.signal,
    onIteration: () => stop.abort(),
  });
  await expect(stopped).rejects.toMatchObject({ code: 'ABORTED' });
  expect(rolloutsOf(recordsOf('stopped')).length).toBeLessThan(rolloutsOf(recordsOf('rft')).length);
  const resumed = await run(settings, { out: file('stopped') });
  expect(resumed.adapter.sha256).toBe(whole.adapter.sha256);
}, 300_000);

describe('the log of episodes', () => {
  let model: Model;
  let task: OpenTask;
  let records: LogRecord[];
  beforeAll(async () => {
    model = await loadModel(file('letters.gguf'), { threads: 1 });
    task = await openTask(file('pair.mjs'));
    records = recordsOf('rft');
  });
  afterAll(async () => {
    await task.dispose();
    await model.dispose();
  });

  test('has each reply with what the model was told after it, in the tokens of its template', async () => {
    const rollouts = rolloutsOf(records);
    const whole = rollouts.filter(({ turns }) => turns !== undefined);
    expect(whole.length).toBeGreaterThan(200);
    // only a reply that was cut off ends an episode early
    expect(
      rollouts.filter(({ turns, finish }) => turns === undefined && finish === 'stop'),
    ).toEqual([]);
    for (const { tokenIds, turns, text, finish } of whole) {
      expect(turns).toHaveLength(1);
      const [{ tokens, text: first, said, saidIds }] = turns as [NonNullable<typeof turns>[number]];
      expect(said).toBe(`You said ${first}. And another letter?`);
      expect(saidIds).toEqual([
        ...model.renderTurn([{ role: 'user', content: 'x' }], { role: 'user', content: said }),
      ]);
      expect(model.detokenize(tokenIds.slice(0, tokens - 1))).toBe(first);
      expect(
        model.detokenize(finish === 'stop' ? tokenIds.slice(tokens, -1) : tokenIds.slice(tokens)),
      ).toBe(text);
    }
  });

  const verify = async (changed: readonly LogRecord[]): Promise<unknown> => {
    const { start } = readManifest(file('rft'));
    const reader = {
      records: ({ stream }: { stream: string }) =>
        changed.filter((record) => record.stream === stream),
    };
    const replies = new ReplyReader(model, start.evaluation.maxTokens);
    const figures = { policies: null, settings: start.settings } as never;
    return verifyRollouts({
      reader: reader as unknown as LogReader,
      start,
      task,
      model,
      replies,
      figures,
    });
  };
  const first = (): number =>
    records.findIndex(({ payload }) => payload.kind === 'rollout' && payload.turns !== undefined);
  const withChange = (change: (rollout: RolloutRecord) => object, at = first()): LogRecord[] =>
    records.map((record, i) =>
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

  test('is verified as it stands', async () => {
    expect(await verify(records)).toMatchObject({ undecided: 0, unverified: 0 });
  });

  test.each<[string, (rollout: RolloutRecord) => object, RegExp]>([
    [
      'another question',
      ({ turns }) => ({ turns: [{ ...turns![0]!, said: 'Say c.' }] }),
      /is not what the task says/,
    ],
    [
      'other tokens of the question',
      ({ turns }) => ({ turns: [{ ...turns![0]!, saidIds: [1, 2] }] }),
      /do not match the message/,
    ],
    [
      'another first reply',
      ({ turns }) => ({ turns: [{ ...turns![0]!, text: 'z' }] }),
      /does not match the sampled tokens/,
    ],
    [
      'replies cut elsewhere',
      ({ turns }) => ({ turns: [{ ...turns![0]!, tokens: 1 }] }),
      /no end token/,
    ],
    [
      'an episode that ends early',
      ({ tokenIds, turns }) => ({
        tokenIds: tokenIds.slice(0, turns![0]!.tokens),
        turns: undefined,
        text: turns![0]!.text,
      }),
      /the task continues after/,
    ],
  ])('%s is a hard fail', async (_what, change, message) => {
    await expect(verify(withChange(change))).rejects.toThrow(message);
  });

  test('of a greedy answer to a dev problem too', async () => {
    const at = records.findIndex(
      ({ payload }) => payload.kind === 'dev_reply' && payload.turns !== undefined,
    );
    await expect(
      verify(withChange(({ turns }) => ({ turns: [{ ...turns![0]!, said: 'Say c.' }] }), at)),
    ).rejects.toThrow(/is not what the task says/);
  });
});

describe('a task without turns of its own', () => {
  const asked: SampleRequest[] = [];
  /** Answers a, then b, then c. */
  const backend = {
    identity: { kind: 'counting', name: 'letters' },
    capabilities: {
      tokenIds: false,
      logprobs: false,
      seeds: false,
      adapters: false,
      grammar: false,
    },
    async *sample(request: SampleRequest) {
      asked.push(request);
      for (const [promptIndex, { messages }] of request.prompts.entries()) {
        const text = 'abc'[messages.filter(({ role }) => role === 'assistant').length]!;
        yield { promptIndex, sampleIndex: 0, text, finish: 'stop' as const, tokens: 2 };
      }
    },
    dispose: async () => undefined,
  };
  const evaluate = async (turns: number): Promise<{ kinds: string[]; tokens: unknown[] }> => {
    await using task = await openTask(file('again.mjs'), { turns });
    const problems = await Promise.all([0n, 1n].map((seed) => task.generate('L0', seed)));
    const { outcomes } = await evaluateGreedy(backend, task, problems, {
      style: 'cot',
      maxTokens: 4,
    });
    return {
      kinds: outcomes.map(({ kind }) => kind),
      tokens: outcomes.map(({ tokens }) => tokens),
    };
  };
  beforeAll(() =>
    writeLetterTask(file('again.mjs'), { members: "  feedback: () => 'That was not it.',\n" }),
  );

  test('is asked again with its feedback as often as it is opened with, and the last reply is judged', async () => {
    expect(await evaluate(2)).toEqual({ kinds: ['fail', 'fail'], tokens: [4, 4] });
    asked.length = 0;
    expect(await evaluate(3)).toEqual({ kinds: ['pass', 'pass'], tokens: [6, 6] });
    expect(asked.map(({ prompts }) => prompts.length)).toEqual([2, 2, 2]);
    const [question, ...rest] = asked[2]!.prompts[0]!.messages;
    expect([question!.content, ...rest]).toEqual([
      'tier L0 0: say a letter',
      { role: 'assistant', content: 'a' },
      { role: 'user', content: 'That was not it.' },
      { role: 'assistant', content: 'b' },
      { role: 'user', content: 'That was not it.' },
    ]);
    expect(new Set(asked.map(({ prompts }) => prompts[0]!.seeds[0])).size).toBe(3);
  });

  test('that gives no feedback has one turn, and a task with turns has no more than its own', async () => {
    writeLetterTask(file('once.mjs'));
    await expect(openTask(file('once.mjs'), { turns: 2 })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    await expect(openTask(file('pair.mjs'), { turns: 3 })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    await using single = await openTask(file('once.mjs'));
    await using pair = await openTask(file('pair.mjs'));
    expect([single.turns, pair.turns]).toEqual([1, 2]);
  });

  test('a step without a limit of turns, or that says no text, is TASK_INVALID', async () => {
    writeLetterTask(file('endless.mjs'), { members: "  step: () => 'more',\n" });
    await expect(openTask(file('endless.mjs'))).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringContaining('limits'),
    });
    writeLetterTask(file('mute.mjs'), { members: '  limits: { turns: 2 },\n  step: () => 7,\n' });
    await using task = await openTask(file('mute.mjs'));
    const problem = await task.generate('L0', 0n);
    await expect(task.step(problem, ['a'])).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringContaining('step'),
    });
  });
});
