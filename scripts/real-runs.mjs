/** Runs of the real model, as measuring commands make them and publish their results. */
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { writeFileAtomically } from '../dist/src/engine/atomic-file.js';
import { readManifest } from '../dist/src/run-folder/manifest.js';
import { command, measureSteps, realModel } from './experiment.mjs';

const threadsOf = ({ threads }) => (threads === undefined ? {} : { threads: Number(threads) });

/** The profile is named, so that another model than the small one is measured in the same way. */
export const profiled = (settings, measuring) => ({
  profile: 'small',
  ...settings,
  model: { ...settings.model, matmul: 'auto', ...threadsOf(measuring) },
});

/**
 * Runs a step, or resumes it in its folder.
 * @returns the command's exit code, and what is published of the run where it ended
 */
export async function train({ name, task, settings }, model, measuring) {
  const [folder, config] = [name, `${name}.json`].map((file) => path.join(measuring.runs, file));
  await writeFileAtomically(config, [
    Buffer.from(`${JSON.stringify(profiled(settings, measuring))}\n`),
  ]);
  const { code, printed } = await command(
    ['run', '--config', config, '--model', model, '--out', folder],
    measuring.deadline,
  );
  if (printed === undefined) return { code };
  const { folder: _, trivialPolicies, iterations, ...run } = printed;
  const { start } = readManifest(folder);
  return {
    code,
    result: {
      task,
      model: start.model,
      settings: start.settings,
      run: {
        ...run,
        trivialPolicies: Object.fromEntries(
          Object.entries(trivialPolicies).map(([policy, { mean }]) => [policy, mean]),
        ),
        iterations: iterations.map(({ data: __, dev: { byTier: ___, ...dev }, ...iteration }) => ({
          ...iteration,
          dev,
        })),
      },
    },
  };
}

/** Measures the wanted steps, or lists them with --list. @returns the exit code of measureSteps */
export async function measureOrList(wanted, measuring, { measure, after }) {
  const { fileOf, deadline } = measuring;
  if (measuring.list) {
    for (const { name } of wanted)
      console.log(`${existsSync(fileOf(name)) ? 'done' : '    '}  ${name}`);
    return 0;
  }
  for (const folder of [measuring.results, measuring.runs]) mkdirSync(folder, { recursive: true });
  const model = measuring.model ?? realModel();
  return measureSteps(wanted, {
    fileOf,
    deadline,
    measure: (step) => measure(step, model),
    after,
  });
}
