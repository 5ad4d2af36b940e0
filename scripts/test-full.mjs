// `npm run test:full`: everything that is too long for `npm test`. Types, all tests with their long campaigns
// (ISOPRO_FULL=1), and the native tests under the sanitisers, for NEON under qemu and through a BLAS. Every step runs
// even if one before it fails.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const npm = ['run', '--silent'];
const steps = [
  { name: 'types', args: [...npm, 'typecheck'] },
  { name: 'tests', args: [...npm, 'test', '--ignore-scripts', '--', ...process.argv.slice(2)] },
  { name: 'native tests under sanitisers', args: [...npm, 'test:asan'] },
  { name: 'trainer tests for NEON under qemu', args: [...npm, 'test:arm64'] },
  { name: 'trainer tests with the products through a BLAS', args: [...npm, 'test:blas'] },
];
const failed = [];
for (const { name, args } of steps) {
  console.log(`\n== ${name}`);
  const { status } = spawnSync('npm', args, {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ISOPRO_FULL: '1' },
    shell: process.platform === 'win32',
  });
  if (status !== 0) failed.push(name);
}
console.log(failed.length === 0 ? '\nall steps passed' : `\nfailed: ${failed.join(', ')}`);
process.exitCode = failed.length === 0 ? 0 : 1;
