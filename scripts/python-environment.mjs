// `npm run --silent python-environment clients|peft`: prints the path of a Python that has the
// packages of that name, and nothing else. It is the one of a virtual environment in the home
// folder, which is made once, with pip. Exit codes: 3 where a package cannot be fetched, 2 for
// another name, 1 where Python is missing or has no venv; one message on stderr.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { homeFolder } from '../dist/src/engine/model-location.js';
import { pythonCommand } from '../dist/src/tasks/python-module.js';

/**
 * `alone`: without what they depend on. `clients` ask a server, and trl's client of one needs
 * nothing of what trl trains with. `peft` loads our adapters; on Linux torch brings CUDA along,
 * some 5 GB in all.
 */
export const PACKAGES = {
  clients: {
    whole: [
      'openai==3.54.0',
      'langchain-openai==1.7.3',
      'llm==0.36',
      'requests==2.34.2',
      'packaging==26.3',
    ],
    alone: ['trl==1.16.0'],
  },
  peft: {
    whole: ['torch==2.15.0', 'transformers==5.24.0', 'peft==0.21.2', 'gguf==0.19.0'],
    alone: [],
  },
};
const UNREACHABLE = 3;
const USAGE = 2;
const PIP_MS = 1_800_000;

class Failure extends Error {
  constructor(message, exitCode) {
    super(message);
    this.exitCode = exitCode;
  }
}

function run(command, args, exitCode) {
  const { status, error, stderr } = spawnSync(command, args, {
    encoding: 'utf8',
    timeout: PIP_MS,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  if (status === 0) return;
  throw new Failure(
    `${command} ${args.join(' ')}: ${error?.message ?? stderr.trim().split('\n').at(-1)}`,
    exitCode,
  );
}

/** @returns the interpreter's path; the folder is whole where it is there */
function pythonWith({ whole, alone }) {
  const named = createHash('sha256')
    .update(JSON.stringify([whole, alone]))
    .digest('hex')
    .slice(0, 12);
  const folder = path.join(homeFolder(), 'python', named);
  const python = path.join(
    folder,
    process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python',
  );
  const done = path.join(folder, 'complete');
  if (existsSync(done)) return python;
  // A virtual environment knows its own path: it is made where it stays.
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(path.dirname(folder), { recursive: true });
  run(pythonCommand(), ['-m', 'venv', folder], 1);
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
  run(python, [...pip, ...whole], UNREACHABLE);
  if (alone.length > 0) run(python, [...pip, '--no-deps', ...alone], UNREACHABLE);
  writeFileSync(`${done}.new`, '');
  renameSync(`${done}.new`, done);
  return python;
}

if (process.argv[1] === import.meta.filename) {
  try {
    const [name, ...rest] = process.argv.slice(2);
    if (!Object.hasOwn(PACKAGES, name ?? '') || rest.length > 0)
      throw new Failure(
        `python-environment takes one of ${Object.keys(PACKAGES).join(', ')} and nothing else`,
        USAGE,
      );
    console.log(pythonWith(PACKAGES[name]));
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}
