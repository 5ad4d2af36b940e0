/**
 * From training to what is in use, on a model that learns within seconds: each stage by what the
 * one before it left.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { benchPromotion } from '../../bench/promotion.js';
import { createTrainer } from '../../src/engine/trainer.js';
import { measureGate, runGate } from '../../src/operations/gates/measure-gate.js';
import { publishFile } from '../../src/operations/publish.js';
import {
  openGate,
  Registry,
  resolveAdapter,
  validateRegistry,
  type GateTrials,
} from '../../src/registry/index.js';
import { asFlags, runCli } from '../cli/run-cli.js';
import { LEARNS, writeLetterModel, writeLetterTask } from '../models/letters.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-promotion-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = (name: string): string => path.join(folder, name);

test('A8: train and publish, a measured gate, in use by name; what changes nothing does not get past the next gate', async () => {
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'));
  const flags = asFlags({
    seed: 1,
    iterations: 2,
    ...LEARNS,
    devSize: 2,
    testSize: 2,
    signer: 'single-process',
  });
  const trained = await runCli(
    [
      'run',
      '--model',
      file('letters.gguf'),
      '--task',
      file('letters.mjs'),
      '--out',
      file('run'),
      ...flags,
      '--publish',
      '--json',
    ],
    { ISOPRO_HOME: file('home') },
  );
  expect(trained.code).toBe(0);
  const result = JSON.parse(trained.stdout) as {
    runId: string;
    published: string;
    adapter: { sha256: string };
  };
  const registry = new Registry({ home: file('home') });
  const slot = { scenario: 'letters' };
  const { state } = await registry.read();
  expect(state.entries.get(result.published)!.record).toMatchObject({
    adapter: { sha256: result.adapter.sha256, rank: 4 },
    base: { name: 'letters.gguf', architecture: 'qwen2' },
    rendererId: expect.any(String),
    lineage: { producedBy: [`run:${result.runId}`] },
    settings: { sampling: { maxTokens: 4 } },
  });

  const options = {
    problems: 60,
    model: file('letters.gguf'),
    task: file('letters.mjs'),
    threads: 1,
  };
  const { gate, decision, problems } = await runGate(
    registry,
    { slot, challenger: result.published },
    options,
  );
  expect([gate.incumbent, decision.decision]).toEqual([null, 'accepted']);
  expect(problems).toBeLessThanOrEqual(60);
  await registry.move({ slot, id: result.published, gate: gate.gate });
  const inUse = await resolveAdapter(registry, 'letters@champion');
  expect(inUse).toMatchObject({ ok: true, id: result.published });

  await using trainer = await createTrainer(
    { path: file('letters.gguf') },
    { lora: { rank: 2, layers: { top: 1 } }, threads: 1 },
  );
  await trainer.exportAdapter(file('nothing.gguf'));
  const nothing = await publishFile(registry, file('nothing.gguf'), {
    model: file('letters.gguf'),
    settings: { sampling: { system: 'Say a letter.' } },
  });
  const length = { kind: 'non-inferiority', name: 'length', ceiling: 4, margin: 1 } as const;
  const elsewhere = { ...length, name: 'forgetting' };
  const policy = { kind: 'e-process' as const, measure: 'score' as const, guards: [length] };
  const foreign = runGate(
    registry,
    { slot, challenger: nothing.id, policy: { ...policy, guards: [length, elsewhere] } },
    options,
  );
  await expect(foreign).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining('guard forgetting'),
  });
  // what was refused was no attempt
  const second = await openGate(registry, { slot, challenger: nothing.id, policy });
  const verifier = "{ kind: 'fail', violations: [], metrics: {}, score: 0.5 }";
  writeLetterTask(file('scored.mjs'), { verifier });
  const asked = {
    ...options,
    task: file('scored.mjs'),
    style: 'plain' as const,
    maxTokens: 4,
    problems: 40,
  };
  const again = await measureGate(registry, second.gate, asked);
  expect(again.decision.decision).not.toBe('accepted');
  expect(again.decision.attempt).toBe(2);
  const { evidence } = (await registry.read()).state.gates[1]!;
  const kept = readFileSync(registry.paths.trials(evidence!), 'utf8');
  expect(kept).toContain('Say a letter.'); // both were asked as the challenger's run asked
  const { trials, guards } = JSON.parse(kept) as Pick<GateTrials, 'trials' | 'guards'>;
  // the task's own scores, which the policy is about
  expect(new Set(trials.map(({ score }) => score))).toEqual(new Set([0.5]));
  expect(guards!.length).toHaveLength(trials.length);
  // the letter and the end
  expect(new Set(guards!.length!.map(({ score }) => score))).toEqual(new Set([2]));
  // guards that were measured elsewhere come with the seed of the gate
  const third = await openGate(registry, {
    slot,
    challenger: nothing.id,
    policy: { ...policy, guards: [length, elsewhere] },
  });
  const of = (version: string) => ({
    version,
    task: 'texts',
    epoch: '1',
    verifier: 'v',
    problem: 'a',
    score: 1,
  });
  const both = { forgetting: [nothing.id, result.published].map(of) };
  const foreigner = measureGate(registry, third.gate, {
    ...asked,
    guards: { seed: second.seed!, guards: both },
  });
  await expect(foreigner).rejects.toMatchObject({
    code: 'REGISTRY_REFUSED',
    message: expect.stringContaining('the guards were measured with seed'),
  });
  const guarded = await measureGate(registry, third.gate, {
    ...asked,
    guards: { seed: third.seed!, guards: both },
  });
  expect(guarded.decision.guards.map(({ name }) => name)).toEqual(['length', 'forgetting']);
  // a gate that was interrupted goes on from the trials that are kept, and asks only for what is
  // new
  const fourth = await openGate(registry, { slot, challenger: nothing.id, policy });
  const trialsKept = async (): Promise<readonly { problem: string }[]> => {
    const { evidence } = (await registry.read()).state.gates[fourth.gate - 1]!;
    return (JSON.parse(readFileSync(registry.paths.trials(evidence!), 'utf8')) as GateTrials)
      .trials;
  };
  expect(
    (await measureGate(registry, fourth.gate, { ...asked, problems: 6, batch: 3 })).decision.blocks,
  ).toBe(6);
  const six = await trialsKept();
  const { records } = await registry.read();
  const further = await measureGate(registry, fourth.gate, { ...asked, problems: 10, batch: 3 });
  expect([further.problems, further.decision.blocks, further.decision.decision]).toEqual([
    10,
    10,
    'needs-more-trials',
  ]);
  expect((await registry.read()).records).toBe(records + 2); // two batches, not four
  expect((await trialsKept()).slice(0, 12)).toEqual(six);
  expect(new Set((await trialsKept()).map(({ problem }) => problem)).size).toBe(10);
  // nothing is left to be asked
  expect((await measureGate(registry, fourth.gate, { ...asked, problems: 10 })).problems).toBe(10);
  await expect(
    measureGate(registry, fourth.gate, { ...asked, problems: 12, maxTokens: 3 }),
  ).rejects.toMatchObject({
    code: 'GATE_EVIDENCE_INVALID',
    message: expect.stringContaining('have the epoch'),
  });
  await expect(registry.move({ slot, id: nothing.id, gate: second.gate })).rejects.toMatchObject({
    code: 'REGISTRY_REFUSED',
  });
  expect((await resolveAdapter(registry, 'letters@champion')).ok).toBe(true);
  expect((await validateRegistry(registry)).defects).toEqual([]);

  // all of it once more in a registry of its own, with a service and a regression on purpose
  const whole = await benchPromotion({
    folder: file('whole'),
    settings: {},
    trained: file('run'),
    ...options,
    canaryProblems: 60,
    requests: 80,
    registry: { home: file('home'), witness: false },
  });
  expect(whole).toMatchObject({
    decision: 'accepted',
    promoted: result.published,
    inUse: result.published,
  });
  expect(whole.problemsToRollback).toBeLessThanOrEqual(60);
  const said = Object.fromEntries(whole.stages.map((stage) => [stage.stage, stage.said]));
  const [good, bad] = [whole.promoted, whole.spoilt].map((id) => `letters#${id.slice(0, 12)}`);
  expect(said['serve: requests']).toBe(`40 by ${good}`);
  expect(said['regression: requests']).toMatch(
    new RegExp(`^\\d+ by ${good}, \\d+ by ${bad}$|^\\d+ by ${bad}, \\d+ by ${good}$`),
  );
  expect(said['serve: after the rollback']).toBe(`40 by ${good}`);
  const page = readFileSync(whole.report, 'utf8');
  for (const text of [
    'canary and rollback',
    'Gate 1 on letters@champion',
    'Canary of letters@champion',
    'a regression, on purpose',
  ])
    expect([text, page.includes(text)]).toEqual([text, true]);
  expect(page).not.toContain(folder); // no path of this machine
}, 240_000);
