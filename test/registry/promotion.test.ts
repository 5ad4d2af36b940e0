/** From training to what is in use, on a model that learns within seconds: each stage by what the one before it left. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { createTrainer } from '../../src/engine/trainer.js';
import { measureGate, runGate } from '../../src/jobs/measure-gate.js';
import { publishFile } from '../../src/jobs/publish.js';
import { openGate, Registry, resolveAdapter, validateRegistry } from '../../src/registry/index.js';
import { asFlags, runCli } from '../cli/run-cli.js';
import { LEARNS, writeLetterModel, writeLetterTask } from '../models/letters.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-promotion-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = (name: string): string => path.join(folder, name);

test('A8: train and publish, a measured gate, in use by name; what changes nothing does not get past the next gate', async () => {
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'));
  const flags = asFlags({ seed: 1, iterations: 2, ...LEARNS, devSize: 2, testSize: 2, signer: 'single-process' });
  const trained = await runCli(
    ['run', '--model', file('letters.gguf'), '--task', file('letters.mjs'), '--out', file('run'), ...flags, '--publish', '--json'],
    { ISOPRO_HOME: file('home') },
  );
  expect(trained.code).toBe(0);
  const result = JSON.parse(trained.stdout) as { runId: string; published: string; adapter: { sha256: string } };
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

  const options = { problems: 60, model: file('letters.gguf'), task: file('letters.mjs'), threads: 1 };
  const { gate, decision, problems } = await runGate(registry, { slot, challenger: result.published }, options);
  expect([gate.incumbent, decision.decision]).toEqual([null, 'accepted']);
  expect(problems).toBeLessThanOrEqual(60);
  await registry.move({ slot, id: result.published, gate: gate.gate });
  const inUse = await resolveAdapter(registry, 'letters@champion');
  expect(inUse).toMatchObject({ ok: true, id: result.published });

  await using trainer = await createTrainer({ path: file('letters.gguf') }, { lora: { rank: 2, layers: { top: 1 } }, threads: 1 });
  await trainer.exportAdapter(file('nothing.gguf'));
  const nothing = await publishFile(registry, file('nothing.gguf'), {
    model: file('letters.gguf'),
    settings: { sampling: { system: 'Say a letter.' } },
  });
  const second = await openGate(registry, { slot, challenger: nothing.id });
  const asked = { ...options, style: 'plain' as const, maxTokens: 4, problems: 40 };
  const again = await measureGate(registry, second.gate, asked);
  expect(again.decision.decision).not.toBe('accepted');
  expect(again.decision.attempt).toBe(2);
  const { evidence } = (await registry.read()).state.gates[1]!;
  const kept = readFileSync(registry.paths.trials(evidence!), 'utf8');
  expect(kept).toContain('Say a letter.'); // both were asked as the challenger's run asked
  await expect(registry.move({ slot, id: nothing.id, gate: second.gate })).rejects.toMatchObject({ code: 'REGISTRY_REFUSED' });
  expect((await resolveAdapter(registry, 'letters@champion')).ok).toBe(true);
  expect((await validateRegistry(registry)).defects).toEqual([]);
}, 120_000);
