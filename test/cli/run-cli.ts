/** Runs the built command line in a process of its own, without a terminal. */
import { spawn, spawnSync, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface CliResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The library's entry, as a program imports it. */
export const LIBRARY = fileURLToPath(new URL('../../dist/src/index.js', import.meta.url));
export const MAIN = fileURLToPath(new URL('../../dist/program/main.js', import.meta.url));

export async function runCli(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  cwd?: string,
): Promise<CliResult> {
  const child = spawn(process.execPath, [MAIN, ...args], { env: { ...process.env, ...env }, cwd });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, stdout, stderr };
}

/** Reads command lines, each as a line of JSON, and writes what became of each. */
export const LINES = fileURLToPath(
  new URL('../../dist/test/models/command-lines.js', import.meta.url),
);

const resultsIn = (stdout: string): CliResult[] =>
  stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as CliResult);
const linesOf = (all: readonly (readonly string[])[]): string =>
  all.map((args) => `${JSON.stringify(args)}\n`).join('');

/**
 * Command lines one after the other in one process: a start takes half a second, and what is said
 * of wrong usage a few milliseconds. Of those that end with their answer, and leave nothing open.
 */
export function runLines(
  lines: readonly (readonly string[])[],
  cwd?: string,
  env: NodeJS.ProcessEnv = {},
): CliResult[] {
  const { status, stdout, stderr } = spawnSync(process.execPath, [LINES], {
    input: linesOf(lines),
    cwd,
    env: { ...process.env, ...env },
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  if (status !== 0) throw new Error(`the command lines ended with ${status}: ${stderr}`);
  return resultsIn(stdout);
}

/** As runLines, where this process has to answer meanwhile. */
export async function runLinesMeanwhile(
  lines: readonly (readonly string[])[],
  cwd?: string,
  env: NodeJS.ProcessEnv = {},
): Promise<CliResult[]> {
  const child = spawn(process.execPath, [LINES], { cwd, env: { ...process.env, ...env } });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin.end(linesOf(lines));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  if (code !== 0) throw new Error(`the command lines ended with ${code}: ${stderr}`);
  return resultsIn(stdout);
}

/**
 * As runLines, each when it is known: one process for all of a suite, from the first one on. What
 * is asked together is done one after the other.
 */
export class CommandLines {
  readonly #env: NodeJS.ProcessEnv;
  readonly #cwd: string | undefined;
  readonly #program: readonly string[];
  readonly #waiting: ((result: CliResult | Error) => void)[] = [];
  #child: ChildProcessWithoutNullStreams | null = null;
  #complaints = '';

  /** @param before what starts Node, with other rights for instance */
  constructor(env: NodeJS.ProcessEnv = {}, cwd?: string, before: readonly string[] = []) {
    this.#env = env;
    this.#cwd = cwd;
    this.#program = [...before, process.execPath, LINES];
  }

  run(args: readonly string[]): Promise<CliResult> {
    this.#child ??= this.#start();
    this.#child.stdin.write(linesOf([args]));
    return new Promise((resolve, reject) => {
      this.#waiting.push((result) => {
        if (result instanceof Error) reject(result);
        else resolve(result);
      });
    });
  }

  #start(): ChildProcessWithoutNullStreams {
    const [program, ...args] = this.#program;
    const child = spawn(program!, args, {
      cwd: this.#cwd,
      env: { ...process.env, ...this.#env },
    });
    createInterface({ input: child.stdout }).on('line', (line) =>
      this.#waiting.shift()?.(JSON.parse(line) as CliResult),
    );
    child.stderr.setEncoding('utf8').on('data', (text: string) => (this.#complaints += text));
    child.stdin.on('error', () => undefined); // `close` says it
    child.on('close', (code) => {
      this.#child = null;
      for (const tell of this.#waiting.splice(0))
        tell(new Error(`the command lines ended with ${code}: ${this.#complaints}`));
    });
    return child;
  }

  /** Resolves when the process has ended. */
  async end(): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    const closed = new Promise((resolve) => child.on('close', resolve));
    child.stdin.end();
    await closed;
  }
}

/** `{ devSize: 4 }` as `--dev-size 4`. */
export const asFlags = (values: Readonly<Record<string, string | number>>): string[] =>
  Object.entries(values).flatMap(([name, value]) => [
    `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
    String(value),
  ]);
