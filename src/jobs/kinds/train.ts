import { existsSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { flags, jobKind } from './kind.js';
import { memoryOf, TRAINER_BYTES } from '../../operations/memory.js';
import { count, maxTokens, model, seed } from './members.js';

const settings = z.strictObject({
  model,
  data: z
    .string()
    .min(1)
    .max(200)
    .describe('id of an uploaded file of examples, or of preference pairs'),
  validationData: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('id of an uploaded file to measure the loss on, in place of a share'),
  objective: z
    .enum(['sft', 'dpo'])
    .optional()
    .describe('sft (default): the likelihood of the examples; dpo: preference pairs'),
  beta: z
    .number()
    .gt(0)
    .max(1000)
    .optional()
    .describe('dpo: how strongly the model is held to the base; default: 0.1'),
  rank: count(1024).optional().describe('directions of each factor pair; default: 8'),
  alpha: z
    .number()
    .gt(0)
    .max(100_000)
    .optional()
    .describe('the adapter is scaled by alpha / rank; default: 16'),
  top: count(1000).optional().describe('train the top layers only; default: all'),
  lr: z.number().gt(0).max(1).optional().describe('learning rate; default: 2e-4, dpo: 2e-5'),
  schedule: z
    .enum(['constant', 'linear', 'cosine'])
    .optional()
    .describe('of the learning rate; default: cosine'),
  epochs: count(1000).optional().describe('passes over the file; default: 1'),
  batch: count(4096).optional().describe('examples or pairs a step; default: 8'),
  validation: z
    .number()
    .min(0)
    .lt(1)
    .optional()
    .describe('share that is kept apart; default: 0.1 of 100 examples or more'),
  validateEvery: count(1_000_000)
    .optional()
    .describe('steps between two measurements; default: a tenth of them'),
  patience: z
    .int()
    .min(0)
    .max(1_000_000)
    .optional()
    .describe('stop after so many measurements without a lower loss; 0: never; default: 3'),
  maxTokens,
  seed,
  saveEvery: count(1_000_000)
    .optional()
    .describe('steps between savings of the state; default: 25'),
  threads: count(1024).optional().describe('default: the physical cores'),
});

const outOf = (folder: string): string => path.join(folder, 'adapter.gguf');

export const train = jobKind({
  id: 'train',
  title: 'Train an adapter on a file of examples',
  settings,
  async prepare({ model: named, data, validationData, ...stated }, { names, folder }) {
    const real = names.model(named ?? names.allowed.model, 'settings.model');
    return {
      args: [
        'train',
        ...flags({
          model: real,
          data: names.file(data, 'settings.data'),
          ...(validationData !== undefined && {
            validationData: names.file(validationData, 'settings.validationData'),
          }),
          ...stated,
          out: outOf(folder),
        }),
      ],
      run: null,
      memoryBytes: await memoryOf(real, 0, TRAINER_BYTES),
      resolved: {
        ...stated,
        model: named ?? names.allowed.model,
        data,
        ...(validationData !== undefined && { validationData }),
      },
    };
  },
  again: ({ folder }) => [existsSync(`${outOf(folder)}.state`) ? '--resume' : '--force'],
  lines: 'step',
  measure: ['--dry-run'],
  adapterOf: (result) => z.object({ adapter: z.string() }).safeParse(result).data?.adapter ?? null,
});
