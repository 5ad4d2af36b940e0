/**
 * Deciders in real runs: each question is in the log before its decision, the judge reads it again,
 * and nothing that was answered once is asked twice.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { LogReader, type LogRecord } from '../../src/log/read.js';
import type { AskedQuestion } from '../../src/monitor/question.js';
import { readManifest } from '../../src/run-folder/manifest.js';
import { isQuestion } from '../../src/run-folder/monitor-records.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';
import { deciderRun, drawing, writeDeciderInputs } from '../models/decider-runs.js';
import { completion, FaultServer, send } from '../models/fault-server.js';
import type { Backend, SampleRequest } from '../../src/backends/backend.js';
import { judgeLog } from '../models/judge-log.js';
import { loadModel } from '../../src/index.js';
import { askAgain } from '../../src/judge/ask-again.js';
import { HardFail } from '../../src/judge/hard-fail.js';
import { readProcess } from '../../src/judge/log-steps.js';
import { checkQuestions } from '../../src/judge/questions.js';
import { Random } from '../../src/random.js';
import { LORA } from '../../src/trainees/lora/trainee.js';

const PROGRAM = fileURLToPath(new URL('../../dist/test/models/decider-runs.js', import.meta.url));
const FULL = process.env.ISOPRO_FULL === '1';
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-deciders-'));
  process.env.ISOPRO_HOME = path.join(folder, 'home');
  writeDeciderInputs(folder);
});
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

function recordsOf(out: string, abandoned = false): LogRecord[] {
  const reader = new LogReader(path.join(folder, out, 'log.sqlite'), RUN_STREAMS);
  try {
    return [...reader.records({ abandoned })];
  } finally {
    reader.close();
  }
}
const questionsOf = (records: readonly LogRecord[]): AskedQuestion[] =>
  records.filter(isQuestion).map(({ payload }) => payload as unknown as AskedQuestion);

/** Decisions by the iteration and rule that they are about. */
const decisionsOf = (records: readonly LogRecord[]) =>
  records.filter(({ stream, payload }) => stream === 'decisions' && payload.kind === 'decision');

describe('each policy that chooses from a menu', () => {
  test.each([
    // an obligation that was acted on is opened anew after three iterations
    ['random', 4],
    ['table', 1],
    ['human', 4],
    // a readout of some 3,000 tokens takes seconds
    ['model:local', 1],
    ...(FULL
      ? ([
          ['model:adapted', 1],
          ['model:other.gguf', 1],
        ] as const)
      : []),
  ] as const)(
    '%s: each question stands before its decision, and the judge reads it again',
    async (policy, iterations) => {
      const out = policy.replace(/\W/g, '-');
      const asked: string[] = [];
      const feedback = 'The last attempt changed the rate too often.';
      await deciderRun(
        folder,
        out,
        policy,
        {
          ...(policy === 'table' && { table: { 'R1 high': 'set_lr x1/5' } }),
          ask: async (text) => {
            asked.push(text);
            return ' b. ';
          },
          ...(policy !== 'random' && policy !== 'table' && { feedback }),
        },
        { iterations },
      );
      const records = recordsOf(out);
      const questions = questionsOf(records);
      const acted = iterations === 4 ? [1, 4] : [1];
      if (policy !== 'random') expect(questions.map(({ iteration }) => iteration)).toEqual(acted);
      expect(questions[0]?.iteration).toBe(1);
      const source = policy.startsWith('model') ? 'model' : policy;
      for (const question of questions) {
        expect(question).toMatchObject({ rule: 'R1', source, cached: false, failure: null });
        expect(question.menu).toContain(question.choice);
        const at = records.findIndex(({ payload }) => (payload as object) === question);
        const after = records.slice(at + 1).find(({ stream }) => stream === 'decisions');
        expect(after?.payload).toMatchObject({
          kind: 'decision',
          iteration: question.iteration,
          cites: ['R1'],
        });
      }
      const choices = questions.map(({ choice }) => choice);
      if (policy === 'table') expect(new Set(choices)).toEqual(new Set(['set_lr x1/5']));
      if (policy === 'human') {
        expect(new Set(choices)).toEqual(new Set(['set_lr x1/5']));
        expect(asked[0]).toMatch(
          /# Playbook[^]*\n> The last attempt changed the rate too often\.\n/,
        );
        expect(asked[1]).toMatch(/iteration 1, R1: set_lr, executed; R1 fired again/);
      }
      if (source === 'model')
        for (const { margin, agreement, tokens } of questions) {
          expect(margin).toBeGreaterThanOrEqual(0);
          expect([1, 2, 3, 4, 5, 6].map((k) => k / 6)).toContain(agreement);
          expect(tokens.prompt).toBeGreaterThan(1000);
        }
      const { deciders } = await judgeLog(path.join(folder, out), {});
      expect(deciders).toMatchObject({
        invalidRate: 0,
        sources: [{ source, decisions: questions.length, cached: 0 }],
      });
      const manifest = readManifest(path.join(folder, out));
      expect(manifest.start).toMatchObject({
        policy: policy.replace('.gguf', '.gguf'),
        decider: { fallback: 'scripted' },
        settings: { monitor: { policy } },
      });
      expect(JSON.stringify(manifest)).not.toContain(folder);
    },
  );

  test('a back end: one vote on R1, and what names no option is answered by the script', async () => {
    const requests: SampleRequest[] = [];
    const backend: Backend = {
      identity: { kind: 'mine', name: 'adviser' },
      capabilities: {
        tokenIds: false,
        logprobs: false,
        seeds: false,
        adapters: false,
        grammar: true,
      },
      async *sample(request) {
        requests.push(request);
        const [, option] = /\nB\. ([^:]+): /.exec(request.prompts[0]!.messages[0]!.content)!;
        const text = requests.length === 1 ? JSON.stringify({ choice: option, why: 'x' }) : 'No.';
        const counts = { promptTokens: 1200, tokens: 9 };
        yield { promptIndex: 0, sampleIndex: 0, text, finish: 'stop', ...counts };
      },
      dispose: async () => undefined,
    };
    const decider = { backend };
    const out = 'back-end';
    await expect(deciderRun(folder, out, 'scripted', { decider })).rejects.toThrow(/model:NAME/);
    await deciderRun(folder, out, 'model:adviser', { decider });
    const questions = questionsOf(recordsOf(out));
    expect(questions).toMatchObject([
      {
        iteration: 1,
        source: 'model',
        choice: 'set_lr x1/5',
        tokens: { prompt: 1200, sampled: 9 },
      },
      { iteration: 4, source: 'fallback', failure: { code: 'REPLY_INVALID' }, reply: ['No.'] },
    ]);
    expect(requests.map(({ prompts }) => prompts[0]!.seeds.length)).toEqual([1, 1]);
    expect(requests[0]!.jsonSchema).toMatchObject({
      properties: { choice: { enum: questions[0]!.menu } },
    });
    const { deciders } = await judgeLog(path.join(folder, out), {});
    expect(deciders).toMatchObject({
      kind: 'votes',
      invalidRate: 0.5,
      cost: null,
      sources: [
        { source: 'model', decisions: 1 },
        { source: 'fallback', decisions: 1 },
      ],
    });
    expect(readManifest(path.join(folder, out)).start).toMatchObject({
      policy: 'model:adviser',
      decider: { kind: 'votes', model: { name: 'adviser', sha256: null } },
    });
  });

  test('a model that cannot read so long a prompt: the script answers all along, the run ends and says so', async () => {
    const notices: string[] = [];
    const onNotice = (text: string): void => void notices.push(text);
    await deciderRun(folder, 'short', 'model:short.gguf', { onNotice }, { iterations: 1 });
    expect(notices.join('\n')).toMatch(
      /the script answered R1 in iteration 1 in place of model:short\.gguf: .*context of 1024/,
    );
    const questions = questionsOf(recordsOf('short'));
    expect(questions).toHaveLength(1);
    for (const question of questions)
      expect(question).toMatchObject({
        source: 'fallback',
        choice: 'set_lr x1/3',
        reply: null,
        failure: { code: 'POLICY_FAILED', reason: expect.stringMatching(/context/) },
      });
    const { deciders } = await judgeLog(path.join(folder, 'short'), {});
    expect(deciders).toMatchObject({
      invalidRate: null,
      sources: [{ source: 'fallback', decisions: 1 }],
    });
  });

  test('a service that the policy names is opened by the run itself', async () => {
    await using server = await FaultServer.start(({ body, response }) => {
      const { schema } = (body.response_format as { json_schema: { schema: unknown } }).json_schema;
      const { enum: menu } = (schema as { properties: { choice: { enum: string[] } } }).properties
        .choice;
      send(response, 200, completion(JSON.stringify({ choice: menu.at(-1), why: 'the last' })));
    });
    await deciderRun(folder, 'service', `model:${server.origin}/v1#adviser`, {}, { iterations: 1 });
    const [question] = questionsOf(recordsOf('service'));
    expect(question).toMatchObject({ source: 'model', choice: question!.menu.at(-1) });
    expect(server.total).toBe(1);
  });

  test('a question that says otherwise than its situation and its reply is a hard fail', async () => {
    const records = recordsOf('human');
    const start = records[0]!.payload.runConfig as object;
    const at = records.findIndex(isQuestion);
    const question = records[at]!.payload as unknown as AskedQuestion;
    const check = (of: readonly LogRecord[], config: object = start): void =>
      void checkQuestions(of, readProcess(of, LORA), config);
    const forged = (change: Partial<AskedQuestion>): LogRecord[] =>
      records.map((record, i) =>
        i === at ? ({ ...record, payload: { ...question, ...change } } as never) : record,
      );
    check(records);
    const settings = question.situation.settings as { learningRate: number };
    for (const [change, says] of [
      [{ choice: 'set_lr x1/10' }, /choice/],
      [{ reply: 'c' }, /choice/],
      [{ reply: 'nothing' }, /choice|source/],
      [{ source: 'model' }, /source/],
      [{ agreement: 1 }, /agreement/],
      [{ failure: { code: 'POLICY_TIMEOUT', reason: 'late' } }, /choice|source/],
      [{ menu: question.menu.slice(1) }, /menu/],
      [{ prompt: '00'.repeat(32) }, /prompt/],
      [{ key: '00'.repeat(32) }, /prompt/],
      [{ rule: 'R7' }, /R7, which had not fired/],
      [{ iteration: 2 }, /place/],
      [{ situation: { settings: { ...settings, learningRate: 0.02 } } }, /prompt/],
      [{ situation: { settings: {} } }, /settings|menu|prompt/],
    ] as const)
      expect(() => check(forged(change as never))).toThrow(says);
    expect(() => check(records.filter((_, i) => i !== at))).toThrow(/no question before it/);
    // whatever JSON a log holds there, the judge says what is wrong
    const random = new Random(38n);
    const pick = <T>(of: readonly T[]): T => of[random.nextInteger(0, of.length - 1)]!;
    const json = (depth: number): unknown =>
      pick<() => unknown>([
        () => null,
        () => pick([0, -1, 1e308, 0.5]),
        () => pick(['', 'R1', '__proto__', 'constructor', 'x'.repeat(2000)]),
        () => random.nextDouble() < 0.5,
        () => (depth > 2 ? [] : Array.from({ length: 3 }, () => json(depth + 1))),
        () =>
          depth > 2
            ? {}
            : Object.fromEntries(
                pick([Object.keys(settings), ['a', '__proto__'], []]).map((name) => [
                  name,
                  json(depth + 1),
                ]),
              ),
      ])();
    for (let i = 0; i < (FULL ? 20_000 : 300); i++) {
      const name = pick(Object.keys(question)) as keyof AskedQuestion;
      const change =
        i % 2 === 0
          ? { [name]: json(0) }
          : {
              situation: {
                settings: { ...settings, [pick(Object.keys(settings))]: json(0) },
              },
            };
      try {
        check(forged(change as never));
      } catch (error) {
        if (!(error instanceof HardFail)) throw error;
      }
    }
    const { decider: _, ...without } = start as { decider: object };
    expect(() => check(records, without)).toThrow(/committed to no decider/);
    expect(() =>
      check(
        records.filter((each) => !isQuestion(each)),
        without,
      ),
    ).toThrow(/does not say what its policy human depends on/);
    const decision = decisionsOf(records)[0]!;
    const edit = [{ op: 'set_lr', from: 0.01, to: 0.0025 }];
    const swapped = records.map((record) =>
      record.gseq === decision.gseq
        ? ({ ...record, payload: { ...decision.payload, edit } } as never)
        : record,
    );
    expect(() => check(swapped)).toThrow(/not the one that was chosen/);
  });

  test('the base model, asked again, chooses as it did', async () => {
    const records = recordsOf('model-local');
    const start = records[0]!.payload.runConfig as { readonly model: { readonly sha256: string } };
    const checked = checkQuestions(records, readProcess(records, LORA), start as object)!;
    await using model = await loadModel(path.join(folder, 'letters.gguf'), {
      fixedThreads: true,
      threads: 1,
      contextTokens: 8192,
    });
    const options = { model, sha256: start.model.sha256, adapter: null, most: 5 };
    expect(await askAgain(checked, options)).toEqual({ asked: 1, same: 1, reason: null });
    expect(await askAgain(checked, { ...options, sha256: '00'.repeat(32) })).toMatchObject({
      asked: 0,
      reason: 'letters.gguf decided, which is not the base model of the run',
    });
  });

  test('a policy without a decider has the genesis that it always had', async () => {
    await deciderRun(folder, 'scripted', 'scripted', {}, { iterations: 1 });
    const { start } = readManifest(path.join(folder, 'scripted'));
    expect('decider' in start).toBe(false);
    expect(start.settings.monitor).toEqual({ patience: 2, policy: 'scripted' });
    expect(questionsOf(recordsOf('scripted'))).toEqual([]);
    expect(decisionsOf(recordsOf('scripted'))).toHaveLength(1);
  });
});

describe('a run that is killed', () => {
  const SHORT = { iterations: 2 };
  const asks = (): number => readFileSync(path.join(folder, 'asked.txt'), 'utf8').length;
  /** The durable states after the first question was asked, in their order. */
  test.each([
    ['the question, unsigned', 'log.records', 1, 1],
    ['the reply under a signed head', 'log.head', 1, 0],
    ['the decision', 'log.records', 2, 0],
    ['the effect', 'log.records', 3, 0],
  ] as const)(
    'after %s: nothing that a head covers is asked again, and the adapter is that of its answers',
    async (what, state, nth, again) => {
      const out = `killed-${nth}-${state}`;
      writeFileSync(path.join(folder, 'asked.txt'), '');
      const { signal } = spawnSync(
        process.execPath,
        [PROGRAM, folder, out, 'human', state, `${nth}`],
        {
          env: process.env,
        },
      );
      expect([what, signal]).toEqual([what, 'SIGKILL']);
      expect(asks()).toBe(1);
      const resumed = await deciderRun(folder, out, 'human', { ask: drawing(folder) }, SHORT);
      const questions = questionsOf(recordsOf(out));
      expect(asks()).toBe(questions.length + again);
      expect(questions.map(({ cached }) => cached)).toEqual(
        questions.map((_, i) => i === 0 && again === 0),
      );
      const abandoned = questionsOf(recordsOf(out, true))[0]!;
      if (again === 0) expect(questions[0]).toMatchObject({ reply: abandoned.reply });
      await judgeLog(path.join(folder, out), {});
      // the same answers without an interruption
      const replies = questions.map(({ reply }) => reply as string);
      if (state !== 'log.head' && !FULL) return;
      const ask = async (): Promise<string> => replies.shift()!;
      const whole = await deciderRun(folder, `${out}-whole`, 'human', { ask }, SHORT);
      expect(whole.adapter?.sha256).toBe(resumed.adapter?.sha256);
    },
  );
});
