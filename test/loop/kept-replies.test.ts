/**
 * What a run has sampled of a stage before it was interrupted is not sampled again, and changes
 * nothing.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Backend, TokenReply } from '../../src/backends/backend.js';
import { judgeRun } from '../../src/judge/judge.js';
import { EventLog } from '../../src/log/event-log.js';
import { LogReader, type LogRecord } from '../../src/log/read.js';
import { SingleProcessSigner } from '../../src/log/signer.js';
import { keptRepliesRecord } from '../../src/run-folder/course-records.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';
import { KeptReplies } from '../../src/training/reply-cache.js';
import type { RunProgress } from '../../src/training/hooks.js';
import type { RunResult } from '../../src/training/result.js';
import { atPlace, keptRun, type Place } from '../models/kept-run.js';
import { writeLetterModel, writeLetterTask } from '../models/letters.js';
import { runFigures } from '../models/run-figures.js';

const PROGRAM = fileURLToPath(new URL('../../dist/test/models/kept-run.js', import.meta.url));
/** Elsewhere a reply depends on which others its request asks for, and nothing is kept. */
const each = process.arch === 'x64' ? test : test.skip;

let folder: string;
const file = (...names: string[]): string => path.join(folder, ...names);
const keptFiles = (out: string): string[] =>
  readdirSync(file(out)).filter((name) => name.startsWith('replies-'));

function records(
  out: string,
  options: { stream?: 'rollouts' | 'metrics'; abandoned?: boolean } = {},
): LogRecord[] {
  const reader = new LogReader(file(out, 'log.sqlite'), RUN_STREAMS);
  try {
    return [...reader.records(options)];
  } finally {
    reader.close();
  }
}
const named = (out: string, abandoned: boolean): LogRecord[] =>
  records(out, { stream: 'metrics', abandoned }).filter(
    ({ payload }) => payload.kind === 'kept_replies',
  );

/** What runs have in common that come to the same. */
const outcome = (out: string, result: RunResult): unknown => [
  runFigures(JSON.stringify(result)),
  records(out, { stream: 'rollouts' }).map(({ payload }) => payload),
];

let whole: unknown;
/** Tokens that were sampled in the second iteration. */
let wholeTokens: number;

/** The run to its end. @returns what it said, and how many tokens it sampled in a stage */
async function toItsEnd(out: string, { stage, iteration }: Omit<Place, 'replies'>, task?: string) {
  const notices: string[] = [];
  let tokens = 0;
  const onProgress = (progress: RunProgress): void => {
    if (progress.stage === stage && progress.iteration === iteration) ({ tokens } = progress);
  };
  const result = await keptRun(
    folder,
    out,
    { keepSeconds: 3600, onNotice: (text) => notices.push(text), onProgress },
    task,
  );
  return { notices, tokens, outcome: outcome(out, result) };
}

/**
 * The run to a place; where that is a stage without replies, they are kept by its end alone.
 * @returns what it said
 */
async function interrupted(out: string, place: Place, task?: string): Promise<string[]> {
  const interruption = new AbortController();
  const notices: string[] = [];
  const options = {
    ...atPlace(place, () => interruption.abort()),
    keepSeconds: place.replies === 0 ? 3600 : 0,
    onNotice: (text: string) => notices.push(text),
    signal: interruption.signal,
  };
  await expect(keptRun(folder, out, options, task)).rejects.toMatchObject({ code: 'ABORTED' });
  return notices;
}

const said = (kept: number, of: number): string[] => [
  `${kept} of ${of} samples reused from before the interruption`,
];

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-kept-'));
  process.env.ISOPRO_HOME = file('home');
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'));
  ({ outcome: whole, tokens: wholeTokens } = await toItsEnd('whole', {
    stage: 'rollouts',
    iteration: 2,
  }));
}, 120_000);
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

test('a run that samples for less than that keeps nothing; one that keeps each reply comes to the same, and leaves no file', async () => {
  expect(named('whole', true)).toEqual([]);
  expect(outcome('each', await keptRun(folder, 'each'))).toEqual(whole);
  expect(named('each', true).length).toBeGreaterThan(0);
  expect(keptFiles('each')).toEqual([]);
});

each('interrupted again and again, it takes what it had sampled as it was', async () => {
  const rollouts = { stage: 'rollouts', iteration: 2 } as const;
  expect(await interrupted('again', { stage: 'before', iteration: 0, replies: 4 })).toEqual([]);
  expect(await interrupted('again', { ...rollouts, replies: 7 })).toEqual(said(3, 6));
  expect(await interrupted('again', { ...rollouts, replies: 16 })).toEqual(said(6, 24));
  expect(keptFiles('again')).toHaveLength(1);
  expect(await interrupted('again', { stage: 'training', iteration: 2, replies: 0 })).toEqual(
    said(22, 24),
  );
  const resumed = await toItsEnd('again', rollouts);
  expect(resumed).toEqual({ notices: said(24, 24), tokens: 0, outcome: whole });
  expect(keptFiles('again')).toEqual([]);
});

each('interrupted in the second turn of its episodes, it keeps both turns', async () => {
  writeLetterTask(file('pair.mjs'), {
    numbers: 400,
    members:
      '  limits: { turns: 2 },\n  step: (problem, replies) => (replies.length < 2 ? "After " + replies[0] + "?" : null),\n',
  });
  const place = { stage: 'rollouts', iteration: 1 } as const;
  const expected = await toItsEnd('pair', place, 'pair');
  await interrupted('pair interrupted', { ...place, replies: 30 }, 'pair');
  const resumed = await toItsEnd('pair interrupted', place, 'pair');
  expect(resumed.notices).toEqual(said(24, 24));
  expect(resumed.tokens).toBeLessThan(expected.tokens);
  expect(resumed.outcome).toEqual(expected.outcome);
});

test.each([
  [
    'that depend on what else is asked for: one that comes otherwise when it is sampled again shows it, and none is taken',
    true,
  ],
  ['that do not: those that are kept are not sampled again, but one', false],
])('replies %s', async (_, dependent) => {
  const out = file(`company ${dependent}`);
  mkdirSync(out);
  const signer = new SingleProcessSigner();
  const log = await EventLog.create({
    streams: RUN_STREAMS,
    path: path.join(out, 'log.sqlite'),
    runId: (dependent ? '1' : '2').repeat(32),
    signer,
    runConfig: null,
    digests: {},
  });
  const asked: number[] = [];
  const capabilities = {
    tokenIds: true,
    logprobs: true,
    seeds: true,
    adapters: true,
    grammar: true,
  };
  const backend: Backend<TokenReply> = {
    identity: { kind: 'local', name: 'of the test' },
    capabilities,
    async *sample({ prompts }) {
      const count = prompts.reduce((sum, { seeds }) => sum + seeds.length, 0);
      asked.push(count);
      for (const [promptIndex, { seeds }] of prompts.entries())
        for (const [sampleIndex, seed] of seeds.entries()) {
          const logprobs = Float32Array.of(dependent ? -count : -1);
          const said = {
            text: `${seed}`,
            finish: 'stop',
            promptIds: Int32Array.of(1),
            tokenIds: Int32Array.of(Number(seed)),
          } as const;
          yield {
            promptIndex,
            sampleIndex,
            seed,
            adapterId: null,
            logprobs,
            sampledLogprobs: logprobs,
            ...said,
          };
        }
    },
    async dispose() {},
  };
  const seeds = [
    [1n, 2n, 3n, 4n],
    [5n, 6n],
  ];
  const request = {
    prompts: seeds.map((each, i) => ({
      id: `${i}`,
      messages: [{ role: 'user' as const, content: `${i}` }],
      seeds: each,
    })),
    sampling: {},
    maxTokens: 4,
  };
  const notices: string[] = [];
  const kept = (heads: string[]): Backend<TokenReply> =>
    new KeptReplies({
      folder: out,
      log,
      heads,
      after: 1,
      seconds: 0,
      onNotice: (text) => notices.push(text),
    }).keeping(backend, () => null);
  const replies = async (from: Backend<TokenReply>, most = 6): Promise<TokenReply[]> => {
    const all: TokenReply[] = [];
    for await (const reply of from.sample(request)) if (all.push(reply) === most) break;
    return all.sort((a, b) => Number(a.seed - b.seed));
  };
  await replies(kept([]), 3);
  const resumed = await replies(kept([(await log.checkpoint()).text]));
  expect(resumed).toEqual(await replies(backend));
  expect(notices).toEqual([
    ...said(2, 6),
    ...(dependent
      ? ['resampling a saved reply gave a different result; all saved replies are discarded']
      : []),
  ]);
  expect(asked).toEqual(dependent ? [6, 4, 6, 6] : [6, 4, 6]);
  log.close();
  await signer.close();
});

each('where the file cannot be written the run says so once and goes on', async () => {
  mkdirSync(file('unwritable', 'replies-1.jsonl'), { recursive: true });
  const notices: string[] = [];
  const result = await keptRun(folder, 'unwritable', { onNotice: (text) => notices.push(text) });
  expect(notices).toEqual([
    expect.stringMatching(/^replies cannot be saved for resumption: .*EISDIR/),
  ]);
  expect(outcome('unwritable', result)).toEqual(whole);
});

(process.arch === 'x64' ? describe : describe.skip)(
  'killed while a reply was written that no record names yet',
  () => {
    const place: Place = { stage: 'rollouts', iteration: 2, replies: 10 };
    let replies: string;
    /** The killed run, with a signer that knows no other continuation of it. */
    const copyKilled = (out: string): void => {
      cpSync(file('killed'), file(out), { recursive: true });
      cpSync(file('killed.home'), file(`${out}.home`), { recursive: true });
      process.env.ISOPRO_HOME = file(`${out}.home`);
    };

    beforeAll(() => {
      const { signal, stderr } = spawnSync(
        process.execPath,
        [PROGRAM, folder, 'killed', JSON.stringify(place)],
        {
          env: { ...process.env, ISOPRO_HOME: file('killed.home') },
          encoding: 'utf8',
        },
      );
      expect([signal, stderr]).toEqual(['SIGKILL', '']);
      [replies] = keptFiles('killed') as [string];
    });

    test('the others are kept, and the judge passes what the run came to', async () => {
      copyKilled('resumed');
      const { notices, tokens, outcome: came } = await toItsEnd('resumed', place);
      expect(notices).toEqual(said(8, 24));
      // the attempt that ended well says what it began with
      expect(named('resumed', false).at(-1)!.payload.replies).toBe(9);
      expect(tokens).toBeLessThan(wholeTokens);
      expect(came).toEqual(whole);
      const judged = await judgeRun({
        folder: file('resumed'),
        model: file('letters.gguf'),
        task: file('letters.mjs'),
        home: file('resumed.home'),
        heldOut: 'none',
      });
      expect(judged).toMatchObject({
        verdict: 'not_verified',
        failure: null,
        notVerified: ['test problems were not evaluated again'],
      });
    });

    test('without the file all are sampled again', async () => {
      copyKilled('deleted');
      rmSync(file('deleted', replies));
      const resumed = await toItsEnd('deleted', place);
      expect([resumed.notices, resumed.tokens]).toEqual([[], wholeTokens]);
      expect(resumed.outcome).toEqual(whole);
    });

    test.each<[string, (out: string) => Promise<void> | void]>([
      [
        'another token in it',
        (out) => {
          const lines = readFileSync(file(out, replies), 'utf8').split('\n');
          const reply = JSON.parse(lines[2]!) as { tokenIds: string };
          const tokenIds = Buffer.from(reply.tokenIds, 'base64');
          tokenIds[0]! ^= 1;
          lines[2] = JSON.stringify({ ...reply, tokenIds: tokenIds.toString('base64') });
          writeFileSync(file(out, replies), lines.join('\n'));
        },
      ],
      [
        'half of it',
        (out) =>
          writeFileSync(file(out, replies), readFileSync(file(out, replies)).subarray(0, 500)),
      ],
      [
        'other replies, which a record names that is under no signed head',
        async (out) => {
          // whoever can write the file can append what links and hashes well
          const signer = new SingleProcessSigner();
          const after = Number.parseInt(replies.slice('replies-'.length), 10);
          const log = await EventLog.resume({
            streams: RUN_STREAMS,
            path: file(out, 'log.sqlite'),
            signer,
            fromIteration: 2,
            abandonedFrom: after,
          });
          const [, second] = readFileSync(file(out, replies), 'utf8').split('\n');
          const forged = `${second}\n`;
          const sha256 = createHash('sha256').update(forged).digest('hex');
          log.append([keptRepliesRecord({ after, replies: 1, bytes: forged.length, sha256 })]);
          log.close();
          await signer.close();
          writeFileSync(file(out, replies), forged);
        },
      ],
    ])('%s: refused', async (what, change) => {
      copyKilled(what);
      await change(what);
      await expect(keptRun(folder, what)).rejects.toMatchObject({
        code: 'LOG_TAMPERED',
        message: expect.stringContaining(`${replies} differ from those named in the log`),
        remedy: expect.stringContaining('delete it'),
      });
    });
  },
);
