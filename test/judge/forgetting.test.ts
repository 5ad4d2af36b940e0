/**
 * What a model forgot: the measure against sums made in another way, in a run, its log, its report
 * and before its judge.
 */
import { hash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { canonicalJson } from '../../src/canonical-json.js';
import type { Adapter } from '../../src/engine/adapter.js';
import { inspectAdapter, weakenAdapter } from '../../src/engine/adapter-files.js';
import { loadModel, type Model } from '../../src/engine/model.js';
import { createTrainer, type Trainer } from '../../src/engine/trainer.js';
import {
  forgettingTokens,
  measureForgetting,
  readForgettingText,
  type ForgettingMeasurement,
  type ForgettingOptions,
} from '../../src/evaluation/forgetting.js';
import { restrain, restraintFault } from '../../src/evaluation/restraint.js';
import { readHalf, type Half } from '../../src/evaluation/forgetting-cache.js';
import { checkForgetting, readForgettingClaim } from '../../src/judge/forgetting.js';
import { readClaims } from '../../src/judge/held-out.js';
import { LogReader } from '../../src/log/read.js';
import { readManifest } from '../../src/run-folder/manifest.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';
import { forgettingNotes, forgettingSentences } from '../../src/text/figures.js';
import { forgettingOf } from '../../src/statistics/index.js';
import type { RunResult } from '../../src/training/result.js';
import { inUse, resolveSettings, type RunSettingsInput } from '../../src/training/settings.js';
import { asFlags, runLines, type CliResult } from '../cli/run-cli.js';
import { LEARNS, writeLetterModel, writeLetterTask } from '../models/letters.js';
import { temporaryFolder } from '../models/signed-log.js';

const folder = temporaryFolder();
const file = (name: string): string => path.join(folder.path, name);
const PROMPTS = 12;
let model: Model;
let trainer: Trainer;
let moved: Adapter;
let measured: ForgettingMeasurement;

beforeAll(async () => {
  mkdirSync(file('home'));
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'), { members: "answerGrammar: 'root ::= [b]'," });
  model = await loadModel(file('letters.gguf'), {
    threads: 1,
    fixedThreads: true,
    contextTokens: 1024,
    kvType: 'bf16',
  });
  trainer = await createTrainer(model, {
    lora: { targets: ['q', 'v', 'down'], rank: 4 },
    optimiser: { learningRate: 0.02 },
    threads: 1,
  });
}, 60_000);
afterAll(async () => {
  await trainer.dispose();
  await model.dispose();
  folder.remove();
});

async function learn(steps: number): Promise<void> {
  const text = model.tokenize('so it goes, and so it goes, and so it goes');
  for (let step = 0; step < steps; step++)
    await trainer.step([{ tokenIds: text, labelMask: new Uint8Array(text.length).fill(1, 1) }]);
}

describe('the measure', () => {
  test('of an adapter that changes nothing is nought in each of its sums, but for the rounding of another batch', async () => {
    const untrained = await trainer.applyTo(model);
    const { english, replies } = await measureForgetting(model, untrained, { prompts: PROMPTS });
    expect([english.length, replies.length]).toEqual([2, PROMPTS]); // in proportion
    for (const { before, after } of english) expect(after).toBe(before);
    for (const { before, after, tokens } of [...english, ...replies.map(texts)]) {
      expect(Math.abs(after - before)).toBeLessThan(1e-5);
      expect(before).toBeLessThan(0);
      expect(tokens).toBeGreaterThan(0);
    }
  }, 60_000);

  test("of one that moved the model has the English sums of the trainer's own forward pass", async () => {
    await learn(4);
    moved = await trainer.applyTo(model);
    measured = await measureForgetting(model, moved, { prompts: PROMPTS });
    const paragraphs = readForgettingText('english').split('\n\n');
    const begin = model.info.addBos ? Int32Array.of(model.info.bos) : model.tokenize('\n');
    for (const i of [0, 1]) {
      const tokenIds = Int32Array.from([...begin, ...model.tokenize(paragraphs[i]!.trim())]);
      const labelMask = Uint8Array.from(tokenIds, (_, t) => (t >= begin.length ? 1 : 0));
      const { tokens, before, after } = measured.english[i]!;
      expect(tokens).toBe(tokenIds.length - begin.length);
      for (const [adapter, sum] of [
        [false, before],
        [true, after],
      ] as const) {
        const { sequences } = await trainer.evaluate([{ tokenIds, labelMask }], { adapter });
        // with an f16 cache, whose values llama.cpp's attention sums in f16, 0.005 apart at 480
        // tokens and growing with them
        expect(Math.abs(sum + sequences[0]!.loss) / tokens).toBeLessThan(0.001);
      }
      expect(after).not.toBe(before);
    }
  }, 120_000);

  test('evaluates and samples the tokens that a dry run counts', async () => {
    const scored = jest.spyOn(model, 'score');
    const { english, replies } = await measureForgetting(model, moved, { prompts: PROMPTS });
    const tokens = scored.mock.calls
      .flatMap(([, rests]) => [...rests])
      .reduce((sum, { length }) => sum + length, 0);
    scored.mockRestore();
    const sumOf = (texts: readonly { readonly tokens: number }[]): number =>
      texts.reduce((sum, text) => sum + text.tokens, 0);
    const { evaluated, sampled } = forgettingTokens(model, PROMPTS);
    // a reply has 16 tokens at most
    expect(sampled).toBe(16 * PROMPTS);
    expect(sumOf(replies.map(texts))).toBeLessThanOrEqual(sampled);
    // prompts are evaluated twice: once when the base replies, once when replies are scored
    const prompts = (evaluated - sampled) / 2 - sumOf(english);
    expect(tokens - sumOf(replies.map(texts))).toBe(2 * sumOf(english) + prompts);
  }, 60_000);

  test('estimates the divergence that the whole vocabulary gives', async () => {
    const { english, replies } = await measureForgetting(model, moved, { paragraphs: 2 });
    const { divergence } = forgettingOf(english, replies.map(texts));
    const vocabulary = Array.from({ length: model.info.vocabularySize }, (_, id) =>
      Int32Array.of(id),
    );
    const prompts = readForgettingText('prompts').trim().split('\n');
    let [exact, positions] = [0, 0];
    for (const [i, { tokenIds }] of replies.slice(0, PROMPTS).entries()) {
      const prompt = model.renderChat([{ role: 'user', content: prompts[i]! }]).tokenIds;
      for (const at of tokenIds.keys()) {
        const prefix = Int32Array.from([...prompt, ...tokenIds.slice(0, at)]);
        await model.setAdapter(null);
        const base = await model.score(prefix, vocabulary);
        await model.setAdapter(moved);
        const now = await model.score(prefix, vocabulary);
        expect(base.reduce((sum, [logprob]) => sum + Math.exp(logprob!), 0)).toBeCloseTo(1, 4);
        exact += base.reduce((sum, [p], id) => sum + Math.exp(p!) * (p! - now[id]![0]!), 0);
        positions++;
      }
    }
    expect(divergence).toMatchObject({
      texts: 200,
      tokens: replies.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
    });
    expect(exact / positions).toBeGreaterThan(0.001);
    expect(Math.abs(divergence!.mean - exact / positions)).toBeLessThan(
      4 * divergence!.standardError!,
    );
  }, 300_000);

  test('scores the replies that it is given, and gives the same of them', async () => {
    const replies = measured.replies.map(({ tokenIds }) => tokenIds);
    const again = await measureForgetting(model, moved, { replies, paragraphs: 2 });
    expect(again.english).toEqual(measured.english);
    for (const [i, { tokenIds, before, after }] of again.replies.entries()) {
      expect({ tokenIds, after }).toEqual({
        tokenIds: replies[i],
        after: measured.replies[i]!.after,
      });
      expect(before).toBeCloseTo(measured.replies[i]!.before, 5);
    }
  }, 60_000);

  describe('halves that are kept', () => {
    const half = () => measured.english.length + PROMPTS;
    const kept = () => ({ base: file('kept/base.json'), adapter: file('kept/adapter.json') });
    const measure = async (options: ForgettingOptions = {}) => {
      const [totals, notices]: [number[], string[]] = [[], []];
      const onProgress = (progress: { readonly done: number; readonly total: number }): void =>
        void totals.push(progress.total);
      const onNotice = (text: string): void => void notices.push(text);
      const result = await measureForgetting(model, moved, {
        prompts: PROMPTS,
        kept: kept(),
        onProgress,
        onNotice,
        ...options,
      });
      return { result, total: totals.at(-1) ?? 0, notices };
    };
    const interruptedAfter = async (texts: number): Promise<void> => {
      const interruption = new AbortController();
      const onProgress = ({ done }: { readonly done: number }): void =>
        void (done >= texts && interruption.abort());
      const interrupted = measure({ signal: interruption.signal, onProgress });
      await expect(interrupted).rejects.toThrow(
        expect.objectContaining({ code: 'ABORTED' }) as never,
      );
    };
    beforeEach(() => rmSync(file('kept'), { recursive: true, force: true }));

    test('an interruption anywhere costs what was not measured, and the figures are the same to the last bit', async () => {
      await interruptedAfter(2);
      expect(await measure()).toEqual({ result: measured, total: 2 * half() - 2, notices: [] });
      rmSync(file('kept/adapter.json'));
      expect(await measure()).toEqual({ result: measured, total: half(), notices: [] });
      rmSync(file('kept'), { recursive: true });
      await interruptedAfter(half() + measured.english.length);
      expect(await measure()).toEqual({ result: measured, total: PROMPTS, notices: [] });
      expect(await measure()).toEqual({ result: measured, total: 0, notices: [] });
    }, 60_000);

    test.each([
      ['is cut off', (text: string) => text.slice(0, -1), 'not a saved measurement'],
      ['is of another form', () => '{"english": [], "replies": []}', 'not a saved measurement'],
      [
        'has one figure changed',
        (text: string) => text.replace(/"logprob":-/, '"logprob":-1'),
        'its digest does not match its content',
      ],
      [
        'has an id that is no token',
        (text: string) => signed(text, ({ replies }) => (replies[0]!.tokenIds[0] = 1_000_000)),
        'outside the vocabulary',
      ],
      [
        'has more texts',
        (text: string) =>
          signed(text, ({ english }) => english.push(...new Array<number>(40).fill(-1))),
        'more texts',
      ],
    ] as const)(
      'a file that %s is refused, told, measured anew and kept anew',
      async (_, spoil, message) => {
        await measure();
        const good = readFileSync(kept().base, 'utf8');
        writeFileSync(kept().base, spoil(good));
        const of = {
          paragraphs: measured.english.length,
          prompts: PROMPTS,
          vocabulary: model.info.vocabularySize,
        };
        const refused = {
          code: 'MEASUREMENT_CORRUPT',
          message: expect.stringContaining(message) as unknown,
        };
        expect(() => readHalf(kept().base, of)).toThrow(expect.objectContaining(refused) as never);
        const notices = [expect.stringContaining(message)];
        expect(await measure()).toMatchObject({ result: measured, notices });
        expect(readFileSync(kept().base, 'utf8')).toBe(good);
      },
      60_000,
    );

    test("an adapter's half of other replies is refused", async () => {
      await measure();
      writeFileSync(
        kept().adapter,
        signed(
          readFileSync(kept().adapter, 'utf8'),
          ({ replies }) => void replies[0]!.tokenIds.push(1),
        ),
      );
      expect(await measure()).toEqual({
        result: measured,
        total: half(),
        notices: [expect.stringContaining('reply 0 is not the one')],
      });
    }, 60_000);

    test('a folder that cannot be written is told, and is no reason not to measure', async () => {
      const none = {
        base: file('letters.gguf/no-folder.json'),
        adapter: file('letters.gguf/neither.json'),
      };
      const { result, notices } = await measure({ kept: none });
      expect(result).toEqual(measured);
      expect(notices).toEqual([
        expect.stringContaining('cannot be saved'),
        expect.stringContaining('cannot be saved'),
      ]);
    }, 60_000);
  });

  test('can be cancelled, and leaves the model with the adapter', async () => {
    const aborted = measureForgetting(model, moved, { signal: AbortSignal.abort() });
    await expect(aborted).rejects.toThrow(expect.objectContaining({ code: 'ABORTED' }) as never);
    const [first] = measured.english;
    const begin = model.info.addBos ? Int32Array.of(model.info.bos) : model.tokenize('\n');
    const [logprobs] = await model.score(begin, [
      model.tokenize(readForgettingText('english').split('\n\n')[0]!),
    ]);
    expect(logprobs!.reduce((sum, value) => sum + value, 0)).toBe(first!.after);
  });
});

describe('the strength that a limit leaves', () => {
  /** Loses so much: more with each sixteenth, in no straight line. */
  const falling = (whole: number) => (strength: number) => Promise.resolve(whole * strength ** 1.7);

  test.each([0.001, 0.01, 0.02, 0.0499, 0.05, 0.3, 0.9999, 1, 2])(
    'is the greatest sixteenth that loses less: limit %d of 1',
    async (limit) => {
      const lostAt = falling(1);
      const restraint = await restrain(limit, lostAt);
      let greatest = 0;
      for (let parts = 1; parts <= 16; parts++)
        if ((await lostAt(parts / 16)) < limit) greatest = parts;
      expect(restraint.strength).toBe(Math.max(1, greatest) / 16);
      expect(restraint.tried.length).toBe(greatest === 16 ? 1 : 5);
      for (const { strength, lost } of restraint.tried) expect(lost).toBe(await lostAt(strength));
      expect(restraintFault(restraint)).toBeNull();
    },
  );

  test('is not asked for where nothing is measured: a limit that is stated is refused, that of the profile is none', () => {
    const settings = (more: object) =>
      resolveSettings({ profile: 'small', evaluation: { forgetting: 0, ...more } });
    expect(() => settings({ maxForgetting: 0.1 })).toThrow(
      /evaluation.maxForgetting: with evaluation.forgetting 0/,
    );
    expect(settings({}).evaluation).toMatchObject({ forgetting: 0, maxForgetting: 0.05 });
  });

  test('is refuted by what was tried', async () => {
    const restraint = await restrain(0.05, falling(0.06));
    expect(restraint).toMatchObject({ strength: 14 / 16 });
    expect(restraintFault({ ...restraint, strength: 13 / 16 })).toMatch(
      /is 0.8125, but the measured losses give 0.875/,
    );
    expect(restraintFault({ ...restraint, strength: 1 })).toMatch(
      /is 1, but the measured losses give 0.875/,
    );
    expect(restraintFault({ ...restraint, tried: restraint.tried.slice(1) })).toMatch(
      /strength 0.5 was tried instead of 1/,
    );
    expect(restraintFault({ ...restraint, tried: restraint.tried.slice(0, 1) })).toMatch(
      /strength 0.5 was not tried/,
    );
    const twice = {
      limit: 0.05,
      strength: 1,
      tried: [
        { strength: 1, lost: 0.08 },
        { strength: 1, lost: 0.03 },
      ],
    };
    expect(restraintFault(twice)).toMatch(/strength 1 was tried instead of 0.5/);
    const more = {
      limit: 0.05,
      strength: 1,
      tried: [
        { strength: 1, lost: 0.03 },
        { strength: 0.5, lost: 0.01 },
      ],
    };
    expect(restraintFault(more)).toMatch(/strength 0.5 was tried after 1 had been found/);
  });

  test('is what a file with so much of its scale loses, and halves nothing else', async () => {
    const weaker = file('weaker.gguf');
    const whole = file('whole.gguf');
    await learn(1); // the factors are not nought, whichever tests have run before
    await trainer.exportAdapter(whole);
    const sha256 = await weakenAdapter(whole, { model: model.path, strength: 0.625, out: weaker });
    expect(sha256).toBe(hash('sha256', readFileSync(weaker)));
    const [before, after] = [await inspectAdapter(whole), await inspectAdapter(weaker)];
    expect(after.modules).toEqual(
      before.modules.map((module) => ({
        ...module,
        alpha: module.alpha * 0.625,
        norm: expect.closeTo(module.norm * 0.625, 6) as unknown,
      })),
    );
    const [strong, weak] = [await model.loadAdapter(whole), await model.loadAdapter(weaker)];
    const english = { prompts: PROMPTS, englishOnly: true };
    const found = await measureForgetting(model, strong, { ...english, strength: 0.625 });
    expect(found).toEqual(await measureForgetting(model, weak, english));
    expect(found.replies).toEqual([]);
    expect(found.english).not.toEqual((await measureForgetting(model, strong, english)).english);
    for (const adapter of [strong, weak]) adapter.dispose();
  }, 60_000);
});

/** A kept file with other content and the digest of that. */
function signed(text: string, change: (measured: Half) => void): string {
  const { measured } = JSON.parse(text) as { measured: Half };
  change(measured);
  return JSON.stringify({ sha256: hash('sha256', canonicalJson(measured)), measured });
}

const texts = ({
  tokenIds,
  before,
  after,
}: {
  tokenIds: readonly number[];
  before: number;
  after: number;
}) => ({
  tokens: tokenIds.length,
  before,
  after,
});

test('means are over tokens, errors over texts', () => {
  const { english, lost, divergence } = forgettingOf(
    [
      { tokens: 10, before: -20, after: -30 },
      { tokens: 30, before: -60, after: -60 },
    ],
    [],
  );
  expect(english).toEqual({ before: -2, after: -2.25 });
  // residuals 10 - 0.25 * 10 and 0 - 0.25 * 30: sqrt(2 / 1 * (7.5² + 7.5²)) / 40
  expect(lost).toEqual({ mean: 0.25, standardError: 15 / 40, texts: 2, tokens: 40 });
  expect(divergence).toBeNull();
});

test('sentences say of how many texts, and Student’s interval over them; that there are more is said where not all were taken', () => {
  const text = (fall: number) => ({ tokens: 10, before: -20, after: -20 - fall });
  const few = forgettingOf([1, 2, 3].map(text), [1, 3].map(text));
  // means 0.2; standard errors 0.1 / sqrt(3) and 0.1; t of 2 and 1 freedoms 4.303 and 12.706
  expect(forgettingSentences(few)).toEqual([
    'log-probability of held-out English −2.0000 before, −2.2000 after: 0.2000 nats a token lost (95 % interval −0.0484 to 0.4484, ' +
      '30 tokens in 3 of 32 paragraphs)',
    'KL(base || trained) on 2 of 200 general prompts 0.2000 nats a token (95 % interval −1.0706 to 1.4706, Monte Carlo, over 20 tokens ' +
      'that the base model sampled)',
  ]);
  expect(forgettingNotes(few).join()).toMatch(/part of the texts.*--forgetting 200/);
  const all = forgettingOf(new Array(32).fill(text(1)), new Array(200).fill(text(1)));
  expect(forgettingSentences(all).join()).toMatch(/in 32 paragraphs.* on 200 general prompts/);
  expect(forgettingNotes(all)).toEqual([]);
});

test('a run measures on as many prompts as its rollouts have thousands of tokens: a small one on few, a published one on all', () => {
  const prompts = (given: RunSettingsInput, vocabularySize = 49_152) =>
    inUse(resolveSettings(given), {
      model: { info: { threads: 1, matmul: 'ggml', vocabularySize } },
      task: { turns: 1 },
    }).evaluation.forgetting;
  const small = { profile: 'small' } as const;
  expect(prompts({ ...small, iterations: 1, sampling: { rollouts: 64, maxTokens: 16 } })).toBe(25);
  // 6 iterations of 640 rollouts
  expect(prompts({ ...small, sampling: { maxTokens: 16 } })).toBe(62);
  expect([prompts(small), prompts({ profile: 'downloaded' })]).toEqual([200, 200]);
  expect(prompts({ ...small, iterations: 1, evaluation: { forgetting: 200 } })).toBe(200);
  expect(prompts({ ...small, evaluation: { forgetting: 0 } })).toBe(0);
  expect(prompts(small, 1088)).toBe(0);
});

test('texts that are not the committed ones: EVALUATION_SET_CORRUPT', () => {
  mkdirSync(file('texts'));
  const elsewhere = pathToFileURL(`${file('texts')}/`);
  const refused = expect.objectContaining({ code: 'EVALUATION_SET_CORRUPT' }) as never;
  expect(() => readForgettingText('english', elsewhere)).toThrow(refused);
  const committed = path.resolve('assets/forgetting/english.txt');
  copyFileSync(committed, file('texts/english.txt'));
  expect(readForgettingText('english', elsewhere)).toBe(readFileSync(committed, 'utf8'));
  writeFileSync(file('texts/english.txt'), `${readFileSync(committed, 'utf8')} `);
  expect(() => readForgettingText('english', elsewhere)).toThrow(refused);
});

describe('a run', () => {
  /** Command lines in one process, one after the other. */
  const cli = (...lines: string[][]): CliResult[] =>
    runLines(lines, undefined, { ISOPRO_HOME: file('home'), NO_COLOR: '1' });
  const letters = ['--model', file('letters.gguf'), '--task', file('letters.mjs')];
  const commands = (out: string, flags: readonly string[]): string[][] => [
    ['run', ...letters, '--out', file(out), ...flags, '--json'],
    ['runs', 'show', file(out)],
    ['judge', file(out), ...letters, '--json'],
  ];
  const FLAGS = { seed: 1, iterations: 1, ...LEARNS, devSize: 2, testSize: 4, forgetting: 7 };
  let ran: CliResult;
  let shown: CliResult;
  let judged: CliResult;
  let bare: CliResult;
  let result: RunResult;

  beforeAll(() => {
    const bareBase = ['eval', '--forgetting', '--model', file('letters.gguf')];
    [ran, shown, judged, bare] = cli(...commands('run', [...asFlags(FLAGS), '--constrained']), [
      ...bareBase,
      '--threads',
      '1',
      '--context',
      '1024',
      '--json',
    ]) as [CliResult, CliResult, CliResult, CliResult];
  }, 300_000);

  test('eval --forgetting: the bare base is where it was, on all texts', () => {
    const { code, stdout } = bare;
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      adapter: null,
      forgetting: {
        lost: { mean: 0, texts: 32 },
        divergence: { mean: expect.closeTo(0, 5), texts: 200 },
      },
    });
  });

  test('measures what it was told to, and tells it where it tells the gain', () => {
    const { code, stdout, stderr } = ran;
    expect([code, /error/.test(stderr)]).toEqual([0, false]);
    result = JSON.parse(stdout) as RunResult;
    const { forgetting } = result;
    expect(forgetting!.lost).toMatchObject({ texts: 2 });
    expect(forgetting!.divergence).toMatchObject({ texts: 7 });
    for (const text of [shown.stdout, readFileSync(file('run/report.html'), 'utf8')])
      expect(text).toMatch(/KL\(base \|\| trained\) on 7 of 200 general prompts/);
    // of every tier, L2 alone is solved by b
    const { constrained } = result.test;
    for (const { mean, byTier, format } of [constrained!.before, constrained!.after]) {
      expect(mean).toBeCloseTo(1 / 3, 12);
      expect([byTier.L2!.mean, format!.mean]).toEqual([1, 1]);
    }
    expect(constrained).toMatchObject({ pairedP: 1, gained: 0, lost: 0 });
  });

  test('has the single sums in its log, and passes its judge, who finds the same', async () => {
    const { code, stdout } = judged;
    expect(code).toBe(0);
    const { forgetting, heldOut } = JSON.parse(stdout) as {
      forgetting: { claimed: unknown; measured: unknown; difference: number };
      heldOut: { constrained: object };
    };
    expect(heldOut.constrained).toMatchObject({
      before: { differing: 0 },
      after: { differing: 0, p: 1 },
    });
    expect(forgetting.claimed).toEqual(result.forgetting);
    expect(forgetting.difference).toBeLessThan(1e-6);
    const reader = new LogReader(file('run/log.sqlite'), RUN_STREAMS);
    try {
      const { start } = readManifest(file('run'));
      const submitted = { adapter: result.adapter.sha256 };
      const claim = (await readForgettingClaim(reader, start, submitted))!;
      const { record, prompts } = claim;
      expect(prompts).toBe(7);
      const sum = record.english.reduce((total, { before, after }) => total + before - after, 0);
      expect(result.forgetting!.lost.mean).toBeCloseTo(
        sum / record.english.reduce((total, { tokens }) => total + tokens, 0),
        12,
      );
      // what refutes it is figures that another adapter would have given
      const lied = {
        prompts,
        record: {
          ...record,
          english: record.english.map((text) => ({ ...text, after: text.before })),
        },
      };
      await expect(checkForgetting(model, lied, moved, true, {})).rejects.toThrow(
        /nats a token from those measured on a machine of its class/,
      );
      // on another class of machine a little may be rounding, and no more than that; measured by
      // the model that the judge loads, whose cache holds other bits than this file's
      const { threads, contextTokens, matmul } = start.evaluation;
      await using judges = await loadModel(file('letters.gguf'), {
        threads,
        fixedThreads: true,
        contextTokens,
        matmul: matmul ?? 'ggml',
      });
      using own = await judges.loadAdapter(result.adapter.file);
      const rounded = {
        prompts,
        record: {
          ...record,
          english: record.english.map((text) => ({
            ...text,
            after: text.after + 5e-3 * text.tokens,
          })),
        },
      };
      const { difference } = await checkForgetting(judges, rounded, own, false, {});
      expect(difference).toBeCloseTo(5e-3, 6);
      await expect(checkForgetting(judges, rounded, own, true, {})).rejects.toThrow(
        /a machine of its class/,
      );
      const far = {
        prompts,
        record: {
          ...record,
          english: record.english.map((text) => ({
            ...text,
            after: text.after + 0.05 * text.tokens,
          })),
        },
      };
      await expect(checkForgetting(judges, far, own, false, {})).rejects.toThrow(
        /another class of machine, and rounding explains at most 0.02/,
      );
      await expect(
        readForgettingClaim(reader, start, { adapter: 'ab'.repeat(32) }),
      ).rejects.toThrow(/with a different adapter/);
      // nor what a run leaves out: some texts, or all that its settings promise
      for (const sameMachine of [true, false]) {
        const fewer = { prompts, record: { ...record, english: record.english.slice(1) } };
        await expect(checkForgetting(model, fewer, moved, sameMachine, {})).rejects.toThrow(
          /not measured on the paragraphs/,
        );
        const without = { prompts, record: { ...record, replies: record.replies.slice(1) } };
        await expect(checkForgetting(model, without, moved, sameMachine, {})).rejects.toThrow(
          /on 6 replies to general prompts/,
        );
      }
      const silent = (kind: string): LogReader =>
        ({
          records: (of: object) =>
            [...reader.records(of)].filter(({ payload }) => payload.kind !== kind),
        }) as unknown as LogReader;
      await expect(readForgettingClaim(silent('forgetting'), start, submitted)).rejects.toThrow(
        /holds 0 measurements.*ask for one/,
      );
      const untold = { settings: { evaluation: { forgetting: 0 } } };
      await expect(readForgettingClaim(reader, untold, submitted)).rejects.toThrow(
        /holds 1 measurements.*ask for none/,
      );
      expect(await readForgettingClaim(silent('forgetting'), untold, submitted)).toBeNull();
      expect((await readClaims(reader, start, result.adapter.sha256)).constrained).not.toBeNull();
      await expect(readClaims(silent('constrained'), start, result.adapter.sha256)).rejects.toThrow(
        /holds 0 evaluations of the test set before/,
      );
    } finally {
      reader.close();
    }
  }, 120_000);

  test('under a limit submits the same adapter with less of its strength, and its judge finds that the limit is kept', async () => {
    const whole = result.forgetting!.lost.mean;
    expect(whole).toBeGreaterThan(0);
    const limit = 0.6 * whole;
    const flags = asFlags({ ...FLAGS, maxForgetting: limit });
    const [ran, shown, judged] = cli(...commands('limited', flags)) as [
      CliResult,
      CliResult,
      CliResult,
    ];
    const { code, stdout } = ran;
    expect(code).toBe(0);
    const limited = JSON.parse(stdout) as RunResult;
    const { strength, tried } = limited.restraint!;
    expect([strength < 1, limited.forgetting!.lost.mean < limit]).toEqual([true, true]);
    expect(tried[0]).toEqual({ strength: 1, lost: whole });
    const norms = async ({ adapter }: RunResult) =>
      (await inspectAdapter(adapter.file)).modules.map(({ normA, normB, norm }) => [
        normA,
        normB,
        norm,
      ]);
    const expected = (await norms(result)).map(([a, b, norm]) => [
      a,
      b,
      expect.closeTo(norm! * strength, 6),
    ]);
    expect(await norms(limited)).toEqual(expected);
    for (const text of [shown.stdout, readFileSync(file('limited/report.html'), 'utf8')])
      expect(text.replace(/\s+/g, ' ')).toContain(
        `submitted at ${strength} of its strength: at full strength the adapter loses ${whole.toFixed(4)} nats`,
      );
    expect([judged.code, (JSON.parse(judged.stdout) as { verdict: string }).verdict]).toEqual([
      0,
      'pass',
    ]);

    const reader = new LogReader(file('limited/log.sqlite'), RUN_STREAMS);
    try {
      const { start } = readManifest(file('limited'));
      const submitted = { adapter: limited.adapter.sha256, restraint: limited.restraint! };
      expect(await readForgettingClaim(reader, start, submitted)).not.toBeNull();
      const claim = (change: object) =>
        readForgettingClaim(reader, start, { ...submitted, ...change });
      await expect(claim({ restraint: undefined })).rejects.toThrow(
        /the limit on forgetting is .*, but the submission states none/,
      );
      await expect(
        claim({ restraint: { ...submitted.restraint, limit: 2 * limit } }),
      ).rejects.toThrow(/but the submission states/);
      await expect(claim({ restraint: { ...submitted.restraint, strength: 1 } })).rejects.toThrow(
        /the strength is 1, but the measured losses give/,
      );
      const lied = tried.map((each) =>
        each.strength === strength ? { ...each, lost: each.lost - 0.01 } : each,
      );
      await expect(claim({ restraint: { ...submitted.restraint, tried: lied } })).rejects.toThrow(
        /the submitted adapter loses/,
      );
    } finally {
      reader.close();
    }
  }, 300_000);
});
