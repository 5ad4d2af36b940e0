/**
 * Trial of a model file whose architecture has no validator: before llama.cpp reads it in this
 * process, another process loads it and evaluates a few tokens. Where that one crashes, this one
 * says so. The verdict is kept by the file's hash.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { offAbort, onAbort } from '../abort.js';
import { startChild } from '../child-process.js';
import { abortError, ERRORS, IsoproError, type ErrorCode } from '../errors.js';
import { childEnvironment } from '../keys.js';
import { hashFile } from './adapter.js';
import { loadAddon, settled } from './addon.js';
import { writeFilesAtomically } from './atomic-file.js';
import { homeFolder } from './model-location.js';

/** What the process may use: not time, since a slow disk is no fault of the file. */
export const LIMITS = {
  processorSeconds: 60,
  /** Exit codes of a process that ended itself. */
  processorExit: 81,
  memoryExit: 82,
} as const;

/** What the process says; nothing where it crashed. */
export type TrialReport =
  | { readonly ok: true }
  | { readonly ok: false; readonly code: string; readonly message: string };

/** The reason against a file, without its path. */
export interface Fault {
  readonly code: ErrorCode;
  readonly message: string;
}

const PROGRAM = fileURLToPath(new URL('./trial-process.js', import.meta.url));
/** Raised when the trial tries something else, so that older verdicts are not taken. */
const VERSION = 1;
/** Codes that say something about the file; others say something about this moment. */
const OF_FILES: readonly string[] = ['MODEL_CORRUPT', 'MODEL_UNSUPPORTED', 'ARCH_UNSUPPORTED'];
const MOST_OUTPUT = 1 << 16;
/** Signals that others send. */
const SENT: readonly NodeJS.Signals[] = ['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'];
const REFUSED_MEMORY = /out of memory|bad_alloc|cannot allocate|failed to reserve/i;

const kept = z.strictObject({
  fault: z.strictObject({ code: z.enum(OF_FILES as [ErrorCode]), message: z.string() }).nullable(),
});

/** The place of a verdict: it is about these bytes, and about the llama.cpp that read them. */
const verdictFile = (sha256: string, release: string): string =>
  path.join(
    homeFolder(),
    'trials',
    `${sha256}-${hash('sha256', `${VERSION} ${release} ${process.platform} ${process.arch}`).slice(0, 16)}.json`,
  );

/**
 * Tries a file, unless its architecture has a validator or the same bytes were tried before.
 * @throws IsoproError what `loadModel` throws of a file, MODEL_CORRUPT where the process crashed,
 *   MODEL_UNSUPPORTED where it was over a limit, SYSTEM_LIMIT, OUT_OF_MEMORY, ABORTED
 */
export async function requireTrial(file: string, signal?: AbortSignal): Promise<void> {
  const { addon } = loadAddon();
  if (!(await settled(addon.wantsTrial(file)))) return;
  const place = verdictFile(await hashFile(file), addon.llamaRelease);
  const before = await keptVerdict(place);
  const fault = before === undefined ? await trial(file, signal) : before;
  // Where nothing can be kept, the next call tries again.
  if (before === undefined)
    await writeFilesAtomically([
      { file: place, parts: [Buffer.from(`${JSON.stringify({ fault })}\n`)] },
    ]).catch(() => undefined);
  if (fault !== null) throw new IsoproError(fault.code, `${file}${fault.message}`);
}

/**
 * As requireTrial, for who only wants to say what is wrong with a file.
 * @returns the reason against the file, or null
 * @throws IsoproError SYSTEM_LIMIT, OUT_OF_MEMORY
 */
export async function trialProblem(file: string): Promise<IsoproError | null> {
  try {
    await requireTrial(file);
    return null;
  } catch (error) {
    if (error instanceof IsoproError && OF_FILES.includes(error.code)) return error;
    throw error;
  }
}

async function keptVerdict(place: string): Promise<Fault | null | undefined> {
  const text = await readFile(place, 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  try {
    return kept.parse(JSON.parse(text)).fault;
  } catch {
    return undefined; // written by nobody of ours
  }
}

/**
 * @internal Tries a file.
 * @param program module of the process
 */
export async function trial(
  file: string,
  signal: AbortSignal | undefined,
  program = PROGRAM,
): Promise<Fault | null> {
  const { code, by, output, complaint } = await outcomeOf(file, signal, program);
  if (code === LIMITS.processorExit)
    return unsupported(
      `llama.cpp needs more than ${LIMITS.processorSeconds} processor seconds to load it and evaluate a few tokens`,
    );
  if (code === LIMITS.memoryExit)
    return unsupported(
      `llama.cpp needs more than ${loadAddon().addon.trialBytes / 1e9} GB of memory next to the file ` +
        'itself to load it and evaluate a few tokens',
    );
  if (by !== null && SENT.includes(by))
    throw new IsoproError(
      by === 'SIGKILL' ? 'OUT_OF_MEMORY' : 'SYSTEM_LIMIT',
      `${file}: the process that tried the model was ended by ${by}`,
    );
  const report = code === 0 ? readReport(output) : undefined;
  if (report?.ok === true) return null;
  if (report === undefined) {
    if (REFUSED_MEMORY.test(complaint))
      throw new IsoproError(
        'OUT_OF_MEMORY',
        `${file}: no memory for a process that tries the model`,
      );
    const how = by === null ? `exit code ${code}` : by;
    return {
      code: 'MODEL_CORRUPT',
      message: `: a process that loaded it and evaluated a few tokens crashed (${how}), so it is not loaded here`,
    };
  }
  const message = report.message.startsWith(file)
    ? report.message.slice(file.length)
    : `: ${report.message}`;
  // llama.cpp checks most of a file by assertion.
  if (report.code === 'NATIVE_FAILURE') return { code: 'MODEL_CORRUPT', message };
  const known = Object.hasOwn(ERRORS, report.code) ? (report.code as ErrorCode) : 'NATIVE_FAILURE';
  if (!OF_FILES.includes(known)) throw new IsoproError(known, `${file}${message}`);
  return { code: known, message };
}

const unsupported = (what: string): Fault => ({ code: 'MODEL_UNSUPPORTED', message: `: ${what}` });

function readReport(output: string): TrialReport | undefined {
  try {
    return JSON.parse(output) as TrialReport;
  } catch {
    return undefined;
  }
}

interface Outcome {
  readonly code: number | null;
  readonly by: NodeJS.Signals | null;
  readonly output: string;
  readonly complaint: string;
}

function requireGoing(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw abortError('the operation was cancelled', signal);
}

/** Runs the process until it has ended, however long it takes. */
async function outcomeOf(
  file: string,
  signal: AbortSignal | undefined,
  program: string,
): Promise<Outcome> {
  requireGoing(signal);
  const child: ChildProcess = startChild(() =>
    spawn(process.execPath, [program, file], {
      // It ends when its stdin does, as it does where this process ends.
      stdio: ['pipe', 'pipe', 'pipe'],
      // What reads a file that nobody has vouched for gets no key.
      env: childEnvironment(),
      // A Ctrl-C at the terminal says nothing about the file.
      detached: process.platform !== 'win32',
      windowsHide: true,
    }),
  );
  const abort = (): void => void child.kill('SIGKILL');
  onAbort(signal, abort);
  try {
    const texts = [child.stdout!, child.stderr!].map((stream) => {
      const text = { said: '' };
      stream.setEncoding('utf8').on('data', (data: string) => {
        text.said = (text.said + data).slice(-MOST_OUTPUT);
      });
      return text;
    });
    child.stdin!.on('error', () => undefined);
    const [code, by] = await new Promise<[number | null, NodeJS.Signals | null]>(
      (resolve, reject) => {
        child.once('error', reject);
        child.once('close', (exitCode, signalName) => resolve([exitCode, signalName]));
      },
    ).catch((cause: unknown) => {
      throw new IsoproError(
        'SYSTEM_LIMIT',
        `the system could not start a process: ${(cause as Error).message}`,
        { cause },
      );
    });
    requireGoing(signal);
    return { code, by, output: texts[0]!.said, complaint: texts[1]!.said };
  } finally {
    offAbort(signal, abort);
    child.stdin!.destroy();
  }
}
