/**
 * What stages write down: rollouts with what becomes of them, evaluations of a set, the split of a
 * data file; and the figures of methods that sample, by tier and group.
 */
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import type { Backend, SampleRequest, TokenReply } from '../../src/backends/backend.js';
import { deriveSeed } from '../../src/random.js';
import type { EvaluationSet } from '../../src/evaluation/evaluation-set.js';
import { episodeOf } from '../../src/rollouts/episode.js';
import type { JudgedRollout, RolloutGroup } from '../../src/rollouts/sample.js';
import { rolloutsRecord } from '../../src/run-folder/rollout-records.js';
import type { NewRunRecord } from '../../src/run-folder/streams.js';
import type { OpenTask, Problem, Verdict } from '../../src/tasks/task.js';
import { evaluateSet, evaluateTest } from '../../src/training/evaluations.js';
import type { RunProgress } from '../../src/training/hooks.js';
import { keepSplit } from '../../src/training/split-file.js';
import { sampledMethods } from '../../src/training/modes/sampled.js';
import { rolloutRecords } from '../../src/training/rollout-records.js';
import { resolveSettings, type RunSettingsInput } from '../../src/training/settings.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-records-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const GIVEN: RunSettingsInput = {
  task: 'the task',
  seed: '7',
  model: { name: 'the model', threads: 1, maxSequences: 5 },
  sampling: { maxTokens: 4, temperature: 0.5, topP: 1, samples: 2 },
};
const verdict = (kind: Verdict['kind'], more: Partial<Verdict> = {}): Verdict => ({
  kind,
  violations: [],
  metrics: {},
  ...more,
});
const violation = (category: string, detail = category): Verdict['violations'][0] => ({
  category,
  jobs: [],
  amount: 1,
  detail,
});

/** A reply passes with `yes`, is not decided with `?`, and holds an answer unless it is empty. */
const judgeOf = (text: string) => ({
  verdict: verdict(text === '' || text === 'no' ? 'fail' : text === '?' ? 'none' : 'pass', {
    violations: text === 'no' ? [violation('wrong')] : text === '' ? [violation('form')] : [],
    ...(text === '?' ? { reason: 'late' } : {}),
  }),
  form: text === '' ? null : 'word',
});
const TASK = {
  id: 'the task',
  tiers: [
    { id: 'a', title: 'a', trains: true, group: 'g' },
    { id: 'b', title: 'b', trains: true, group: 'g' },
    { id: 'c', title: 'c', trains: true },
    { id: 'd', title: 'd', trains: true },
  ],
  source: { kind: 'built-in' },
  turns: 1,
  hasReferences: true,
  readsLeniently: true,
  answerGrammar: 'root ::= "yes"',
  prompt: async ({ id }: Problem, style: string) => [
    { role: 'system', content: style },
    { role: 'user', content: `${id}?\ud800` },
  ],
  judge: async (_: Problem, text: string) => judgeOf(text),
  judgeLeniently: async (_: Problem, text: string) => judgeOf(text === 'no' ? 'yes' : text),
  readAnswer: async (_: Problem, text: string) => text,
  checkTrace: async (_: Problem, text: string) => (text.startsWith('so ') ? [{}] : []),
  referenceReply: async () => 'yes',
};
const taskWith = (members: object = {}): OpenTask =>
  ({ ...TASK, ...members }) as unknown as OpenTask;

describe('rollouts', () => {
  const model = {
    endOfAnswer: 99,
    tokenize: (text: string) => Int32Array.from(Buffer.from(text)),
  };
  const rollout = (sampleIndex: number, text: string, more: object = {}): JudgedRollout => ({
    promptIndex: 0,
    sampleIndex,
    seed: 2n ** 60n + BigInt(sampleIndex),
    text,
    finish: 'stop',
    adapterId: null,
    tokenIds: Int32Array.of(5, sampleIndex),
    logprobs: Float32Array.of(-1, -4),
    sampledLogprobs: Float32Array.of(0, 0),
    episode: episodeOf(Int32Array.of(1, 2, 3), [], Int32Array.of(5, sampleIndex)),
    earlier: [],
    ...judgeOf(text),
    ...more,
  });
  const written = async (
    groups: readonly RolloutGroup[],
    members: object = {},
    buffer: RunSettingsInput['buffer'] = {},
  ) => {
    const settings = resolveSettings({ ...GIVEN, buffer });
    const task = taskWith(members);
    const options = { task, model, iteration: 3, runSeed: 7n, settings };
    const records = await rolloutRecords(groups, options);
    return records.map((record) => rolloutsRecord(record).payload as Record<string, unknown>);
  };
  const problem = { id: 'p', tier: 'a', number: 4 };

  test('stand after their problem, each with its verdict, shortened for readers, and its fate', async () => {
    const details = Array.from({ length: 9 }, (_, i) => violation(`v${i}`, `${i}`.repeat(301)));
    details[1] = violation('v1', `${'x'.repeat(299)}😀`); // no half of a character stays
    const episode = episodeOf(
      Int32Array.of(1, 2, 3),
      [
        { replyIds: Int32Array.of(10, 11), saidIds: Int32Array.of(20, 21, 22) },
        { replyIds: Int32Array.of(12), saidIds: Int32Array.of(23) },
      ],
      Int32Array.of(13),
    );
    const earlier = [
      { text: 'first', said: 'go' },
      { text: 'second', said: 'on' },
    ];
    const results = { found: 'f'.repeat(1501), expected: 'e'.repeat(1500) };
    const [asked, ...samples] = await written([
      {
        problem,
        rollouts: [
          rollout(0, 'yes', { episode, earlier, tokenIds: Int32Array.of(10, 11, 12, 13) }),
          rollout(1, 'no', { verdict: verdict('fail', { violations: details, results }) }),
          rollout(2, '?', {
            verdict: verdict('none', { reason: 'late\udc00' }),
            tokenIds: Int32Array.of(),
            logprobs: Float32Array.of(),
          }),
          rollout(3, 'so yes', { adapterId: 'ab'.repeat(32) }),
          rollout(4, 'yes', { finish: 'length', verdict: verdict('pass', { score: 0.25 }) }),
        ],
      },
    ]);
    expect(asked).toEqual({
      kind: 'problem',
      iteration: 3,
      problemId: 'p',
      tier: 'a',
      problem,
      prompt: 'cot\n\np?\ufffd',
      promptIds: [1, 2, 3],
    });
    const common = { kind: 'rollout', iteration: 3, problemId: 'p', tier: 'a', form: 'word' };
    // three of the four that are decided pass: 1 - (3 + 1) / (4 + 2)
    const weight = expect.closeTo(1 / 3, 12);
    expect(samples).toEqual([
      {
        ...common,
        sample: 0,
        seed: '1152921504606846976',
        tokenIds: [10, 11, 12, 13],
        turns: [
          { tokens: 2, text: 'first', said: 'go', saidIds: [20, 21, 22] },
          { tokens: 1, text: 'second', said: 'on', saidIds: [23] },
        ],
        text: 'yes',
        finish: 'stop',
        adapterId: null,
        meanLogprob: -2.5,
        verdict: { kind: 'pass', violations: [], details: [] },
        admission: 'admitted',
        weight,
      },
      {
        ...common,
        sample: 1,
        seed: '1152921504606846977',
        tokenIds: [5, 1],
        text: 'no',
        finish: 'stop',
        adapterId: null,
        meanLogprob: -2.5,
        verdict: {
          kind: 'fail',
          violations: Array.from({ length: 9 }, (_, i) => `v${i}`),
          details: Array.from({ length: 8 }, (_, i) =>
            i === 1 ? `${'x'.repeat(299)}\ufffd` : `${i}`.repeat(300),
          ),
          results: { found: 'f'.repeat(1500), expected: 'e'.repeat(1500) },
        },
        admission: 'failed',
        weight,
      },
      expect.objectContaining({
        sample: 2,
        meanLogprob: null,
        verdict: { kind: 'none', violations: [], details: [], reason: 'late\ufffd' },
        admission: 'undecided',
      }),
      expect.objectContaining({ adapterId: 'ab'.repeat(32), admission: 'contradictory' }),
      expect.objectContaining({
        finish: 'length',
        verdict: { kind: 'pass', violations: [], details: [], score: 0.25 },
        admission: 'incomplete',
      }),
    ]);
  });

  test('are followed by the reply of the task where it is trained on, unless it is too long or undecided', async () => {
    const group = { problem, rollouts: [rollout(0, 'yes')] };
    const buffer = { accept: 'references' } as const;
    const references = async (text: string | null): Promise<unknown[]> =>
      (await written([group], { referenceReply: async () => text }, buffer)).slice(2);
    const reference = { kind: 'reference', iteration: 3, problemId: 'p', tier: 'a' };
    // of four tokens, the last of which ends the turn
    expect(await references('yes')).toEqual([
      { ...reference, tokenIds: [121, 101, 115, 99], text: 'yes' },
    ]);
    for (const none of ['yes!', '?', null]) expect(await references(none)).toEqual([]);
    expect(await written([group])).toHaveLength(2);
    await expect(references('no')).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: 'the task: the reference reply to problem p fails: "no"',
    });
  });
});

/**
 * Answers `texts[promptIndex][sampleIndex]`, one token more for each sample, the last ones first.
 */
function answering(texts: readonly (readonly string[])[]) {
  const requests: SampleRequest[] = [];
  const backend: Backend<TokenReply> = {
    identity: { kind: 'local', name: 'of the test' },
    capabilities: { tokenIds: true, logprobs: true, seeds: true, adapters: true, grammar: true },
    async *sample(request) {
      requests.push(request);
      const all = request.prompts.flatMap(({ seeds }, promptIndex) =>
        seeds.map((seed, sampleIndex) => ({ promptIndex, sampleIndex, seed })),
      );
      let sampledTokens = 0;
      for (const [i, place] of all.toReversed().entries()) {
        const { promptIndex, sampleIndex } = place;
        const tokenIds = new Int32Array(1 + promptIndex + sampleIndex).fill(promptIndex);
        sampledTokens += tokenIds.length;
        request.onProgress?.({
          finished: i + 1,
          total: all.length,
          promptTokens: 0,
          sampledTokens,
        });
        yield {
          ...place,
          text: texts[promptIndex]![sampleIndex]!,
          finish: 'stop',
          adapterId: null,
          promptIds: new Int32Array(10 + promptIndex),
          tokenIds,
          // the last sample is the likeliest
          logprobs: new Float32Array(tokenIds.length).fill(-1 / (1 + sampleIndex)),
          sampledLogprobs: new Float32Array(tokenIds.length),
        };
      }
    },
    async dispose() {},
  };
  return { backend, requests };
}

describe('an evaluation', () => {
  const problems: Problem[] = ['a', 'b', 'c', 'c'].map((tier, i) => ({
    id: `${i}`.repeat(64),
    tier,
  }));
  const SET = { problems, sha256: 'cd'.repeat(32) } as unknown as EvaluationSet;
  const ADAPTER = 'ef'.repeat(32);
  const context = (
    texts: readonly string[],
    { members = {}, evaluation = {} }: { members?: object; evaluation?: object } = {},
  ) => {
    const { backend, requests } = answering(texts.map((text) => [text]));
    const records: NewRunRecord[][] = [];
    const progress: RunProgress[] = [];
    return {
      requests,
      records,
      progress,
      evaluating: {
        settings: resolveSettings({ ...GIVEN, iterations: 8, evaluation }),
        hooks: { onProgress: (at: RunProgress) => void progress.push(at) },
        model: null as never,
        backend,
        task: taskWith(members),
        log: { append: (all: NewRunRecord[]) => void records.push(all) } as never,
        dev: SET,
        test: SET,
      },
    };
  };
  const TEXTS = ['yes', 'no', '?', ''];
  const measured = {
    kind: 'held_out',
    iteration: 2,
    setSha256: SET.sha256,
    outcomes: problems.map(({ id, tier }, i) => [id, tier, ['pass', 'fail', 'none', 'fail'][i]]),
    formed: [true, true, true, false],
    why: [[], ['wrong'], ['late'], ['form']],
    tokens: [1, 2, 3, 4],
    finishes: ['stop', 'stop', 'stop', 'stop'],
  };

  test('of the dev set is logged with its replies before it, in the order of the problems', async () => {
    const { evaluating, records, progress, requests } = context(TEXTS);
    const evaluated = await evaluateSet(evaluating, 'dev', {
      when: 'iteration',
      iteration: 2,
      adapter: ADAPTER,
    });
    expect(evaluated).toMatchObject({ promptTokens: 10 + 11 + 12 + 13, sampledTokens: 10 });
    expect(evaluated.verdicts.map(({ verdicts }) => verdicts)).toEqual(['p', 'f', 'nf']);
    expect(evaluated.summary).toMatchObject({ n: 3, mean: 0.25 }); // of (1 + 0) / 2 and 0
    const [written] = records as [NewRunRecord[]];
    expect([records.length, written.map(({ stream }) => stream)]).toEqual([
      1,
      Array(5).fill('evaluations'),
    ]);
    const payloads = written.map(({ payload }) => payload as Record<string, unknown>);
    expect(payloads.slice(0, 4)).toEqual(
      problems.map(({ id }, i) => ({
        kind: 'dev_reply',
        iteration: 2,
        problemId: id,
        finish: 'stop',
        tokenIds: Array(i + 1).fill(i),
      })),
    );
    const { examples, ...held } = payloads[4] as { examples: { at: number; text: string }[] };
    expect(held).toEqual({ ...measured, set: 'dev', when: 'iteration', adapter: ADAPTER });
    expect(examples.map(({ at, text }) => [at, text]).sort()).toEqual([
      [1, 'no'],
      [2, '?'],
      [3, ''],
    ]);
    expect(
      progress.map(({ stage, iteration, iterations }) => [stage, iteration, iterations]),
    ).toEqual(progress.map(() => ['dev', 2, 8]));
    expect(progress.at(-1)).toMatchObject({
      done: 4,
      total: 4,
      tokens: 10,
      hits: {
        a: { passed: 1, decided: 1 },
        b: { passed: 0, decided: 1 },
        c: { passed: 0, decided: 1 },
      },
    });
    expect(requests).toMatchObject([
      { sampling: { temperature: 0 }, maxTokens: 4, maxSequences: 5 },
    ]);
    expect(requests[0]!.prompts.map(({ messages }) => messages[0]!.content)).toEqual(
      Array(4).fill('cot'),
    );
  });

  test.each(['before', 'after'] as const)(
    'of the test set %s is read leniently too, and under the grammar where that is asked for',
    async (when) => {
      const { evaluating, records, progress, requests } = context(TEXTS, {
        evaluation: { constrained: true },
      });
      const at = { when, iteration: 2, adapter: null };
      const evaluated = await evaluateTest(evaluating, at);
      expect(evaluated).toMatchObject({ promptTokens: 2 * 46, sampledTokens: 2 * 10 });
      const payloads = records.map((of) => of.map(({ payload }) => payload));
      const expected = {
        ...measured,
        ...at,
        set: 'test',
        lenient: ['pass', 'pass', 'none', 'fail'],
      };
      expect(payloads).toEqual([
        [expect.objectContaining(expected)],
        [expect.objectContaining({ ...expected, kind: 'constrained' })],
      ]);
      expect(requests.map(({ grammar }) => grammar)).toEqual([undefined, TASK.answerGrammar]);
      expect(new Set(progress.map(({ stage }) => stage))).toEqual(new Set([when]));
      const plain = context(TEXTS);
      expect(await evaluateTest(plain.evaluating, at)).toMatchObject({
        promptTokens: 46,
        sampledTokens: 10,
      });
      expect(plain.records).toHaveLength(1);
    },
  );

  test('in which nothing is decided ends a run before it begins; later it stands', async () => {
    const { evaluating, records } = context(['?', '?', '?', '?']);
    const evaluated = (when: 'before' | 'after', of = evaluating) =>
      evaluateSet(of, 'test', { when, iteration: 0, adapter: null });
    await expect(evaluated('before')).rejects.toThrow('decided none of all 4 replies: late');
    expect(records).toHaveLength(0);
    await evaluated('after');
    expect(records).toHaveLength(1);
    // beside replies without an answer, which say nothing of the verifier: what they are is logged
    const half = context(['', '?', '?', '']);
    await expect(evaluated('before', half.evaluating)).rejects.toThrow(
      'could not decide any of 2 replies; 2 more contained no answer: late',
    );
    await evaluated('after', half.evaluating);
    expect(half.records).toHaveLength(2);
  });
});

test('pass@k is the mean over groups of tiers and tiers without one, each tier of a group alike', async () => {
  const tiers = ['a', 'a', 'b', 'c', 'c', 'c', 'c'];
  const problems: Problem[] = tiers.map((tier, i) => ({ id: `p${i}`, tier }));
  const { backend, requests } = answering([
    ['yes', 'no'],
    ['no', 'no'],
    ['yes', 'yes'],
    ['no', 'yes'],
    ['no', ''],
    ['', 'no'],
    ['?', 'yes'],
  ]);
  const settings = resolveSettings(GIVEN);
  const told: [string, number][] = [];
  const context = {
    settings,
    backend,
    task: taskWith(),
    problems,
    hasRoom: () => true,
    onProgress: (method: string, { finished }: { finished: number }) =>
      void told.push([method, finished]),
  };
  const results = await sampledMethods(context, ['pass@k', 'best-of-k'], 2);
  const [ceiling, best] = results as [(typeof results)[0], (typeof results)[0]];
  // a: one of two; b: one of one; c: one of three that are decided
  expect(ceiling.test).toMatchObject({ mean: expect.closeTo((0.75 + 1 / 3) / 2, 12), n: 6 });
  expect(Object.entries(ceiling.test.byTier).map(([id, { mean, n }]) => [id, mean, n])).toEqual([
    ['a', 0.5, 2],
    ['b', 1, 1],
    ['c', expect.closeTo(1 / 3, 12), 3],
    ['g', 0.75, 3],
  ]);
  expect(ceiling.failures).toMatchObject({ replies: 14, passed: 5 });
  // the second sample of each: none of a, all of b, two of four of c
  expect(best.test).toMatchObject({ mean: expect.closeTo((0.5 + 0.5) / 2, 12), n: 7 });
  // as many tokens as the sum over problems of the places p and samples s, 1 + p + s
  expect(results.map(({ method, k, tokens }) => [method, k, tokens])).toEqual([
    ['pass@k', 2, 7 * 3 + 2 * 21],
    ['best-of-k', 2, 7 * 3 + 2 * 21],
  ]);
  expect(told.at(-1)).toEqual(['pass@k', 14]);
  expect(requests).toMatchObject([
    { sampling: { temperature: 0.5 }, maxTokens: 4, maxSequences: 5, adapter: null },
  ]);
  // a run samples the same again, and nothing that its iterations have sampled
  const purpose = 'best of k';
  expect(requests[0]!.prompts.map(({ seeds }) => seeds)).toEqual(
    problems.map(({ id: problemId }) =>
      [0, 1].map((sample) => deriveSeed({ runSeed: 7n, purpose, iteration: 0, problemId, sample })),
    ),
  );
});

describe('the split of a data file', () => {
  const file = path.join(folder, 'data.split.json');
  const kept = async (rows: object | undefined): Promise<string[]> => {
    const notices: string[] = [];
    const whole = {
      duplicates: 0,
      split: { file, text: 'the split' },
      nearDuplicates: () => ({ rows: 0, heldOut: 9, example: null }),
      ...rows,
    };
    const task = taskWith(rows === undefined ? {} : { rows: whole });
    await keepSplit(task, (text) => void notices.push(text));
    return notices;
  };

  test('is written where it is not there as it is, and nothing is said', async () => {
    expect(await kept(undefined)).toEqual([]);
    expect(() => statSync(file)).toThrow('ENOENT');
    expect([await kept({}), readFileSync(file, 'utf8')]).toEqual([[], 'the split']);
    const { ino } = statSync(file);
    await kept({});
    expect(statSync(file).ino).toBe(ino);
    writeFileSync(file, 'another');
    expect([await kept({}), readFileSync(file, 'utf8')]).toEqual([[], 'the split']);
  });

  test.each<[rows: object, said: string]>([
    [{ duplicates: 1 }, '1 row of the data is a duplicate and is left out'],
    [{ duplicates: 2 }, '2 rows of the data are duplicates and are left out'],
    [
      { nearDuplicates: () => ({ rows: 3, heldOut: 9, example: { heldOut: 4, train: 8 } }) },
      '3 of the 9 held-out rows are nearly identical to a training row, ' +
        'such as rows 4 and 8: results on them may be memorised',
    ],
    [
      { split: { file: path.join(folder, 'none', 'split.json'), text: '' } },
      expect.stringMatching(/^the split could not be written: .*there is no folder/) as never,
    ],
  ])('is no reason not to train: %#', async (rows, said) => {
    expect(await kept(rows)).toEqual([said]);
  });
});
