/**
 * A clipped policy gradient on this iteration's rollouts, with the same adapter and budget.
 * Advantages are those of group-relative policy optimisation (GRPO, Shao et al. 2024, arXiv
 * 2402.03300 §4.1.2), and so is the estimate of the divergence from the base model; the loss is not
 * theirs, which gives each reply the same weight, but the mean over all tokens of a step, as in
 * DAPO (Yu et al. 2025, arXiv 2503.14476 §3.3).
 */
import { z } from 'zod';
import { advantages } from '../engine/group-advantages.js';
import type { Objective, TrainSequence } from '../engine/trainer.js';
import { given } from '../given.js';
import { ofSampled } from '../rollouts/episode.js';
import { fates, onPolicyProblems, problems, rarity, unusable } from './admission.js';
import { algorithm, type Group, type Sample } from './algorithm.js';
import { keyedRollouts } from './sequences.js';
import { chunks, shuffledBatches, takeSteps, temperedLogprobs } from './steps.js';
import { seededRandom } from '../random.js';

/** Differences between the variants. */
interface Variant {
  /** True if the centred rewards of a group are divided by their standard deviation. */
  readonly standardised: boolean;
  /** Divisor of the sum over the tokens of a step. */
  readonly divisor: 'tokens' | 'longest replies' | 'replies';
  readonly clipLow: number;
  readonly clipHigh: number;
}

const VARIANTS = {
  /** Advantages and clip as in Shao et al., the mean over tokens as in DAPO. */
  grpo: { standardised: true, divisor: 'tokens', clipLow: 0.2, clipHigh: 0.2 },
  /**
   * Dr. GRPO (Liu et al. 2025, arXiv 2503.20783 §3.2): advantages are not divided by the deviation,
   * which favours problems that are all but always or never solved; each reply's sum is divided by
   * a constant, the longest reply that is allowed, so that long wrong replies do not weigh less a
   * token than short ones.
   */
  'dr-grpo': { standardised: false, divisor: 'longest replies', clipLow: 0.2, clipHigh: 0.2 },
  /**
   * DAPO (Yu et al. 2025, arXiv 2503.14476): the ratio may rise further than it may fall (§3.1,
   * values of §4.1), groups that agree are left out (§3.2; what they leave free goes to further
   * passes, and no others are sampled for them), a mean over tokens (§3.3).
   */
  dapo: { standardised: true, divisor: 'tokens', clipLow: 0.2, clipHigh: 0.28 },
  /**
   * GSPO (Zheng et al. 2025, arXiv 2507.18071 §4.1): one ratio a reply, the geometric mean of its
   * tokens' ratios, clipped as a whole (values of §5.1); a mean over replies.
   */
  gspo: { standardised: true, divisor: 'replies', clipLow: 3e-4, clipHigh: 4e-4 },
} as const satisfies Record<string, Variant>;
const VARIANT_IDS = Object.keys(VARIANTS) as (keyof typeof VARIANTS)[];
const isVariant = (id: unknown): id is keyof typeof VARIANTS =>
  typeof id === 'string' && Object.hasOwn(VARIANTS, id);

const REWARDS = ['verdict', 'score'] as const;

/**
 * Returns 1 for a pass and 0 for a failure, or the task's own score in [0, 1] if it gives one; null
 * without a verdict.
 */
function rewardOf(
  { verdict: { kind, score } }: Sample,
  reward: (typeof REWARDS)[number],
): number | null {
  if (kind === 'none') return null;
  return (reward === 'score' ? score : undefined) ?? (kind === 'pass' ? 1 : 0);
}

/**
 * Returns the advantages of the rollouts to train on. A truncated rollout counts in its group's
 * mean but is not trained on; a group with equal rewards has no gradient.
 */
function contrasts<S extends Sample>(
  { rollouts }: Pick<Group<S>, 'rollouts'>,
  { standardised }: Variant,
  reward: (typeof REWARDS)[number],
): ReadonlyMap<S, number> {
  const rewards = rollouts.map((rollout) => rewardOf(rollout, reward));
  const informative = new Set(rewards.filter((each) => each !== null)).size > 1;
  if (!informative) return new Map();
  const values = advantages(rewards, standardised);
  return new Map(
    rollouts.flatMap((rollout, i): [S, number][] =>
      unusable(rollout) === null ? [[rollout, values[i]!]] : [],
    ),
  );
}

interface RatioOf {
  readonly advantage: number;
  /** Log-probabilities of its tokens. */
  readonly old: Float32Array;
  readonly now: Float32Array;
}

/**
 * Computes a GSPO step. With s the ratio of a reply, the loss is -min(s A, clip(s) A) and the slope
 * in each of its tokens is -s A / length, 0 if the minimum is the clipped value; a mean over
 * replies. The trainer divides by the tokens of the step, which the weights undo.
 */
export function replyRatios(
  replies: readonly RatioOf[],
  { clipLow, clipHigh }: { readonly clipLow: number; readonly clipHigh: number },
): {
  readonly weights: number[];
  readonly loss: number;
  readonly clipFraction: number;
  readonly oldPolicyGap: number;
} {
  const tokens = replies.reduce((sum, { now }) => sum + now.length, 0);
  let [loss, clippedTokens, gap] = [0, 0, 0];
  const weights = replies.map(({ advantage, old, now }) => {
    const differences = [...now].map((value, t) => value - old[t]!);
    const ratio = Math.exp(differences.reduce((sum, value) => sum + value, 0) / now.length);
    const bounded = Math.min(1 + clipHigh, Math.max(1 - clipLow, ratio));
    const clipped = bounded * advantage < ratio * advantage;
    loss -= Math.min(ratio * advantage, bounded * advantage) / replies.length;
    if (clipped) clippedTokens += now.length;
    gap += differences.reduce((sum, value) => sum + Math.abs(value), 0);
    return clipped ? 0 : (ratio * tokens) / (replies.length * now.length);
  });
  return { weights, loss, clipFraction: clippedTokens / tokens, oldPolicyGap: gap / tokens };
}

export const grpo = algorithm({
  id: 'grpo',
  title: 'policy gradient with GRPO advantages and a mean over tokens',
  settings: z.object({
    variant: z
      .enum(VARIANT_IDS)
      .default('grpo')
      .describe(
        'grpo: variant of the advantages, the mean over tokens and the clip; see docs/training.md',
      ),
    reward: z
      .enum(REWARDS)
      .default('verdict')
      .describe(
        "grpo: reward that is compared within a group: pass or fail, or the task's score in [0, 1] if it has one",
      ),
    klCoefficient: z
      .number()
      .min(0)
      .max(100)
      .default(0)
      .describe('grpo: weight of the KL divergence from the base model'),
    clipLow: z
      .number()
      .gt(0)
      .lt(1)
      .default(0.2)
      .describe('grpo: lower clip: the ratio is clipped below 1 - this'),
    clipHigh: z
      .number()
      .gt(0)
      .max(10)
      .default(0.2)
      .describe('grpo: upper clip: the ratio is clipped above 1 + this'),
  }),
  readsReasoning: () => false,

  defaults: ({ variant }) => {
    if (!isVariant(variant)) return {};
    const { clipLow, clipHigh } = VARIANTS[variant];
    return { clipLow, clipHigh };
  },

  contradictions: (settings) =>
    problems([
      [
        settings.sampling.samples < 2,
        'sampling.samples: grpo compares the samples of a problem: set it to at least 2',
      ],
      ...onPolicyProblems('grpo', settings),
      [
        settings.algorithm.variant === 'gspo' && settings.algorithm.klCoefficient > 0,
        'algorithm.klCoefficient: gspo has no KL term: set it to 0',
      ],
    ]),

  admit: (groups, { settings }) =>
    fates(groups, (group) => {
      const { variant, reward } = settings.algorithm;
      const advantageOf = contrasts(group, VARIANTS[variant], reward);
      return {
        weight: rarity(group),
        fateOf: (rollout) => {
          const advantage = advantageOf.get(rollout);
          return advantage === undefined
            ? { admission: 'uninformative' }
            : { admission: 'contrasted', advantage };
        },
      };
    }),

  /**
   * Takes the iteration's step budget on its own samples, in as many shuffled passes as it allows,
   * at most four. Old log-probabilities are the trainer's own before the first update, so the first
   * ratio is exactly 1.
   */
  async learn(context) {
    const { trainer, boundaries, groups, settings, iteration, batchSize, signal } = context;
    const { temperature, maxTokens } = settings.sampling;
    const { stepsPerIteration } = settings.optimiser;
    const { clipLow, clipHigh, klCoefficient } = settings.algorithm;
    const variant = VARIANTS[settings.algorithm.variant];
    const advantageOf = new Map(
      groups.flatMap((group) => [...contrasts(group, variant, settings.algorithm.reward)]),
    );
    const samples = keyedRollouts(groups, iteration).filter(({ rollout }) =>
      advantageOf.has(rollout),
    );
    if (samples.length === 0) return [];
    const measured = { temperature, ...given({ signal }) };
    const old = new Map<string, Pick<TrainSequence, 'oldLogprobs' | 'referenceLogprobs'>>();
    for (const part of chunks(samples, batchSize)) {
      const sequences = await boundaries.sequences(part, signal);
      const before = await temperedLogprobs(trainer, sequences, measured);
      const base =
        klCoefficient > 0
          ? await temperedLogprobs(trainer, sequences, { ...measured, adapter: false })
          : null;
      for (const [index, { key }] of part.entries())
        old.set(key, {
          oldLogprobs: before[index]!,
          ...(base === null ? {} : { referenceLogprobs: base[index]! }),
        });
    }
    const random = seededRandom(BigInt(settings.seed), 'policy gradient', iteration);
    const objective: Objective = { kind: 'policy', temperature, clipLow, clipHigh, klCoefficient };
    return takeSteps(context, shuffledBatches(samples, stepsPerIteration, batchSize, random), {
      objective,
      prepare: async (sequences, batch) => {
        const tokens = batch.reduce((sum, { rollout }) => sum + rollout.tokenIds.length, 0);
        const advantaged = sequences.map((sequence, i) => ({
          ...sequence,
          advantages: new Float32Array(sequence.tokenIds.length).fill(
            advantageOf.get(batch[i]!.rollout)!,
          ),
        }));
        if (variant.divisor === 'replies') {
          const now = await temperedLogprobs(trainer, sequences, measured);
          const { weights, ...found } = replyRatios(
            batch.map(({ key, rollout, episode }, i) => ({
              advantage: advantageOf.get(rollout)!,
              old: ofSampled(episode, old.get(key)!.oldLogprobs!),
              now: ofSampled(episode, now[i]!),
            })),
            { clipLow, clipHigh },
          );
          // without old log-probabilities a token's ratio is 1, and its slope the weight that its
          // reply gives it
          return {
            sequences: advantaged.map((sequence, i) => ({ ...sequence, weight: weights[i]! })),
            statistics: found,
          };
        }
        // the trainer divides by the tokens of the step
        const weight =
          variant.divisor === 'tokens' ? {} : { weight: tokens / (batch.length * maxTokens) };
        return {
          sequences: advantaged.map((sequence, i) => ({
            ...sequence,
            ...old.get(batch[i]!.key),
            ...weight,
          })),
        };
      },
    });
  },
});
