/**
 * On-policy distillation (Agarwal et al. 2024, arXiv 2306.13649; Gu et al. 2024, arXiv 2306.08543):
 * pulls the student towards a teacher on the student's own samples. The loss is the reverse
 * divergence KL(student || teacher) of each next token. Its gradient is a policy gradient in which
 * every sampled token has its own advantage, log p_teacher - log p_student. In the mean over
 * samples, the score function times 1 vanishes, and so does that of any baseline; what remains is
 * the gradient of the divergence. (The trainer's k3 term does not work here: as a loss it has the
 * gradient of the forward divergence.)
 */
import { z } from 'zod';
import type { Objective } from '../engine/trainer.js';
import { given } from '../given.js';
import { lossMask, ofSampled } from '../rollouts/episode.js';
import { fates, onPolicyProblems, problems, rarity, unusable } from './admission.js';
import { algorithm } from './algorithm.js';
import { keyedRollouts } from './sequences.js';
import { chunks, shuffledBatches, takeSteps, temperedLogprobs } from './steps.js';
import { seededRandom } from '../random.js';

/** Returns log p_teacher - log p_student by sampled token. */
export const margins = (student: Float32Array, teacher: Float32Array): Float32Array =>
  teacher.map((value, t) => value - student[t]!);

/**
 * Returns the reverse divergence per token as samples estimate it: the mean of -margin over all of
 * them; 0 without samples.
 */
export function sampledDivergence(samples: readonly Float32Array[]): number {
  const tokens = samples.reduce((sum, { length }) => sum + length, 0);
  return tokens === 0
    ? 0
    : -samples.reduce((sum, row) => sum + row.reduce((total, margin) => total + margin, 0), 0) /
        tokens;
}

/**
 * Subtracts the mean at the same place in the reply, over the samples of an iteration. A baseline
 * keeps the mean of the gradient (up to (n - 1) / n, since a sample counts in its own). Without it
 * nearly every sampled token would be pushed down, in favour of tokens that neither model says: the
 * mean margin is minus the divergence.
 */
export function centred(rows: readonly Float32Array[]): Float32Array[] {
  const means = Array.from({ length: Math.max(0, ...rows.map(({ length }) => length)) }, (_, t) => {
    const there = rows.filter(({ length }) => length > t);
    return there.reduce((sum, row) => sum + row[t]!, 0) / there.length;
  });
  return rows.map((row) => row.map((margin, t) => margin - means[t]!));
}

/**
 * Loss over the sampled tokens with margins m: the reverse divergence; the mean of m over tokens
 * that the teacher finds more likely; the mean of |m| over tokens where the two differ. The last
 * two pull every such token equally: imitation token by token.
 */
export const PRESSURES = ['reverse-kl', 'positive', 'absolute'] as const;
export type Pressure = (typeof PRESSURES)[number];

/** Sign of a token's pull; 0 if it is not pulled. */
const PULL: Readonly<Record<Exclude<Pressure, 'reverse-kl'>, (margin: number) => number>> = {
  positive: (margin) => Number(margin > 0),
  absolute: Math.sign,
};

/**
 * Returns the advantages of the sampled tokens. The trainer's mean is over all of them, so the
 * fewer tokens count, the more each weighs.
 */
export function advantagesOf(rows: readonly Float32Array[], pressure: Pressure): Float32Array[] {
  if (pressure === 'reverse-kl') return centred(rows);
  const pulled = rows.map((row) => row.map(PULL[pressure]));
  const counted = pulled.reduce(
    (sum, row) => sum + row.reduce((count, pull) => count + Math.abs(pull), 0),
    0,
  );
  const tokens = rows.reduce((sum, { length }) => sum + length, 0);
  const scale = counted === 0 ? 0 : tokens / counted;
  return pulled.map((row) => row.map((pull) => scale * pull));
}

/** Returns the loss as samples estimate it; 0 if no token counts. */
export function pressureOf(rows: readonly Float32Array[], pressure: Pressure): number {
  if (pressure === 'reverse-kl') return sampledDivergence(rows);
  const counted = rows.flatMap((row) => [...row].filter((margin) => PULL[pressure](margin) !== 0));
  return counted.length === 0
    ? 0
    : counted.reduce((sum, margin) => sum + Math.abs(margin), 0) / counted.length;
}

/** Clip of the ratio once the policy has moved. */
const CLIP = 0.2;

export const distill = algorithm({
  id: 'distill',
  title: "on-policy distillation: learn from a teacher on the model's own samples",
  settings: z.object({
    teacher: z
      .string()
      .min(1)
      .optional()
      .describe('distill: teacher model, named like --model; it must have the same vocabulary')
      .meta({ names: 'model' }),
    teacherExamples: z
      .int()
      .min(1)
      .max(64)
      .optional()
      .describe("distill: solved examples in the teacher's prompt (the student sees none)"),
    headroom: z
      .number()
      .min(0)
      .max(1)
      .default(0.05)
      .describe(
        'distill: minimum lead of the teacher over the model on the dev problems; with a smaller lead, the run does not start',
      ),
    pressure: z
      .enum(PRESSURES)
      .default('reverse-kl')
      .describe(
        'distill: loss on sampled tokens: reverse KL, or the positive or absolute log-ratio to the teacher',
      ),
  }),
  contradictions: (settings) =>
    problems([
      [
        settings.algorithm.teacher === undefined,
        'algorithm.teacher: distill needs a teacher: name a model',
      ],
      ...onPolicyProblems('distill', settings),
    ]),
  readsReasoning: () => false,

  admit: (groups) =>
    fates(groups, (group) => ({
      weight: rarity(group),
      fateOf: () => ({ admission: 'distilled' }),
    })),

  /**
   * Takes the iteration's step budget on its own samples. Both models' log-probabilities are
   * measured before the first update, at the temperature of the rollouts; later steps weigh a token
   * by the clipped change of its probability.
   */
  async learn(context) {
    const { trainer, boundaries, groups, settings, iteration, batchSize, teacher, signal } =
      context;
    if (teacher === undefined) throw new RangeError('distillation without a teacher');
    const { temperature } = settings.sampling;
    const { pressure } = settings.algorithm;
    const samples = keyedRollouts(groups, iteration).filter(
      ({ rollout }) => unusable(rollout) === null,
    );
    if (samples.length === 0) return [];
    const measured = { temperature, ...given({ signal }) };
    const [logprobs, differences]: [Float32Array[], Float32Array[]] = [[], []];
    for (const part of chunks(samples, batchSize)) {
      const sequences = await boundaries.sequences(part, signal);
      const own = await temperedLogprobs(trainer, sequences, measured);
      const taught = await teacher.logprobs(part, measured);
      logprobs.push(...own);
      differences.push(
        ...part.map(({ episode }, i) => margins(ofSampled(episode, own[i]!), taught[i]!)),
      );
    }
    const known = new Map(
      advantagesOf(differences, pressure).map((advantages, i) => [
        samples[i]!.key,
        { oldLogprobs: logprobs[i]!, margins: differences[i]!, advantages },
      ]),
    );
    const random = seededRandom(BigInt(settings.seed), 'distillation', iteration);
    const objective: Objective = { kind: 'policy', temperature, clipLow: CLIP, clipHigh: CLIP };
    const { stepsPerIteration } = settings.optimiser;
    return takeSteps(context, shuffledBatches(samples, stepsPerIteration, batchSize, random), {
      objective,
      prepare: async (sequences, batch) => {
        const rows = batch.map(({ key }) => known.get(key)!);
        const advantaged = sequences.map((sequence, i) => ({
          ...sequence,
          oldLogprobs: rows[i]!.oldLogprobs,
          advantages: spread(lossMask(batch[i]!.episode), rows[i]!.advantages),
        }));
        const all = rows.map((row) => row.margins);
        return { sequences: advantaged, statistics: { loss: pressureOf(all, pressure) } };
      },
    });
  },
});

/** Puts each value at the place of its sampled token; 0 elsewhere. */
function spread(mask: Uint8Array, values: Float32Array): Float32Array {
  let next = 0;
  return Float32Array.from(mask, (sampled) => (sampled === 1 ? values[next++]! : 0));
}
