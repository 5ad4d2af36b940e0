/**
 * Direct preference optimisation (Rafailov et al. 2023, arXiv 2305.18290 §4): of a pair, -log
 * sigmoid(beta (u_chosen - u_rejected)), where u = log p(reply | prompt) - log p_reference(reply |
 * prompt) in sums over the reply's tokens, its end included. The reference is the base model,
 * without the adapter. The gradient is that of a weighted likelihood (the paper's §4, "What does
 * the DPO update do?"):
 * -beta sigmoid(-beta (u_chosen - u_rejected)) times that of log p(chosen), less that of log
 * p(rejected). So a step is a forward pass for the weights, and a step of the trainer with them.
 */
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import type { CallOptions, Figures, Learning } from './fine-tuning.js';
import type { PreferencePair } from './preference-pairs.js';
import type { Trainer } from '../engine/trainer.js';

/** Sums of log-probabilities of the two replies of a pair, nats. */
export interface PairLogprobs {
  readonly chosen: number;
  readonly rejected: number;
}

export interface PairLoss {
  readonly loss: number;
  /** d loss / d log p(chosen); that of log p(rejected) is its opposite. */
  readonly slope: number;
  /** Figures under TRL's names; rewards are beta u. */
  readonly figures: Figures;
}

/** @param beta how strongly the trained model is held to the reference */
export function pairLoss(trained: PairLogprobs, reference: PairLogprobs, beta: number): PairLoss {
  const chosen = beta * (trained.chosen - reference.chosen);
  const rejected = beta * (trained.rejected - reference.rejected);
  const margin = chosen - rejected;
  // log(1 + exp(-margin)) and its slope, where no exponential overflows
  const small = Math.exp(-Math.abs(margin));
  const loss = Math.log1p(small) + Math.max(0, -margin);
  const slope = (-beta * (margin >= 0 ? small : 1)) / (1 + small);
  return {
    loss,
    slope,
    figures: {
      'rewards/chosen': chosen,
      'rewards/rejected': rejected,
      'rewards/margins': margin,
      'rewards/accuracies': chosen > rejected ? 1 : 0,
      'logps/chosen': trained.chosen,
      'logps/rejected': trained.rejected,
    },
  };
}

const sequencesOf = (pairs: readonly PreferencePair[]) =>
  pairs.flatMap(({ chosen, rejected }) => [chosen, rejected]);

/**
 * Returns the log-probabilities under the current model, or under the base model.
 * @throws as Trainer.evaluate
 */
export async function pairLogprobs(
  trainer: Trainer,
  pairs: readonly PreferencePair[],
  options: CallOptions & { readonly adapter?: boolean },
): Promise<PairLogprobs[]> {
  const { sequences } = await trainer.evaluate(sequencesOf(pairs), options);
  if (sequences.some(({ loss }) => !Number.isFinite(loss)))
    throw new IsoproError('NUMERIC_FAILURE', 'log-probabilities are not finite');
  const sums = sequences.map(({ logprobs }) => logprobs.reduce((sum, value) => sum + value, 0));
  return pairs.map((_, i) => ({ chosen: sums[2 * i]!, rejected: sums[2 * i + 1]! }));
}

export type OnReference = (done: number, total: number) => void;

/**
 * Returns the log-probabilities of all pairs under the base model, without the adapter.
 * @throws as Trainer.evaluate
 */
export async function referenceLogprobs(
  trainer: Trainer,
  pairs: readonly PreferencePair[],
  {
    batchSize,
    signal,
    onReference,
  }: CallOptions & { readonly batchSize: number; readonly onReference?: OnReference },
): Promise<ReadonlyMap<PreferencePair, PairLogprobs>> {
  const references = new Map<PreferencePair, PairLogprobs>();
  for (let from = 0; from < pairs.length; from += batchSize) {
    const batch = pairs.slice(from, from + batchSize);
    const logprobs = await pairLogprobs(trainer, batch, {
      adapter: false,
      ...given({ signal }),
    });
    batch.forEach((pair, i) => {
      references.set(pair, logprobs[i]!);
    });
    onReference?.(references.size, pairs.length);
  }
  return references;
}

/** @param reference of every pair that is trained on or measured */
export function dpo(
  trainer: Trainer,
  reference: ReadonlyMap<PreferencePair, PairLogprobs>,
  beta: number,
): Learning<PreferencePair> {
  const lossesOf = async (
    pairs: readonly PreferencePair[],
    options: CallOptions,
  ): Promise<PairLoss[]> =>
    (await pairLogprobs(trainer, pairs, options)).map((trained, i) =>
      pairLoss(trained, reference.get(pairs[i]!)!, beta),
    );
  const sum = (losses: readonly PairLoss[]): { loss: number; figures: Figures } => ({
    loss: losses.reduce((total, { loss }) => total + loss, 0),
    figures: Object.fromEntries(
      Object.keys(losses[0]!.figures).map((name) => [
        name,
        losses.reduce((total, { figures }) => total + figures[name]!, 0),
      ]),
    ),
  });
  return {
    trainer,
    async step(pairs, options) {
      const losses = await lossesOf(pairs, options);
      const sequences = sequencesOf(pairs);
      // the trainer divides by the labelled tokens; the loss is a mean over pairs
      const tokens = sequences.reduce(
        (total, { labelMask }) => total + labelMask.reduce((count, label) => count + label, 0),
        0,
      );
      const weighted = sequences.map((sequence, i) => {
        const { slope } = losses[i >> 1]!;
        return { ...sequence, weight: ((i % 2 === 0 ? -slope : slope) * tokens) / pairs.length };
      });
      const stats = await trainer.step(weighted, options);
      const { loss, figures } = sum(losses);
      const mean = (total: number): number => total / pairs.length;
      return {
        stats: { ...stats, loss: mean(loss) },
        figures: Object.fromEntries(
          Object.entries(figures).map(([name, total]) => [name, mean(total)]),
        ),
      };
    },
    measure: async (pairs, options) => ({
      ...sum(await lossesOf(pairs, options)),
      count: pairs.length,
    }),
  };
}
