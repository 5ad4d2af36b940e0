/**
 * npm run measure:real -- [--list] [--only STEP …] [--hours N] [--try] [--threads N] [--model FILE] [--runs DIR] [--results DIR]: measures
 * SmolLM2-135M-Instruct, one step after the other (real-experiments.mjs). A step that has its file in results/smollm2-135m is not measured
 * again; a run that was cut off goes on. After each step summary.json is written anew from these files. Run folders stay outside the
 * repository. --hours begins no step and interrupts a run after so many hours; --try makes small steps of no meaning, in a folder of their
 * own. Exit codes: 0, 1 where a step failed (the others are measured all the same), 130 interrupted.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { writeFileAtomically } from '../dist/src/engine/atomic-file.js';
import { homeFolder } from '../dist/src/engine/model-location.js';
import { codeVersion } from '../dist/src/run-folder/machine.js';
import { readManifest } from '../dist/src/run-folder/manifest.js';
import { readResult } from '../dist/src/training/result.js';
import { resolveSettings } from '../dist/src/training/settings.js';
import { realSteps, summaryOf } from './real-experiments.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const INTERRUPTED = 130;
/** Of `run`: it ended, and there was nothing to train on. */
const NOTHING_ACCEPTED = 3;

const { values } = parseArgs({
  options: {
    list: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true },
    hours: { type: 'string' },
    try: { type: 'boolean', default: false },
    threads: { type: 'string' },
    model: { type: 'string' },
    runs: { type: 'string' },
    results: { type: 'string' },
  },
});
const runs = path.resolve(values.runs ?? path.join(homeFolder(), values.try ? 'real-model-tried' : 'real-model'));
const results = path.resolve(values.results ?? (values.try ? path.join(runs, 'results') : path.join(root, 'results', 'smollm2-135m')));
const threads = values.threads === undefined ? {} : { threads: Number(values.threads) };
const deadline = values.hours === undefined ? Infinity : performance.now() + 3_600_000 * Number(values.hours);

const steps = realSteps({ small: values.try });
const strange = (values.only ?? []).filter((name) => !steps.some((step) => step.name === name));
if (strange.length > 0) throw new Error(`there is no step ${strange.join(', ')}; --list names them`);
const wanted = steps.filter(({ name }) => values.only?.includes(name) ?? true);
const fileOf = (name) => path.join(results, `${name}.json`);

async function measure() {
  mkdirSync(results, { recursive: true });
  mkdirSync(runs, { recursive: true });
  const model = values.model ?? realModel();
  let failed = 0;
  for (const step of wanted) {
    if (existsSync(fileOf(step.name))) continue;
    if (performance.now() >= deadline) {
      console.error(`${step.name}: not begun, the time is over; the same command goes on`);
      break;
    }
    console.error(`${step.name} …`);
    const began = performance.now();
    const { code, result } = await (step.settings === undefined ? evaluate(step, model) : train(step, model));
    if (code === INTERRUPTED) {
      console.error(`${step.name}: interrupted; the same command goes on`);
      return performance.now() >= deadline ? failed : INTERRUPTED;
    }
    if (result === undefined) {
      console.error(`${step.name}: not measured`);
      failed = 1;
      continue;
    }
    const seconds = (performance.now() - began) / 1000;
    await write(step.name, { step: step.name, task: step.task, ...(await measuredBy()), seconds, ...result });
    await write('summary', summaryOf(filesOf(steps)));
    console.error(`${step.name}: done in ${(seconds / 60).toFixed(1)} minutes`);
  }
  return failed;
}

function realModel() {
  const { status, stdout } = spawnSync(process.execPath, [path.join(root, 'scripts', 'real-model.mjs')], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) process.exit(status ?? 1);
  return stdout.trim();
}

/** Files of the steps that were measured, by name. */
function filesOf(all) {
  const measured = all.filter(({ name }) => existsSync(fileOf(name)));
  return Object.fromEntries(measured.map(({ name }) => [name, JSON.parse(readFileSync(fileOf(name), 'utf8'))]));
}

const measuredBy = async () => ({
  code: await codeVersion(),
  machine: { platform: process.platform, arch: process.arch, processor: os.cpus()[0].model.trim(), cores: os.cpus().length },
});

/** Without the folders of this machine. */
function published(value) {
  if (typeof value === 'string') return path.isAbsolute(value) ? path.basename(value) : value;
  if (Array.isArray(value)) return value.map(published);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, published(member)]));
}
const write = (name, value) => writeFileAtomically(fileOf(name), [Buffer.from(`${JSON.stringify(published(value), null, 1)}\n`)]);

/** @returns the exit code, and what the command printed where it could be read */
async function command(args) {
  const child = spawn(process.execPath, [path.join(root, 'dist', 'src', 'cli', 'main.js'), ...args, '--json'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
  const left = deadline - performance.now();
  const timer = Number.isFinite(left) ? setTimeout(() => child.kill('SIGINT'), Math.max(0, left)) : undefined;
  const pass = () => child.kill('SIGINT');
  const wait = () => undefined; // a terminal sends Ctrl-C to the child too, and a second one would end it at once
  process.on('SIGTERM', pass).on('SIGINT', wait);
  const code = await new Promise((resolve) => child.on('close', (status) => resolve(status ?? INTERRUPTED)));
  process.off('SIGTERM', pass).off('SIGINT', wait);
  clearTimeout(timer);
  return { code, ...(code === 0 || code === NOTHING_ACCEPTED ? { printed: JSON.parse(stdout) } : {}) };
}

/** The profile is named, so that another model than the small one is measured in the same way. */
const profiled = (settings) => ({ profile: 'small', ...settings, model: { ...settings.model, ...threads } });

async function train({ name, settings }, model) {
  const [folder, config] = [path.join(runs, name), path.join(runs, `${name}.json`)];
  await writeFileAtomically(config, [Buffer.from(`${JSON.stringify(profiled(settings))}\n`)]);
  const { code, printed } = await command(['run', '--config', config, '--model', model, '--out', folder]);
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
        trivialPolicies: Object.fromEntries(Object.entries(trivialPolicies).map(([policy, { mean }]) => [policy, mean])),
        iterations: iterations.map(({ data: __, dev: { byTier: ___, ...dev }, ...iteration }) => ({ ...iteration, dev })),
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
  const dashed = (name) => (name.length === 1 ? `-${name}` : `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`);
  const args = Object.entries(own).flatMap(([name, value]) => (value === true ? [dashed(name)] : [dashed(name), String(value)]));
  const { code, printed } = await command(['eval', ...args]);
  if (printed === undefined) return { code };
  const { trivialPolicies: _, policyNotes: __, model: measured, ...evaluation } = printed;
  return { code, result: { model: measured, evaluation } };
}

if (values.list) for (const { name } of wanted) console.log(`${existsSync(fileOf(name)) ? 'done' : '    '}  ${name}`);
else process.exitCode = await measure();
