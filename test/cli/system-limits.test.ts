/**
 * Real limits of the system on the command line: it works, or says which limit it met and what to
 * do; never a signal, never a hang.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { MAIN } from './run-cli.js';

const full = process.env.ISOPRO_FULL === '1';
const has = (program: string): boolean => spawnSync(program, ['--version']).status === 0;
const limits = process.platform === 'linux' && has('prlimit');
const otherUser = limits && has('setpriv') && process.getuid?.() === 0;
if (!limits) console.warn('skipping the real limits: they need Linux and prlimit');
else if (!otherUser) console.warn('skipping the limit of threads: it needs root and setpriv');

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-limits-'));
  chmodSync(folder, 0o777);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A user of this process alone: the system counts threads by user. */
const USER = 100_000 + process.pid;
const NOBODY = ['setpriv', `--reuid=${USER}`, `--regid=${USER}`, '--clear-groups'];
const GENERATE = [
  MAIN,
  'generate',
  '--model',
  'tiny',
  '--prompt',
  'hello',
  '--max-tokens',
  '8',
  '--threads',
  '2',
];
const DRY_RUN = [MAIN, 'run', '--model', 'tiny', '--dry-run', '--threads', '1'];

interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stderr: string;
}

function under(limit: readonly string[], args: readonly string[], seconds = 60): Ended {
  const [program, ...rest] = [...limit, process.execPath, ...args];
  // ggml would start a debugger for a backtrace, where there is one.
  const quiet = { GGML_NO_BACKTRACE: '1', NODE_OPTIONS: '' };
  const env = { ...process.env, ISOPRO_HOME: path.join(folder, 'home'), HOME: folder, ...quiet };
  const { status, signal, stderr } = spawnSync(program!, rest, {
    encoding: 'utf8',
    env,
    cwd: folder,
    timeout: seconds * 1000,
    killSignal: 'SIGKILL',
  });
  return { code: status, signal, stderr };
}

/** Null where it worked, the code where it failed as it should; anything else as it was. */
function outcome({ code, signal, stderr }: Ended): unknown {
  if (code === 0) return null;
  // The message may name any file, one of our own too; it is the advice that must fit a limit.
  const said = /^error (\w+): .+\n {2}what to do: (.+)/m.exec(stderr);
  return code === 1 && said !== null && !/download|report it/i.test(said[2]!)
    ? said[1]
    : { code, signal, stderr: stderr.slice(-400) };
}
const ALLOWED = [null, 'SYSTEM_LIMIT', 'OUT_OF_MEMORY'];
/**
 * Of the dynamic loader, where a new thread first touches the thread-local data of a library that
 * was loaded while the program ran.
 */
const LOADER = /^cannot allocate memory for thread-local data: ABORT$/m;

/** Tells in whose code a process ended; compiled once. */
function lastFrame(): string {
  const library = path.join(folder, 'last-frame.so');
  if (existsSync(library)) return library;
  const source = path.resolve('test/cli/last-frame.cpp');
  expect(
    spawnSync('c++', ['-std=c++17', '-O1', '-fPIC', '-shared', '-o', library, source, '-ldl'])
      .status,
  ).toBe(0);
  return library;
}

/** As outcome; a process that Node or the loader ended is not ours. */
const outcomeOfOurs = (one: Ended): unknown =>
  LOADER.test(one.stderr) || /^ended in node$/m.test(one.stderr) ? 'not ours' : outcome(one);

(limits ? test : test.skip)(
  'open files',
  () => {
    // Below 24, Node itself fails before it has read the first few files of any program.
    const counts = full ? Array.from({ length: 60 }, (_, i) => 24 + 2 * i) : [24, 60, 100, 112];
    const outcomes = counts.map((count) =>
      outcome(under(['prlimit', `--nofile=${count}`], GENERATE)),
    );
    expect(outcomes.filter((one) => !ALLOWED.includes(one as string | null))).toEqual([]);
    expect(outcomes[0]).toBe('SYSTEM_LIMIT');
    expect(outcome(under(['prlimit', '--nofile=256'], GENERATE))).toBeNull();
  },
  300_000,
);

(limits ? test : test.skip)(
  'no file can be opened any more, in the middle of a program',
  () => {
    const engine = (name: string): string => JSON.stringify(path.resolve('dist/src/engine', name));
    const program = `
    import { closeSync, openSync } from 'node:fs';
    import { createTrainer } from ${engine('trainer.js')};
    import { loadModel } from ${engine('model.js')};
    import { EMBEDDED_MODEL_FILE } from ${engine('model-aliases.js')};
    const trainer = await createTrainer({ path: EMBEDDED_MODEL_FILE.pathname }, { threads: 1 });
    const model = await loadModel('tiny', { threads: 1 });
    const calls = [
      () => model.hash(),
      () => trainer.save('state'),
      () => trainer.load('state'),
      () => trainer.applyTo(model),
      () => trainer.exportAdapter('a.gguf'),
      () => loadModel('tiny'),
    ];
    const outcomes = async () => {
      const codes = [];
      for (const call of calls) codes.push(await call().then(() => 'done', (error) => error.name + ' ' + error.code));
      return codes;
    };
    await trainer.save('state');
    const held = [];
    try { for (;;) held.push(openSync('/dev/null')); } catch {}
    const refused = await outcomes();
    held.forEach((file) => closeSync(file));
    console.error(JSON.stringify([refused, await outcomes()]));
    process.exit();`;
    const { stderr } = under(['prlimit', '--nofile=256'], ['--input-type=module', '-e', program]);
    expect(JSON.parse(stderr.trim().split('\n').at(-1)!)).toEqual([
      Array(6).fill('IsoproError SYSTEM_LIMIT'),
      Array(6).fill('done'),
    ]);
  },
  60_000,
);

(otherUser ? test : test.skip)(
  'threads, of a user that is not root',
  () => {
    // The user has to reach the package, which may lie in root's home.
    const reached = under(NOBODY, [MAIN, '--version']).code === 0;
    if (!reached)
      return console.warn('skipping the limit of threads: another user cannot read this package');
    // Node starts some threads, and more with the first file that it reads; without those it aborts
    // or stands by itself.
    const bare = [
      '-e',
      `require('fs').promises.readFile(process.execPath).then(() => process.exit())`,
    ];
    let needed = 20;
    while (under([...NOBODY, 'prlimit', `--nproc=${needed - 1}`], bare, 5).code === 0) needed--;
    const preload = `LD_PRELOAD=${lastFrame()}`;
    for (const command of full ? [GENERATE, DRY_RUN] : [GENERATE]) {
      const outcomes = Array.from({ length: full ? 12 : 5 }, (_, i) =>
        outcomeOfOurs(
          under([...NOBODY, 'env', preload, 'prlimit', `--nproc=${needed + i}`], command),
        ),
      );
      expect(
        outcomes.filter((one) => one !== 'not ours' && !ALLOWED.includes(one as string | null)),
      ).toEqual([]);
      expect(outcomes[0]).toBe('SYSTEM_LIMIT');
    }
    expect(outcome(under([...NOBODY, 'prlimit', `--nproc=${needed + 60}`], GENERATE))).toBeNull();
  },
  600_000,
);

(limits ? test : test.skip)(
  'address space',
  () => {
    const report = `process.on('exit', () => console.error(require('fs').readFileSync('/proc/self/status', 'utf8')))`;
    const module = path.join(folder, 'report.cjs');
    writeFileSync(module, report);
    const peak =
      Number(
        /^VmPeak:\s+(\d+) kB$/m.exec(under([], ['--require', module, ...GENERATE]).stderr)![1],
      ) * 1024;
    const preload = `LD_PRELOAD=${lastFrame()}`;
    const at = (megabytes: number): Ended =>
      under(['env', preload, 'prlimit', `--as=${peak - megabytes * 2 ** 20}`], GENERATE);
    // From what it takes (a thread more or less that gets its own heap is 64 MB) to where nothing
    // starts. On the way V8 finds no room for its own heap and ends the process, or the loader does
    // (docs/own-model.md); nobody else.
    const every = (step: number, from: number, to: number): number[] =>
      Array.from({ length: (to - from) / step }, (_, i) => from + step * i);
    const lacking = full ? every(4, 0, 448) : [...every(32, 0, 128), ...every(64, 128, 320)];
    const outcomes = lacking.map((megabytes) => outcomeOfOurs(at(megabytes)));
    expect(
      outcomes.filter((one) => one !== 'not ours' && !ALLOWED.includes(one as string | null)),
    ).toEqual([]);
    expect(
      outcomes.filter((one) => one === 'OUT_OF_MEMORY' || one === 'SYSTEM_LIMIT').length,
    ).toBeGreaterThanOrEqual(2);
    expect(outcome(under(['prlimit', `--as=${peak + 2 ** 26}`], GENERATE))).toBeNull();
  },
  300_000,
);
