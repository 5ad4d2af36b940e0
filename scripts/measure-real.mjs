/**
 * npm run measure:real -- [--list] [--only STEP …] [--hours N] [--try] [--threads N] [--model FILE]
 * [--runs DIR] [--results DIR]: measures SmolLM2-135M-Instruct, one step after the other
 * (real-experiments.mjs). A step that has its file in results/smollm2-135m is not measured again; a
 * run that was cut off goes on. After each step summary.json is written anew from these files. Run
 * folders stay outside the repository. --hours begins no step and interrupts a run after so many
 * hours; --try makes small steps of no meaning, in a folder of their own. Exit codes: 0, 1 where a
 * step failed (the others are measured all the same), 130 interrupted.
 */
import path from 'node:path';
import { given } from '../dist/src/given.js';
import { readResult } from '../dist/src/training/result.js';
import { resolveSettings } from '../dist/src/training/settings.js';
import { command, measuringFlags, resultsOf, wantedOf, writeResult } from './experiment.mjs';
import { realSteps, summaryOf } from './real-experiments.mjs';
import { measureOrList, profiled, train } from './real-runs.mjs';

const measuring = measuringFlags({ runs: 'real-model', results: 'smollm2-135m' });
const steps = realSteps({ small: measuring.try });

async function evaluate({ task, evaluate: flags, adapter }, model) {
  const { model: loaded, sampling } = resolveSettings(profiled({ task }, measuring));
  const own = {
    model,
    task,
    style: sampling.style,
    maxTokens: sampling.maxTokens,
    batch: loaded.maxSequences,
    context: loaded.contextTokens,
    matmul: loaded.matmul,
    ...given({ threads: measuring.threads }),
    ...(flags.samples === undefined ? {} : { temperature: sampling.temperature }),
    ...flags,
    ...(flags.k === undefined ? {} : { k: flags.k.join() }),
  };
  if (adapter !== undefined) {
    try {
      own.adapter = readResult(path.join(measuring.runs, adapter)).adapter.file;
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
  const { code, printed } = await command(['eval', ...args], measuring.deadline);
  if (printed === undefined) return { code };
  const { trivialPolicies: _, policyNotes: __, model: measured, ...evaluation } = printed;
  return { code, result: { task, model: measured, evaluation } };
}

process.exitCode = await measureOrList(wantedOf(steps, measuring.only), measuring, {
  measure: (step, model) =>
    step.settings === undefined ? evaluate(step, model) : train(step, model, measuring),
  after: () =>
    writeResult(measuring.fileOf('summary'), summaryOf(resultsOf(steps, measuring.fileOf))),
});
