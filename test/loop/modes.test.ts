/**
 * The methods beside the loop, on a real model: what each one asks, what it takes for its answer,
 * and the table of all of them.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { loadModel, resolveSettings, type Model, type LocalReply } from '../../src/index.js';
import type { Backend } from '../../src/backends/backend.js';
import { localBackend } from '../../src/backends/local.js';
import { evaluationSet } from '../../src/evaluation/evaluation-set.js';
import { LogReader } from '../../src/log/read.js';
import { openTask } from '../../src/tasks/open-task.js';
import type { ChatMessage, Judgement, OpenTask, Problem } from '../../src/tasks/task.js';
import type { Comparison } from '../../src/operations/compare-modes.js';
import { comparisonText } from '../../src/cli/run/run-table.js';
import { fewShot, isozero, multiTurn, zeroShot } from '../../src/training/modes/greedy.js';
import type { ModeContext } from '../../src/training/modes/mode.js';
import { sampledMethods } from '../../src/training/modes/sampled.js';
import { runCli } from '../cli/run-cli.js';
import { writeLetterModel, writeLetterTask } from '../models/letters.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

const RIGHT: Readonly<Record<string, string>> = { L0: 'ac', L1: 'cdf', L2: 'bgh' };
const MEMBERS = `  feedback: (problem, verdict) => 'not ' + problem.number + ', ' + verdict.kind,
  fewShot: (problem, style, count, seed) => Array.from({ length: count }, (_, i) => [
    { role: 'user', content: 'example ' + i + ' of ' + problem.number }, { role: 'assistant', content: 'c' },
  ]).flat(),
`;

let folder: string;
let model: Model;
let task: OpenTask;
let problems: readonly Problem[];
const file = (name: string): string => path.join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-modes-'));
  writeLetterModel(file('letters.gguf'), 7n);
  const verifier = `{ kind: (${JSON.stringify(RIGHT)})[problem.tier].includes(answer) ? 'pass' : 'fail' }`;
  writeLetterTask(file('letters.mjs'), { verifier, members: MEMBERS });
  task = await openTask(file('letters.mjs'));
  model = await loadModel(file('letters.gguf'), { threads: 1, fixedThreads: true });
  ({ problems } = await evaluationSet(task, 'test', 4));
});
afterAll(async () => {
  await model.dispose();
  await task.dispose();
  rmSync(folder, { recursive: true, force: true });
});

/**
 * A context whose back end notes what it is asked and what it answers; `say` puts other words into
 * its mouth.
 */
function watched(
  say: (call: number, rollout: LocalReply) => string = (_, { text }) => text,
  hasRoom: ModeContext['hasRoom'] = () => true,
): {
  context: ModeContext;
  asked: (readonly ChatMessage[])[];
  answered: LocalReply[][];
} {
  const asked: (readonly ChatMessage[])[] = [];
  const answered: LocalReply[][] = [];
  const local = localBackend(model);
  const noting: Backend = {
    ...local,
    async *sample(request) {
      for (const { messages } of request.prompts)
        asked.push(structuredClone(messages) as ChatMessage[]);
      const call: LocalReply[] = [];
      answered.push(call);
      for await (const reply of local.sample(request)) {
        const rollout = { ...reply, text: say(answered.length, reply) };
        call.push(rollout);
        yield rollout;
      }
    },
  };
  const settings = resolveSettings({
    task: file('letters.mjs'),
    model: { name: file('letters.gguf'), threads: 1 },
    sampling: { maxTokens: 4, temperature: 1 },
  });
  return { context: { settings, backend: noting, task, problems, hasRoom }, asked, answered };
}
const passes = (
  { tier }: Problem,
  { text, finish }: Pick<LocalReply, 'text' | 'finish'>,
): boolean => finish === 'stop' && /^[a-h]$/.test(text) && RIGHT[tier]!.includes(text);
/** Three tiers of four: the mean over tiers is the mean over problems. */
const rate = (right: (problem: Problem, index: number) => boolean): number =>
  problems.filter(right).length / problems.length;
const inOrder = (call: readonly LocalReply[]): LocalReply[] =>
  [...call].sort((a, b) => a.promptIndex - b.promptIndex || a.sampleIndex - b.sampleIndex);
const tokensOf = (calls: readonly (readonly LocalReply[])[]): number =>
  calls.flat().reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);

describe('methods that take one greedy path', () => {
  test("zero-shot asks the task's own prompt", async () => {
    const { context, asked, answered } = watched();
    const { test: accuracy, failures, k, tokens } = await zeroShot(context);
    const replies = inOrder(answered[0]!);
    expect(asked).toEqual(
      await Promise.all(problems.map((problem) => task.prompt(problem, 'cot'))),
    );
    expect(accuracy).toMatchObject({
      mean: expect.closeTo(
        rate((problem, i) => passes(problem, replies[i]!)),
        12,
      ),
      n: 12,
    });
    expect([answered.length, k, tokens]).toEqual([1, 1, tokensOf(answered)]);
    const failing = problems.flatMap((problem, i) =>
      passes(problem, replies[i]!) ? [] : [replies[i]!],
    );
    expect([failures!.replies, failures!.replies - failures!.passed]).toEqual([12, failing.length]);
    expect(failures!.rows.reduce((sum, { count }) => sum + count, 0)).toBe(failing.length);
    expect(failing.map(({ text }) => text)).toContain(failures!.rows[0]!.example!.text);
  });

  test('few-shot sets three solved problems before it', async () => {
    const { context, asked, answered } = watched();
    const { test: accuracy, k } = await fewShot(context);
    const replies = inOrder(answered[0]!);
    for (const [i, messages] of asked.entries()) {
      expect(messages.map(({ role }) => role)).toEqual([
        'user',
        'assistant',
        'user',
        'assistant',
        'user',
        'assistant',
        'user',
      ]);
      expect(messages.at(-1)).toEqual((await task.prompt(problems[i]!, 'cot'))[0]);
    }
    expect(accuracy.mean).toBeCloseTo(
      rate((problem, i) => passes(problem, replies[i]!)),
      12,
    );
    expect(k).toBe(3);
  });

  test('multi-turn asks again with the feedback, up to three times, and only what has not passed', async () => {
    // the first problem is right at once, every second one at the second attempt, the others never
    const right = (index: number): string => RIGHT[problems[index]!.tier]![0]!;
    const { context, asked, answered } = watched((call, { promptIndex }) =>
      call === 1
        ? promptIndex === 0
          ? right(0)
          : 'e'
        : call === 2 && promptIndex % 2 === 0
          ? right(promptIndex + 1)
          : 'e',
    );
    const { test: accuracy, failures, k, tokens } = await multiTurn(context);
    let open = problems.map((problem, index) => ({
      problem,
      index,
      dialogue: [] as ChatMessage[],
    }));
    for (const each of open) each.dialogue.push(...(await task.prompt(each.problem, 'cot')));
    const solved = new Set<number>();
    let at = 0;
    for (const call of answered) {
      const replies = inOrder(call);
      expect(asked.slice(at, at + open.length)).toEqual(open.map(({ dialogue }) => dialogue));
      at += open.length;
      for (const [i, { problem, index, dialogue }] of open.entries()) {
        if (passes(problem, replies[i]!)) solved.add(index);
        dialogue.push(
          { role: 'assistant', content: replies[i]!.text },
          {
            role: 'user',
            content: `not ${(problem as Problem & { number: number }).number}, fail`,
          },
        );
      }
      open = open.filter(({ index }) => !solved.has(index));
    }
    expect(asked).toHaveLength(at);
    expect(answered).toHaveLength(3);
    expect(answered.map((call) => call.length)).toEqual([12, 11, 5]);
    expect(solved.size).toBe(7);
    expect(accuracy.mean).toBeCloseTo(solved.size / problems.length, 12);
    expect([k, tokens]).toEqual([3, tokensOf(answered)]);
    expect(failures).toMatchObject({
      replies: 12,
      passed: 7,
      rows: [{ kind: 'wrong', count: 5, example: { text: 'e' } }],
    });
  });

  test('isozero chains three calls and judges the last reply alone', async () => {
    // right in the middle only, but for the last three problems
    const { context, asked, answered } = watched((call, { promptIndex, text }) =>
      call === 2 || (call === 3 && promptIndex > 8)
        ? RIGHT[problems[promptIndex]!.tier]![0]!
        : call === 3
          ? 'e'
          : text,
    );
    const { test: accuracy, k, tokens } = await isozero(context);
    expect(answered).toHaveLength(3);
    const [first, second, third] = answered.map(inOrder) as [
      LocalReply[],
      LocalReply[],
      LocalReply[],
    ];
    for (const [i, problem] of problems.entries()) {
      const last = asked[2 * problems.length + i]!;
      const [question] = await task.prompt(problem, 'cot');
      expect(last.map(({ role }) => role)).toEqual([
        'user',
        'assistant',
        'user',
        'assistant',
        'user',
      ]);
      expect(last[0]!.content.startsWith(`${question!.content}\n\nThis is step 1 of 3.`)).toBe(
        true,
      );
      expect([last[1]!.content, last[3]!.content]).toEqual([first[i]!.text, second[i]!.text]);
      expect(last[4]!.content).toMatch(/step 3 of 3.*final answer/);
    }
    expect(accuracy.mean).toBeCloseTo(
      rate((problem, i) => passes(problem, third[i]!)),
      12,
    );
    expect(accuracy.mean).toBeCloseTo(3 / 12, 12);
    expect([k, tokens]).toEqual([3, tokensOf(answered)]);
  });

  test('a dialogue that outgrows the context ends there: an attempt stands, an unfinished chain was cut off', async () => {
    const [{ content: question }] = (await task.prompt(problems[0]!, 'cot')) as [ChatMessage];
    // the first problem has room for its first reply alone
    const room: ModeContext['hasRoom'] = ([first]) =>
      first!.content.split('\n\nThis is step')[0] !== question;
    const attempts = watched(() => 'e', room);
    const { failures: wrong } = await multiTurn(attempts.context);
    expect(attempts.answered.map((call) => call.length)).toEqual([12, 11, 11]);
    expect(wrong!.rows).toMatchObject([{ kind: 'wrong', count: 12 }]);
    const chain = watched((_, { promptIndex }) => RIGHT[problems[promptIndex]!.tier]![0]!, room);
    const { test: accuracy, failures: cut } = await isozero(chain.context);
    expect(chain.answered.map((call) => call.length)).toEqual([12, 11, 11]);
    expect(accuracy.n).toBe(12);
    expect(cut!.rows).toContainEqual(expect.objectContaining({ kind: 'context', count: 1 }));
  });
});

test('pass@k has no mean where a tier has no problem with all its verdicts, instead of one over the other tiers', async () => {
  const { context } = watched();
  const [first] = problems;
  const judge = async (problem: Problem): Promise<Judgement> => ({
    verdict: { kind: problem.tier === first!.tier ? 'none' : 'pass', violations: [], metrics: {} },
    form: 'letter',
  });
  const task = new Proxy(context.task, {
    get: (of, name) => {
      const value: unknown = name === 'judge' ? judge : Reflect.get(of, name, of);
      return typeof value === 'function' ? value.bind(of) : value;
    },
  });
  const [{ test: ceiling }] = (await sampledMethods({ ...context, task }, ['pass@k'], 2)) as [
    Awaited<ReturnType<typeof sampledMethods>>[0],
  ];
  expect([ceiling.mean, ceiling.n, ceiling.byTier[first!.tier]!.mean]).toEqual([null, 8, null]);
  expect(Object.entries(ceiling.byTier).filter(([, { mean }]) => mean === 1)).toHaveLength(2);
});

test('best-of-k, majority and pass@k use the same k samples of each problem, each in its way', async () => {
  const { context, answered } = watched();
  const k = 7;
  const results = await sampledMethods(context, ['best-of-k', 'majority', 'pass@k'], k);
  expect(answered).toHaveLength(1);
  const samples = problems.map((_, i) =>
    inOrder(answered[0]!).filter(({ promptIndex }) => promptIndex === i),
  );
  expect(
    samples.every((of) => of.length === k && new Set(of.map(({ seed }) => seed)).size === k),
  ).toBe(true);
  const likeliest = (of: readonly LocalReply[]): LocalReply => {
    const mean = ({ logprobs }: LocalReply): number =>
      logprobs.reduce((sum, value) => sum + value, 0) / logprobs.length;
    return (
      of
        .filter(({ finish }) => finish === 'stop')
        .sort((a, b) => mean(b) - mean(a) || a.sampleIndex - b.sampleIndex)[0] ?? of[0]!
    );
  };
  const commonest = (of: readonly LocalReply[]): LocalReply => {
    const readable = of.filter(({ finish, text }) => finish === 'stop' && /^[a-h]$/.test(text));
    const votes = (letter: string): number => readable.filter(({ text }) => text === letter).length;
    return (
      [...readable].sort(
        (a, b) => votes(b.text) - votes(a.text) || a.sampleIndex - b.sampleIndex,
      )[0] ?? of[0]!
    );
  };
  const expected = [
    rate((problem, i) => passes(problem, likeliest(samples[i]!))),
    rate((problem, i) => passes(problem, commonest(samples[i]!))),
    rate((problem, i) => samples[i]!.some((sample) => passes(problem, sample))),
  ];
  for (const [i, { method, test: accuracy, k: used, tokens }] of results.entries()) {
    expect([method, accuracy.mean]).toEqual([
      ['best-of-k', 'majority', 'pass@k'][i],
      expect.closeTo(expected[i]!, 9),
    ]);
    expect([accuracy.n, used, tokens]).toEqual([12, k, tokensOf(answered)]);
    expect(accuracy.low).toBeLessThanOrEqual(accuracy.mean!);
    expect(accuracy.high).toBeGreaterThanOrEqual(accuracy.mean!);
  }
  // of what each method judges, pass@k of everything
  const right = samples.flatMap((of, i) =>
    of.filter((sample) => passes(problems[i]!, sample)),
  ).length;
  expect(results.map(({ failures }) => [failures!.replies, failures!.passed])).toEqual([
    [12, Math.round(12 * expected[0]!)],
    [12, Math.round(12 * expected[1]!)],
    [12 * k, right],
  ]);
  expect(new Set(expected).size).toBeGreaterThan(1); // the three are told apart
  expect(expected[2]).toBeGreaterThan(Math.max(expected[0]!, expected[1]!));
});

describe('run --mode all with the classic buffer', () => {
  let comparison: Comparison;
  beforeAll(async () => {
    const { code, stdout, stderr } = await runCli(
      [
        'run',
        '--mode',
        'all',
        '--buffer',
        'classic',
        '--model',
        file('letters.gguf'),
        '--task',
        file('letters.mjs'),
        '--out',
        file('run'),
        '--seed',
        '3',
        '--iterations',
        '3',
        '--rollouts',
        '48',
        '--max-tokens',
        '4',
        '--batch-size',
        '8',
        '--learning-rate',
        '0.005',
        '--warmup-steps',
        '2',
        '--rank',
        '4',
        '--top-layers',
        '2',
        '--dev-size',
        '4',
        '--test-size',
        '4',
        '--threads',
        '1',
        '--patience',
        '9',
        '--signer',
        'single-process',
        '--profile',
        'downloaded',
        '--json',
      ],
      { ISOPRO_HOME: file('home') },
    );
    expect(code === 0 ? '' : stderr).toBe('');
    comparison = JSON.parse(stdout) as Comparison;
  }, 300_000);

  test('has a row for each method, and the sampled ones cost what the loop cost', () => {
    const { methods, skipped, run, problems: count } = comparison;
    expect([methods.map(({ method }) => method), skipped, count]).toEqual([
      [
        'zero-shot',
        'few-shot',
        'multi-turn',
        'isozero',
        'best-of-k',
        'majority',
        'pass@k',
        'isopro',
      ],
      [],
      12,
    ]);
    const of = (name: string): Comparison['methods'][number] =>
      methods.find(({ method }) => method === name)!;
    const loop = run!.iterations.reduce(
      (sum, { tokens: { sampled, trained } }) => sum + sampled + trained,
      0,
    );
    const k = Math.round(loop / of('zero-shot').tokens);
    for (const name of ['best-of-k', 'majority', 'pass@k']) expect(of(name).k).toBe(k);
    expect(of('isopro').test).toEqual(run!.test.after);
    expect(of('zero-shot').test.mean).toBe(run!.test.before.mean);
    expect(of('isopro').test.mean).toBeGreaterThan(of('zero-shot').test.mean!);
    const kept = JSON.parse(readFileSync(file('run/comparison.json'), 'utf8')) as Comparison;
    expect(kept.methods).toEqual(methods);
    expect(of('isopro').failures).toEqual(run!.failures.after);
    const table = comparisonText(comparison);
    for (const { method, failures } of methods) {
      expect(failures!.rows.length).toBeGreaterThan(0);
      expect(table).toContain(
        `why ${failures!.replies - failures!.passed} of ${failures!.replies} replies (${method}) did not pass`,
      );
    }
    const report = readFileSync(file('run/report.html'), 'utf8');
    for (const { method } of methods) expect(report).toContain(method);
  });

  test('trains in each iteration on everything accepted so far, once, duplicates too', () => {
    const reader = new LogReader(file('run/log.sqlite'), RUN_STREAMS);
    const rollouts = [...reader.records({ stream: 'rollouts' })]
      .filter(({ payload }) => payload.kind === 'rollout')
      .map(
        ({ payload }) =>
          payload as unknown as {
            iteration: number;
            admission: string;
            tokenIds: number[];
            verdict: { kind: string };
          },
      );
    reader.close();
    const admitted = rollouts.filter(({ admission }) => admission === 'admitted');
    expect(admitted.length).toBeGreaterThan(10);
    expect(
      rollouts.filter(
        ({ admission, verdict }) => verdict.kind === 'pass' && admission !== 'admitted',
      ),
    ).toEqual([]);
    for (const { iteration, tokens, steps, buffer } of comparison.run!.iterations) {
      const soFar = admitted.filter((rollout) => rollout.iteration <= iteration);
      expect(tokens.trained).toBe(soFar.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0));
      expect(steps).toBe(Math.ceil(soFar.length / 8));
      expect(Object.values(buffer).reduce((sum, count) => sum + count, 0)).toBe(soFar.length);
    }
  });
});

test('a dialogue that outgrows --context-tokens ends there, and the table says so', async () => {
  const { context, asked } = watched();
  await isozero(context);
  const first = asked
    .slice(0, problems.length)
    .map((dialogue) => model.renderChat(dialogue).tokenIds.length);
  const flags = [
    '--model',
    file('letters.gguf'),
    '--task',
    file('letters.mjs'),
    '--test-size',
    '4',
    '--threads',
    '1',
  ];
  const room = ['--context-tokens', '128', '--max-tokens', String(128 - Math.max(...first))];
  const { code, stdout, stderr } = await runCli(
    ['run', '--mode', 'isozero', ...room, '--json', ...flags],
    {
      ISOPRO_HOME: file('home'),
    },
  );
  expect(code === 0 ? '' : stderr).toBe('');
  const [chained] = (JSON.parse(stdout) as Comparison).methods;
  expect(chained!.failures).toMatchObject({
    replies: 12,
    passed: 0,
    rows: [{ kind: 'context', count: 12 }],
  });
});

test('a method that the task has no material for is an error by its name, and is left out of all with a reason', async () => {
  writeLetterTask(file('plain.mjs'));
  for (const mode of ['few-shot', 'multi-turn']) {
    const { code, stderr } = await runCli(
      [
        'run',
        '--mode',
        mode,
        '--model',
        file('letters.gguf'),
        '--task',
        file('plain.mjs'),
        '--test-size',
        '1',
        '--max-tokens',
        '4',
        '--threads',
        '1',
      ],
      {},
    );
    expect([mode, code]).toEqual([mode, 1]);
    expect(stderr).toMatch(/INVALID_ARGUMENT.*(solved examples|feedback)/s);
  }
  expect(existsSync(file('runs'))).toBe(false);
});
