/**
 * What the demonstrations on a scenario have in common: strategies and their scores, examples to
 * train on, lines of a report.
 */
import path from 'node:path';
import {
  createTrainer,
  deriveSeed,
  evaluateGreedy,
  evaluationSet,
  localBackend,
  Random,
  statistics,
  type Adapter,
  type Model,
  type OpenTask,
  type Problem,
  type Trainer,
  type TrainSequence,
} from 'isopro-native';
import type { Claim, Line } from './games-claim.js';

const TIER = 'match';
const STYLE = 'plain';
export const MAX_TOKENS = 96;
/** Every strategy is scored on the same seeds, so that no noise decides which is kept. */
const SCORED_ON = 16;

/** Problems that are trained on; the frozen ones, which are measured on, are never generated. */
export async function draw(
  task: OpenTask,
  purpose: string,
  count: number,
  seed: bigint,
): Promise<Problem[]> {
  const keyed = (sample: number): bigint =>
    deriveSeed({ runSeed: seed, purpose, iteration: 0, problemId: TIER, sample });
  return Promise.all(Array.from({ length: count }, (_, i) => task.generate(TIER, keyed(i))));
}

export interface Strategy {
  readonly text: string;
  /** Mean over the seeds that all strategies are scored on; null where it is invalid. */
  readonly score: number | null;
}

export class Scoring {
  readonly #task: OpenTask;
  readonly #problems: readonly Problem[];

  private constructor(task: OpenTask, problems: readonly Problem[]) {
    this.#task = task;
    this.#problems = problems;
  }

  static open = async (task: OpenTask, seed: bigint): Promise<Scoring> =>
    new Scoring(task, await draw(task, 'scoring', SCORED_ON, seed));

  async score(text: string): Promise<Strategy> {
    let sum = 0;
    for (const problem of this.#problems) {
      const { score } = (await this.#task.judge(problem, text, 'stop')).verdict;
      if (score === undefined) return { text, score: null };
      sum += score;
    }
    return { text, score: sum / this.#problems.length };
  }
}

/**
 * Uniform over the valid strategies with three decimals: what is drawn and invalid is drawn again.
 */
export async function randomStrategies(
  scoring: Scoring,
  parameters: readonly string[],
  count: number,
  seed: bigint,
): Promise<Strategy[]> {
  const random = new Random(seed);
  const found: Strategy[] = [];
  while (found.length < count) {
    const values = parameters.map((name) => `"${name}": ${random.nextDouble().toFixed(3)}`);
    const strategy = await scoring.score(`{${values.join(', ')}}`);
    if (strategy.score !== null) found.push(strategy);
  }
  return found;
}

/** The best first, each text once. */
export function best(strategies: readonly Strategy[], count: number): Strategy[] {
  const distinct = [
    ...new Map(
      strategies.filter(({ score }) => score !== null).map((each) => [each.text, each]),
    ).values(),
  ];
  return distinct.sort((a, b) => b.score! - a.score!).slice(0, count);
}

/** Each strategy as the reply to a problem of its own, whose end is learned too. */
export async function examplesOf(
  model: Model,
  task: OpenTask,
  strategies: readonly Strategy[],
  problems: readonly Problem[],
): Promise<TrainSequence[]> {
  const { eot, eos } = model.info;
  const examples: TrainSequence[] = [];
  for (const [i, { text }] of strategies.entries()) {
    const prompt = model.renderChat(
      await task.prompt(problems[i % problems.length]!, STYLE),
    ).tokenIds;
    const tokenIds = Int32Array.from([...prompt, ...model.tokenize(text), eot >= 0 ? eot : eos]);
    examples.push({
      tokenIds,
      labelMask: Uint8Array.from(tokenIds, (_, t) => (t >= prompt.length ? 1 : 0)),
    });
  }
  return examples;
}

export interface Training {
  readonly steps: number;
  readonly batch: number;
  readonly rate: number;
  readonly seed: bigint;
}

/** All layers at rank 8: what teaches a small instruct model. */
export const openTrainer = (model: Model, { rate, seed }: Training): Promise<Trainer> =>
  createTrainer(model, {
    seed,
    threads: model.info.threads,
    lora: { rank: 8 },
    optimiser: { learningRate: rate },
  });

/** Shuffled passes over the examples. @returns the loss of the last step */
export async function train(
  trainer: Trainer,
  examples: readonly TrainSequence[],
  { steps, batch, seed }: Training,
): Promise<number> {
  const random = new Random(seed);
  let order: TrainSequence[] = [];
  let loss = Number.NaN;
  for (let step = 0; step < steps; step++) {
    if (order.length < batch) order = [...order, ...random.shuffle(examples)];
    loss = (await trainer.step(order.splice(0, batch))).loss;
  }
  return loss;
}

function lineOf(who: string, scores: readonly (number | undefined)[]): Line {
  const [n, given] = [scores.length, scores.filter((score) => score !== undefined)];
  const counted = scores.map((score) => score ?? 0);
  const mean = statistics.mean(counted);
  const reach =
    (statistics.studentQuantile(0.025, n - 1) * statistics.sampleStandardDeviation(counted)) /
    Math.sqrt(n);
  const { low, high } = statistics.wilsonInterval(given.length, n);
  const validMean = given.length === 0 ? null : statistics.mean(given);
  return {
    who,
    n,
    mean,
    low: mean - reach,
    high: mean + reach,
    validMean,
    valid: given.length,
    validLow: low,
    validHigh: high,
  };
}

export interface Asked {
  readonly model: Model;
  /** null: the base model, told the rules and nothing else */
  readonly adapter: Adapter | null;
  readonly task: OpenTask;
  readonly problems: readonly Problem[];
  /** The form of a strategy is kept for it: a line of its own, from which nothing is claimed. */
  readonly constrained?: boolean;
}

/** One greedy answer to each seed. */
export async function measureModel(
  who: string,
  { model, adapter, task, problems, constrained = false }: Asked,
): Promise<Line> {
  const { outcomes } = await evaluateGreedy(localBackend(model), task, problems, {
    style: STYLE,
    maxTokens: MAX_TOKENS,
    adapter,
    ...(constrained && { grammar: task.answerGrammar! }),
  });
  return lineOf(
    who,
    outcomes.map(({ score }) => score),
  );
}

/**
 * The frozen set that is measured on: `test`, which nothing was chosen on, or `dev`, which settings
 * are chosen on.
 */
export async function measuredOn(
  task: OpenTask,
  name: string,
  count: number,
): Promise<{ problems: readonly Problem[]; sha256: string }> {
  if (name !== 'dev' && name !== 'test') throw new Error('--measured-on takes dev or test');
  return await evaluationSet(task, name, count);
}

/** The task's own policy, which asks no model. */
export async function measurePolicy(
  name: string,
  task: OpenTask,
  heldOut: readonly Problem[],
): Promise<Line> {
  const scores: (number | undefined)[] = [];
  for (const problem of heldOut) scores.push((await task.applyPolicy(name, problem)).score);
  return lineOf(name, scores);
}

/** What a model proposed before it was trained on the best of all so far. */
export interface Proposals {
  readonly proposed: number;
  readonly distinct: number;
  readonly valid: number;
  readonly mean: number | null;
  readonly best: number | null;
  readonly trainedOn: number;
}

/** What a demonstration leaves; `--json` prints it. */
export interface Report extends Claim {
  /** As it was called: flags by name, the model without its folder. */
  readonly flags: Readonly<Record<string, unknown>>;
  readonly model: string;
  readonly lines: readonly Line[];
  /** Of the problems that were measured on. */
  readonly heldOut: string;
  /** Of the one step. */
  readonly counts?: { readonly drawn: number; readonly kept: number; readonly trained: number };
  readonly adapter?: string;
  readonly seconds?: Readonly<Record<string, number>>;
  /** Of the generations. */
  readonly generations?: readonly Proposals[];
}

export const flagsOf = ({
  json: _,
  model,
  threads: __,
  ...flags
}: Record<string, unknown>): Record<string, unknown> => ({
  ...flags,
  model: path.basename(String(model)),
});

/** A report for a reader. */
export function reportText({
  flags,
  model,
  lines,
  heldOut,
  counts,
  adapter,
  generations = [],
  text,
}: Report): string {
  const proposals = generations.map(
    ({ proposed, distinct, valid, mean, best: most, trainedOn }, i) =>
      `proposals ${i}: ${valid} of ${proposed} valid, ${distinct} distinct, mean ${mean?.toFixed(3) ?? '-'}, ` +
      `best ${most?.toFixed(3) ?? '-'}; ${trainedOn} trained on`,
  );
  const from = `${flags.model} (SHA-256 ${model.slice(0, 12)}), ${lines[0]!.n} ${flags['measured-on']} problems ${heldOut.slice(0, 12)}`;
  const trained =
    counts === undefined
      ? `each generation trained by ${flags.train}`
      : `${counts.drawn} strategies drawn, the best ${counts.trained} trained on, adapter ${adapter!.slice(0, 12)}`;
  return [
    ...proposals,
    ...(proposals.length === 0 ? [] : ['']),
    table(lines),
    '',
    `${from}; ${trained}`,
    text,
  ].join('\n');
}

/** Lines under one another. */
function table(lines: readonly Line[]): string {
  const rows = lines.map(({ who, n, mean, low, high, validMean, valid, validLow, validHigh }) => [
    who,
    mean.toFixed(3),
    `${low.toFixed(3)} to ${high.toFixed(3)}`,
    validMean?.toFixed(3) ?? '-',
    `${valid}/${n}`,
    `${validLow.toFixed(2)} to ${validHigh.toFixed(2)}`,
  ]);
  const all = [['', 'mean', '95 %', 'valid only', 'valid', '95 %'], ...rows];
  const widths = all[0]!.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  return all
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
