// Runs at the end of an installation from a clone: `npm run build:ts` and `npm run build:web`
// beside each other, which need nothing of each other.
import { spawn } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** Resolves to the script's exit code. */
const runScript = (name) =>
  new Promise((resolve, reject) => {
    const child = spawn('npm', ['run', '--silent', name], {
      cwd: root,
      stdio: 'inherit',
      shell: process.platform === 'win32',
    });
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? 1));
  });

process.exitCode = Math.max(...(await Promise.all(['build:ts', 'build:web'].map(runScript))));
