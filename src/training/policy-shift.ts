/**
 * Shift of the policy by an iteration's steps, measured on tokens that the earlier policy sampled.
 */
import { keyedRollouts, type KeyedRollout } from '../algorithms/sequences.js';
import type { TrainSequence } from '../engine/trainer.js';
import { deriveSeed, Random } from '../random.js';
import { ofSampled } from '../rollouts/episode.js';
import type { RolloutGroup } from '../rollouts/sample.js';

/**
 * Rollouts that are measured: a forward pass over each before the iteration's steps, and one after
 * them.
 */
export const SHIFT_PROBES = 8;

/**
 * Random rollouts of an iteration: accepted ones, or those of the first tiers, would not represent
 * the policy.
 */
export function shiftProbes(
  groups: readonly RolloutGroup[],
  runSeed: bigint,
  iteration: number,
): KeyedRollout[] {
  const random = new Random(
    deriveSeed({ runSeed, purpose: 'policy shift', iteration, problemId: '', sample: 0 }),
  );
  return random.shuffle(keyedRollouts(groups, iteration)).slice(0, SHIFT_PROBES);
}

/**
 * Mean KL(new‖old) per labelled token from samples of the old policy: r log r - (r - 1) with r =
 * p_new / p_old, which is never negative. Null where nothing was labelled.
 */
export function policyShift(
  before: readonly Float32Array[],
  after: readonly Float32Array[],
  sequences: readonly Pick<TrainSequence, 'labelMask'>[],
): number | null {
  let [sum, tokens] = [0, 0];
  for (const [i, { labelMask }] of sequences.entries()) {
    labelMask.forEach((labelled, t) => {
      if (labelled === 0) return;
      const logRatio = after[i]![t]! - before[i]![t]!;
      const ratio = Math.exp(logRatio);
      sum += ratio * logRatio - (ratio - 1);
      tokens++;
    });
  }
  return tokens === 0 ? null : sum / tokens;
}

/**
 * Mean |log p of the trainer - log p that the sampler drew by| over the sampled tokens, nats: what
 * quantised activations, f16 KV and another order of sums make of the same weights. Null without
 * tokens.
 * @param rows of the trainer with the weights that sampled, at the rollouts' temperature;
 *   `sampledLogprobs` must be of a whole distribution
 */
export function samplerGap(
  rows: readonly Float32Array[],
  probes: readonly Pick<KeyedRollout, 'episode' | 'rollout'>[],
): number | null {
  let [sum, tokens] = [0, 0];
  for (const [i, { episode, rollout }] of probes.entries()) {
    const row = ofSampled(episode, rows[i]!);
    for (const [t, logprob] of rollout.sampledLogprobs.entries())
      sum += Math.abs(row[t]! - logprob);
    tokens += row.length;
  }
  return tokens === 0 ? null : sum / tokens;
}
