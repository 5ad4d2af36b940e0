/**
 * Replies that are kept for the case of an interruption: what lies on the disk, what the log says
 * of it, and what is taken again.
 */
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type {
  Backend,
  SampleProgress,
  SampleRequest,
  TokenReply,
} from '../../src/backends/backend.js';
import { EventLog } from '../../src/log/event-log.js';
import { SingleProcessSigner } from '../../src/log/signer.js';
import { RUN_STREAMS, type NewRunRecord, type RunLog } from '../../src/run-folder/streams.js';
import { KeptReplies } from '../../src/training/reply-cache.js';

const home = mkdtempSync(path.join(tmpdir(), 'isopro-replies-'));
afterAll(() => rmSync(home, { recursive: true, force: true }));
let folder: string;
let log: RunLog;
let signer: SingleProcessSigner;
let runId: string;
let runs = 0;
let notices: string[];
/** What the log was given, beside its start. */
let appended: NewRunRecord[];
beforeEach(async () => {
  runId = String(++runs).padStart(32, '0');
  folder = path.join(home, runId);
  mkdirSync(folder);
  signer = new SingleProcessSigner(home);
  log = await EventLog.create({
    streams: RUN_STREAMS,
    path: path.join(folder, 'log.sqlite'),
    runId,
    signer,
    runConfig: null,
    digests: {},
  });
  notices = [];
  appended = [];
  const { append } = log;
  log.append = (records) => {
    appended.push(...records);
    return append.call(log, records);
  };
});
afterEach(async () => {
  log.close();
  await signer.close();
});

/**
 * Answers with a text, tokens and numbers that follow from prompt and seed, and notes the seeds
 * that it was asked for.
 */
function answering(finish: (seed: bigint) => TokenReply['finish'] = () => 'stop') {
  const asked: bigint[][] = [];
  const backend: Backend<TokenReply> = {
    identity: { kind: 'local', name: 'of the test' },
    capabilities: { tokenIds: true, logprobs: true, seeds: true, adapters: true, grammar: true },
    async *sample({ prompts, adapter, onProgress }) {
      const all = prompts.flatMap(({ id, seeds }, promptIndex) =>
        seeds.map((seed, sampleIndex) => ({ id, promptIndex, sampleIndex, seed })),
      );
      asked.push(all.map(({ seed }) => seed));
      for (const [i, { id, promptIndex, sampleIndex, seed }] of all.entries()) {
        const n = Number(seed);
        onProgress?.({ finished: i + 1, total: all.length, promptTokens: 1, sampledTokens: n });
        yield {
          promptIndex,
          sampleIndex,
          seed,
          text: `${id}: ü${n}`,
          finish: finish(seed),
          adapterId: adapter?.id ?? null,
          promptIds: Int32Array.of(1, n),
          tokenIds: Int32Array.of(n, 2 ** 30, -n),
          logprobs: Float32Array.of(-1 / n, -0.1, -0),
          sampledLogprobs: Float32Array.of(-2 / n, -Infinity, -0.3),
        };
      }
    },
    async dispose() {},
  };
  return { backend, asked };
}
const REQUEST: SampleRequest = {
  prompts: [
    { id: 'a', messages: [{ role: 'user', content: 'a' }], seeds: [11n, 12n, 13n] },
    { id: 'b', messages: [{ role: 'user', content: 'b' }], seeds: [21n, 22n] },
  ],
  sampling: { temperature: 1 },
  maxTokens: 4,
};
const open = (
  heads: readonly string[] = [],
  after = 1,
  most: { readonly seconds?: number } = { seconds: 0 },
): KeptReplies =>
  new KeptReplies({ folder, log, heads, after, ...most, onNotice: (text) => notices.push(text) });
const heads = (): Promise<string[]> => signer.heads(runId);
async function replies(
  from: Backend<TokenReply>,
  request = REQUEST,
  most = Infinity,
): Promise<TokenReply[]> {
  const all: TokenReply[] = [];
  for await (const reply of from.sample(request)) if (all.push(reply) === most) break;
  return all;
}
const ofSeeds = (of: readonly TokenReply[]): bigint[] => of.map(({ seed }) => seed);
const sorted = (of: readonly TokenReply[]): TokenReply[] =>
  of.toSorted((a, b) => Number(a.seed - b.seed));
const fileOf = (after: number): string => path.join(folder, `replies-${after}.jsonl`);
const named = (): Record<string, unknown>[] => appended.map(({ payload }) => payload);
/** What a record says of so many bytes of a file. */
const saying = (after: number, count: number, bytes: Buffer) => ({
  kind: 'kept_replies',
  after,
  replies: count,
  bytes: bytes.length,
  sha256: createHash('sha256').update(bytes).digest('hex'),
});

describe('what is sampled', () => {
  test('is on the disk at once where no second may be lost, and each record says how many bytes and replies there are', async () => {
    await replies(open().keeping(answering().backend, () => null));
    const bytes = readFileSync(fileOf(1));
    const lines = bytes.toString().trimEnd().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { text: string }).text)).toEqual([
      'a: ü11',
      'a: ü12',
      'a: ü13',
      'b: ü21',
      'b: ü22',
    ]);
    const upTo = (count: number): Buffer =>
      Buffer.from(
        lines
          .slice(0, count)
          .map((line) => `${line}\n`)
          .join(''),
      );
    expect(named()).toEqual([1, 2, 3, 4, 5].map((count) => saying(1, count, upTo(count))));
    expect(bytes).toEqual(upTo(5));
    // one after each record, beside the start
    expect((await heads()).map((head) => Number(head.split('\n')[1]))).toEqual([2, 3, 4, 5, 6]);
  });

  test('waits for the end of the stage where it takes less time than may be lost', async () => {
    const kept = open([], 1, {});
    await kept.keep();
    expect([named(), await heads()]).toEqual([[], []]);
    await replies(kept.keeping(answering().backend, () => null));
    expect([named(), existsSync(fileOf(1))]).toEqual([[], false]);
    await kept.keep();
    expect(named()).toEqual([saying(1, 5, readFileSync(fileOf(1)))]);
    expect(await heads()).toHaveLength(1);
    const checkpoints = jest.spyOn(log, 'checkpoint');
    await kept.keep(); // nothing is new
    expect([named().length, checkpoints.mock.calls.length]).toEqual([1, 0]);
    // one record is enough
    const { backend, asked } = answering();
    await replies(open(await heads()).keeping(backend, () => null));
    expect([asked, notices]).toEqual([[], ['5 of 5 samples reused from before the interruption']]);
  });

  test('is given as it came, and not kept where it was cancelled', async () => {
    const { backend } = answering((seed) =>
      seed === 12n ? 'aborted' : seed === 13n ? 'length' : 'stop',
    );
    const given = await replies(open().keeping(backend, () => null));
    expect(given).toEqual(await replies(backend));
    const finishes = readFileSync(fileOf(1), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as { finish: string }).finish);
    expect(finishes).toEqual(['stop', 'length', 'stop', 'stop']);
  });

  test('after a checkpoint goes into a file of its own, beginning from nothing; the one before it is gone', async () => {
    const kept = open();
    const { backend, asked } = answering();
    const keeping = kept.keeping(backend, () => null);
    await replies(keeping);
    kept.begin(9);
    expect(readdirSync(folder).filter((name) => name.startsWith('replies'))).toEqual([]);
    await replies(keeping, REQUEST, 2);
    expect(asked.map((seeds) => seeds.length)).toEqual([5, 5]);
    expect(named().at(-1)).toEqual(saying(9, 2, readFileSync(fileOf(9))));
  });

  test('before a checkpoint counts no more after it, whether it was on the disk or not', async () => {
    const { backend, asked } = answering();
    const waiting = open([], 1, {});
    await replies(waiting.keeping(backend, () => null));
    waiting.begin(20);
    await waiting.keep();
    expect([existsSync(fileOf(20)), named()]).toEqual([false, []]);
    await replies(open().keeping(backend, () => null));
    const resumed = open(await heads());
    const count = (await heads()).length;
    resumed.begin(30);
    await resumed.keep(); // the record that it began with needs no head any more
    expect((await heads()).length).toBe(count);
    await replies(resumed.keeping(backend, () => null));
    expect(asked.map((seeds) => seeds.length)).toEqual([5, 5, 5]);
    expect(notices).toEqual([]);
  });

  test('goes on the disk with the first reply that comes ten seconds after the first that is not there', async () => {
    const times = [5_000, 5_000, 14_999, 15_000, 15_001];
    let now = 0;
    const clock = jest.spyOn(performance, 'now').mockImplementation(() => now);
    const { backend } = answering();
    const late: Backend<TokenReply> = {
      ...backend,
      async *sample(request) {
        for await (const reply of backend.sample(request)) {
          now = times.shift()!;
          yield reply;
        }
      },
    };
    await replies(open([], 1, {}).keeping(late, () => null));
    clock.mockRestore();
    expect(named()).toEqual([saying(1, 4, readFileSync(fileOf(1)))]);
  });

  test('is kept no more where it cannot be written: that is said once, and until the next checkpoint', async () => {
    mkdirSync(fileOf(1));
    const kept = open();
    const { backend } = answering();
    const keeping = kept.keeping(backend, () => null);
    expect(await replies(keeping)).toEqual(await replies(backend));
    expect(notices).toEqual([
      expect.stringMatching(/^replies cannot be saved for resumption: .*EISDIR/),
    ]);
    expect(named()).toEqual([]);
    kept.begin(5);
    await replies(keeping);
    expect([notices.length, named().at(-1)!.replies]).toEqual([1, 5]);
  });
});

describe('after an interruption', () => {
  test('what is named under a signed head is given as it was, in its place, and the rest sampled with one of them', async () => {
    const { backend, asked } = answering();
    const whole = await replies(backend);
    await replies(
      open().keeping(backend, () => null),
      REQUEST,
      4,
    ); // the fourth was given, and is not kept yet
    const kept = open(await heads());
    const progress: SampleProgress[] = [];
    const given = await replies(
      kept.keeping(backend, () => null),
      { ...REQUEST, onProgress: (of) => progress.push(of) },
    );
    expect(sorted(given)).toEqual(sorted(whole));
    expect(Object.is(given.find(({ seed }) => seed === 12n)!.logprobs[2], -0)).toBe(true);
    // the first of them is sampled again; as soon as it comes as it was, the others are given
    expect(asked.at(-1)).toEqual(
      [11n, 22n].filter((seed) => seed !== 22n).concat(asked.at(-1)!.slice(1)),
    );
    expect(notices).toEqual([
      `${5 - asked.at(-1)!.length} of 5 samples reused from before the interruption`,
    ]);
    const taken = 5 - asked.at(-1)!.length;
    expect(
      progress.map(({ finished, total, sampledTokens }) => [
        finished - taken,
        total,
        sampledTokens,
      ]),
    ).toEqual(asked.at(-1)!.map((seed, i) => [i + 1, 5, Number(seed)]));
    expect(named().at(-1)).toEqual(saying(1, 5, readFileSync(fileOf(1))));
  });

  test('where all of them are kept none is sampled; they come in the order of the request', async () => {
    const { backend, asked } = answering();
    await replies(open().keeping(backend, () => null));
    const before = named().length;
    const kept = open(await heads());
    // that this attempt begins with them
    expect(named().slice(before)).toEqual([named()[before - 1]]);
    expect(await replies(kept.keeping(backend, () => null))).toEqual(await replies(backend));
    expect(asked).toHaveLength(2);
    expect(notices).toEqual(['5 of 5 samples reused from before the interruption']);
    const count = (await heads()).length;
    await kept.keep(); // nothing was finished, and that record has no head yet
    expect((await heads()).length).toBe(count + 1);
  });

  test('of a later turn nothing is said', async () => {
    const { backend } = answering();
    const request = {
      ...REQUEST,
      prompts: REQUEST.prompts.map((prompt, i) =>
        i === 0 ? prompt : { ...prompt, ids: Int32Array.of(1) },
      ),
    };
    await replies(
      open().keeping(backend, () => null),
      request,
    );
    await replies(
      open(await heads()).keeping(backend, () => null),
      request,
    );
    expect(notices).toEqual([]);
  });

  test('replies wait until the one that is sampled again has come as it was', async () => {
    const { backend } = answering();
    await replies(
      open().keeping(backend, () => null),
      { ...REQUEST, prompts: [{ ...REQUEST.prompts[0]!, seeds: [12n, 13n] }] },
    );
    const reordered: Backend<TokenReply> = {
      ...backend,
      sample: async function* (request) {
        yield* (await replies(backend, request)).reverse();
      },
    };
    const given = await replies(open(await heads()).keeping(reordered, () => null));
    // 12 is sampled again, between 11 and the second prompt's; 13 is kept
    expect(ofSeeds(given)).toEqual([13n, 22n, 21n, 12n, 11n]);
    expect(given.map(({ promptIndex, sampleIndex }) => [promptIndex, sampleIndex])).toEqual([
      [0, 2],
      [1, 1],
      [1, 0],
      [0, 1],
      [0, 0],
    ]);
  });

  const ADAPTER = 'ab'.repeat(32);
  test.each<[what: string, other: Partial<SampleRequest>, own?: string]>([
    ['temperature', { sampling: { temperature: 0.5 } }],
    ['limit', { maxTokens: 5 }],
    ['stop text', { stop: ['.'] }],
    ['grammar', { grammar: 'root ::= "a"' }],
    ['schema', { jsonSchema: {} }],
    ['adapter', { adapter: { id: ADAPTER } }],
    ['adapter of its own', {}, ADAPTER],
    [
      'prompt',
      {
        prompts: REQUEST.prompts.map((prompt) => ({
          ...prompt,
          messages: [{ role: 'user', content: 'c' }],
        })),
      },
    ],
    [
      'ids of the prompt',
      { prompts: REQUEST.prompts.map((prompt) => ({ ...prompt, ids: Int32Array.of(7) })) },
    ],
    ['seed', { prompts: REQUEST.prompts.map((prompt) => ({ ...prompt, seeds: [1n] })) }],
    // `own` in the rest: jest takes a third parameter of a row of two for `done`
  ])('another %s is another reply', async (_, other, ...[own]) => {
    const { backend, asked } = answering();
    await replies(open().keeping(backend, () => null));
    const kept = open(await heads()).keeping(backend, () => own ?? null);
    const request = { ...REQUEST, ...other };
    await replies(kept, request);
    expect(asked[1]).toEqual(request.prompts.flatMap(({ seeds }) => seeds));
    expect(notices).toEqual([]);
  });

  test('the bare base is the same, asked for or by itself', async () => {
    const { backend, asked } = answering();
    await replies(open().keeping(backend, () => null));
    await replies(
      open(await heads()).keeping(backend, () => ADAPTER),
      { ...REQUEST, adapter: null },
    );
    await replies(
      open(await heads()).keeping(backend, () => null),
      { ...REQUEST, maxSequences: 3 },
    );
    expect(asked).toHaveLength(1);
  });
});

describe('a file', () => {
  let bytes: Buffer;
  beforeEach(async () => {
    await replies(open().keeping(answering().backend, () => null));
    bytes = readFileSync(fileOf(1));
  });

  test.each<[what: string, of: () => Buffer]>([
    ['another byte', () => Buffer.from(bytes).fill(bytes.readUInt8(20) ^ 1, 20, 21)],
    ['a byte too few', () => bytes.subarray(0, -1)],
    ['nothing', () => Buffer.alloc(0)],
  ])('with %s is not the one that the log names', async (_, of) => {
    writeFileSync(fileOf(1), of());
    const signed = await heads();
    expect(() => open(signed)).toThrow(
      expect.objectContaining({
        code: 'LOG_TAMPERED',
        message: `the saved replies in ${fileOf(1)} differ from those named in the log`,
        remedy: 'Restore the file, or delete it to sample its replies again.',
      }) as never,
    );
  });

  test('that is longer than the log says is read as far, and cut there by what follows', async () => {
    appendFileSync(fileOf(1), 'what no record names'.repeat(1000));
    const { backend, asked } = answering();
    const kept = open(await heads()).keeping(backend, () => null);
    await replies(kept, {
      ...REQUEST,
      prompts: [{ ...REQUEST.prompts[0]!, seeds: [11n, 12n, 14n] }],
    });
    expect(asked).toEqual([[11n, 14n]]);
    expect(notices).toEqual(['1 of 3 samples reused from before the interruption']);
    const now = readFileSync(fileOf(1));
    expect(now.subarray(0, bytes.length)).toEqual(bytes);
    expect(named().at(-1)).toEqual(saying(1, 6, now));
  });

  test('counts as far as a record under a signed head names it, of the checkpoint that is gone on with', async () => {
    const { backend, asked } = answering();
    const [first] = await heads();
    await replies(open([first!]).keeping(backend, () => null));
    // the only one that counts is the one that is sampled again
    expect(asked).toEqual([[11n, 12n, 13n, 21n, 22n]]);
    const other = Buffer.from('other');
    log.append([{ stream: 'metrics', payload: saying(2, 1, other) }]);
    await log.checkpoint();
    await replies(open(await heads()).keeping(backend, () => null));
    expect(asked).toHaveLength(1);
  });

  test('is closed again, as the log is that names it', async () => {
    const openHere = (): number =>
      process.platform !== 'linux'
        ? 0
        : readdirSync('/proc/self/fd').filter((fd) => {
            const to = path.join('/proc/self/fd', fd);
            return existsSync(to) && readlinkSync(to).startsWith(folder);
          }).length;
    const signed = await heads();
    const before = openHere();
    const kept = open(signed);
    expect(openHere()).toBe(before);
    const request = { ...REQUEST, maxTokens: 5 };
    await replies(
      kept.keeping(answering().backend, () => null),
      request,
    );
    expect(openHere()).toBe(before);
  });

  test('whose replies depend on what else is asked for is taken no more', async () => {
    const { backend, asked } = answering();
    const dependent: Backend<TokenReply> = {
      ...backend,
      async *sample(request) {
        const count = request.prompts.reduce((sum, { seeds }) => sum + seeds.length, 0);
        for await (const reply of backend.sample(request))
          yield { ...reply, text: `${reply.text} of ${count}` };
      },
    };
    const request = { ...REQUEST, maxTokens: 5 };
    const part = { ...request, prompts: [{ ...request.prompts[0]!, seeds: [11n, 12n] }] };
    const before = open(await heads());
    await replies(
      before.keeping(dependent, () => null),
      part,
    );
    const kept = open(await heads()).keeping(dependent, () => null);
    const whole = await replies(kept, request);
    expect(whole.map(({ text }) => text)).toEqual(
      (await replies(backend, request)).map(({ text }) => `${text} of 5`),
    );
    await replies(kept, request);
    // the part; one of it again with what is new, and then all; all, to compare; all again
    expect(asked.map((seeds) => seeds.length)).toEqual([2, 4, 5, 5, 5]);
    expect(notices).toEqual([
      '1 of 5 samples reused from before the interruption',
      'resampling a saved reply gave a different result; all saved replies are discarded',
    ]);
  });

  test('that is gone is sampled again; those of other checkpoints are removed, and nothing else is', async () => {
    for (const name of ['replies-2.jsonl', 'replies-x.jsonl', 'replies-2.jsonl.old'])
      writeFileSync(path.join(folder, name), '');
    open();
    expect(
      readdirSync(folder)
        .filter((name) => name.startsWith('replies'))
        .sort(),
    ).toEqual(['replies-1.jsonl', 'replies-2.jsonl.old', 'replies-x.jsonl']);
    rmSync(fileOf(1));
    const { backend, asked } = answering();
    await replies(open(await heads()).keeping(backend, () => null));
    expect(asked.flat()).toHaveLength(5);
  });
});
