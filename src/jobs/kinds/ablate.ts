import path from 'node:path';
import { z } from 'zod';
import { runSettings } from '../../training/settings.js';
import { statedFlags } from '../../training/setting-names.js';
import { CONDITION_NAMES, type Condition } from '../../operations/ablation.js';
import { flags, jobKind } from './kind.js';
import { seed } from './members.js';
import { memoryOfRun, resolved, standingFor, statedSettings } from './run.js';

const own = {
  conditions: z
    .array(z.enum(CONDITION_NAMES as [Condition, ...Condition[]]))
    .min(1)
    .optional()
    .describe('what to compare with the full loop; default: all'),
  seeds: z
    .array(seed.unwrap())
    .min(1)
    .max(20)
    .optional()
    .describe('one run of each condition for each; default: 42, 123, 456'),
};

export const ablate = jobKind({
  id: 'ablate',
  title: 'The loop against itself with one thing changed, over several seeds',
  settings: z.strictObject({
    ...own,
    settings: statedSettings.optional().describe('of every run, without a seed'),
  }),
  described: z.strictObject({ ...own, settings: runSettings.omit({ seed: true }).optional() }),
  async prepare({ conditions, seeds, settings = {} }, { names, id }) {
    const { seed: _, ...stated } = standingFor(settings, names);
    const all = await resolved(stated);
    const args = [
      'ablate',
      ...statedFlags(stated),
      ...flags({ conditions, seeds, out: path.join(names.allowed.runs, id) }),
    ];
    return {
      args,
      run: id,
      memoryBytes: await memoryOfRun(all),
      resolved: { conditions, seeds, settings: all },
    };
  },
});
