// `npm run --silent python-clients`: prints the path of a Python that has the clients of PACKAGES, and nothing else. It is the one of a
// virtual environment in the home folder, which is made once, with pip.
// Exit codes: 3 where a package cannot be fetched, 1 where Python is missing or has no venv; one message on stderr.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { homeFolder } from '../dist/src/engine/model-location.js';

/** `trl` alone, without torch and the others that it trains with: its client of a server needs none of them. */
export const PACKAGES = {
  whole: ['openai==3.54.0', 'langchain-openai==1.7.3', 'llm==0.36', 'requests==2.34.2', 'packaging==26.3'],
  alone: ['trl==1.16.0'],
};
const UNREACHABLE = 3;
const PIP_MS = 300_000;

class Failure extends Error {
  constructor(message, exitCode) {
    super(message);
    this.exitCode = exitCode;
  }
}

function run(command, args, exitCode) {
  const { status, error, stderr } = spawnSync(command, args, { encoding: 'utf8', timeout: PIP_MS, stdio: ['ignore', 'ignore', 'pipe'] });
  if (status === 0) return;
  throw new Failure(`${command} ${args.join(' ')}: ${error?.message ?? stderr.trim().split('\n').at(-1)}`, exitCode);
}

/** @returns the interpreter's path; the folder is whole where it is there */
function pythonOfClients() {
  const named = createHash('sha256').update(JSON.stringify(PACKAGES)).digest('hex').slice(0, 12);
  const folder = path.join(homeFolder(), 'python-clients', named);
  const python = path.join(folder, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python');
  const done = path.join(folder, 'complete');
  if (existsSync(done)) return python;
  // A virtual environment knows its own path: it is made where it stays.
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(path.dirname(folder), { recursive: true });
  run(process.env.ISOPRO_PYTHON || (process.platform === 'win32' ? 'python' : 'python3'), ['-m', 'venv', folder], 1);
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
  run(python, [...pip, ...PACKAGES.whole], UNREACHABLE);
  run(python, [...pip, '--no-deps', ...PACKAGES.alone], UNREACHABLE);
  writeFileSync(`${done}.new`, '');
  renameSync(`${done}.new`, done);
  return python;
}

if (process.argv[1] === import.meta.filename) {
  try {
    console.log(pythonOfClients());
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}
