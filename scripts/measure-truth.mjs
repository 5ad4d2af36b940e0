/**
 * npm run measure:truth -- [--list | --again] [--only STEP …] [--hours N] [--try] [--threads N]
 * [--model FILE] [--runs DIR] [--results DIR]: measures how the embedded model and
 * SmolLM2-135M-Instruct reason (truth-experiments.mjs). A step that has its file in results/truth
 * is not measured again; a run that was cut off goes on. --model: SmolLM2's file, downloaded where
 * it is not given. Run folders stay outside the repository. --hours begins no step and interrupts a
 * run after so many hours; --try makes small steps of no meaning, in a folder of their own. --again
 * measures nothing: it derives from the run folders once more, without a model, what trainings have
 * changed and what reasoning scores by its beliefs, and puts it into the files that are there, as
 * after a change of how it is computed. Exit codes: 0, 1 where a step failed (the others are
 * measured all the same), 130 interrupted.
 */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { writeFileAtomically } from '../dist/src/engine/atomic-file.js';
import { changesBetween } from '../dist/src/truth-seeking/training/train-and-measure.js';
import {
  command,
  measureSteps,
  measuringFlags,
  realModel,
  wantedOf,
  writeResult,
} from './experiment.mjs';
import { truthSteps } from './truth-experiments.mjs';

const measuring = measuringFlags({
  runs: 'truth',
  results: 'truth',
  flags: { again: { type: 'boolean', default: false } },
});
const { runs, results, deadline, fileOf, threads = '1' } = measuring;
const wanted = wantedOf(truthSteps({ small: measuring.try }), measuring.only);

/** Folder of what is measured before any training. */
const BEFORE = 'trained-before';
/** Default of `truth train --measure-seed`. */
const MEASURE_SEED = '42';

/** Bins of calibration and of priors can be made again from the run; their sums stay. */
const withoutBins = ({ bins: _, calibration, ...details }) => ({
  ...details,
  ...(calibration == null ? {} : { calibration: withoutBins(calibration) }),
});

const dashed = (name) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
const flagsOf = (flags) =>
  Object.entries(flags).flatMap(([flag, value]) => [dashed(flag), String(value)]);

/** Reasoners whose beliefs are known. */
async function askOracle({ oracle }) {
  const { code, printed } = await command(['truth', 'oracle', ...flagsOf(oracle)], deadline);
  return { code, result: printed };
}

/** What is measured before is the same of every seed: whichever training comes first makes it. */
async function train({ name, model, train: { domain, trainCutOff, ...flags } }, modelFile) {
  const given = flagsOf({ ...flags, threads });
  const folders = ['--before', path.join(runs, BEFORE), '--out', path.join(runs, name)];
  const { code, printed } = await command(
    [
      'truth',
      'train',
      '--model',
      modelFile(model),
      '--domain',
      ...domain,
      ...given,
      ...(trainCutOff ? ['--train-cut-off'] : []),
      ...folders,
    ],
    deadline,
  );
  return {
    code,
    result:
      printed === undefined
        ? undefined
        : { model, settings: { domain, trainCutOff, ...flags }, ...printed },
  };
}

async function reason({ name, model, predictor, settings }, modelFile) {
  const [folder, config] = [path.join(runs, name), path.join(runs, `${name}.json`)];
  await writeFileAtomically(config, [
    Buffer.from(`${JSON.stringify({ ...settings, threads: Number(threads) })}\n`),
  ]);
  const { code, printed } = await command(
    [
      ...[
        'truth',
        'run',
        '--config',
        config,
        '--model',
        modelFile(model),
        '--judge',
        modelFile(model),
        '--out',
        folder,
      ],
      ...['--predictor', modelFile(predictor)],
    ],
    deadline,
  );
  if (printed === undefined) return { code };
  const { runId, trajectories, failures, readouts, trajectoriesSha256, results } = printed;
  return {
    code,
    result: {
      model,
      predictor,
      settings,
      run: { runId, trajectories, failures, readouts, trajectoriesSha256 },
      results: results.map(({ details, ...result }) => ({
        ...result,
        details: withoutBins(details),
      })),
    },
  };
}

async function measure() {
  mkdirSync(results, { recursive: true });
  mkdirSync(runs, { recursive: true });
  let real = measuring.model;
  const modelFile = (name) => (name === 'tiny' ? name : (real ??= realModel()));
  const by = (step) =>
    step.oracle !== undefined ? askOracle : step.train !== undefined ? train : reason;
  return measureSteps(wanted, { fileOf, deadline, measure: (step) => by(step)(step, modelFile) });
}

/** What is measured before, as `train` names it, and after. */
function changesAgain({ name }) {
  // of the bootstrap: that of the questions, as `truth train` has it
  const changes = changesBetween(
    path.join(runs, BEFORE),
    path.join(runs, name, 'after'),
    BigInt(MEASURE_SEED),
  );
  return { figures: changes.length, derived: { changes } };
}

/**
 * The scores of beliefs that are there. They are added to the run: a copy of it would go on beside
 * what its witness has signed.
 */
async function scoresAgain({ name, settings }) {
  const strategies = settings.eval
    .filter((each) => /^(accuracy|martingale)/.test(each))
    .flatMap((each) => ['--eval', each]);
  const { printed } = await command(
    ['truth', 'evaluate', path.join(runs, name), ...strategies],
    deadline,
  );
  if (printed === undefined) throw new Error(`${name} could not be scored again`);
  const results = printed.results.map(({ details, ...result }) => ({
    ...result,
    details: withoutBins(details),
  }));
  return { figures: results.length, derived: { results } };
}

async function again() {
  for (const step of wanted) {
    const { name, train: trained, settings } = step;
    if (!existsSync(fileOf(name)) || (trained === undefined && settings === undefined)) continue;
    if (!existsSync(path.join(runs, name))) {
      console.error(`${name}: its run is not in ${runs}`);
      continue;
    }
    const file = JSON.parse(readFileSync(fileOf(name), 'utf8'));
    const { figures, derived } =
      trained === undefined ? await scoresAgain(step) : changesAgain(step);
    await writeResult(fileOf(name), { ...file, ...derived });
    console.error(`${name}: ${figures} figures derived again`);
  }
}

if (measuring.again) await again();
else if (measuring.list)
  for (const { name } of wanted)
    console.log(`${existsSync(fileOf(name)) ? 'done' : '    '}  ${name}`);
else process.exitCode = await measure();
