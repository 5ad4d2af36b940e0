import path from 'node:path';
import { z } from 'zod';
import { DOMAINS } from '../../truth-seeking/domains/index.js';
import { READOUT_REWARDS } from '../../truth-seeking/training/readout-training.js';
import { VALIDATIONS } from '../../truth-seeking/training/select.js';
import { flags, jobKind } from './kind.js';
import { contextOf, memoryOf, TRAINER_BYTES } from '../../operations/memory.js';
import { count, model, runNames, seed } from './members.js';

const idsOf = (wanted: (domain: (typeof DOMAINS)[number]) => boolean): [string, ...string[]] =>
  DOMAINS.filter(wanted).map(({ id }) => id) as [string, ...string[]];

const settings = z
  .strictObject({
    model,
    domain: z
      .array(z.enum(idsOf(({ source }) => source === 'generated')))
      .min(1)
      .optional()
      .describe('the model reasons about these, and its own beliefs are the reward; or runs'),
    runs: runNames
      .optional()
      .describe(
        'truth runs of this server, of whose trajectories the best by a score are trained on; or domain',
      ),
    by: z
      .string()
      .min(1)
      .max(500)
      .optional()
      .describe('with runs: the strategy whose scores decide'),
    part: z
      .number()
      .gt(0)
      .max(1)
      .optional()
      .describe('with runs: of each file of scores the best; default: 0.1'),
    validation: z
      .enum(VALIDATIONS)
      .optional()
      .describe('with runs: kept apart by lot; gt: of those that end on the right side alone'),
    epochs: count(1000).optional().describe('with runs: passes over the examples; default: 2'),
    reward: z
      .enum(READOUT_REWARDS)
      .optional()
      .describe('1 - Brier (accuracy), or how little the belief before tells of the change'),
    steps: count(100_000).optional().describe('optimiser steps; default: 20'),
    questions: count(1000).optional().describe('questions a step; default: 4'),
    group: z.int().min(2).max(253).optional().describe('replies to each; default: 8'),
    maxTokens: count(65_536).optional().describe('tokens of a reply; default: 128'),
    temperature: z.number().min(0).max(10).optional().describe('of the replies; default: 1'),
    trainCutOff: z.boolean().optional().describe('train on replies that were cut off, too'),
    mode: z
      .enum(['direct', 'chain-of-thought'])
      .optional()
      .describe('how it is reasoned; default: chain-of-thought'),
    lr: z.number().gt(0).max(1).optional().describe('learning rate; default: 2e-4'),
    rank: count(1024).optional().describe('directions of each factor pair; default: 8'),
    measure: z
      .int()
      .min(0)
      .max(100_000)
      .optional()
      .describe('held-out questions of each domain, before and after; default: none'),
    measureDomain: z
      .array(z.enum(idsOf(({ kind }) => kind === 'binary')))
      .min(1)
      .optional()
      .describe('domains of these questions; default: what is trained on'),
    measureSeed: seed.describe('64-bit seed of these questions'),
    seed,
    threads: count(1024).optional().describe('default: the physical cores'),
  })
  .refine(
    ({ domain, runs }) => (domain === undefined) !== (runs === undefined),
    'name domains or runs, and not both',
  )
  .refine(
    ({ runs, by }) => (runs === undefined) === (by === undefined),
    'by: say which scores of the runs decide, and only of runs',
  );

export const truthTrain = jobKind({
  id: 'truth-train',
  title: 'Train an adapter to believe what is true',
  settings,
  async prepare({ model: named, runs, ...stated }, { names, folder }) {
    const real = names.model(named ?? names.allowed.model, 'settings.model');
    return {
      args: [
        'truth',
        'train',
        ...(runs ?? []).map((each, i) => names.truthRun(each, `settings.runs.${i}`)),
        ...flags({ model: real, ...stated, out: path.join(folder, 'training') }),
      ],
      run: null,
      memoryBytes: await memoryOf(real, contextOf(real), TRAINER_BYTES),
      resolved: {
        ...stated,
        ...(runs !== undefined && { runs }),
        model: named ?? names.allowed.model,
      },
    };
  },
  adapterOf: (result) => z.object({ adapter: z.string() }).safeParse(result).data?.adapter ?? null,
});
