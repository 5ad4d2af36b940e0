/**
 * Two versions on the same fresh problems: which are drawn, what is asked and written down of each
 * batch, and which guards of beliefs a policy may ask for. The model of letters, whose adapter
 * changes nothing.
 */
import { createHash } from 'node:crypto';
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { witnessInProcess } from '../../bench/log.js';
import { hashFile } from '../../src/engine/adapter.js';
import { createTrainer } from '../../src/engine/trainer.js';
import { wholeSets } from '../../src/evaluation/evaluation-set.js';
import type { GatePolicyInput } from '../../src/gate/index.js';
import { isBeliefGuards, measureBeliefs } from '../../src/operations/gates/belief-guards.js';
import {
  measureVersions,
  problemsUsed,
  type Draw,
  type MeasuredBatch,
  type MeasureOptions,
} from '../../src/operations/gates/measure-versions.js';
import { publishFile } from '../../src/operations/publish.js';
import { openGate, Registry } from '../../src/registry/index.js';
import type { Entry } from '../../src/registry/state.js';
import { openTask } from '../../src/tasks/open-task.js';
import { writeLetterModel, writeLetterTask } from '../models/letters.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-measured-'));
const at = (...names: string[]): string => path.join(folder, ...names);
let registry: Registry;
let newer: Entry;
beforeAll(async () => {
  writeLetterModel(at('letters.gguf'));
  writeLetterTask(at('letters.mjs'));
  {
    await using trainer = await createTrainer(
      { path: at('letters.gguf') },
      { lora: { rank: 1, layers: { top: 1 } }, threads: 1 },
    );
    await trainer.exportAdapter(at('nothing.gguf'));
  }
  registry = new Registry({ folder: at('registry'), signer: witnessInProcess(folder) });
  const { id } = await publishFile(registry, at('nothing.gguf'), { model: at('letters.gguf') });
  newer = (await registry.read()).state.entries.get(id)!;
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('a file is published with the base by its name and bytes, and what is not known is not said', async () => {
  expect(newer.record).toMatchObject({
    base: { name: 'letters.gguf', sha256: await hashFile(at('letters.gguf')) },
    rendererId: null,
    settings: {},
    dataset: null,
    evidence: [],
    lineage: { parent: null, producedBy: [] },
  });
  const again = await publishFile(registry, at('nothing.gguf'), {
    model: at('letters.gguf'),
    settings: { seed: '1' },
    parent: newer.id,
  });
  expect((await registry.read()).state.entries.get(again.id)!.record).toMatchObject({
    settings: { seed: '1' },
    lineage: { parent: newer.id, producedBy: [] },
  });
});

const seed = `0123456789abcdef${'7'.repeat(48)}`;
const draw: Draw = { seed, purpose: 'gate', round: 3, used: new Set() };

describe('problems', () => {
  const LOG = at('calls.txt');
  const TASK = at('logged.mjs');
  const TIERS = ['L0', 'L1', 'L2'];
  beforeAll(() => {
    writeLetterTask(TASK);
    const text = readFileSync(TASK, 'utf8').replace(
      'generate: (tier, seed) => (',
      `generate: (tier, seed) => (appendFileSync(${JSON.stringify(LOG)}, tier + ' ' + seed + '\\n'), `,
    );
    writeFileSync(TASK, `import { appendFileSync } from 'node:fs';\n${text}`);
  });
  /** By its definition: of the run's seed, the draw's purpose and round, the tier, and the try. */
  const seedOf = (tier: string, sample: number): bigint =>
    createHash('sha256')
      .update(JSON.stringify([BigInt('0x0123456789abcdef').toString(), 'gate', 3, tier, sample]))
      .digest()
      .readBigUInt64BE();
  /** What is asked of the task's generator, and what comes of it: no model is there. */
  async function drawn(problems: number, used: Iterable<string>) {
    writeFileSync(LOG, '');
    const error = await measureVersions(
      registry,
      { scenario: TASK, newer, older: null },
      { ...draw, used: new Set(used) },
      { problems, model: at('none.gguf') },
      async () => true,
    ).then(
      () => null,
      (thrown: unknown) => thrown as { code: string; message: string },
    );
    return { error, calls: readFileSync(LOG, 'utf8').trimEnd().split('\n') };
  }
  const tail = (calls: readonly string[], tiers: readonly string[]): void => {
    const expected = tiers.map((tier, sample) => `${tier} ${seedOf(tier, sample)}`);
    expect(calls.slice(-expected.length)).toEqual(expected);
    expect(calls.at(-expected.length - 1)).not.toMatch(`${seedOf('L0', 0)}`);
  };

  test('are drawn tier by tier with the seed, and pass over what was used and what is evaluated on', async () => {
    await using task = await openTask(TASK);
    const [evaluated] = await wholeSets(task);
    expect(evaluated).toBeDefined();
    const plain = await drawn(7, []);
    expect(plain.error?.code).toBe('MODEL_NOT_FOUND');
    tail(
      plain.calls,
      [0, 1, 2, 0, 1, 2, 0].map((i) => TIERS[i]!),
    );
    const idOf = async (tier: string, sample: number): Promise<string> =>
      (await task.generate(tier, seedOf(tier, sample))).id;
    // the third and the fifth were used: their tiers are asked again
    const less = await drawn(4, [await idOf('L2', 2), await idOf('L0', 4)]);
    tail(less.calls, ['L0', 'L1', 'L2', 'L2', 'L0', 'L0']);
  });

  test('are tried for eight times as often as there are to be, and no more', async () => {
    await using task = await openTask(TASK);
    const used = new Set<string>();
    for (let sample = 0; sample < 14; sample++)
      used.add((await task.generate('L0', seedOf('L0', sample))).id);
    const last = [...new Array<string>(15).fill('L0'), 'L1'];
    const just = await drawn(2, used);
    expect(just.error?.code).toBe('MODEL_NOT_FOUND');
    tail(just.calls, last);
    const more = (await task.generate('L1', seedOf('L1', 15))).id;
    const { error, calls } = await drawn(2, [...used, more]);
    expect(error).toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: 'letters needs 2 fresh problems, but only 1 were found',
    });
    tail(calls, last);
  });

  test('that are rows of a file are not fresh', async () => {
    const rows = at('rows.jsonl');
    writeFileSync(
      rows,
      Array.from(
        { length: 60 },
        (_, i) => `${JSON.stringify({ prompt: `${i}?`, answer: `${i}` })}\n`,
      ).join(''),
    );
    const asked = measureVersions(
      registry,
      { scenario: rows, newer, older: null },
      draw,
      { problems: 1, model: at('none.gguf') },
      async () => true,
    );
    await expect(asked).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(
        /^the problems of .* are rows of a file, so none of them is fresh$/,
      ),
      remedy:
        'Measure both versions on rows that neither was trained on, and pass the trials with --evidence.',
    });
  });

  test('that are used are those of kept trials and their guards, but of one gate', () => {
    const paths = { ...registry.paths, trials: (name: string) => at('kept', name) };
    mkdirSync(at('kept'), { recursive: true });
    const keep = (name: string, kept: object): void =>
      writeFileSync(at('kept', name), JSON.stringify(kept));
    const of = (...problems: string[]) => problems.map((problem) => ({ problem }));
    keep('one', { trials: of('a', 'b', 'a'), guards: { x: of('c'), y: of('d', 'b') } });
    keep('two', { trials: of('e') });
    keep('seen', { trials: of('f') });
    keep('back', { trials: of('g') });
    const events = [
      { kind: 'gate_decided', gate: 1, evidence: 'one' },
      { kind: 'gate_decided', gate: 2, evidence: 'two' },
      { kind: 'gate_decided', gate: 3, evidence: 'gone' },
      { kind: 'observed', gate: 1, evidence: 'seen' },
      { kind: 'moved', gate: 1, evidence: 'back' },
    ].map((event) => ({ event, gseq: 0, timeUs: 0 })) as never;
    const used = (but?: number): string =>
      [...problemsUsed({ paths } as Registry, { events }, but)].sort().join('');
    expect([used(), used(1), used(2), used(3)]).toEqual(['abcdef', 'ef', 'abcdf', 'abcdef']);
  });
});

describe('batches', () => {
  type Trial = MeasuredBatch['trials'][number];
  async function measured(
    options: Partial<MeasureOptions> = {},
    more: Partial<Draw> = {},
    { version = newer, enough = Infinity }: { version?: Entry; enough?: number } = {},
  ) {
    const batches: MeasuredBatch[] = [];
    const progress: object[] = [];
    const done = await measureVersions(
      registry,
      { scenario: 'letters', newer: version, older: null },
      { ...draw, ...more },
      {
        ...{
          problems: 10,
          batch: 4,
          model: at('letters.gguf'),
          task: at('letters.mjs'),
          threads: 1,
        },
        ...options,
        onProgress: (each) => progress.push(each),
      },
      async (batch) => batches.push(batch) >= enough,
    );
    return { done, batches, progress };
  }
  const epochOf = (trial: Trial): Record<string, unknown> =>
    JSON.parse(trial.epoch) as Record<string, unknown>;

  test('hold both versions of each problem; how it was asked stands in the epoch', async () => {
    const { done, batches, progress } = await measured();
    expect([done, batches.map((batch) => batch.done)]).toEqual([10, [4, 8, 10]]);
    expect(progress).toEqual([4, 8, 10].map((each) => ({ done: each, total: 10 })));
    await using task = await openTask(at('letters.mjs'));
    for (const [i, { trials, lengths }] of batches.entries()) {
      const count = [4, 4, 2][i]!;
      expect(trials.map(({ version }) => version)).toEqual([
        ...new Array<string>(count).fill(newer.id),
        ...new Array<string>(count).fill('base'),
      ]);
      const problems = trials.map(({ problem }) => problem);
      expect(problems.slice(0, count)).toEqual(problems.slice(count));
      // an adapter that changes nothing answers as the base does
      const scores = trials.map(({ score }) => score);
      expect(scores.slice(0, count)).toEqual(scores.slice(count));
      expect(scores.every((score) => score === 0 || score === 1)).toBe(true);
      expect(lengths.map(({ score: _, ...trial }) => trial)).toEqual(
        trials.map(({ score: _, ...trial }) => trial),
      );
      // a letter and the end of the turn
      expect(lengths.map(({ score }) => score)).toEqual(new Array<number>(2 * count).fill(2));
      expect(new Set(trials.map(({ task: of, verifier }) => `${of} ${verifier}`))).toEqual(
        new Set([`letters ${(task.source as { sha256: string }).sha256}`]),
      );
    }
    const all = batches.flatMap(({ trials }) => trials);
    expect(new Set(all.map(({ problem }) => problem)).size).toBe(10);
    expect(new Set(all.map(({ epoch }) => epoch)).size).toBe(1);
    expect(epochOf(all[0]!)).toMatchObject({
      task: '1',
      model: newer.record.base.sha256,
      renderer: expect.stringMatching(/^[0-9a-f]{64}$/),
      style: 'cot',
      maxTokens: 512,
    });
  });

  test('end where it is enough; what both were asked before counts as asked and is not asked again', async () => {
    const first = await measured({}, {}, { enough: 1 });
    expect([first.done, first.batches.length, first.progress]).toEqual([
      4,
      1,
      [{ done: 4, total: 10 }],
    ]);
    const ids = first.batches[0]!.trials.slice(0, 4).map(({ problem }) => problem);
    const answered = new Set(ids.slice(1));
    const rest = await measured({ problems: 5 }, { answered });
    expect([rest.done, rest.batches.map((batch) => batch.done)]).toEqual([5, [5]]);
    const asked = rest.batches[0]!.trials.map(({ problem }) => problem);
    expect([asked.length, asked[0], asked.some((id) => answered.has(id))]).toEqual([
      4,
      ids[0],
      false,
    ]);
    // of none that is new there is one look without trials
    const none = await measured({ problems: 4 }, { answered: new Set(ids) });
    expect([none.done, none.batches]).toEqual([4, [{ trials: [], lengths: [], done: 4 }]]);
  });

  test('are asked as the run of the newer one asked, where its record says how, or as it is told', async () => {
    const asking = async (
      settings: object,
      options: Partial<MeasureOptions> = {},
    ): Promise<unknown[]> => {
      const version = { ...newer, record: { ...newer.record, settings } } as Entry;
      const { batches } = await measured({ problems: 1, ...options }, {}, { version });
      const { style, maxTokens } = epochOf(batches[0]!.trials[0]!);
      return [style, maxTokens];
    };
    expect(await asking({ sampling: { style: 'plain', maxTokens: 1 } })).toEqual(['plain', 1]);
    expect(await asking({ sampling: { style: 'plain', maxTokens: 0 } })).toEqual(['cot', 512]);
    expect(
      await asking({ sampling: { style: 'plain', maxTokens: 3 } }, { style: 'cot', maxTokens: 5 }),
    ).toEqual(['cot', 5]);
  });

  test('hold the task’s own score where it is asked for, and an error where nobody could decide', async () => {
    const verifier = [
      "problem.tier === 'L0' ? { kind: 'pass' }",
      "problem.tier === 'L1' ? { kind: 'fail', violations: [], metrics: {}, score: 0.25 }",
      "(() => { throw new Error('x'.repeat(200)) })()",
    ].join(' : ');
    writeLetterTask(at('mixed.mjs'), { verifier });
    const scores = async (scored?: boolean): Promise<unknown[]> => {
      const { batches } = await measured({
        problems: 3,
        task: at('mixed.mjs'),
        ...(scored === undefined ? {} : { scored }),
      });
      return batches[0]!.trials.map(({ score, error }) => score ?? error!);
    };
    const failed = expect.stringMatching(/^verify threw: x{100}/);
    expect(await scores()).toEqual([1, 0, failed, 1, 0, failed]);
    expect(await scores(true)).toEqual([1, 0.25, failed, 1, 0.25, failed]);
    expect(await scores(false)).toEqual(await scores());
  });

  test('of an adapter of another base are refused', async () => {
    const record = { ...newer.record, base: { ...newer.record.base, sha256: 'ab'.repeat(32) } };
    await expect(measured({}, {}, { version: { ...newer, record } })).rejects.toMatchObject({
      code: 'ADAPTER_MISMATCH',
    });
  });
});

describe('guards of beliefs', () => {
  const guard = (name: string, ceiling: number, more: object = {}) => ({
    ...{ kind: 'non-inferiority' as const, name, margin: 0.1, ceiling, most: 40 },
    ...more,
  });
  const score = { kind: 'e-process', measure: 'score' } as const;
  const how = { domain: ['urns'], mode: 'direct', problems: 20, maxTokens: 4 };
  const slots = (function* () {
    for (let i = 0; ; i++) yield { scenario: `urns-${i}` };
  })();
  async function asked(
    policy: GatePolicyInput,
    more: Partial<typeof how> = {},
    out = `guards-${slots.next().value!.scenario}`,
  ) {
    const { gate, seed: of } = await openGate(registry, {
      slot: slots.next().value!,
      challenger: newer.id,
      policy,
    });
    const options = { ...how, ...more, model: at('none.gguf'), signer: 'single-process' as const };
    const error = await measureBeliefs(registry, gate, at(out), options).then(
      () => null,
      (thrown: unknown) => thrown as { code: string; message: string; remedy?: string },
    );
    return { gate, seed: of, error, out };
  }
  const blocks = 20;

  test.each<
    [what: string, policy: GatePolicyInput, more: Partial<typeof how>, said: string | null]
  >([
    ['scores alone', score, {}, null],
    ['blocks won', { kind: 'sign', margin: 0.1 }, {}, null],
    ['a guard', { kind: 'e-process', guards: [guard('quality-change', 2)] }, {}, null],
    [
      'nothing of it',
      { kind: 'e-process', guards: [guard('length', 9)] },
      {},
      'the policy has no belief guard (brier, slope, opinion-shift, quality-change) and does not use scores',
    ],
    [
      'another ceiling',
      { ...score, guards: [guard('opinion-shift', 2)] },
      {},
      'guard opinion-shift: it is a cost, so its ceiling must be 1',
    ],
    ['as many as are planned', { ...score, guards: [guard('brier', 1, { most: 20 })] }, {}, null],
    [
      'one more than is planned',
      { ...score, guards: [guard('brier', 1, { most: 19 })] },
      {},
      'guard brier: its policy allows 19 trials, but 20 would be measured',
    ],
    [
      'more of two domains than is planned',
      { ...score, guards: [guard('brier', 1, { most: 39 })] },
      { domain: ['urns', 'three-urns'] },
      'guard brier: its policy allows 39 trials, but 40 would be measured',
    ],
    [
      'slopes of blocks',
      { ...score, guards: [guard('slope', 1, { most: 1 })] },
      { problems: 2 * blocks - 1 },
      null,
    ],
    [
      'one slope too many',
      { ...score, guards: [guard('slope', 1, { most: 1 })] },
      { problems: 2 * blocks },
      'guard slope: its policy allows 1 trials, but 2 would be measured',
    ],
    [
      'slopes of less than a block',
      { ...score, guards: [guard('slope', 1)] },
      { problems: blocks - 1 },
      `guard slope: a slope takes ${blocks} questions, but only ${blocks - 1} are asked`,
    ],
    [
      'safety, which is no plan',
      { ...score, guards: [{ kind: 'safety', name: 'brier', ceiling: 1, least: 1 }] },
      { problems: 50 },
      null,
    ],
  ])('%s', async (_, policy, more, said) => {
    const { error } = await asked(policy, more);
    if (said === null)
      expect(error?.code).toBe('MODEL_NOT_FOUND'); // all else was right
    else
      expect(error).toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: said,
        remedy: 'Open a gate with another policy; docs/commands/truth.md has one.',
      });
  });

  test('a folder says which gate it is for, and takes no other; it is not whole without both runs', async () => {
    const first = await asked({ ...score, guards: [guard('brier', 1), guard('length', 9)] });
    const manifest = (): unknown => JSON.parse(readFileSync(at(first.out, 'gate.json'), 'utf8'));
    const { sha256 } = newer.record.adapter;
    const said = {
      format: 'isopro.truth-guards.v1',
      gate: first.gate,
      seed: first.seed,
      asks: ['brier', 'score'],
      without: [],
      slopes: 'signed',
      challenger: { id: newer.id, adapter: sha256 },
      incumbent: { id: 'base', adapter: null },
    };
    expect(manifest()).toEqual(said);
    const other = await asked(score, {}, first.out);
    expect(other.error).toMatchObject({
      code: 'RUN_DIFFERS',
      message: `${at(first.out)} was started for a gate with different values of asks, gate, seed`,
    });
    expect(manifest()).toEqual(said);
    expect(isBeliefGuards(at(first.out))).toBe(false);
    for (const none of [0, other.gate + 1])
      await expect(measureBeliefs(registry, none, at('no-gate'), how)).rejects.toMatchObject({
        code: 'REGISTRY_REFUSED',
        message: `there is no gate ${none} with a seed`,
      });
    writeFileSync(at(first.out, 'gate.json'), JSON.stringify({ ...said, gate: 0 }));
    await expect(measureBeliefs(registry, first.gate, at(first.out), how)).rejects.toMatchObject({
      code: 'RUN_MANIFEST_INVALID',
      message: expect.stringContaining(at(first.out, 'gate.json')),
    });
  });
});
