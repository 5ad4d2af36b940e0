/** What is kept beside a job that was asked for as a fine-tuning job. */
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

/** Null where the job was not asked for so. */
export const readNote = (value: unknown): FineTuningNote | null =>
  note.safeParse(value).data?.fineTuning ?? null;
