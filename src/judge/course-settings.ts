import { z } from 'zod';
import type { RunStart } from '../run-folder/manifest.js';
import { byPart } from '../run-folder/written-settings.js';
import { failing } from './hard-fail.js';

const fail = failing('course_verification');

const count = (most: number) => z.int().min(1).max(most);

/** The bounds are those of the settings of `run` (src/training/settings.ts). */
const settingsForm = z.looseObject({
  seed: z.string().regex(/^\d{1,20}$/),
  iterations: count(1000),
  maxMinutes: z.number().gt(0).optional(),
  model: z.looseObject({ threads: count(1024), maxSequences: count(253) }),
  sampling: z.looseObject({
    rollouts: count(1_000_000),
    samples: count(1024),
    temperature: z.number().gt(0),
    topP: z.number().gt(0).max(1),
    maxTokens: count(100_000),
    style: z.string(),
    allocation: z.enum(['adaptive', 'uniform']),
    allocationFloor: z.number().min(0).max(1),
  }),
  buffer: z.looseObject({
    kind: z.enum(['balanced', 'classic']),
    accept: z.string(),
    tierCap: count(1_000_000),
    newShare: z.number().min(0).max(1),
    accumulate: z.boolean(),
  }),
  optimiser: z.looseObject({
    stepsPerIteration: count(100_000),
    batchSize: count(4096),
    learningRate: z.number().gt(0).max(1),
    warmupSteps: z.int().min(0),
  }),
  evaluation: z.looseObject({ devSize: count(20), testSize: count(100) }),
});
export type CourseSettings = z.output<typeof settingsForm>;

/**
 * Reads the settings that the judge follows the course with.
 * @throws HardFail if they are not the settings of a run or contradict the rest of its start
 */
export function courseSettings({ settings, sets, evaluation, schedule }: RunStart): CourseSettings {
  const parsed = settingsForm.safeParse(byPart(settings));
  if (!parsed.success)
    return fail(`the settings are not valid settings of a run: ${z.prettifyError(parsed.error)}`);
  const { data } = parsed;
  const pairs: [string, unknown, unknown][] = [
    ['dev problems of each tier', sets.dev.perTier, data.evaluation.devSize],
    ['test problems of each tier', sets.test.perTier, data.evaluation.testSize],
    ['tokens of a reply', evaluation.maxTokens, data.sampling.maxTokens],
    ['style of prompts', evaluation.style, data.sampling.style],
    ['samples decoded at once', evaluation.maxSequences, data.model.maxSequences],
    ['threads', evaluation.threads, data.model.threads],
    ['warm-up steps', schedule.warmupSteps, data.optimiser.warmupSteps],
  ];
  for (const [what, said, set] of pairs)
    if (said !== set)
      fail(`${what}: the run has ${String(said)}, but its settings have ${String(set)}`);
  return data;
}
