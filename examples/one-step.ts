/**
 * From random strategies to a served adapter in one step: random valid strategies are scored, the best are trained on, the adapter is
 * published, resolved by name, loaded, and measured on seeds that nothing was trained or chosen on. What asks no model stands beside it.
 *   npm run build:ts && node dist/examples/one-step.js --model smollm2-135m
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { evaluationSet, loadModel, openTask, registry } from 'isopro-native';
import { claim } from './games-claim.js';
import { best, draw, examplesOf, measureModel, measurePolicy, openTrainer, randomStrategies, Scoring, table, train } from './games-demo.js';

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'tiny' },
    strategies: { type: 'string', default: '480' },
    keep: { type: 'string', default: '60' },
    steps: { type: 'string', default: '80' },
    batch: { type: 'string', default: '4' },
    rate: { type: 'string', default: '0.001' },
    'held-out': { type: 'string', default: '100' },
    threads: { type: 'string', default: '0' },
    json: { type: 'boolean', default: false },
  },
});
const PARAMETERS = ['aggression', 'defense', 'path_bias'];
const training = { steps: Number(values.steps), batch: Number(values.batch), rate: Number(values.rate), seed: 1n };
const seconds: Record<string, number> = {};
async function timed<T>(stage: string, work: () => Promise<T>): Promise<T> {
  const started = performance.now();
  const result = await work();
  seconds[stage] = (performance.now() - started) / 1000;
  return result;
}

const threads = Number(values.threads);
await using task = await openTask('grid_ctf');
await using model = await loadModel(values.model, { fixedThreads: true, contextTokens: 8192, ...(threads > 0 && { threads }) });
const { problems: heldOut, sha256 } = await evaluationSet(task, 'test', Number(values['held-out']));
const folder = mkdtempSync(path.join(tmpdir(), 'isopro-one-step-'));
try {
  const lines = [
    await measurePolicy('random-valid', task, heldOut),
    await measurePolicy('best-constant', task, heldOut),
    await timed('base', () => measureModel('prompt only', model, null, task, heldOut)),
  ];
  const scoring = await Scoring.open(task, 2n);
  const drawn = await timed('score', () => randomStrategies(scoring, PARAMETERS, Number(values.strategies), 3n));
  const kept = best(drawn, Number(values.keep));
  const examples = await examplesOf(model, task, kept, await draw(task, 'examples', kept.length, 4n));
  const file = path.join(folder, 'adapter.gguf');
  await model.releaseContext();
  await timed('train', async () => {
    await using trainer = await openTrainer(model, training);
    await train(trainer, examples, training);
    await trainer.exportAdapter(file);
  });

  const published = new registry.Registry({ folder: path.join(folder, 'registry') });
  const base = { name: path.basename(values.model), sha256: await model.hash() };
  const { id } = await published.publish({ file, base, rendererId: model.rendererId });
  await published.move({ slot: { scenario: 'grid_ctf' }, alias: 'challenger', id });
  const resolved = await registry.resolveAdapter(published, 'grid_ctf@challenger', {
    baseSha256: base.sha256,
    rendererId: model.rendererId,
  });
  if (!resolved.ok || resolved.id === null) throw new Error(resolved.ok ? 'the base answers' : resolved.message);
  const adapter = await model.loadAdapter(resolved.file);
  lines.push(await timed('serve', () => measureModel('served', model, adapter, task, heldOut)));
  adapter.dispose();

  const [random, served] = [lines[0]!, lines.at(-1)!];
  const said = claim(served, random);
  const counts = { drawn: drawn.length, kept: kept.length, trained: examples.length };
  if (values.json) console.log(JSON.stringify({ lines, ...said, counts, heldOut: sha256, adapter: id, seconds }));
  else {
    console.log(table(lines));
    console.log(
      `\n${counts.drawn} strategies drawn, ${counts.trained} trained on; held-out seeds ${sha256.slice(0, 12)}, adapter ${id.slice(0, 12)}`,
    );
    console.log(said.text);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
