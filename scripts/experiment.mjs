/**
 * What the measuring commands share: the real model's file, commands of ours with what they print,
 * results without a machine's paths.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { writeFileAtomically } from '../dist/src/engine/atomic-file.js';
import { homeFolder } from '../dist/src/engine/model-location.js';
import { codeVersion } from '../dist/src/run-folder/machine.js';

export const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
export const INTERRUPTED = 130;
/** Of `run`: it ended, and there was nothing to train on. */
const NOTHING_ACCEPTED = 3;

/** Of SmolLM2-135M-Instruct, downloaded and checked; ends the process where it is not to be had. */
export function realModel() {
  const { status, stdout } = spawnSync(
    process.execPath,
    [path.join(root, 'scripts', 'real-model.mjs')],
    {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  if (status !== 0) process.exit(status ?? 1);
  return stdout.trim();
}

export const measuredBy = async () => ({
  code: await codeVersion(),
  machine: {
    platform: process.platform,
    arch: process.arch,
    processor: os.cpus()[0].model.trim(),
    cores: os.cpus().length,
  },
});

/** Without the folders of this machine. */
function published(value) {
  if (typeof value === 'string') return path.isAbsolute(value) ? path.basename(value) : value;
  if (Array.isArray(value)) return value.map(published);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, published(member)]),
  );
}
export const writeResult = (file, value) =>
  writeFileAtomically(file, [Buffer.from(`${JSON.stringify(published(value), null, 1)}\n`)]);

/** Results of steps that were measured, by name. */
export function resultsOf(steps, fileOf) {
  const measured = steps.filter(({ name }) => existsSync(fileOf(name)));
  return Object.fromEntries(
    measured.map(({ name }) => [name, JSON.parse(readFileSync(fileOf(name), 'utf8'))]),
  );
}

/**
 * The flags of a measuring command: where runs and results lie (`runs` below the home folder),
 * until when it measures, and its own.
 */
export function measuringFlags({ runs, results, flags = {} }) {
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
      ...flags,
    },
  });
  const folder = path.resolve(
    values.runs ?? path.join(homeFolder(), values.try ? `${runs}-tried` : runs),
  );
  const into = path.resolve(
    values.results ??
      (values.try ? path.join(folder, 'results') : path.join(root, 'results', results)),
  );
  return {
    ...values,
    runs: folder,
    results: into,
    deadline:
      values.hours === undefined ? Infinity : performance.now() + 3_600_000 * Number(values.hours),
    fileOf: (name) => path.join(into, `${name}.json`),
  };
}

/** `only`: names of steps; all of them where none is named. */
export function wantedOf(steps, only) {
  const strange = (only ?? []).filter((name) => !steps.some((step) => step.name === name));
  if (strange.length > 0)
    throw new Error(`there is no step ${strange.join(', ')}; --list names them`);
  return steps.filter(({ name }) => only?.includes(name) ?? true);
}

/**
 * A command of ours with --json, interrupted at `deadline` (ms of performance.now) and by whatever
 * interrupts this process.
 * @returns the exit code, and what the command printed where it could be read
 */
export async function command(args, deadline = Infinity) {
  const child = spawn(
    process.execPath,
    [path.join(root, 'dist', 'program', 'main.js'), ...args, '--json'],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
  const left = deadline - performance.now();
  const timer = Number.isFinite(left)
    ? setTimeout(() => child.kill('SIGINT'), Math.max(0, left))
    : undefined;
  const pass = () => child.kill('SIGINT');
  // a terminal sends Ctrl-C to the child too, and a second one would end it at once
  const wait = () => undefined;
  process.on('SIGTERM', pass).on('SIGINT', wait);
  const code = await new Promise((resolve) =>
    child.on('close', (status) => resolve(status ?? INTERRUPTED)),
  );
  process.off('SIGTERM', pass).off('SIGINT', wait);
  clearTimeout(timer);
  return {
    code,
    ...(code === 0 || code === NOTHING_ACCEPTED ? { printed: JSON.parse(stdout) } : {}),
  };
}

/**
 * One step after the other, each with its file: what has one is not measured again. `measure`
 * returns {code, result}; `result` is undefined where nothing was measured. After each step `after`
 * may sum up.
 * @returns exit code: 0, 1 where a step failed (the others are measured all the same), 130
 *   interrupted
 */
export async function measureSteps(
  steps,
  { fileOf, deadline = Infinity, measure, after = async () => undefined },
) {
  let failed = 0;
  for (const step of steps) {
    if (existsSync(fileOf(step.name))) continue;
    if (performance.now() >= deadline) {
      console.error(`${step.name}: not begun, the time is over; the same command goes on`);
      break;
    }
    console.error(`${step.name} …`);
    const began = performance.now();
    const { code, result } = await measure(step);
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
    await writeResult(fileOf(step.name), {
      step: step.name,
      ...(await measuredBy()),
      seconds,
      ...result,
    });
    await after();
    console.error(`${step.name}: done in ${(seconds / 60).toFixed(1)} minutes`);
  }
  return failed;
}
