import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Backend } from '../../src/backends/backend.js';
import { localBackend } from '../../src/backends/local.js';
import { loadModel, type Model } from '../../src/engine/model.js';
import { createTrainer } from '../../src/engine/trainer.js';
import { evaluationSet, type EvaluationSet } from '../../src/evaluation/evaluation-set.js';
import { evaluateGreedy } from '../../src/evaluation/greedy.js';
import { evaluatePassAtK } from '../../src/evaluation/pass-at-k.js';
import { scheduleFactor } from '../../src/judge/schedule.js';
import { openTask } from '../../src/tasks/open-task.js';
import type { OpenTask } from '../../src/tasks/task.js';
import { resolveSettings } from '../../src/training/settings.js';
import { runCli, runLines, type CliResult } from '../cli/run-cli.js';
import { writeLetterModel, writeLetterTask } from '../models/letters.js';
import { temporaryFolder } from '../models/signed-log.js';

const folder = temporaryFolder();
const file = (name: string): string => join(folder.path, name);
let model: Model;
let backend: Backend;
let task: OpenTask;
let set: EvaluationSet;
const OPTIONS = { style: 'plain', maxTokens: 4, maxSequences: 8 } as const;

beforeAll(async () => {
  mkdirSync(file('home'));
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'));
  model = await loadModel(file('letters.gguf'), {
    threads: 1,
    fixedThreads: true,
    contextTokens: 1024,
  });
  backend = localBackend(model);
  task = await openTask(file('letters.mjs'));
  set = await evaluationSet(task, 'test', 6);
}, 60_000);
afterAll(async () => {
  await model.dispose();
  await task.dispose();
  folder.remove();
});

describe('greedy', () => {
  test('outcomes are in the order of the problems, repeat, and are what the task says of each reply', async () => {
    const replies = new Map<string, string>();
    const first = await evaluateGreedy(backend, task, set.problems, {
      ...OPTIONS,
      onReply: ({ problem, rollout }) => void replies.set(problem.id, rollout.text),
    });
    expect(first.outcomes.map(({ problemId }) => problemId)).toEqual(
      set.problems.map(({ id }) => id),
    );
    const right: Record<string, string> = { L0: 'c', L1: 'cd', L2: 'b' };
    for (const { problemId, tier, kind } of first.outcomes) {
      const reply = replies.get(problemId)!;
      expect(kind).toBe(/^[a-h]$/.test(reply) && right[tier]!.includes(reply) ? 'pass' : 'fail');
    }
    expect(first.summary.n).toBe(18);
    expect((await evaluateGreedy(backend, task, set.problems, OPTIONS)).outcomes).toEqual(
      first.outcomes,
    );
  });
  test('an answer that is cut off fails', async () => {
    const { outcomes } = await evaluateGreedy(backend, task, set.problems, {
      ...OPTIONS,
      maxTokens: 1,
    });
    expect(new Set(outcomes.map(({ finish, kind }) => `${finish} ${kind}`))).toEqual(
      new Set(['length fail']),
    );
  });
  test('can be cancelled; no problems is an evaluation of nothing', async () => {
    await expect(
      evaluateGreedy(backend, task, set.problems, { ...OPTIONS, signal: AbortSignal.abort() }),
    ).rejects.toThrow(expect.objectContaining({ code: 'ABORTED' }) as never);
    expect(await evaluateGreedy(backend, task, [], OPTIONS)).toMatchObject({
      outcomes: [],
      summary: { mean: null, n: 0 },
    });
  });
});

describe('pass@k', () => {
  test('grows with k, depends on the seed alone, and pass@1 is the mean over samples', async () => {
    const sample = (seed: bigint): ReturnType<typeof evaluatePassAtK> =>
      evaluatePassAtK(backend, task, set.problems, {
        ...OPTIONS,
        samples: 8,
        temperature: 1,
        seed,
        ks: [1, 4, 8],
      });
    const result = await sample(3n);
    const at = (k: number): number => result.passAtK[k]!.mean!;
    expect(at(1)).toBeLessThan(at(4));
    expect(at(4)).toBeLessThan(at(8));
    const byTier = ['L0', 'L1', 'L2'].map((tier) => {
      const own = result.problems.filter((problem) => problem.tier === tier);
      return own.reduce((sum, { passed, samples }) => sum + passed / samples, 0) / own.length;
    });
    expect(at(1)).toBeCloseTo(byTier.reduce((sum, mean) => sum + mean, 0) / 3, 12);
    expect(result.passAtK[8]!.byTier.L1!.mean).toBeCloseTo(
      result.problems.filter(({ tier, passed }) => tier === 'L1' && passed > 0).length / 6,
      12,
    );
    expect(await sample(3n)).toEqual(result);
    expect((await sample(4n)).problems).not.toEqual(result.problems);
  });
});

describe('isopro-native eval', () => {
  const HOME = (): NodeJS.ProcessEnv => ({ ISOPRO_HOME: file('home'), NO_COLOR: '1' });
  const asked = (task: string, ...args: string[]): string[] => [
    'eval',
    '--model',
    file('letters.gguf'),
    '--task',
    file(task),
    '--style',
    'plain',
    '--max-tokens',
    '4',
    '--threads',
    '1',
    '--context',
    '1024',
    ...args,
  ];
  const evaluation = (...args: string[]): string[] =>
    asked('letters.mjs', '--per-tier', '6', '--batch', '8', ...args);
  const recorded = (...args: string[]): string[] => [
    'eval',
    '--backend',
    `recorded:${file('replies.jsonl')}`,
    '--task',
    file('letters.mjs'),
    '--style',
    'plain',
    '--json',
    ...args,
  ];
  const further = (name: string, ...args: string[]): string[] =>
    asked('further.mjs', '--json', '--out', file(`${name}.jsonl`), '--per-tier', '6', ...args);
  const UNWRITABLE = [
    ['of a folder that is not there', () => file('absent/replies.jsonl')],
    ...(existsSync('/dev/full') ? [['on a full disk', () => '/dev/full'] as const] : []),
  ] as const;
  const LINES = {
    recorded: () => recorded('--per-tier', '6'),
    beyond: () => recorded('--per-tier', '7'),
    recordedModel: () => recorded('--model', '4'),
    recordedBatch: () => recorded('--batch', '4'),
    elsewhere: () => evaluation('--backend', 'elsewhere'),
    ...Object.fromEntries(
      UNWRITABLE.map(([where, out]) => [where, () => evaluation('--out', out())]),
    ),
    plain: () => further('plain', '--few-shot', '2'),
    constrained: () => further('constrained', '--constrained'),
    sampled: () => further('sampled', '--samples', '3', '--temperature', '1'),
    without: () => evaluation('--constrained'),
    asRun: () => [
      'eval',
      '--model',
      file('letters.gguf'),
      '--task',
      file('letters.mjs'),
      '--per-tier',
      '1',
      '--threads',
      '1',
      '--samples',
      '2',
    ],
    passAtK: () => evaluation('--samples', '4', '--k', '1,4', '--temperature', '1'),
    wrongK: () => evaluation('--samples', '4', '--k', '8'),
  } as const satisfies Record<string, () => string[]>;
  /** The first in a process of its own, the others after it in one. */
  let greedy: CliResult;
  const said = new Map<string, CliResult>();
  const of = (name: string): CliResult => said.get(name)!;
  beforeAll(async () => {
    writeLetterTask(file('further.mjs'), {
      members: `
  readLeniently: (text) => text.match(/[a-h]/g) ?? [],
  answerGrammar: 'root ::= [b]',
  fewShot: async (problem, style, count) => Array.from({ length: 2 * count }, (_, i) => (
    { role: i % 2 === 0 ? 'user' : 'assistant', content: i % 2 === 0 ? 'say a letter' : 'b' })),
`,
    });
    greedy = await runCli(evaluation('--json', '--out', file('replies.jsonl')), HOME());
    const lines = Object.entries(LINES);
    const results = runLines(
      lines.map(([, line]) => line()),
      undefined,
      HOME(),
    );
    for (const [i, [name]] of lines.entries()) said.set(name, results[i]!);
  }, 120_000);

  test("greedy: the evaluator's own figures, n, and the policies beside them; replies on request", async () => {
    const { code, stdout } = greedy;
    expect(code).toBe(0);
    const report = JSON.parse(stdout) as {
      accuracy: unknown;
      trivialPolicies: Record<string, { mean: number; n: number }>;
      set: { sha256: string };
    };
    expect(report.accuracy).toEqual(
      JSON.parse(
        JSON.stringify((await evaluateGreedy(backend, task, set.problems, OPTIONS)).summary),
      ),
    );
    expect(report.set.sha256).toBe(set.sha256);
    expect(report.trivialPolicies.always_c).toMatchObject({ n: 18 });
    expect(readFileSync(file('replies.jsonl'), 'utf8').trim().split('\n')).toHaveLength(18);
  });
  test('a recording of these replies is judged without the model, to the same figures and counts', () => {
    const figures = ({ stdout }: { stdout: string }): object => {
      const { accuracy, promptTokens, sampledTokens } = JSON.parse(stdout) as Record<
        string,
        unknown
      >;
      return { accuracy, promptTokens, sampledTokens };
    };
    const judged = of('recorded');
    expect(figures(judged)).toEqual(figures(greedy));
    expect(JSON.parse(judged.stdout)).toMatchObject({
      model: null,
      backend: { kind: 'recorded', name: 'replies.jsonl' },
    });
    const beyond = of('beyond');
    expect([beyond.code, beyond.stdout]).toEqual([1, '']);
    expect(beyond.stderr).toContain('"RECORDING_INCOMPLETE"');
    // no model answers
    for (const name of ['recordedModel', 'recordedBatch', 'elsewhere'])
      expect(of(name).code).toBe(2);
  });
  test.each(UNWRITABLE)('replies into a file %s: WRITE_FAILED', (...[where]) => {
    const { code, stdout, stderr } = of(where);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^error WRITE_FAILED: .*could not be written/m);
    expect(stderr).not.toContain('at async');
  });
  test('under the grammar of answers, after solved examples, and leniently: what the replies say', () => {
    const found = (name: string) => {
      const { code, stdout, stderr } = of(name);
      expect([code, stderr.includes('error')]).toEqual([0, false]);
      const rows = readFileSync(file(`${name}.jsonl`), 'utf8')
        .trim()
        .split('\n');
      return {
        report: JSON.parse(stdout) as Record<
          string,
          { mean: number; format: { mean: number }; lenient: { mean: number } }
        >,
        rows: rows.map(
          (row) =>
            JSON.parse(row) as {
              text: string;
              tier: string;
              kind: string;
              prompt: { messages: object[] };
            },
        ),
      };
    };
    const share = (rows: readonly boolean[]): number => rows.filter(Boolean).length / rows.length;
    const right: Record<string, string> = { L0: 'c', L1: 'cd', L2: 'b' };
    const plain = found('plain');
    expect(plain.rows.every(({ prompt: { messages } }) => messages.length === 5)).toBe(true);
    expect(plain.report.accuracy!.format.mean).toBeCloseTo(
      share(plain.rows.map(({ text }) => /^[a-h]$/.test(text))),
      12,
    );
    expect(plain.report.accuracy!.lenient.mean).toBeCloseTo(
      share(
        plain.rows.map(({ text, tier }) =>
          [...right[tier]!].some((letter) => text.includes(letter)),
        ),
      ),
      12,
    );
    const constrained = found('constrained');
    expect(new Set(constrained.rows.map(({ text }) => text))).toEqual(new Set(['b']));
    expect(constrained.report).toMatchObject({
      constrained: true,
      accuracy: { format: { mean: 1 }, lenient: { mean: 1 / 3 } },
    });
    expect(constrained.report.accuracy!.mean).toBeCloseTo(1 / 3, 12); // of L2 alone
    const sampled = found('sampled');
    expect(sampled.report.format!.mean).toBeCloseTo(
      share(sampled.rows.map(({ text }) => /^[a-h]$/.test(text))),
      12,
    );
    expect(sampled.report).toMatchObject({ majority: { n: 18 }, bestOfK: { n: 18 } });
    const without = of('without');
    expect([without.code, without.stderr]).toEqual([
      1,
      expect.stringMatching(/INVALID_ARGUMENT.*no answer grammar/),
    ]);
  });
  test('without a word about it, asks and samples as a run of the same model does, and says how', () => {
    const { sampling } = resolveSettings({
      profile: 'small',
      model: { name: file('letters.gguf') },
    });
    const { stdout } = of('asRun');
    expect(stdout).toContain(
      `, style ${sampling.style}, max ${sampling.maxTokens} tokens per reply; per cent solved`,
    );
    expect(stdout).toContain(`2 samples a problem at temperature ${sampling.temperature};`);
    // and not those of a larger model
    expect([sampling.style, sampling.temperature]).toEqual(['plain', 0.7]);
  });
  test('pass@k as a table with intervals; a wrong k is refused', () => {
    const { code, stdout } = of('passAtK');
    expect(code).toBe(0);
    for (const text of ['pass@1', 'pass@4', 'always_c', 'ceiling']) expect(stdout).toContain(text);
    expect(of('wrongK').code).toBe(2);
  });
});

test("the schedule by which the judge recomputes rates is the trainer's own", async () => {
  const data = [
    { tokenIds: Int32Array.from([1, 2, 3, 4]), labelMask: Uint8Array.from([0, 1, 1, 1]) },
  ];
  for (const schedule of ['constant', 'linear', 'cosine'] as const) {
    const settings = { schedule, warmupSteps: 3, totalSteps: 9, finalFactor: 0.1 };
    await using trainer = await createTrainer(
      { path: file('letters.gguf') },
      {
        threads: 1,
        lora: { targets: ['q'], rank: 2 },
        optimiser: { learningRate: 1e-3, ...settings },
      },
    );
    for (let step = 1; step <= 11; step++)
      expect((await trainer.step(data)).learningRate / 1e-3).toBeCloseTo(
        scheduleFactor(settings, step),
        6,
      );
  }
});
