/**
 * npm run measure:real -- [--list] [--only STEP …] [--hours N] [--try] [--threads N] [--model FILE]
 * [--runs DIR] [--results DIR]: measures SmolLM2-135M-Instruct, one step after the other
 * (real-experiments.mjs). A step that has its file in results/smollm2-135m is not measured again; a
 * run that was cut off goes on. After each step summary.json is written anew from these files. Run
 * folders stay outside the repository. --hours begins no step and interrupts a run after so many
 * hours; --try makes small steps of no meaning, in a folder of their own. Exit codes: 0, 1 where a
 * step failed (the others are measured all the same), 130 interrupted.
 */
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { writeFileAtomically } from '../dist/src/engine/atomic-file.js';
import { readManifest } from '../dist/src/run-folder/manifest.js';
import { readResult } from '../dist/src/training/result.js';
import { resolveSettings } from '../dist/src/training/settings.js';
import {
  command,
  measureSteps,
  measuringFlags,
  realModel,
  resultsOf,
  wantedOf,
  writeResult,
} from './experiment.mjs';
import { realSteps, summaryOf } from './real-experiments.mjs';

const measuring = measuringFlags({ runs: 'real-model', results: 'smollm2-135m' });
const { runs, results, deadline, fileOf } = measuring;
const threads = measuring.threads === undefined ? {} : { threads: Number(measuring.threads) };

const steps = realSteps({ small: measuring.try });
const wanted = wantedOf(steps, measuring.only);

async function measure() {
  mkdirSync(results, { recursive: true });
  mkdirSync(runs, { recursive: true });
  const model = measuring.model ?? realModel();
  return measureSteps(wanted, {
    fileOf,
    deadline,
    measure: async (step) => {
      const { code, result } = await (step.settings === undefined
        ? evaluate(step, model)
        : train(step, model));
      return { code, result: result === undefined ? undefined : { task: step.task, ...result } };
    },
    after: () => writeResult(fileOf('summary'), summaryOf(resultsOf(steps, fileOf))),
  });
}

/** The profile is named, so that another model than the small one is measured in the same way. */
const profiled = (settings) => ({
  profile: 'small',
  ...settings,
  model: { ...settings.model, matmul: 'auto', ...threads },
});

async function train({ name, settings }, model) {
  const [folder, config] = [path.join(runs, name), path.join(runs, `${name}.json`)];
  await writeFileAtomically(config, [Buffer.from(`${JSON.stringify(profiled(settings))}\n`)]);
  const { code, printed } = await command(
    ['run', '--config', config, '--model', model, '--out', folder],
    deadline,
  );
  if (printed === undefined) return { code };
  const { folder: _, trivialPolicies, iterations, ...run } = printed;
  const { start } = readManifest(folder);
  return {
    code,
    result: {
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

async function evaluate({ task, evaluate: flags, adapter }, model) {
  const { model: loaded, sampling } = resolveSettings(profiled({ task }));
  const own = {
    model,
    task,
    style: sampling.style,
    maxTokens: sampling.maxTokens,
    batch: loaded.maxSequences,
    context: loaded.contextTokens,
    matmul: loaded.matmul,
    ...threads,
    ...(flags.samples === undefined ? {} : { temperature: sampling.temperature }),
    ...flags,
    ...(flags.k === undefined ? {} : { k: flags.k.join() }),
  };
  if (adapter !== undefined) {
    try {
      own.adapter = readResult(path.join(runs, adapter)).adapter.file;
    } catch (error) {
      console.error(`it takes the adapter of ${adapter}: ${error.message}`);
      return { code: 1 };
    }
  }
  const dashed = (name) =>
    name.length === 1
      ? `-${name}`
      : `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  const args = Object.entries(own).flatMap(([name, value]) =>
    value === true ? [dashed(name)] : [dashed(name), String(value)],
  );
  const { code, printed } = await command(['eval', ...args], deadline);
  if (printed === undefined) return { code };
  const { trivialPolicies: _, policyNotes: __, model: measured, ...evaluation } = printed;
  return { code, result: { model: measured, evaluation } };
}

if (measuring.list)
  for (const { name } of wanted)
    console.log(`${existsSync(fileOf(name)) ? 'done' : '    '}  ${name}`);
else process.exitCode = await measure();
