/** Headless Chromium through its debugging pipe: what a page requests, says and shows. */
import { spawn, type ChildProcess } from 'node:child_process';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { Parsed } from './parsed.js';

/** The browser's executable; null where there is none on the PATH. */
export function findChromium(): string | null {
  for (const folder of (process.env.PATH ?? '').split(path.delimiter)) {
    for (const name of ['chromium', 'chromium-browser', 'google-chrome']) {
      try {
        accessSync(path.join(folder, name), constants.X_OK);
        return path.join(folder, name);
      } catch {
        // not here
      }
    }
  }
  return null;
}

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Record<string, Parsed>;
  readonly result?: Record<string, Parsed>;
  readonly error?: { readonly message: string };
}

export class Browser {
  readonly profile = mkdtempSync(path.join(tmpdir(), 'isopro-chromium-'));
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (message: Message) => void>();
  #next = 1;
  #session = '';
  #loaded: (() => void) | null = null;
  /** URLs that the page asked for. */
  readonly requests: string[] = [];
  /**
   * Console output, exceptions, and what the browser itself complains of (a violated policy for
   * instance).
   */
  readonly complaints: string[] = [];

  constructor(executable: string) {
    const flags = [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--hide-scrollbars',
      '--no-first-run',
      '--disable-background-networking',
      '--remote-debugging-pipe',
      `--user-data-dir=${this.profile}`,
      'about:blank',
    ];
    this.#child = spawn(executable, flags, {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
      detached: true,
    });
    let text = '';
    (this.#child.stdio[4] as Readable).setEncoding('utf8').on('data', (chunk: string) => {
      const parts = (text + chunk).split('\0');
      text = parts.pop()!;
      for (const part of parts) this.#receive(JSON.parse(part) as Message);
    });
  }

  #receive(message: Message): void {
    const { id, method, params } = message;
    if (id !== undefined) this.#waiting.get(id)?.(message);
    if (method === 'Network.requestWillBeSent') this.requests.push(params!.request.url as string);
    if (method === 'Log.entryAdded') this.complaints.push(params!.entry.text as string);
    if (method === 'Runtime.consoleAPICalled') this.complaints.push(JSON.stringify(params!.args));
    if (method === 'Runtime.exceptionThrown')
      this.complaints.push(params!.exceptionDetails.text as string);
    if (method === 'Page.loadEventFired') this.#loaded?.();
  }

  async send(method: string, params: object = {}): Promise<Record<string, Parsed>> {
    const id = this.#next++;
    const message = await new Promise<Message>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method} was not answered`)), 60_000);
      this.#waiting.set(id, (answer) => {
        clearTimeout(timer);
        resolve(answer);
      });
      (this.#child.stdio[3] as Writable).write(
        `${JSON.stringify({ id, method, params, ...(this.#session === '' ? {} : { sessionId: this.#session }) })}\0`,
      );
    });
    if (message.error !== undefined) throw new Error(`${method}: ${message.error.message}`);
    return message.result!;
  }

  async open(url: string, width = 1000): Promise<void> {
    if (this.#session === '') {
      const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
      this.#session = (await this.send('Target.attachToTarget', { targetId, flatten: true }))
        .sessionId as string;
      for (const domain of ['Page', 'Network', 'Runtime', 'Log'])
        await this.send(`${domain}.enable`);
    }
    this.requests.length = 0;
    this.complaints.length = 0;
    await this.send('Emulation.setDeviceMetricsOverride', {
      width,
      height: 900,
      deviceScaleFactor: 1,
      mobile: false,
    });
    const loaded = new Promise<void>((resolve) => (this.#loaded = resolve));
    await this.send('Page.navigate', { url });
    await loaded;
  }

  async evaluate<T>(expression: string): Promise<T> {
    return (await this.send('Runtime.evaluate', { expression, returnByValue: true })).result
      .value as T;
  }

  async emulate(media: 'screen' | 'print', scheme: 'light' | 'dark'): Promise<void> {
    await this.send('Emulation.setEmulatedMedia', {
      media,
      features: [{ name: 'prefers-color-scheme', value: scheme }],
    });
  }

  /** The page as PNG: all of it, or what `clip` says, in pixels of the page. */
  async screenshot(clip?: {
    x: number;
    y: number;
    width: number;
    height: number;
  }): Promise<Buffer> {
    const part = clip === undefined ? {} : { clip: { ...clip, scale: 1 } };
    return Buffer.from(
      (await this.send('Page.captureScreenshot', { captureBeyondViewport: true, ...part }))
        .data as string,
      'base64',
    );
  }

  async pdf(): Promise<Buffer> {
    return Buffer.from(
      (await this.send('Page.printToPDF', { printBackground: false })).data as string,
      'base64',
    );
  }

  /**
   * Ends the browser with all its processes, which write to the profile for as long as they live,
   * and removes the profile.
   */
  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once('close', resolve));
    process.kill(-this.#child.pid!, 'SIGKILL');
    await ended;
    // A killed process may still be within a call of the system.
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
