/**
 * llama-server of the llama.cpp release that the addon is linked with: where it is, or how it is
 * built; and one that runs.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { loadAddon, packageRoot } from '../../src/engine/addon.js';
import { homeFolder } from '../../src/engine/model-location.js';

export interface FoundPeer {
  /** Null where there is none. */
  readonly program: string | null;
  /** Why there is none. */
  readonly reason?: string;
}

/**
 * The one that is named, or that of the cache, which is built on first use: a few minutes of a
 * compiler.
 * @param named a path; 'none': without a peer
 */
export function findLlamaServer(
  named: string | undefined,
  onBuild: (folder: string) => void,
): FoundPeer {
  if (named === 'none') return { program: null, reason: 'none was asked for' };
  if (named !== undefined)
    return existsSync(named)
      ? { program: named }
      : { program: null, reason: `there is no ${named}` };
  const build = path.join(homeFolder(), 'bench', `llama-server-${loadAddon().addon.llamaRelease}`);
  const program = path.join(
    build,
    'bin',
    process.platform === 'win32' ? 'llama-server.exe' : 'llama-server',
  );
  if (existsSync(program)) return { program };
  const source = path.join(packageRoot(), 'bench', 'peer', 'llama-server');
  if (!existsSync(source))
    return {
      program: null,
      reason: 'it is built from a clone of the project only; --peer PATH names one',
    };
  onBuild(build);
  mkdirSync(build, { recursive: true });
  for (const step of [
    ['-S', source, '-B', build],
    ['--build', build, '--target', 'llama-server', '--parallel', String(availableParallelism())],
  ]) {
    const { status, stderr, error } = spawnSync('cmake', step, {
      encoding: 'utf8',
      maxBuffer: 2 ** 28,
    });
    if (status !== 0)
      return {
        program: null,
        reason: `cmake ${step.join(' ')}: ${error?.message ?? stderr.trim().slice(-1000)}`,
      };
  }
  return { program };
}

/** Where a server listens, and how it ends. */
export interface RunningServer {
  readonly url: string;
  close(): Promise<void>;
}

/** How long a server may take to end. */
const ENDING_MS = 10_000;

/** Ends a server, now or with this process. */
export function endingOf(child: ChildProcess): () => Promise<void> {
  const kill = (): void => void child.kill('SIGTERM');
  process.once('exit', kill);
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  return async () => {
    kill();
    process.off('exit', kill);
    const forced = setTimeout(() => child.kill('SIGKILL'), ENDING_MS);
    await closed;
    clearTimeout(forced);
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export interface LlamaServerOptions {
  readonly model: string;
  readonly adapters: readonly string[];
  /** Replies at once. */
  readonly slots: number;
  /** Tokens of prompt and reply that each has room for. */
  readonly slotTokens: number;
  readonly threads: number;
}

/** Resolves when it answers. */
export async function startLlamaServer(
  program: string,
  options: LlamaServerOptions,
): Promise<RunningServer> {
  const { model, adapters, slots, slotTokens, threads } = options;
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const settings = {
    '-m': model,
    '-np': slots,
    '-c': slots * slotTokens,
    '-t': threads,
    '-tb': threads,
    '--port': port,
    '-ngl': 0,
  };
  const loras = adapters.flatMap((file) => ['--lora', file]);
  const child = spawn(
    program,
    [
      ...Object.entries(settings).flatMap(([name, value]) => [name, String(value)]),
      ...loras,
      '--host',
      '127.0.0.1',
      '--log-disable',
    ],
    { stdio: 'ignore' },
  );
  const close = endingOf(child);
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`${program} ended with ${child.exitCode ?? child.signalCode}`);
    const answer = await fetch(`${url}/health`).catch(() => null);
    if (answer?.ok === true) return { url, close };
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
