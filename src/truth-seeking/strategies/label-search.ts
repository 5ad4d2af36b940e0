/**
 * Labels without a teacher: labels under which each is most predictable from the others and no two
 * contradict each other (internal coherence maximisation, Wen et al. 2025, arXiv 2506.10139), found
 * by annealing.
 */
import type { Random } from '../../random.js';
import type { Option } from '../problem.js';

export interface LabelSearch {
  readonly problems: number;
  /** Weight of predictability against one contradiction. */
  readonly alpha: number;
  /** Labels drawn at random before the search. */
  readonly start: number;
  readonly steps: number;
  readonly random: Random;
  /** log p(label | problem, the other labels), nats. */
  readonly logprob: (
    problem: number,
    label: Option,
    others: ReadonlyMap<number, Option>,
  ) => Promise<number>;
  /** Pairs that cannot both be right. */
  readonly contradictions: (
    labels: ReadonlyMap<number, Option>,
  ) => readonly (readonly [number, number])[];
  /** Problems that belong to this one; drawn more often once it has a label. */
  readonly related?: (problem: number) => readonly number[];
  /** After each step. */
  readonly onStep?: (done: number) => void;
  readonly signal?: AbortSignal;
}

/**
 * U = alpha x the sum of log-probabilities of each label given the others, less the contradictions.
 */
export const utility = (
  logprobs: readonly number[],
  contradictions: number,
  alpha: number,
): number => alpha * logprobs.reduce((sum, each) => sum + each, 0) - contradictions;

/** Temperature of step n = 1, 2, …: 10 / (1 + 0.99 ln n), at least 0.01. */
export const temperatureAt = (n: number): number => Math.max(0.01, 10 / (1 + 0.99 * Math.log(n)));

/** Probability of accepting a change of U. */
export const acceptance = (gain: number, temperature: number): number =>
  gain > 0 ? 1 : Math.exp(gain / temperature);

/** Maximum number of label changes to resolve a contradiction. */
const MENDS = 10;
/** Weight of a problem that is related to a labelled one, against 1. */
const RELATED = 5;

async function utilityOf(
  { alpha, logprob, contradictions }: LabelSearch,
  labels: ReadonlyMap<number, Option>,
): Promise<number> {
  const logprobs: number[] = [];
  for (const [problem, label] of labels) {
    const others = new Map(labels);
    others.delete(problem);
    logprobs.push(await logprob(problem, label, others));
  }
  return utility(logprobs, contradictions(labels).length, alpha);
}

/** Likelier of the two labels, given the others. */
async function likelier(
  { logprob }: LabelSearch,
  problem: number,
  labels: ReadonlyMap<number, Option>,
): Promise<Option> {
  const others = new Map(labels);
  others.delete(problem);
  return (await logprob(problem, 1, others)) > (await logprob(problem, 0, others)) ? 1 : 0;
}

async function mended(
  search: LabelSearch,
  given: ReadonlyMap<number, Option>,
): Promise<Map<number, Option>> {
  let labels = new Map(given);
  let best = await utilityOf(search, labels);
  for (let tries = 0; tries < MENDS; tries++) {
    const [pair] = search.contradictions(labels);
    if (pair === undefined) break;
    let found = false;
    for (const problem of pair) {
      const turned = new Map(labels).set(problem, labels.get(problem) === 0 ? 1 : 0);
      const value = await utilityOf(search, turned);
      if (value > best) [labels, best, found] = [turned, value, true];
    }
    if (!found) break;
  }
  return labels;
}

/** @throws what `logprob` throws; the signal's reason */
export async function searchLabels(
  search: LabelSearch,
): Promise<{ readonly labels: ReadonlyMap<number, Option>; readonly utility: number }> {
  const { problems, start, steps, random, related, onStep, signal } = search;
  const first = random
    .shuffle(Array.from({ length: problems }, (_, problem) => problem))
    .slice(0, start);
  let labels = await mended(
    search,
    new Map(first.map((problem) => [problem, random.nextInteger(0, 1) as Option])),
  );
  let current = await utilityOf(search, labels);
  for (let n = 1; n <= steps; n++) {
    signal?.throwIfAborted();
    const problem = drawn(problems, labels, random, related);
    const proposed = await mended(
      search,
      new Map(labels).set(problem, await likelier(search, problem, labels)),
    );
    const value = await utilityOf(search, proposed);
    // drawn whether it is needed or not, so that what is accepted moves no later draw
    const draw = random.nextDouble();
    if (draw < acceptance(value - current, temperatureAt(n))) [labels, current] = [proposed, value];
    onStep?.(n);
  }
  return { labels, utility: current };
}

function drawn(
  problems: number,
  labels: ReadonlyMap<number, Option>,
  random: Random,
  related: LabelSearch['related'],
): number {
  const near = new Set(
    related === undefined ? [] : [...labels.keys()].flatMap((problem) => related(problem)),
  );
  const weights = Array.from({ length: problems }, (_, problem) =>
    near.has(problem) && !labels.has(problem) ? RELATED : 1,
  );
  let left = random.nextDouble() * weights.reduce((sum, weight) => sum + weight, 0);
  const found = weights.findIndex((weight) => (left -= weight) < 0);
  return found === -1 ? problems - 1 : found;
}
