/** Group-relative policy optimisation (Shao et al. 2024, arXiv 2402.03300 §4.1) on this iteration's rollouts, with the same adapter and budget. */
import type { Objective, StepStatistics, TrainSequence } from '../engine/trainer.js';
import { deriveSeed, Random } from '../random.js';
import type { RolloutGroup } from '../rollouts/sample.js';
import { chunks, microBatches, type LearningContext } from './likelihood.js';

/** A complete rollout of a group in which some passed and some failed. */
interface Sample {
  readonly key: string;
  readonly promptIds: Int32Array;
  readonly tokenIds: Int32Array;
  readonly advantage: number;
}

/** Added to the standard deviation of a group's rewards. */
const EPSILON = 1e-6;

/** (reward - mean) / (standard deviation + epsilon) within each group; reward 1 for a pass, 0 for a failure, none without a verdict. */
export function advantages(rewards: readonly (0 | 1 | null)[]): (number | null)[] {
  const known: number[] = rewards.filter((reward) => reward !== null);
  const mean = known.reduce((sum, reward) => sum + reward, 0) / known.length;
  const deviation = Math.sqrt(known.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / known.length);
  return rewards.map((reward) => (reward === null ? null : (reward - mean) / (deviation + EPSILON)));
}

/** Groups whose samples differ in verdict; the others have no gradient. */
export function informativeGroups(groups: readonly RolloutGroup[]): RolloutGroup[] {
  return groups.filter(({ rollouts }) => ['pass', 'fail'].every((kind) => rollouts.some(({ verdict }) => verdict.kind === kind)));
}

function samplesOf(groups: readonly RolloutGroup[], iteration: number): Sample[] {
  return informativeGroups(groups).flatMap(({ problem, promptIds, rollouts }) => {
    const values = advantages(rollouts.map(({ verdict }) => (verdict.kind === 'none' ? null : verdict.kind === 'pass' ? 1 : 0)));
    // a reply that was cut off counts in its group's mean, but is not trained on
    return rollouts.flatMap(({ sampleIndex, tokenIds, finish }, index) => {
      const advantage = values[index];
      return advantage === null || advantage === undefined || finish !== 'stop' ? [] : [{ key: `${iteration}/${problem.id}/${sampleIndex}`, promptIds, tokenIds, advantage }];
    });
  });
}

/**
 * The iteration's step budget on its own samples, in as many shuffled passes as it allows, at most four. Old log-probabilities are the
 * trainer's own before the first update, so the first ratio is exactly 1.
 * @throws as Trainer.step
 */
export async function learnByPolicyGradient(context: LearningContext, groups: readonly RolloutGroup[]): Promise<StepStatistics[]> {
  const { trainer, boundaries, settings, iteration, batchSize, signal, onBatch, onStep } = context;
  const samples = samplesOf(groups, iteration);
  if (samples.length === 0) return [];
  const cancel = signal === undefined ? {} : { signal };
  const objective = { kind: 'policy' as const, temperature: settings.temperature, clipLow: settings.clipLow, clipHigh: settings.clipHigh, klCoefficient: settings.klCoefficient } satisfies Objective;
  const old = new Map<string, Pick<TrainSequence, 'oldLogprobs' | 'referenceLogprobs'>>();
  for (const part of chunks(samples, batchSize)) {
    // at the objective's temperature; advantages do not enter log-probabilities
    const sequences = (await boundaries.sequences(part, signal)).map((sequence) => ({ ...sequence, advantages: new Float32Array(sequence.tokenIds.length) }));
    const measured = { objective: { ...objective, klCoefficient: 0 }, ...cancel };
    const before = await trainer.evaluate(sequences, measured);
    const base = settings.klCoefficient > 0 ? await trainer.evaluate(sequences, { ...measured, adapter: false }) : null;
    for (const [index, { key }] of part.entries()) {
      old.set(key, { oldLogprobs: before.sequences[index]!.logprobs, ...(base === null ? {} : { referenceLogprobs: base.sequences[index]!.logprobs }) });
    }
  }
  const random = new Random(deriveSeed({ runSeed: BigInt(settings.seed), purpose: 'policy gradient', iteration, problemId: '', sample: 0 }));
  const order: Sample[] = [];
  for (let pass = 0; pass < 4 && order.length < settings.stepsPerIteration * batchSize; pass++) order.push(...random.shuffle(samples));
  const batches = chunks(order, batchSize).slice(0, settings.stepsPerIteration);
  const statistics: StepStatistics[] = [];
  for (const [step, batch] of batches.entries()) {
    const sequences = (await boundaries.sequences(batch, signal)).map((sequence, index): TrainSequence => {
      const { key, advantage } = batch[index]!;
      return { ...sequence, ...old.get(key), advantages: Float32Array.from(sequence.tokenIds, () => advantage) };
    });
    onBatch?.(sequences);
    const parts = microBatches(sequences.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0), sequences.length);
    const stats = await trainer.step(sequences, { objective, ...(parts === undefined ? {} : { microBatches: parts }), ...cancel });
    statistics.push(stats);
    onStep?.(stats, step + 1, batches.length);
  }
  return statistics;
}
