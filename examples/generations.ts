/**
 * Generations of a model that learns from its own best strategies: each proposes, what is valid is scored on the same seeds, the best half
 * of all so far is trained on, from the base model (`--train restart`) or going on (`--train continue`), and the result is measured on
 * seeds that nothing was trained or chosen on. How many of the proposals are distinct is shown: a model that says one thing learns nothing
 * more.
 *   npm run build:ts && node dist/examples/generations.js --model smollm2-135m --train continue
 */
import { parseArgs } from 'node:util';
import { evaluationSet, loadModel, openTask, type Adapter } from 'isopro-native';
import { claim, type Line } from './games-claim.js';
import {
  best,
  draw,
  examplesOf,
  MAX_TOKENS,
  measureModel,
  measurePolicy,
  openTrainer,
  Scoring,
  table,
  train,
  type Strategy,
} from './games-demo.js';

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'tiny' },
    generations: { type: 'string', default: '3' },
    proposals: { type: 'string', default: '20' },
    train: { type: 'string', default: 'restart' },
    steps: { type: 'string', default: '80' },
    batch: { type: 'string', default: '1' },
    rate: { type: 'string', default: '0.001' },
    temperature: { type: 'string', default: '0.8' },
    'held-out': { type: 'string', default: '100' },
    threads: { type: 'string', default: '0' },
    /** Proposals keep the form of a strategy; without it a model that cannot write one never begins to learn. Measured is without it. */
    constrained: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
});
if (values.train !== 'restart' && values.train !== 'continue') throw new Error('--train takes restart or continue');
/** Least to train on: half of the first proposals may be fewer. */
const LEAST = 16;
const training = { steps: Number(values.steps), batch: Number(values.batch), rate: Number(values.rate), seed: 1n };

const threads = Number(values.threads);
await using task = await openTask('grid_ctf');
await using model = await loadModel(values.model, { fixedThreads: true, contextTokens: 8192, ...(threads > 0 && { threads }) });
const { problems: heldOut, sha256 } = await evaluationSet(task, 'test', Number(values['held-out']));
const scoring = await Scoring.open(task, 2n);
const lines: Line[] = [await measurePolicy('random-valid', task, heldOut), await measurePolicy('best-constant', task, heldOut)];

interface Generation {
  readonly proposed: number;
  readonly distinct: number;
  readonly valid: number;
  readonly mean: number | null;
  readonly best: number | null;
  readonly trainedOn: number;
}
const generations: Generation[] = [];
const all: Strategy[] = [];
let adapter: Adapter | null = null;
let trainer = await openTrainer(model, training);
lines.push(await measureModel('prompt only', model, null, task, heldOut));
try {
  for (let generation = 0; generation < Number(values.generations); generation++) {
    const problems = await draw(task, `generation ${generation}`, Number(values.proposals), 5n);
    const prompts = await Promise.all(
      problems.map(async (problem, i) => ({ messages: await task.prompt(problem, 'plain'), id: problem.id, seeds: [BigInt(i)] })),
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
    for await (const { text, finish, promptIndex } of model.generate(request)) texts[promptIndex] = finish === 'stop' ? text : '';
    for (const text of texts) proposed.push(await scoring.score(text));
    all.push(...proposed);
    const scores = proposed.flatMap(({ score }) => (score === null ? [] : [score]));
    const kept = best(all, Math.max(LEAST, Math.ceil(all.filter(({ score }) => score !== null).length / 2)));
    generations.push({
      proposed: proposed.length,
      distinct: new Set(texts).size,
      valid: scores.length,
      mean: scores.length === 0 ? null : scores.reduce((sum, score) => sum + score, 0) / scores.length,
      best: scores.length === 0 ? null : Math.max(...scores),
      trainedOn: kept.length,
    });
    if (kept.length === 0) break; // nothing valid was ever said: there is nothing to learn from
    await model.releaseContext();
    if (generation > 0 && values.train === 'restart') {
      await trainer.dispose();
      trainer = await openTrainer(model, training);
    }
    await train(trainer, await examplesOf(model, task, kept, await draw(task, 'examples', kept.length, 4n)), training);
    const next = await trainer.applyTo(model);
    adapter?.dispose();
    adapter = next;
    lines.push(await measureModel(`generation ${generation + 1}`, model, adapter, task, heldOut));
  }
} finally {
  await trainer.dispose();
}

const said = claim(lines.at(-1)!, lines[0]!);
if (values.json) console.log(JSON.stringify({ lines, generations, ...said, heldOut: sha256, train: values.train }));
else {
  for (const [i, { proposed, distinct, valid, mean, best: most, trainedOn }] of generations.entries())
    console.log(
      `proposals ${i}: ${valid} of ${proposed} valid, ${distinct} distinct, mean ${mean?.toFixed(3) ?? '-'}, ` +
        `best ${most?.toFixed(3) ?? '-'}; ${trainedOn} trained on`,
    );
  console.log(`\n${table(lines)}\n\nheld-out seeds ${sha256.slice(0, 12)}, each generation trained by ${values.train}`);
  console.log(said.text);
}
adapter?.dispose();
