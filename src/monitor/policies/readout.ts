/**
 * The choice of a model in this process, read from its log-probabilities: nothing is drawn and
 * nothing is parsed. A small model prefers letters by their place, so the options are shown in
 * cyclic orders and the probabilities are averaged.
 */
import { z } from 'zod';
import { deriveSeed, Random } from '../../random.js';
import type { Evaluation } from '../evaluate-rules.js';
import type { Question, Reader } from '../question.js';
import { mean } from '../smoothing.js';
import type { TraineeTypes } from '../trainee.js';
import { renderPrompt } from './prompt.js';

/** Most orders in which a menu is shown. */
export const MOST_ORDERS = 6;

/** Orders, each a list of the options' places in the menu: all rotations, or 6 drawn by seed. */
export function cyclicOrders(
  options: number,
  drawn: { readonly seed: bigint; readonly iteration: number; readonly rule: string },
): number[][] {
  const places = Array.from({ length: options }, (_, i) => i);
  const rotation = (by: number): number[] => places.map((i) => (i + by) % options);
  if (options <= MOST_ORDERS) return places.map(rotation);
  const random = new Random(
    deriveSeed({
      runSeed: drawn.seed,
      purpose: 'decider orders',
      iteration: drawn.iteration,
      problemId: drawn.rule,
      sample: 0,
    }),
  );
  const left = [...places];
  const chosen = Array.from(
    { length: MOST_ORDERS },
    () => left.splice(random.nextInteger(0, left.length - 1), 1)[0]!,
  );
  return chosen.sort((a, b) => a - b).map(rotation);
}

export const ordersOf = <T extends TraineeTypes>(
  { context: { rule, evaluations }, menu }: Question<T>,
  seed: bigint,
): number[][] =>
  cyclicOrders(menu.length, {
    seed,
    iteration: (evaluations.at(-1) as Evaluation).iteration,
    rule,
  });

/** What a model was read as: for each order, the log-probability of each letter, in nats. */
const readout = z.strictObject({
  orders: z.array(z.array(z.int().min(0))),
  logProbabilities: z.array(z.array(z.number().max(1e-3))),
});
export type Readout = z.output<typeof readout>;

/** Probabilities of the options, by their places in the menu; rows are normalised first. */
export function optionProbabilities({ orders, logProbabilities }: Readout): number[] {
  const rows = orders.map((order, k) => {
    const row = logProbabilities[k]!;
    const largest = Math.max(...row);
    const weights = row.map((value) => Math.exp(value - largest));
    const sum = weights.reduce((a, b) => a + b, 0);
    return order.map((_, option) => weights[order.indexOf(option)]! / sum);
  });
  return rows[0]!.map((_, option) => mean(rows.map((row) => row[option]!)));
}

const best = (values: readonly number[]): number => values.indexOf(Math.max(...values));

export interface ReadoutOptions {
  readonly seed: bigint;
  /** Least lead over the next option, in probability; below it the script answers. */
  readonly margin: number;
  readonly feedback: string | null;
}

export const readoutReader = <T extends TraineeTypes>(
  commitment: Reader['commitment'],
  { seed, margin: least, feedback }: ReadoutOptions,
): Reader<T> => ({
  source: 'model',
  commitment,
  render: (context, menu) => renderPrompt(context, menu, { form: 'letter', feedback }),
  read(question, reply) {
    const parsed = readout.safeParse(reply);
    const expected = ordersOf(question, seed);
    if (
      !parsed.success ||
      JSON.stringify(parsed.data.orders) !== JSON.stringify(expected) ||
      parsed.data.logProbabilities.length !== expected.length ||
      parsed.data.logProbabilities.some(({ length }) => length !== question.menu.length)
    )
      return { choice: null, reason: 'the reply is not a readout of this menu in its orders' };
    const probabilities = optionProbabilities(parsed.data);
    const chosen = best(probabilities);
    const second = Math.max(0, ...probabilities.filter((_, option) => option !== chosen));
    const margin = probabilities[chosen]! - second;
    if (margin < least)
      return {
        choice: null,
        reason: `the margin of ${margin.toPrecision(3)} is below ${least}`,
      };
    const firsts = parsed.data.logProbabilities.map((row, k) => expected[k]![best(row)]);
    return {
      choice: question.menu[chosen]!.id,
      margin,
      agreement: firsts.filter((option) => option === chosen).length / firsts.length,
    };
  },
});
