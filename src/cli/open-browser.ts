import { spawn } from 'node:child_process';

/** What opens an address here; null where nobody would see it. */
function opener(): readonly [program: string, args: readonly string[]] | null {
  if (!process.stdout.isTTY) return null;
  if (process.platform === 'darwin') return ['open', []];
  if (process.platform === 'win32') return ['explorer.exe', []];
  const { DISPLAY, WAYLAND_DISPLAY } = process.env;
  return DISPLAY === undefined && WAYLAND_DISPLAY === undefined ? null : ['xdg-open', []];
}

/** In the user's browser where there is one; the address was printed in any case. */
export function openBrowser(url: string): void {
  const found = opener();
  if (found === null) return;
  const [program, args] = found;
  const child = spawn(program, [...args, url], { stdio: 'ignore', detached: true });
  child.on('error', () => {}); // not installed
  child.unref();
}
