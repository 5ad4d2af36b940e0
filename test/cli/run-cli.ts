/** Runs the built command line in a process of its own, without a terminal. */
import { spawn, spawnSync } from 'node:child_process';
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

/** Reads command lines as JSON, and writes what became of each. */
export const LINES = fileURLToPath(
  new URL('../../dist/test/models/command-lines.js', import.meta.url),
);

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
    input: JSON.stringify(lines),
    cwd,
    env: { ...process.env, ...env },
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  if (status !== 0) throw new Error(`the command lines ended with ${status}: ${stderr}`);
  return JSON.parse(stdout) as CliResult[];
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
  child.stdin.end(JSON.stringify(lines));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  if (code !== 0) throw new Error(`the command lines ended with ${code}: ${stderr}`);
  return JSON.parse(stdout) as CliResult[];
}

/** `{ devSize: 4 }` as `--dev-size 4`. */
export const asFlags = (values: Readonly<Record<string, string | number>>): string[] =>
  Object.entries(values).flatMap(([name, value]) => [
    `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
    String(value),
  ]);
