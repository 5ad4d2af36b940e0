/** Compare the loop with variants that change one thing, over several seeds. */
import path from 'node:path';
import { z } from 'zod';
import { checked } from '../engine/argument-check.js';
import { writeFileAtomically } from '../engine/atomic-file.js';
import {
  mergeSettings,
  requireMachine,
  resolveSettings,
  type RunSettingsInput,
} from '../training/settings.js';
import {
  ablate as compare,
  ABLATION_SEEDS,
  CONDITION_NAMES,
  type Ablation,
  type Condition,
} from './ablation.js';
import { ablateEmbedded, type EmbeddedAblation } from './embedded-ablation.js';
import { output, seedText } from './members.js';
import { operation } from './operation.js';
import { hooksOf } from './run.js';
import {
  memoryOfRun,
  resolvedRunNames,
  RUN_FLAGS,
  runMembers,
  settingsBeforehand,
} from './run-settings.js';

const own = z.strictObject({
  conditions: z
    .array(z.enum(CONDITION_NAMES as [Condition, ...Condition[]]))
    .min(1)
    .default(CONDITION_NAMES)
    .describe('conditions to compare with the full loop'),
  seeds: z
    .array(seedText)
    .min(1)
    .max(20)
    .default([...ABLATION_SEEDS])
    .describe('seeds; one run per condition and seed'),
  out: output.default('ablation').describe('folder for the runs and ablation.json'),
});

export interface AblationRequest extends z.output<typeof own> {
  /** Settings of every run as they were stated. */
  readonly stated: RunSettingsInput;
}

export interface AblationResult extends Ablation {
  /** Measurements that exist for the embedded model only; null for others. */
  readonly embedded: EmbeddedAblation | null;
}

const { seed: _, ...members } = runMembers;

const isOwn = (name: string): boolean => name in own.shape;
const part = (all: object, isIn: (name: string) => boolean): Record<string, unknown> =>
  Object.fromEntries(Object.entries(all).filter(([name]) => isIn(name)));
const runPart = (all: object): RunSettingsInput => part(all, (name) => !isOwn(name));

export const ablate = operation<z.ZodObject, AblationResult, AblationRequest>({
  id: 'ablate',
  title: 'Compare the loop with variants that change one thing, over several seeds',
  settings: z.strictObject({ ...members, ...own.shape }),
  flags: RUN_FLAGS,
  read(asked) {
    const stated = mergeSettings(runPart(asked as object));
    requireMachine(resolveSettings(stated));
    return { ...checked(own, part(asked as object, isOwn), 'settings'), stated };
  },
  async run({ stated, out, conditions, seeds }, { signal, tell }) {
    const { onDownload: _, onNotice, ...hooks } = hooksOf(tell);
    const runs = await compare(stated, {
      ...{ out, conditions, seeds, signal, onNotice },
      ...hooks,
      onRun: (condition, seed, done, total) =>
        onNotice(`run ${done + 1} of ${total}: ${condition}, seed ${seed}`),
    });
    const result = { ...runs, embedded: await ablateEmbedded(stated, out, runs, signal) };
    await writeFileAtomically(path.join(out, 'ablation.json'), [
      Buffer.from(`${JSON.stringify(result, null, 2)}\n`),
    ]);
    return result;
  },
  job: {
    button: 'Ablate',
    // The settings of the runs were a member of their own at first.
    earlier: ({ settings, ...given }) => {
      if (typeof settings !== 'object') return settings === undefined ? given : { settings };
      const { seed: _, ...members } = settings as Readonly<Record<string, unknown>>;
      return { ...members, ...given };
    },
    resolve: (stated, names) => {
      const { seed: _, ...asked } = runPart(stated);
      return { ...part(stated, isOwn), ...resolvedRunNames(asked, names) };
    },
    local: ({ names, id }) => ({ out: path.join(names.allowed.runs, id) }),
    makesRun: true,
    memoryBytes: async (settings) => memoryOfRun(await settingsBeforehand(runPart(settings))),
    shown: async ({ conditions, seeds }, resolved) => ({
      conditions,
      seeds,
      settings: await settingsBeforehand(runPart(resolved)),
    }),
  },
});
