/** The settings of a run as flags and in requests: what `run`, its variants and `ablate` share. */
import { z } from 'zod';
import { ALGORITHM_SETTINGS, algorithmOf } from '../algorithms/index.js';
import { withProfile } from '../training/profile.js';
import {
  layersAreNamed,
  mergeSettings,
  resolveSettings,
  runSettings,
  type RunSettings,
  type RunSettingsInput,
} from '../training/settings.js';
import { Flags, type FlagOptions } from './flags.js';
import { memoryOf, memoryOfGrader } from './memory.js';
import type { Names } from './names.js';

/** Order of the help; a part includes all of its settings that are not listed before. */
export const RUN_FLAGS: FlagOptions = {
  order: [
    ['model.name', 'model'],
    'profile',
    'task',
    'check',
    'seed',
    ['algorithm.id', 'algorithm'],
    'iterations',
    'sampling',
    ['buffer.kind', 'buffer'],
    'buffer',
    'optimiser.stepsPerIteration',
    'optimiser.batchSize',
    'layers.rank',
    'layers.scale',
    'layers.dropout',
    'layers.adapterFrom',
    'layers.targets',
    ['layers.choice', 'layers'],
    'layers.topLayers',
    'optimiser',
    'algorithm',
    'evaluation',
    'monitor',
    'maxMinutes',
    'model',
    'layers',
    'signer',
  ],
  groups: {
    model: 'Model:',
    sampling: 'Sampling:',
    buffer: 'Training data:',
    algorithm: 'Algorithm:',
    optimiser: 'Optimiser:',
    layers: 'Adapter and layers:',
    evaluation: 'Evaluation:',
    monitor: 'Monitor:',
  },
};

export const RUN_GROUP = 'Task and run:';

type Shape = typeof runSettings.shape;

/** The members of a run's settings, under one heading where they are in no part. */
export const runMembers: Shape = Object.fromEntries(
  Object.entries(runSettings.shape).map(([name, member]: [string, z.ZodType]) => [
    name,
    member instanceof z.ZodPrefault ? member : member.meta({ ...member.meta(), group: RUN_GROUP }),
  ]),
) as unknown as Shape;

const FLAGS = new Flags(runSettings, RUN_FLAGS);

/** Flags with their values, without what the chosen algorithm and choice of layers do not use. */
export function flagsInUse(settings: RunSettings): [flag: string, value: unknown][] {
  const own = new Set(Object.keys(algorithmOf(settings).settings.shape));
  const unused = Object.keys(ALGORITHM_SETTINGS)
    .filter((name) => !own.has(name))
    .map((name) => `algorithm.${name}`);
  if (layersAreNamed(settings)) unused.push('layers.topLayers');
  return FLAGS.values(settings).flatMap(([{ name, path }, value]): [string, unknown][] =>
    unused.includes(path) ? [] : [[name, value]],
  );
}

/**
 * Settings with the things in place of the names of a server. Every setting that can name a file, a
 * model or a program is here (test/jobs/options).
 * @throws NotAllowed; IsoproError INVALID_ARGUMENT as resolveSettings
 */
export function resolvedRunNames(stated: RunSettingsInput, names: Names): RunSettingsInput {
  // Where no model is named the defaults are those of the one that is served.
  const served = names.allowed.models.get(names.allowed.model)!;
  const { task, check, algorithm, monitor } = resolveSettings(
    mergeSettings({ model: { name: served } }, stated),
  );
  return mergeSettings(stated, {
    model: { name: names.model(stated.model?.name ?? names.allowed.model, 'settings.model.name') },
    task: names.task(task, 'settings.task'),
    ...(stated.monitor?.policy !== undefined && {
      monitor: { policy: names.decider(monitor.policy, 'settings.monitor.policy') },
    }),
    ...(check !== undefined && { check: names.check(check, 'settings.check') }),
    ...(algorithm.teacher !== undefined && {
      algorithm: { teacher: names.model(algorithm.teacher, 'settings.algorithm.teacher') },
    }),
  });
}

/**
 * Resolves settings with the profile of a local model; a model that is not yet downloaded counts as
 * a large one.
 */
export const settingsBeforehand = async (given: RunSettingsInput): Promise<RunSettings> =>
  resolveSettings(await withProfile(given, AbortSignal.abort()).catch(() => given));

/** Upper bound of the memory of a run with these settings, in bytes. */
export const memoryOfRun = async ({ model, layers, check }: RunSettings): Promise<number> =>
  (await memoryOf(model.name, model.contextTokens, layers.trainerMemory + layers.boundaryMemory)) +
  (await memoryOfGrader(check));
