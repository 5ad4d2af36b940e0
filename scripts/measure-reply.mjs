/**
 * node scripts/measure-reply.mjs [--list] [--only STEP …] [--hours N] [--try] [--threads N]
 * [--model FILE] [--runs DIR] [--results DIR]: measures adapters that act from the reply on beside
 * ordinary ones, on SmolLM2-135M-Instruct, one run after the other (reply-experiments.mjs). The 24
 * runs take most of a day of two cores. A step that has its file in results/reply is not measured
 * again, and a run that was cut off continues: the same command resumes. summary.json has the
 * paired differences of what is measured so far, and whether they recommend the setting. Exit codes
 * as measure-real.mjs.
 */
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { writeFileAtomically } from '../dist/src/engine/atomic-file.js';
import { readManifest } from '../dist/src/run-folder/manifest.js';
import {
  command,
  measureSteps,
  measuringFlags,
  realModel,
  resultsOf,
  wantedOf,
  writeResult,
} from './experiment.mjs';
import { replySteps, replySummary } from './reply-experiments.mjs';

const measuring = measuringFlags({ runs: 'reply', results: 'reply' });
const { runs, results, deadline, fileOf } = measuring;
const threads = measuring.threads === undefined ? {} : { threads: Number(measuring.threads) };
const steps = replySteps({ small: measuring.try });
const wanted = wantedOf(steps, measuring.only);

async function train({ name, settings }, model) {
  const [folder, config] = [path.join(runs, name), path.join(runs, `${name}.json`)];
  const profiled = { profile: 'small', ...settings, model: { matmul: 'auto', ...threads } };
  await writeFileAtomically(config, [Buffer.from(`${JSON.stringify(profiled)}\n`)]);
  const { code, printed } = await command(
    ['run', '--config', config, '--model', model, '--out', folder],
    deadline,
  );
  if (printed === undefined) return { code };
  const { folder: _, trivialPolicies: __, iterations, ...run } = printed;
  const { start } = readManifest(folder);
  return {
    code,
    result: {
      task: settings.task,
      model: start.model,
      settings: start.settings,
      run: {
        ...run,
        iterations: iterations.map(
          ({ data: _data, dev: { byTier: _tiers, ...dev }, ...iteration }) => ({
            ...iteration,
            dev,
          }),
        ),
      },
    },
  };
}

async function measure() {
  mkdirSync(results, { recursive: true });
  mkdirSync(runs, { recursive: true });
  const model = measuring.model ?? realModel();
  return measureSteps(wanted, {
    fileOf,
    deadline,
    measure: (step) => train(step, model),
    after: () => writeResult(fileOf('summary'), replySummary(resultsOf(steps, fileOf))),
  });
}

if (measuring.list)
  for (const { name } of wanted)
    console.log(`${existsSync(fileOf(name)) ? 'done' : '    '}  ${name}`);
else process.exitCode = await measure();
