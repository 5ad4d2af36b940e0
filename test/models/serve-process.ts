/** `isopro-native serve` as a process of its own. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../program/main.js', import.meta.url));

export class ServeProcess implements AsyncDisposable {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  /** @param model also the name that it is served by */
  static async start(
    model: string,
    name: string,
    env: NodeJS.ProcessEnv = process.env,
  ): Promise<ServeProcess> {
    const flags = ['--model', model, '--name', name, '--port', '0', '--threads', '1'];
    const child = spawn(process.execPath, [MAIN, 'serve', ...flags, '--fixed-threads', '--json'], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let stderr = '';
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const line = await Promise.race([
      once(createInterface(child.stdout!), 'line').then(([first]) => first as string),
      once(child, 'exit').then(() => {
        throw new Error(`serve ended: ${stderr}`);
      }),
    ]);
    return new ServeProcess(child, (JSON.parse(line) as { url: string }).url);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null) return;
    this.#child.kill('SIGTERM');
    await once(this.#child, 'exit');
  }
}
