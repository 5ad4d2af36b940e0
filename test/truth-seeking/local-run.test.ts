/** Runs on small models with random weights: every mode and strategy, the same again and with other threads, and the command line. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { openPolicies } from '../../src/truth-seeking/run/open-policies.js';
import { readTruthConfig, type TruthConfigInput } from '../../src/truth-seeking/run/config.js';
import { judgeTruthRun } from '../../src/truth-seeking/run/judge.js';
import { runTruth, type TruthResult } from '../../src/truth-seeking/run/run.js';
import { selectTop } from '../../src/truth-seeking/training/selection.js';
import { MAIN, runCli } from '../cli/run-cli.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const root = mkdtempSync(path.join(tmpdir(), 'isopro-truth-local-'));
const at = (name: string): string => path.join(root, name);
const home = at('home');
beforeAll(() => {
  writeSyntheticModel(at('one.gguf'), { architecture: 'qwen2', seed: 5n, layers: 1 });
  writeSyntheticModel(at('other.gguf'), { architecture: 'qwen2', seed: 6n, layers: 1 });
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function ran(out: string, given: TruthConfigInput): Promise<TruthResult> {
  const config = { model: at('one.gguf'), threads: 1, maxTokens: 6, signer: 'single-process', ...given } as const;
  await using policies = await openPolicies(readTruthConfig(config));
  return await runTruth(config, { out: at(out), home, policies });
}

test('five modes under two prompts: another model predicts and forecasts, and the judge finds every score again', async () => {
  const { state, folder } = await ran('modes', {
    problems: 2,
    mode: ['direct', 'chain-of-thought', 'self-debate:turns=2', 'bootstrap-interview:questions=1', 'length-control:tokens=6'],
    systemPrompt: ['critical', 'confirmatory'],
    predictor: at('other.gguf'),
    eval: ['mutual-predictability:trials=1,contextSize=1', 'world-in-the-loop:per=outcome'],
  });
  expect([state.setups.length, state.trajectories.length, state.failures]).toEqual([10, 20, []]);
  const [mutual, world] = ['mutual', 'world'].map((name) => state.results.filter(({ strategy }) => strategy.startsWith(name)));
  expect([mutual!.length, world!.length]).toEqual([10, 10]);
  for (const { value, skipped } of [...mutual!, ...world!])
    if (value === null) expect(Object.keys(skipped)).not.toEqual([]);
    else expect(Number.isFinite(value)).toBe(true);
  expect([mutual!, world!].map((all) => all.some(({ value }) => value !== null))).toEqual([true, true]);
  expect(await judgeTruthRun({ folder, home })).toMatchObject({ verdict: 'pass', results: 20 });
});

test('T28: one thread and eight hold the same beliefs to 1e-6, and the same trajectories are selected', async () => {
  const of = async (threads: number): Promise<{ beliefs: number[]; selected: string[] }> => {
    const { state } = await ran(`threads-${threads}`, { problems: 2, threads, mode: ['direct'], eval: ['accuracy'] });
    const [{ perTrajectory, direction }] = state.results as [TruthResult['state']['results'][number]];
    // the id of a trajectory names its policy, of which the threads are a part
    const text = new Map(state.trajectories.map(({ trajectory: { id, problemId, steps } }) => [id, JSON.stringify([problemId, steps])]));
    const scored = perTrajectory.map(([id, score]) => ({ item: text.get(id)!, score }));
    const beliefs = state.trajectories.flatMap(({ trajectory: { id } }) =>
      state.beliefs(id)!.readout.readings.map(({ belief }) => belief!.p0),
    );
    return { beliefs, selected: selectTop(scored, 0.5, direction) };
  };
  const [one, eight] = [await of(1), await of(8)];
  expect([one.selected.length, one.beliefs.length > 3]).toEqual([1, true]);
  expect(eight.selected).toEqual(one.selected);
  expect(Math.max(...one.beliefs.map((belief, i) => Math.abs(belief - eight.beliefs[i]!)))).toBeLessThan(1e-6);
});

const CLI = [
  '--model',
  at('one.gguf'),
  '--threads',
  '1',
  '--signer',
  'single-process',
  '--mode',
  'direct',
  '--max-tokens',
  '6',
  '--problems',
  '1',
];
const env = { ISOPRO_HOME: at('cli-home'), NO_COLOR: '1' };

test('the command line runs, prints what does the same, judges, and scores more without a model', async () => {
  const run = await runCli(['truth', 'run', ...CLI, '--eval', 'accuracy', '--out', at('cli'), '--json'], env);
  expect(run.code).toBe(0);
  const { command, results } = JSON.parse(run.stdout) as { command: string; results: { strategy: string; n: number }[] };
  expect(results).toMatchObject([{ strategy: 'accuracy:metric=brier,mode=eventual', n: 1 }]);
  expect(command).toContain(`truth run --model ${at('one.gguf')} --mode direct --eval accuracy:metric=brier,mode=eventual --problems 1`);

  const more = await runCli(['truth', 'evaluate', at('cli'), '--eval', 'martingale:granularity=ends'], env);
  expect([more.code, more.stderr]).toEqual([0, '']);
  expect(more.stdout).toMatch(/^sums-and-claims, direct\n {2}1 trajectory[^]*\n {2}martingale difference ends/);
  for (const line of more.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);

  const judged = await runCli(['judge', at('cli'), '--json'], env);
  expect([judged.code, JSON.parse(judged.stdout)]).toMatchObject([0, { verdict: 'pass', trajectories: 1, results: 2 }]);
});

test('a person reasons on the terminal, and the model reads what they believe', async () => {
  const child = spawn(
    process.execPath,
    [MAIN, 'truth', 'run', ...CLI, '--policy', 'human', '--eval', 'accuracy', '--out', at('human'), '--json'],
    {
      env: { ...process.env, ...env },
    },
  );
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin.end('Surely.\nI added.\n.\n');
  expect(await new Promise((resolve) => child.on('close', resolve))).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ trajectories: 1, readouts: 1 });
  expect(stderr.match(/Is this claim true or false\?/g)).toHaveLength(1);
});
