import path from 'node:path';
import { z } from 'zod';
import { withProfile } from '../../training/profile.js';
import { statedFlags } from '../../training/setting-names.js';
import {
  mergeSettings,
  resolveSettings,
  runSettings,
  type RunSettings,
  type RunSettingsInput,
} from '../../training/settings.js';
import type { Names } from '../../operations/names.js';
import { jobKind } from './kind.js';
import { memoryOf, memoryOfGrader } from '../../operations/memory.js';

/** The settings as they were stated: defaults depend on the profile, and that on the model. */
export const statedSettings = z.custom<RunSettingsInput>(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  'expected an object of settings',
);

/**
 * Settings whose names are what they stand for on this machine. Every setting that can name a file,
 * a model or a program is here, which test/jobs/names holds against the schema.
 * @throws NotAllowed; IsoproError INVALID_ARGUMENT as resolveSettings
 */
export function standingFor(stated: RunSettingsInput, names: Names): RunSettingsInput {
  // where no model is named the defaults are those of the one that is served
  const served = names.allowed.models.get(names.allowed.model)!;
  const { task, check, algorithm } = resolveSettings(
    mergeSettings({ model: { name: served } }, stated),
  );
  return mergeSettings(stated, {
    model: { name: names.model(stated.model?.name ?? names.allowed.model, 'settings.model.name') },
    task: names.task(task, 'settings.task'),
    ...(check !== undefined && { check: names.check(check, 'settings.check') }),
    ...(algorithm.teacher !== undefined && {
      algorithm: { teacher: names.model(algorithm.teacher, 'settings.algorithm.teacher') },
    }),
  });
}

/** Of a run with these settings. */
export const memoryOfRun = async ({ model, layers, check }: RunSettings): Promise<number> =>
  (await memoryOf(model.name, model.contextTokens, layers.trainerMemory + layers.boundaryMemory)) +
  (await memoryOfGrader(check));

/**
 * With the profile of a model that is here; one that has to be fetched is taken for a large one
 * until it is.
 */
export const resolved = async (real: RunSettingsInput): Promise<RunSettings> =>
  resolveSettings(await withProfile(real, AbortSignal.abort()).catch(() => real));

export const run = jobKind({
  id: 'run',
  title: 'Make a model better at a task by its own verified answers',
  settings: statedSettings,
  described: runSettings,
  async prepare(stated, { names, id }) {
    const real = standingFor(stated, names);
    const settings = await resolved(real);
    const out = path.join(names.allowed.runs, id);
    return {
      args: ['run', ...statedFlags(real), `--out=${out}`],
      run: id,
      memoryBytes: await memoryOfRun(settings),
      resolved: settings,
    };
  },
  isResult: (code) => code === 3, // no rollout passed: there is a report of it
  measure: ['--dry-run'],
  adapterOf: (result) =>
    z.object({ adapter: z.object({ file: z.string() }) }).safeParse(result).data?.adapter.file ??
    null,
});

export type { RunSettings, RunSettingsInput } from '../../training/settings.js';
