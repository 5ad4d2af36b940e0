/**
 * The real language model reasons, and its beliefs are read: the same again, another with another
 * prompt, and found again by the judge.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { readTruthConfig } from '../../src/truth-seeking/run/config.js';
import { judgeTruthRun } from '../../src/truth-seeking/run/judge.js';
import { openReasoners } from '../../src/truth-seeking/run/open-reasoners.js';
import { measureAgain, runTruth } from '../../src/truth-seeking/run/evaluation-run.js';
import { REAL_MODEL } from './real-model.js';

const root = mkdtempSync(path.join(tmpdir(), 'isopro-real-truth-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

test('two problems under two prompts', async () => {
  const config = readTruthConfig({
    model: REAL_MODEL,
    threads: 1,
    domain: ['sums-and-claims'],
    problems: 2,
    mode: ['chain-of-thought'],
    systemPrompt: ['critical', 'confirmatory'],
    eval: ['accuracy', 'martingale'],
    maxTokens: 24,
    signer: 'single-process',
  });
  const home = path.join(root, 'home');
  const [first, second] = [path.join(root, 'first'), path.join(root, 'second')];
  await using policies = await openReasoners(config);
  const { state } = await runTruth(config, { out: first, home, policies });
  expect(state.trajectories.every(({ trajectory }) => trajectory.steps.length > 0)).toBe(true);
  const beliefs = state.trajectories.map(({ trajectory: { id } }) =>
    state.beliefs(id)!.readout.readings.map(({ belief }) => belief!.p0),
  );
  // a language model is sure of nothing here, and says one of the two options
  for (const belief of beliefs.flat()) expect(belief > 0.001 && belief < 0.999).toBe(true);
  // the two prompts stand before the same questions, and are read
  const priors = beliefs.map(([prior]) => prior);
  expect(new Set(priors).size).toBe(4);
  expect(await judgeTruthRun({ folder: first, home })).toMatchObject({
    verdict: 'pass',
    trajectories: 4,
    readouts: 4,
    results: 4,
  });

  const again = await runTruth(config, { out: second, home, policies });
  expect(again.state.trajectoriesSha256).toBe(state.trajectoriesSha256);
  expect(again.state.results).toEqual(state.results);

  // without the system prompt the same question has one prior, whatever the policy was told
  const { state: dropped } = await measureAgain({
    folder: first,
    home,
    policies,
    recompute: { beliefs: 'always' },
    beliefs: { beliefSystem: 'drop' },
  });
  const [, alone] = dropped.readers; // beside the beliefs that were read with it
  const without = dropped.trajectories.map(
    ({ trajectory: { id } }) => dropped.beliefs(id, alone)!.readout.readings[0]!.belief!.p0,
  );
  expect(new Set(without).size).toBe(2);
}, 600_000);
