import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { makeFolder } from '../../files.js';
import { childEnvironment } from '../../keys.js';
import { isoproHome } from '../../log/home.js';

/** Program that opens files; null without a display. */
function opener(): readonly [program: string, args: readonly string[]] | null {
  if (!process.stdout.isTTY) return null;
  if (process.platform === 'darwin') return ['open', []];
  if (process.platform === 'win32') return ['explorer.exe', []];
  const { DISPLAY, WAYLAND_DISPLAY } = process.env;
  return DISPLAY === undefined && WAYLAND_DISPLAY === undefined ? null : ['xdg-open', []];
}

/** Milliseconds for the browser to read the file. */
const READ_MS = 60_000;

const escaped = (text: string): string => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

const leadingTo = (address: string): string =>
  `<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=${escaped(address)}">
<title>isopro-native</title>
<a href="${escaped(address)}">the page</a>
`;

/**
 * A page of the user's own that leads to an address with a key in it. A command line is read by
 * every user of the machine; this file by its owner alone. It is gone after a minute, or when this
 * process ends.
 * @returns the file
 */
export function privatePage(address: string, home = isoproHome()): string {
  const folder = path.join(home, 'ui');
  makeFolder(folder, 0o700);
  chmodSync(folder, 0o700);
  // of processes that were killed, whose keys are worth nothing any more
  for (const name of readdirSync(folder)) {
    const left = path.join(folder, name);
    const { mtimeMs = Infinity } = statSync(left, { throwIfNoEntry: false }) ?? {};
    if (/^open-[\w-]+\.html$/.test(name) && mtimeMs < Date.now() - READ_MS)
      rmSync(left, { force: true });
  }
  const file = path.join(folder, `open-${randomBytes(12).toString('base64url')}.html`);
  writeFileSync(file, leadingTo(address), { mode: 0o600, flag: 'wx' });
  const remove = (): void => rmSync(file, { force: true });
  process.once('exit', remove);
  setTimeout(() => {
    process.off('exit', remove);
    remove();
  }, READ_MS).unref();
  return file;
}

/** Opens an address in the user's browser, if there is one. */
export function openBrowser(address: string): void {
  const found = opener();
  if (found === null) return;
  const [program, args] = found;
  let page: string;
  try {
    page = privatePage(address);
  } catch {
    return; // there is no place for it
  }
  const child = spawn(program, [...args, page], {
    stdio: 'ignore',
    detached: true,
    env: childEnvironment(),
  });
  child.on('error', () => {}); // not installed
  child.unref();
}
