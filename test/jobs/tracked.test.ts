/**
 * A run that tells trackers of itself: settings, a row an iteration, how it ended; and its report.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { run, type TrackedRunOptions } from '../../src/operations/tracked-run.js';
import type { BegunRun, IterationReport } from '../../src/training/hooks.js';
import { shortestRun, writeLetterModel, writeLetterTask } from '../models/letters.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-tracked-'));
const at = (...names: string[]): string => path.join(folder, ...names);
const home = process.env.ISOPRO_HOME;
beforeAll(() => {
  process.env.ISOPRO_HOME = at('home');
  writeLetterModel(at('letters.gguf'));
  writeLetterTask(at('letters.mjs'));
});
afterAll(() => {
  if (home === undefined) delete process.env.ISOPRO_HOME;
  else process.env.ISOPRO_HOME = home;
  rmSync(folder, { recursive: true, force: true });
});

const settings = (): ReturnType<typeof shortestRun> & { iterations: number } => ({
  ...shortestRun(at('letters.mjs'), at('letters.gguf')),
  iterations: 2,
});
/** Of MLflow's one run: how it stands, and its parameters. */
function ofMlflow(out: string): { meta: string; params: Record<string, string> } {
  const store = path.join(out, 'trackers', 'mlflow');
  const [experiment] = readdirSync(store);
  const [name] = readdirSync(path.join(store, experiment!)).filter((each) => !each.includes('.'));
  const of = path.join(store, experiment!, name!);
  const params = readdirSync(path.join(of, 'params'));
  return {
    meta: readFileSync(path.join(of, 'meta.yaml'), 'utf8'),
    params: Object.fromEntries(
      params.map((each) => [each, readFileSync(path.join(of, 'params', each), 'utf8')]),
    ),
  };
}

test('trackers get the settings, a row of figures an iteration and the end; whoever asked hears of all of it too', async () => {
  const begun: BegunRun[] = [];
  const reports: IterationReport[] = [];
  const notices: string[] = [];
  const options: TrackedRunOptions = {
    out: at('whole'),
    logTo: ['jsonl', 'mlflow'],
    onBegin: (each) => begun.push(each),
    onIteration: (report) => reports.push(report),
    onNotice: (text) => notices.push(text),
  };
  const result = await run(settings(), options);
  expect([begun.length, begun[0]!.runId, reports.map(({ iteration }) => iteration)]).toEqual([
    1,
    result.runId,
    [1, 2],
  ]);
  const rows = readFileSync(at('whole', 'trackers', 'jsonl', 'metrics.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);
  const figures = reports.map((report) => ({
    step: report.iteration,
    'train/loss': report.loss,
    'train/learning_rate': report.learningRate,
    'train/reward': report.hitRate,
    'train/num_tokens': report.tokens.trained,
    'train/tokens_per_second': report.tokens.trained / report.seconds.training,
    'train/sampler_gap': report.samplerGap,
    'eval/reward': report.dev.mean,
  }));
  // what there is no figure of is left out
  const finite = figures.map((row) =>
    Object.fromEntries(Object.entries(row).filter(([, value]) => Number.isFinite(value))),
  );
  expect(finite.every((row) => Object.keys(row).length >= 6)).toBe(true);
  expect(rows).toEqual(finite);
  const { meta, params } = ofMlflow(at('whole'));
  expect(meta).toContain(`run_name: "${result.runId}"`);
  expect(meta).toContain('status: 3'); // finished
  expect(meta).toMatch(/\nend_time: \d+\n/);
  expect(params).toMatchObject({
    iterations: '2',
    'sampling.rollouts': '16',
    'optimiser.batchSize': '4',
    'evaluation.testSize': '2',
  });
  expect(Object.keys(params).some((name) => ['sampling', 'optimiser'].includes(name))).toBe(false);
  const said = notices.filter((text) => text.startsWith('figures: '));
  expect(said.map((text) => /tail -f|mlflow ui/.exec(text)?.[0])).toEqual(['tail -f', 'mlflow ui']);

  // the run has ended: its result once more, and a report that is there stays
  const report = at('whole', 'report.html');
  expect(readFileSync(report, 'utf8')).toContain('<html');
  writeFileSync(report, 'mine');
  const again = await run(settings(), { ...options, logTo: [] });
  expect([again.adapter.sha256, readFileSync(report, 'utf8')]).toEqual([
    result.adapter.sha256,
    'mine',
  ]);
  expect([begun.length, reports.length]).toEqual([1, 2]);
  rmSync(report);
  await run(settings(), { ...options, logTo: [] });
  expect(readFileSync(report, 'utf8')).toContain('<html');
});

test('a run that fails has failed for its trackers; the same call goes on, and replaces no row', async () => {
  const options: TrackedRunOptions = { out: at('cut'), logTo: ['jsonl', 'mlflow'] };
  const broken = run(settings(), {
    ...options,
    onIteration: ({ iteration }) => {
      if (iteration === 1) throw new Error('the screen is gone');
    },
  });
  await expect(broken).rejects.toThrow('the screen is gone');
  expect(ofMlflow(at('cut')).meta).toContain('status: 4'); // failed
  await run(settings(), options);
  expect(ofMlflow(at('cut')).meta).toContain('status: 3');
  const steps = readFileSync(at('cut', 'trackers', 'jsonl', 'metrics.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { step: number }).step);
  expect([steps[0], steps.at(-1)]).toEqual([1, 2]);
});
