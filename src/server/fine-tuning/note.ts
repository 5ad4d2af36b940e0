/** Note that is kept with a job that was created as a fine-tuning job. */
import { z } from 'zod';

const note = z.object({
  fineTuning: z.object({
    model: z.string(),
    training_file: z.string(),
    validation_file: z.string().nullable(),
    method: z.record(z.string(), z.unknown()),
    hyperparameters: z.record(z.string(), z.unknown()),
    seed: z.number(),
    suffix: z.string().nullable(),
    metadata: z.record(z.string(), z.string()).nullable(),
  }),
});
export type FineTuningNote = z.output<typeof note>['fineTuning'];

/** Note of a fine-tuning job; null for other jobs. */
export const readNote = (value: unknown): FineTuningNote | null =>
  note.safeParse(value).data?.fineTuning ?? null;
