/** The page beside a run: `ui` in a process of its own, so that nothing of it touches the run. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { RUNS } from '../../lookup/runs.js';
import { openBrowser } from '../serve/browser.js';

/**
 * Begins it, prints its address on stderr, and opens a browser where there is one. Disposed of, it
 * stays until Ctrl-C where somebody sits before it, and goes at once else.
 * @param out the run's folder, where one was given
 */
export async function pageBeside(model: string, out: string | undefined): Promise<AsyncDisposable> {
  const main = fileURLToPath(new URL('../main.js', import.meta.url));
  const runs = out === undefined ? RUNS : path.dirname(path.resolve(out));
  const child = spawn(
    process.execPath,
    [main, 'ui', '--latest', '--no-open', '--runs', runs, '--model', model],
    // with its whole environment: it is this program, and takes the server's keys from there
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const ended = once(child, 'exit');
  // one that fails says why itself, and the run goes on without it
  const [address] = (await Promise.race([
    once(createInterface(child.stdout), 'line'),
    ended.then(() => [null]),
  ])) as [string | null];
  if (address !== null) {
    process.stderr.write(`web page: ${address}\n`);
    openBrowser(address); // not the child, whose output is no terminal
  }
  return {
    async [Symbol.asyncDispose]() {
      if (address !== null && process.stderr.isTTY)
        process.stderr.write('the web page stays open until Ctrl-C\n');
      else child.kill();
      await ended;
    },
  };
}
