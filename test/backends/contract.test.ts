/** What a back end must keep, and what becomes of it on the one path from problems to verdicts. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, test } from '@jest/globals';
import {
  evaluateGreedy,
  evaluatePassAtK,
  recordedBackend,
  scheduling,
  type Backend,
  type Capabilities,
  type Judgement,
  type Reply,
  type SampleRequest,
} from '../../src/index.js';
import { sampleFrom } from '../../src/backends/backend.js';
import { answer, type JudgedReply } from '../../src/rollouts/answer.js';
import { sampleRollouts } from '../../src/rollouts/sample.js';
import type { OpenTask, Problem } from '../../src/tasks/task.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-backends-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const NONE: Capabilities = {
  tokenIds: false,
  logprobs: false,
  seeds: false,
  adapters: false,
  grammar: false,
};
const code = (expected: string, message: RegExp = /./): object =>
  expect.objectContaining({
    code: expected,
    message: expect.stringMatching(message) as unknown,
  }) as object;

/** One problem is one letter, and the reply to it passes where it is that letter. */
const LETTERS = ['a', 'b', 'c', 'd'];
const problems: Problem[] = LETTERS.map((id) => ({ id, tier: 'T' }));
const task = {
  id: 'letters',
  source: { kind: 'built-in' },
  version: '1',
  tiers: [{ id: 'T', title: 'letters', trains: true }],
  prompt: async ({ id }: Problem) => [{ role: 'user' as const, content: `say ${id}` }],
  judge: async ({ id }: Problem, text: string, finish: string): Promise<Judgement> => ({
    verdict: {
      kind: finish === 'stop' && text === id ? 'pass' : 'fail',
      violations: [],
      metrics: {},
    },
    form: /^[a-d]$/.test(text) ? 'letter' : null,
  }),
  readsLeniently: true,
  judgeLeniently: async ({ id }: Problem, text: string): Promise<Judgement> => ({
    verdict: { kind: text.includes(id) ? 'pass' : 'fail', violations: [], metrics: {} },
    form: 'lenient',
  }),
  readAnswer: async (_: Problem, text: string) => (/^[a-d]$/.test(text) ? text : null),
} as unknown as OpenTask;

/** What an embedding program brings: a plain object that knows text alone. */
const service = (
  sample: (request: SampleRequest) => AsyncIterable<Reply>,
  capabilities: Partial<Capabilities> = {},
): Backend => ({
  identity: { kind: 'service', name: 'mouth' },
  capabilities: { ...NONE, ...capabilities },
  sample,
  dispose: async () => undefined,
});
const saying = (say: (content: string, sampleIndex: number) => string): Backend =>
  service(async function* ({ prompts }) {
    for (const [promptIndex, { messages, seeds }] of prompts.entries())
      for (const sampleIndex of seeds.keys())
        yield {
          promptIndex,
          sampleIndex,
          text: say(messages.at(-1)!.content, sampleIndex),
          finish: 'stop',
        };
  });

const request = (over: Partial<SampleRequest> = {}): SampleRequest => ({
  prompts: problems.map(({ id }) => ({
    id,
    messages: [{ role: 'user', content: `say ${id}` }],
    seeds: [7n],
  })),
  sampling: { temperature: 0 },
  maxTokens: 4,
  ...over,
});
const all = async (backend: Backend, over: Partial<SampleRequest> = {}): Promise<Reply[]> => {
  const replies: Reply[] = [];
  for await (const reply of sampleFrom(backend, request(over))) replies.push(reply);
  return replies;
};

describe('an evaluation of a back end that knows text alone', () => {
  test('greedy: right where it says the letter, and tokens are unknown, not nought', async () => {
    const backend = saying((content) => (content === 'say c' ? 'no' : content.slice(4)));
    const { outcomes, summary, promptTokens, sampledTokens } = await evaluateGreedy(
      backend,
      task,
      problems,
      {
        style: 'plain',
        maxTokens: 4,
      },
    );
    expect(outcomes.map(({ kind }) => kind)).toEqual(['pass', 'pass', 'fail', 'pass']);
    expect(summary.mean).toBe(0.75);
    expect([promptTokens, sampledTokens, outcomes[0]!.tokens]).toEqual([null, null, null]);
  });
  test('form and skill apart: a reply is read strictly, then leniently; a pass is both', async () => {
    const said: Record<string, string> = { a: 'a', b: 'it is b', c: 'd', d: 'none' };
    const backend = saying((content) => said[content.slice(4)]!);
    const options = { style: 'plain', maxTokens: 4, lenient: true } as const;
    const { outcomes, summary } = await evaluateGreedy(backend, task, problems, options);
    expect(outcomes.map(({ kind, formed, lenient }) => [kind, formed, lenient])).toEqual([
      ['pass', true, 'pass'],
      ['fail', false, 'pass'],
      ['fail', true, 'fail'],
      ['fail', false, 'fail'],
    ]);
    expect([summary.mean, summary.format?.mean, summary.lenient?.mean]).toEqual([0.25, 0.5, 0.5]);
    const unasked = await evaluateGreedy(backend, task, problems, { style: 'plain', maxTokens: 4 });
    expect([unasked.summary.format?.mean, unasked.summary.lenient]).toEqual([0.5, undefined]);
  });
  test('one of several samples, chosen without the verifier: the commonest, and the likeliest where that is known', async () => {
    const right = (content: string): string => content.slice(4);
    // two of three say a: right for a alone; the first sample is unreadable, and no answer
    const backend = saying((content, sample) =>
      sample === 0 ? 'hm' : sample === 3 ? right(content) : 'a',
    );
    const options = {
      style: 'plain',
      maxTokens: 4,
      samples: 4,
      temperature: 1,
      seed: 1n,
      ks: [4],
      lenient: true,
    } as const;
    const { chosen, format, passAtK, lenientPassAtK } = await evaluatePassAtK(
      backend,
      task,
      problems,
      options,
    );
    expect([chosen.majority.mean, chosen.bestOfK]).toEqual([0.25, null]);
    expect([format.mean, passAtK[4]!.mean, lenientPassAtK![4]!.mean]).toEqual([0.75, 1, 1]);
    // the likelier of two is right for c and d; of one that was cut off nothing is taken
    const knowing = service(
      async function* ({ prompts }) {
        for (const [promptIndex, { messages, seeds }] of prompts.entries())
          for (const sampleIndex of seeds.keys()) {
            const text = sampleIndex === 1 ? right(messages.at(-1)!.content) : 'no';
            const likelihood =
              sampleIndex === 0 ? -1 : sampleIndex === 1 ? -0.5 - Number(promptIndex < 2) : 0;
            const logprobs = Float32Array.of(likelihood, likelihood);
            const ids = {
              promptIds: Int32Array.of(1),
              tokenIds: Int32Array.of(1, 2),
              logprobs,
              sampledLogprobs: logprobs,
            };
            yield {
              promptIndex,
              sampleIndex,
              text,
              finish: sampleIndex === 2 ? 'length' : 'stop',
              ...ids,
            };
          }
      },
      { tokenIds: true, logprobs: true },
    );
    const likeliest = await evaluatePassAtK(knowing, task, problems, {
      ...options,
      samples: 3,
      ks: [1],
    });
    expect(likeliest.chosen.bestOfK!.mean).toBe(0.5);
  });
  test('of several turns the likeliest sample is that of all its tokens, not of its last reply', async () => {
    // the second sample is likelier as a whole, the first in its last turn
    const turns = { A: [-5, -0.1], B: [-0.2, -0.5] } as const;
    const backend = {
      ...service(
        async function* ({ prompts }) {
          for (const [promptIndex, { messages, seeds }] of prompts.entries())
            for (const sampleIndex of seeds.keys()) {
              const said = messages.find(({ role }) => role === 'assistant')?.content as
                | 'A'
                | 'B'
                | undefined;
              const name = said ?? (sampleIndex === 0 ? 'A' : 'B');
              const logprobs =
                said === undefined
                  ? new Float32Array(4).fill(turns[name][0])
                  : Float32Array.of(turns[name][1]);
              const ids = {
                promptIds: Int32Array.of(1),
                tokenIds: Int32Array.from(logprobs, () => 1),
                logprobs,
                sampledLogprobs: logprobs,
              };
              yield {
                promptIndex,
                sampleIndex,
                text: said === 'B' ? 'right' : name,
                finish: 'stop',
                ...ids,
              };
            }
        },
        { tokenIds: true, logprobs: true },
      ),
      renderTurn: () => Int32Array.of(2),
    };
    const twice = {
      ...task,
      turns: 2,
      step: async (_: Problem, replies: readonly string[]) => (replies.length < 2 ? 'again' : null),
      judge: async (_: Problem, text: string) => ({
        verdict: { kind: text === 'right' ? 'pass' : 'fail', violations: [], metrics: {} },
        form: text,
      }),
    };
    const options = {
      style: 'plain',
      maxTokens: 4,
      samples: 2,
      temperature: 1,
      seed: 1n,
      ks: [1],
    } as const;
    const { chosen, passAtK } = await evaluatePassAtK(
      backend as never,
      twice as never,
      problems,
      options,
    );
    expect([chosen.bestOfK!.mean, passAtK[1]!.mean]).toEqual([1, 0.5]);
  });
  test('solved examples stand before the question, and a grammar is asked for', async () => {
    const asked: SampleRequest[] = [];
    const backend = service(
      async function* (given) {
        asked.push(given);
        for (const promptIndex of given.prompts.keys())
          yield { promptIndex, sampleIndex: 0, text: 'a', finish: 'stop' };
      },
      { grammar: true },
    );
    const examples = {
      ...task,
      fewShot: async (problem: Problem, _: string, count: number) =>
        Array(count).fill({ role: 'user', content: `like ${problem.id}` }),
    };
    const options = {
      style: 'plain',
      maxTokens: 4,
      fewShot: { count: 2, seed: 1n },
      grammar: 'root ::= [a-d]',
    } as const;
    await evaluateGreedy(backend, examples as never, problems, options);
    expect(asked[0]!.grammar).toBe('root ::= [a-d]');
    expect(asked[0]!.prompts[2]!.messages.map(({ content }) => content)).toEqual([
      'like c',
      'like c',
      'say c',
    ]);
    const none = { ...task, fewShot: async () => null };
    await expect(evaluateGreedy(backend, none as never, problems, options)).rejects.toThrow(
      code('INVALID_ARGUMENT', /no solved examples/),
    );
    await expect(
      evaluateGreedy(
        saying(() => 'a'),
        task,
        problems,
        { style: 'plain', maxTokens: 4, grammar: 'root ::= "a"' },
      ),
    ).rejects.toThrow(code('BACKEND_INCAPABLE'));
  });
  test.each<readonly [string, readonly (string | undefined)[], number]>([
    ['each tier by itself', [undefined, undefined, undefined, undefined], 0.5],
    ['three in a group', [undefined, 'G', 'G', 'G'], 0.5 * (1 + 1 / 3)],
    ['two in a group', ['G', undefined, 'G', undefined], 0.5],
    ['two groups', ['G', 'G', 'G', 'H'], 0.5 * (2 / 3)],
    ['three in a group, none of which is right', ['G', 'H', 'G', 'G'], 0.5 * (1 / 3 + 1)],
  ])('pass@k is the mean over tiers, a group counting as one: %s', async (_, groups, mean) => {
    const tiers = groups.map((group, i) => ({
      id: `T${i}`,
      ...(group === undefined ? {} : { group }),
    }));
    const backend = saying((content) => (/[ab]/.test(content.slice(4)) ? content.slice(4) : 'no'));
    const own = problems.map((problem, i) => ({ ...problem, tier: `T${i}` }));
    const options = {
      style: 'plain',
      maxTokens: 4,
      samples: 2,
      temperature: 1,
      seed: 1n,
      ks: [1, 2],
    } as const;
    const { passAtK, format } = await evaluatePassAtK(
      backend,
      { ...task, tiers } as never,
      own,
      options,
    );
    expect([passAtK[1]!.mean, passAtK[2]!.mean]).toEqual([
      expect.closeTo(mean, 12),
      expect.closeTo(mean, 12),
    ]);
    expect(Object.keys(passAtK[1]!.byTier)).toHaveLength(4);
    expect(format.mean).not.toBeNull();
  });
  test('pass@k: one of two samples is right', async () => {
    const backend = saying((content, sample) => (sample === 1 ? content.slice(4) : 'no'));
    const options = {
      style: 'plain',
      maxTokens: 4,
      samples: 2,
      temperature: 1,
      seed: 1n,
      ks: [1, 2],
    } as const;
    const { passAtK } = await evaluatePassAtK(backend, task, problems, options);
    expect([passAtK[1]!.mean, passAtK[2]!.mean]).toEqual([0.5, 1]);
  });
});

describe('what is asked of a back end that lacks it', () => {
  const plan = problems.map((problem) => ({ problem, seeds: [1n] }));
  const asking = {
    task,
    plan,
    prompt: (problem: Problem) => task.prompt(problem, 'plain'),
    temperature: 1,
  };
  const limits = { maxTokens: 4, maxSequences: 4 };

  test('training names all that is missing, before anything is sampled', async () => {
    let asked = 0;
    const backend = service(
      async function* () {
        asked++;
        yield* [];
      },
      { seeds: true },
    );
    await expect(sampleRollouts({ backend, ...asking, ...limits })).rejects.toThrow(
      code(
        'BACKEND_INCAPABLE',
        /service:mouth lacks tokenIds, logprobs, adapters, which training needs/,
      ) as never,
    );
    expect(asked).toBe(0);
  });
  test.each([
    ['an adapter', { adapter: { id: 'a1' } }, /lacks adapters, which the adapter a1 needs/],
    ['a grammar', { grammar: 'root ::= "a"' }, /lacks grammar/],
    ['a schema', { jsonSchema: {} }, /lacks jsonSchema/],
  ])('%s', async (_, over, message) => {
    await expect(
      all(
        saying(() => 'a'),
        over,
      ),
    ).rejects.toThrow(code('BACKEND_INCAPABLE', message) as never);
  });
  test('the bare base needs nothing', async () => {
    expect(
      await all(
        saying(() => 'a'),
        { adapter: null },
      ),
    ).toHaveLength(4);
  });
});

describe('a reply that breaks the contract', () => {
  const first = { promptIndex: 0, sampleIndex: 0, text: 'a', finish: 'stop' } as const;
  const ids = { promptIds: Int32Array.of(1), tokenIds: Int32Array.of(2) };
  const yielding = (replies: readonly object[], capabilities?: Partial<Capabilities>): Backend =>
    service(async function* () {
      yield* replies as Reply[];
    }, capabilities);
  test.each<[string, readonly object[], Partial<Capabilities>, RegExp]>([
    ['none to some sample', [first], {}, /returned no reply to sample 0 of prompt b/],
    [
      'two to one sample',
      [first, first],
      {},
      /returned a reply to sample 0 of prompt 0, which was not requested or was answered before/,
    ],
    ['to a prompt that was not asked', [{ ...first, promptIndex: 9 }], {}, /sample 0 of prompt 9/],
    ['without text', [{ ...first, text: undefined }], {}, /prompt a without text/],
    ['without its end', [{ ...first, finish: undefined }], {}, /without a valid finish reason/],
    ['without promised ids', [first], { tokenIds: true }, /without token ids/],
    [
      'with lists in place of ids',
      [{ ...first, promptIds: [1], tokenIds: [2] }],
      { tokenIds: true },
      /without token ids/,
    ],
    [
      'with a log-probability too few',
      [{ ...first, ...ids, logprobs: Float32Array.of(-1), sampledLogprobs: new Float32Array(0) }],
      { tokenIds: true, logprobs: true },
      /without one log-probability per token/,
    ],
    ['of another seed', [{ ...first, seed: 8n }], { seeds: true }, /with a different seed/],
    ['that does not say its adapter', [first], { adapters: true }, /from a different adapter/],
  ])('%s', async (_, replies, capabilities, message) => {
    await expect(all(yielding(replies, capabilities))).rejects.toThrow(
      code('BACKEND_REPLY_INVALID', message) as never,
    );
  });
  test('a cancelled one is no reply', async () => {
    await expect(all(yielding([{ ...first, finish: 'aborted' }]))).rejects.toThrow(
      code('BACKEND_REPLY_INVALID', /no reply to/) as never,
    );
  });
});

describe('the path from problems to verdicts', () => {
  type Judging = Pick<OpenTask, 'judge' | 'turns' | 'step'>;
  const once = { turns: 1, step: async () => null };
  const plan = problems.map((problem) => ({ problem, seeds: [1n] }));
  const asking = {
    backend: saying((content) => content.slice(4)),
    task: task as Judging,
    plan,
    prompt: (problem: Problem) => task.prompt(problem, 'plain'),
    temperature: 0,
    maxTokens: 4,
    maxSequences: 4,
  };
  const collect = async (
    over: Partial<typeof asking> & { opening?: string; signal?: AbortSignal },
  ): Promise<JudgedReply[]> => {
    const judged: JudgedReply[] = [];
    await answer({ ...asking, ...over }, (reply) => void judged.push(reply));
    return judged;
  };

  test('verdicts are handed on in the order in which the replies finished, however long each took', async () => {
    const delays: Record<string, number> = { a: 60, b: 1, c: 30, d: 1 };
    let judging = 0;
    let most = 0;
    const slow: Judging = {
      ...once,
      judge: async (problem, text, finish) => {
        most = Math.max(most, ++judging);
        await sleep(delays[problem.id]);
        judging--;
        return task.judge(problem, text, finish);
      },
    };
    const judged = await collect({ task: slow });
    expect(judged.map(({ problem }) => problem.id)).toEqual(LETTERS);
    expect(judged.map(({ judgement }) => judgement.verdict.kind)).toEqual(Array(4).fill('pass'));
    expect(most).toBe(4); // all at once
  });
  test('an opening is put to the back end as what the assistant has said, and stands before the text that is judged', async () => {
    const judged = await collect({
      opening: 'I say: ',
      backend: saying((content) => `(${content})`),
    });
    expect(judged[0]!.messages).toEqual([
      { role: 'user', content: 'say a' },
      { role: 'assistant', content: 'I say: ' },
    ]);
    expect(judged[0]!.rollout.text).toBe('I say: (I say: )');
  });
  test.each([
    ['the taker fails', { take: 1 }],
    ['the verifier fails', { judge: 'b' }],
  ])(
    'where %s, sampling ends at once and its error arrives',
    async (_, { take, judge }: { take?: number; judge?: string }) => {
      const failure = new Error('enough');
      let yielded = 0;
      const backend = service(async function* ({ prompts, signal }) {
        for (const promptIndex of prompts.keys()) {
          if (promptIndex > 1)
            await new Promise<void>((resolve) =>
              signal!.addEventListener('abort', () => resolve()),
            ); // or for ever
          if (signal!.aborted) return;
          yielded++;
          yield {
            promptIndex,
            sampleIndex: 0,
            text: LETTERS[promptIndex]!,
            finish: 'stop' as const,
          };
        }
      });
      const failing: Judging = {
        ...once,
        judge: async (problem, ...rest) => {
          if (problem.id === judge) throw failure;
          return task.judge(problem, ...rest);
        },
      };
      let taken = 0;
      await expect(
        answer({ ...asking, backend, task: failing }, () => {
          if (taken++ === take) throw failure;
        }),
      ).rejects.toBe(failure);
      expect(yielded).toBe(2);
    },
  );
  test('a cancelled request is ABORTED, whether its back end heeds the signal or not', async () => {
    const controller = new AbortController();
    const backend = service(async function* ({ prompts }) {
      for (const promptIndex of prompts.keys()) {
        if (promptIndex === 2) controller.abort();
        yield { promptIndex, sampleIndex: 0, text: 'a', finish: 'stop' as const };
      }
    });
    await expect(collect({ backend, signal: controller.signal })).rejects.toThrow(
      code('ABORTED') as never,
    );
  });
});

describe('a recording', () => {
  const line = (over: object): string =>
    JSON.stringify({
      prompt: { messages: [{ role: 'user', content: 'say a' }] },
      text: 'a',
      finish: 'stop',
      ...over,
    });
  const of = (id: string, over: object = {}): string =>
    line({ prompt: { messages: [{ role: 'user', content: `say ${id}` }] }, ...over });
  const record = (...lines: string[]): string => {
    const file = path.join(folder, 'replies.jsonl');
    writeFileSync(file, `${lines.join('\n')}\n`);
    return file;
  };
  const texts = async (file: string, over: Partial<SampleRequest> = {}): Promise<string[]> =>
    (await all(await recordedBackend(file), over)).map(({ text }) => text);

  test('gives each prompt the reply to its messages, whatever the order of the lines and what else they hold', async () => {
    const lines = [...LETTERS]
      .reverse()
      .map((id) =>
        of(id, { text: id, logprobs: [1], reward: 0, tokenIds: [1, 2], promptTokens: 5 }),
      );
    const backend = await recordedBackend(record(...lines, ''));
    const replies = await all(backend);
    expect(
      replies.map(({ text, promptIndex, tokens, promptTokens }) => [
        text,
        promptIndex,
        tokens,
        promptTokens,
      ]),
    ).toEqual(LETTERS.map((id, i) => [id, i, 2, 5]));
    expect(await backend.digest!()).toMatch(/^[0-9a-f]{64}$/);
    const { summary, promptTokens, sampledTokens } = await evaluateGreedy(backend, task, problems, {
      style: 'plain',
      maxTokens: 4,
    });
    expect([summary.mean, promptTokens, sampledTokens]).toEqual([1, 20, 8]);
  });
  test('an episode that had no room for its next turn, as `eval --out` writes it, is one that was cut off', async () => {
    const replies = await all(
      await recordedBackend(record(...LETTERS.map((id) => of(id, { finish: 'context' })))),
    );
    expect(new Set(replies.map(({ finish }) => finish))).toEqual(new Set(['length']));
  });
  test('samples are numbered, or come in the order of the lines', async () => {
    const prompts = [{ ...request().prompts[0]!, seeds: [1n, 2n] }];
    expect(
      await texts(
        record(of('a', { sampleIndex: 1, text: 'x' }), of('a', { sampleIndex: 0, text: 'y' })),
        { prompts },
      ),
    ).toEqual(['y', 'x']);
    expect(
      await texts(record(of('a', { text: 'x' }), of('a', { text: 'y' })), { prompts }),
    ).toEqual(['x', 'y']);
  });
  test('prompts that are alike are told apart by id, where that is the one asked for; else one answer does for all', async () => {
    const prompts = ['p', 'q'].map((id) => ({ ...request().prompts[0]!, id }));
    const numbered = { sampleIndex: 0 };
    const two = record(
      line({ id: 'q', text: 'Q', ...numbered }),
      line({ id: 'p', text: 'P', ...numbered }),
    );
    expect(await texts(two, { prompts })).toEqual(['P', 'Q']);
    await expect(texts(two, { prompts: [{ ...prompts[0]!, id: 'r' }] })).rejects.toThrow(
      code(
        'RECORDING_INCOMPLETE',
        /is missing 1 of 1 replies; the first is sample 0 of prompt r$/,
      ) as never,
    );
    expect(await texts(record(line({ id: 'another' })), { prompts })).toEqual(['a', 'a']);
  });
  test('a reply that it does not hold is an error before the first is given, and a cancelled one is none', async () => {
    const file = record(of('a'), of('b'), of('c'), of('d', { finish: 'aborted' }));
    let given = 0;
    const backend = await recordedBackend(file);
    await expect(
      (async () => {
        for await (const _ of backend.sample(request())) given++;
      })(),
    ).rejects.toThrow(
      code(
        'RECORDING_INCOMPLETE',
        /replies\.jsonl is missing 1 of 4 replies; .* sample 0 of prompt d$/,
      ) as never,
    );
    expect(given).toBe(0);
  });
  test.each<[string, string[], RegExp]>([
    ['no JSON', [of('a'), '{"prompt":'], /replies\.jsonl, line 2: not JSON/],
    [
      'a member that is missing',
      [of('a'), '', of('b', { finish: undefined })],
      /replies\.jsonl, line 3: finish: /,
    ],
    ['another end', [of('a', { finish: 'eos' })], /line 1: finish: /],
    [
      'a prompt without messages',
      [line({ prompt: { text: 'say a' } })],
      /line 1: prompt\.messages: /,
    ],
    ['a negative number', [of('a', { sampleIndex: -1 })], /line 1: sampleIndex: /],
    [
      'two replies to one sample',
      [of('a', { sampleIndex: 0 }), of('a', { sampleIndex: 0, text: 'b' })],
      /line 2: sample 0 of this prompt already has a different reply/,
    ],
    ['nothing at all', [''], /replies\.jsonl contains no replies/],
  ])('%s is RECORDING_INVALID', async (_, lines, message) => {
    await expect(recordedBackend(record(...lines))).rejects.toThrow(
      code('RECORDING_INVALID', message) as never,
    );
  });
  test('a file that is not there is FILE_UNREADABLE', async () => {
    await expect(recordedBackend(path.join(folder, 'absent.jsonl'))).rejects.toThrow(
      code('FILE_UNREADABLE') as never,
    );
  });
  test('holds a multi-turn prompt by all of its messages', async () => {
    const [problem] = [await scheduling.generate('T0', 1n)];
    const messages = [
      ...scheduling.prompt(problem, 'cot'),
      { role: 'assistant' as const, content: 'so far' },
    ];
    const file = record(line({ prompt: { messages }, text: 'on' }));
    const ask = (asked: typeof messages): Promise<string[]> =>
      texts(file, { prompts: [{ id: problem.id, messages: asked, seeds: [0n] }] });
    expect(await ask(messages)).toEqual(['on']);
    await expect(ask(messages.slice(0, -1))).rejects.toThrow(code('RECORDING_INCOMPLETE') as never);
  });
});
