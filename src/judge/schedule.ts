import type { RunStart } from '../run-folder/manifest.js';

/**
 * Returns the factor of the schedule on the base learning rate at an optimiser step (the first is
 * 1), as the trainer computes it (native/training/adamw.cpp).
 */
export function scheduleFactor(
  { schedule, warmupSteps, totalSteps, finalFactor }: RunStart['schedule'],
  step: number,
): number {
  if (step <= warmupSteps) return step / warmupSteps;
  if (schedule === 'constant' || totalSteps <= warmupSteps) return 1;
  const progress = Math.min(1, (step - warmupSteps) / (totalSteps - warmupSteps));
  return (
    finalFactor +
    (1 - finalFactor) *
      (schedule === 'linear' ? 1 - progress : (1 + Math.cos(progress * Math.PI)) / 2)
  );
}
