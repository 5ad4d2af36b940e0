/**
 * From random strategies to a served adapter in one step: random valid strategies are scored, the
 * best are trained on, the adapter is published, resolved by name, loaded, and measured on seeds
 * that nothing was trained or chosen on. What asks no model stands beside it.
 *   npm run build:ts && node dist/examples/one-step.js --model smollm2-135m
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { loadModel, openTask, registry } from 'isopro-native';
import { claim } from './games-claim.js';
import {
  best,
  draw,
  examplesOf,
  flagsOf,
  measuredOn,
  measureModel,
  measurePolicy,
  openTrainer,
  randomStrategies,
  reportText,
  Scoring,
  train,
  type Report,
} from './games-demo.js';

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'tiny' },
    strategies: { type: 'string', default: '480' },
    keep: { type: 'string', default: '60' },
    steps: { type: 'string', default: '40' },
    batch: { type: 'string', default: '4' },
    rate: { type: 'string', default: '0.0007' },
    'held-out': { type: 'string', default: '100' },
    'measured-on': { type: 'string', default: 'test' },
    threads: { type: 'string', default: '0' },
    json: { type: 'boolean', default: false },
  },
});
const PARAMETERS = ['aggression', 'defense', 'path_bias'];
const training = {
  steps: Number(values.steps),
  batch: Number(values.batch),
  rate: Number(values.rate),
  seed: 1n,
};
const seconds: Record<string, number> = {};
async function timed<T>(stage: string, work: () => Promise<T>): Promise<T> {
  const started = performance.now();
  const result = await work();
  seconds[stage] = (performance.now() - started) / 1000;
  return result;
}

const threads = Number(values.threads);
await using task = await openTask('grid_ctf');
await using model = await loadModel(values.model, {
  fixedThreads: true,
  contextTokens: 8192,
  ...(threads > 0 && { threads }),
});
const { problems: heldOut, sha256 } = await measuredOn(
  task,
  values['measured-on'],
  Number(values['held-out']),
);
const base = { model, adapter: null, task, problems: heldOut };
const folder = mkdtempSync(path.join(tmpdir(), 'isopro-one-step-'));
try {
  const lines = [
    await measurePolicy('random-valid', task, heldOut),
    await measurePolicy('best-constant', task, heldOut),
    await timed('base', () => measureModel('prompt only', base)),
    await timed('base, constrained', () =>
      measureModel('prompt only, constrained', { ...base, constrained: true }),
    ),
  ];
  const scoring = await Scoring.open(task, 2n);
  const drawn = await timed('score', () =>
    randomStrategies(scoring, PARAMETERS, Number(values.strategies), 3n),
  );
  const kept = best(drawn, Number(values.keep));
  const examples = await examplesOf(
    model,
    task,
    kept,
    await draw(task, 'examples', kept.length, 4n),
  );
  const file = path.join(folder, 'adapter.gguf');
  await model.releaseContext();
  await timed('train', async () => {
    await using trainer = await openTrainer(model, training);
    await train(trainer, examples, training);
    await trainer.exportAdapter(file);
  });

  const published = new registry.Registry({ folder: path.join(folder, 'registry') });
  const trainedFrom = { name: path.basename(values.model), sha256: await model.hash() };
  const { id } = await published.publish({ file, base: trainedFrom, rendererId: model.rendererId });
  await published.move({ slot: { scenario: 'grid_ctf' }, alias: 'challenger', id });
  const resolved = await registry.resolveAdapter(published, 'grid_ctf@challenger', {
    baseSha256: trainedFrom.sha256,
    rendererId: model.rendererId,
  });
  if (!resolved.ok || resolved.id === null)
    throw new Error(resolved.ok ? 'the base answers' : resolved.message);
  const adapter = await model.loadAdapter(resolved.file);
  const served = await timed('serve', () => measureModel('served', { ...base, adapter }));
  const formed = await timed('serve, constrained', () =>
    measureModel('served, constrained', { ...base, adapter, constrained: true }),
  );
  lines.push(served, formed);
  adapter.dispose();

  const said = claim(served, lines[0]!);
  const counts = { drawn: drawn.length, kept: kept.length, trained: examples.length };
  const trainedOn = { model: trainedFrom.sha256, heldOut: sha256, counts, adapter: id };
  const report: Report = { flags: flagsOf(values), ...trainedOn, lines, ...said, seconds };
  console.log(values.json ? JSON.stringify(report) : reportText(report));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
