/**
 * A clipped policy gradient on this iteration's rollouts, with the same adapter and budget. Advantages are those of group-relative policy
 * optimisation (GRPO, Shao et al. 2024, arXiv 2402.03300 §4.1.2), and so is the estimate of the divergence from the base model; the loss is
 * not theirs, which gives each reply the same weight, but the mean over all tokens of a step, as in DAPO (Yu et al. 2025, arXiv 2503.14476
 * §3.3).
 */
import type { Objective, StepStatistics, TrainSequence } from '../engine/trainer.js';
import { deriveSeed, Random } from '../random.js';
import type { RolloutGroup } from '../rollouts/sample.js';
import { contrasts } from '../run-folder/admission.js';
import { temperedLogprobs } from './learner.js';
import { chunks, microBatches, type LearningContext } from './likelihood.js';
import { keyedRollouts } from './policy-shift.js';

/**
 * The iteration's step budget on its own samples, in as many shuffled passes as it allows, at most four. Old log-probabilities are the
 * trainer's own before the first update, so the first ratio is exactly 1.
 * @throws as Trainer.step
 */
export async function learnByPolicyGradient(context: LearningContext, groups: readonly RolloutGroup[]): Promise<StepStatistics[]> {
  const { trainer, boundaries, settings, iteration, batchSize, signal, onBatch, onStep } = context;
  const advantageOf = contrasts(groups);
  const samples = keyedRollouts(groups, iteration).filter(({ rollout }) => advantageOf.has(rollout));
  if (samples.length === 0) return [];
  const cancel = signal === undefined ? {} : { signal };
  const objective = {
    kind: 'policy' as const,
    temperature: settings.temperature,
    clipLow: settings.clipLow,
    clipHigh: settings.clipHigh,
    klCoefficient: settings.klCoefficient,
  } satisfies Objective;
  const old = new Map<string, Pick<TrainSequence, 'oldLogprobs' | 'referenceLogprobs'>>();
  for (const part of chunks(samples, batchSize)) {
    const sequences = await boundaries.sequences(part, signal);
    const before = await temperedLogprobs(trainer, sequences, { temperature: settings.temperature, ...cancel });
    const base =
      settings.klCoefficient > 0
        ? await temperedLogprobs(trainer, sequences, { temperature: settings.temperature, adapter: false, ...cancel })
        : null;
    for (const [index, { key }] of part.entries()) {
      old.set(key, { oldLogprobs: before[index]!, ...(base === null ? {} : { referenceLogprobs: base[index]! }) });
    }
  }
  const random = new Random(
    deriveSeed({ runSeed: BigInt(settings.seed), purpose: 'policy gradient', iteration, problemId: '', sample: 0 }),
  );
  const order: typeof samples = [];
  for (let pass = 0; pass < 4 && order.length < settings.stepsPerIteration * batchSize; pass++) order.push(...random.shuffle(samples));
  const batches = chunks(order, batchSize).slice(0, settings.stepsPerIteration);
  const statistics: StepStatistics[] = [];
  for (const [step, batch] of batches.entries()) {
    const sequences = (await boundaries.sequences(batch, signal)).map((sequence, index): TrainSequence => {
      const { key, rollout } = batch[index]!;
      return { ...sequence, ...old.get(key), advantages: new Float32Array(sequence.tokenIds.length).fill(advantageOf.get(rollout)!) };
    });
    onBatch?.(sequences);
    const parts = microBatches(
      sequences.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
      sequences.length,
    );
    const stats = await trainer.step(sequences, { objective, ...(parts === undefined ? {} : { microBatches: parts }), ...cancel });
    statistics.push(stats);
    onStep?.(stats, step + 1, batches.length);
  }
  return statistics;
}
