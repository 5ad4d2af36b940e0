/**
 * Generations of a model that learns from its own best strategies: each proposes, what is valid is
 * scored on the same seeds, the best part of all so far is trained on, from the base model
 * (`--train restart`) or going on (`--train continue`), and the result is measured on seeds that
 * nothing was trained or chosen on. How many of the proposals are distinct is shown: a model that
 * says one thing learns nothing more.
 *   npm run build:ts && node dist/examples/generations.js --model smollm2-135m --train continue
 */
import { parseArgs } from 'node:util';
import { loadModel, openTask, type Adapter } from 'isopro-native';
import { claim, type Line } from './games-claim.js';
import {
  best,
  draw,
  examplesOf,
  flagsOf,
  MAX_TOKENS,
  measuredOn,
  measureModel,
  measurePolicy,
  openTrainer,
  reportText,
  Scoring,
  train,
  type Proposals,
  type Report,
  type Strategy,
} from './games-demo.js';

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'tiny' },
    generations: { type: 'string', default: '3' },
    proposals: { type: 'string', default: '20' },
    train: { type: 'string', default: 'restart' },
    keep: { type: 'string', default: '0.5' },
    steps: { type: 'string', default: '40' },
    batch: { type: 'string', default: '2' },
    rate: { type: 'string', default: '0.0007' },
    temperature: { type: 'string', default: '0.8' },
    'held-out': { type: 'string', default: '100' },
    'measured-on': { type: 'string', default: 'test' },
    threads: { type: 'string', default: '0' },
    /**
     * Proposals keep the form of a strategy; without it a model that cannot write one never begins
     * to learn. Measured is without it.
     */
    constrained: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
});
if (values.train !== 'restart' && values.train !== 'continue')
  throw new Error('--train takes restart or continue');
/** Least to train on: the best part of the first proposals may be fewer. */
const LEAST = 8;
const training = {
  steps: Number(values.steps),
  batch: Number(values.batch),
  rate: Number(values.rate),
  seed: 1n,
};

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
const scoring = await Scoring.open(task, 2n);
const lines: Line[] = [
  await measurePolicy('random-valid', task, heldOut),
  await measurePolicy('best-constant', task, heldOut),
];

const generations: Proposals[] = [];
const all: Strategy[] = [];
let adapter: Adapter | null = null;
let trainer = await openTrainer(model, training);
lines.push(await measureModel('prompt only', base));
try {
  for (let generation = 0; generation < Number(values.generations); generation++) {
    const problems = await draw(task, `generation ${generation}`, Number(values.proposals), 5n);
    const prompts = await Promise.all(
      problems.map(async (problem, i) => ({
        messages: await task.prompt(problem, 'plain'),
        id: problem.id,
        seeds: [BigInt(i)],
      })),
    );
    const proposed: Strategy[] = [];
    const request = {
      prompts,
      adapter,
      maxTokens: MAX_TOKENS,
      sampling: { temperature: Number(values.temperature) },
      ...(values.constrained && { grammar: task.answerGrammar! }),
    };
    const texts: string[] = [];
    for await (const { text, finish, promptIndex } of model.generate(request))
      texts[promptIndex] = finish === 'stop' ? text : '';
    for (const text of texts) proposed.push(await scoring.score(text));
    all.push(...proposed);
    const scores = proposed.flatMap(({ score }) => (score === null ? [] : [score]));
    const kept = best(
      all,
      Math.max(
        LEAST,
        Math.ceil(all.filter(({ score }) => score !== null).length * Number(values.keep)),
      ),
    );
    generations.push({
      proposed: proposed.length,
      distinct: new Set(texts).size,
      valid: scores.length,
      mean:
        scores.length === 0 ? null : scores.reduce((sum, score) => sum + score, 0) / scores.length,
      best: scores.length === 0 ? null : Math.max(...scores),
      trainedOn: kept.length,
    });
    if (kept.length === 0) break; // nothing valid was ever said: there is nothing to learn from
    await model.releaseContext();
    if (generation > 0 && values.train === 'restart') {
      await trainer.dispose();
      trainer = await openTrainer(model, training);
    }
    await train(
      trainer,
      await examplesOf(model, task, kept, await draw(task, 'examples', kept.length, 4n)),
      training,
    );
    const next = await trainer.applyTo(model);
    adapter?.dispose();
    adapter = next;
    lines.push(await measureModel(`generation ${generation + 1}`, { ...base, adapter }));
  }
} finally {
  await trainer.dispose();
}

const said = claim(lines.at(-1)!, lines[0]!);
const formed = { ...base, adapter, constrained: true };
lines.push(await measureModel(`${lines.at(-1)!.who}, constrained`, formed));
const report: Report = {
  flags: flagsOf(values),
  model: await model.hash(),
  heldOut: sha256,
  generations,
  lines,
  ...said,
};
console.log(values.json ? JSON.stringify(report) : reportText(report));
adapter?.dispose();
