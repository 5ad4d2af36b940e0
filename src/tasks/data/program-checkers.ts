/**
 * Checks that are programs: a command, a Python function, or a function of a script. Each gets the
 * row as a problem and the reply, and returns true, false, or
 * `{outcome: pass | fail | none, score?, reason?, category?}`. Any other result gives no verdict.
 */
import {
  spawn,
  type ChildProcess,
  type ChildProcessWithoutNullStreams,
  type SpawnOptions,
} from 'node:child_process';
import { createRequire } from 'node:module';
import { offAbort, onAbort } from '../../abort.js';
import { startChild } from '../../child-process.js';
import { childEnvironment } from '../../keys.js';
import { readGivenVerdict } from '../python-results.js';
import type { Verdict, VerifyContext } from '../task.js';
import type { Check } from './check.js';
import type { Checker } from './checker.js';
import type { DataProblem } from './data-problem.js';
import { PythonCheck } from './python-check.js';

/** Of what a command says. */
const MOST_BYTES = 2 ** 20;
const TAIL_CHARACTERS = 300;

type Judge = (problem: DataProblem, reply: string, context: VerifyContext) => Promise<Verdict>;

const judging = (verify: Judge): Checker<string> => ({
  read: (text) => ({ ok: true, answer: text, form: 'answer' }),
  verify,
});

/**
 * A shell that runs its first argument in a process group of its own, which is killed when
 * descriptor 3 is closed at the other end: by us, or by the system where we are killed or our
 * thread is ended.
 */
const GROUP = '{ read _ <&3; kill -9 0; } </dev/null >/dev/null 2>&1 & exec 3<&-; eval "$1"';

function start(
  command: string,
  folder: string,
): { readonly child: ChildProcessWithoutNullStreams; readonly kill: () => void } {
  if (process.platform === 'win32') {
    const child = startChild(() =>
      spawn(command, { shell: true, cwd: folder, env: childEnvironment(), windowsHide: true }),
    );
    return { child, kill: () => child.kill('SIGKILL') };
  }
  const options = {
    cwd: folder,
    env: childEnvironment(),
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
  } satisfies SpawnOptions;
  const child = startChild(
    () =>
      spawn(
        '/bin/sh',
        ['-c', GROUP, 'sh', command],
        options,
      ) as ChildProcess as ChildProcessWithoutNullStreams,
  );
  return { child, kill: () => void child.stdio[3]?.destroy() };
}

/**
 * @throws Error if the command could not start, exited with a code other than 0, gave no verdict,
 *   or was cancelled
 */
function runCommand(
  command: string,
  folder: string,
  input: object,
  signal: AbortSignal,
): Promise<Verdict> {
  return new Promise((found, failed) => {
    const { child, kill } = start(command, folder);
    const output: Buffer[] = [];
    let bytes = 0;
    let tail = '';
    const settle = (finish: () => void): void => {
      offAbort(signal, stop);
      kill();
      finish();
    };
    const fail = (why: string): void =>
      settle(() => failed(new Error(`the command ${why}${tail === '' ? '' : `: ${tail.trim()}`}`)));
    const stop = (): void => fail('was ended');
    child.on('error', (cause) => fail(`could not be started: ${cause.message}`));
    child.stdin.on('error', () => undefined); // it need not read
    child.stderr.on(
      'data',
      (chunk: Buffer) => (tail = (tail + chunk.toString('utf8')).slice(-TAIL_CHARACTERS)),
    );
    child.stdout.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > MOST_BYTES) fail(`wrote more than ${MOST_BYTES} bytes`);
      else output.push(chunk);
    });
    child.on('exit', kill); // what it left behind would keep its output open
    child.on('close', (code, ended) => {
      if (code !== 0) return fail(`ended with ${ended ?? `code ${code}`}`);
      try {
        const verdict = readGivenVerdict(JSON.parse(Buffer.concat(output).toString('utf8')));
        settle(() => found(verdict));
      } catch (cause) {
        fail(`gave no verdict (${(cause as Error).message})`);
      }
    });
    onAbort(signal, stop);
    if (signal.aborted) stop();
    child.stdin.end(`${JSON.stringify(input)}\n`);
  });
}

/**
 * Imports the script on the first call, so that the thread itself starts whatever the script does.
 */
function scriptJudge({ code, path }: Check & { readonly kind: 'script' }): Judge {
  let loaded:
    | Promise<(problem: DataProblem, reply: string, context: VerifyContext) => unknown>
    | undefined;
  const load = async () => {
    globalThis.require = createRequire(path); // bundled CommonJS asks for it
    const module = (await import(
      `data:text/javascript;base64,${Buffer.from(code).toString('base64')}`
    )) as Record<string, unknown>;
    const verify = module.verify ?? module.default;
    if (typeof verify !== 'function')
      throw new Error('the script exports no function verify(problem, reply)');
    return verify as (problem: DataProblem, reply: string, context: VerifyContext) => unknown;
  };
  return async (problem, reply, context) => {
    loaded ??= load();
    return readGivenVerdict(await (await loaded)(problem, reply, context));
  };
}

export function programChecker(
  check: Check & { readonly kind: 'command' | 'python' | 'script' },
): Checker {
  if (check.kind === 'command')
    return judging((problem, reply, { signal }) =>
      runCommand(check.command, check.folder, { problem, reply }, signal),
    ) as Checker;
  if (check.kind === 'script') return judging(scriptJudge(check)) as Checker;
  const python = new PythonCheck(check.program);
  python.describe().catch(() => undefined); // its start is no part of the first reply's time
  return judging((problem, reply, { signal }) => python.judge(problem, reply, signal)) as Checker;
}
