// `npm run test:full`: everything, in full. Types, all tests and campaigns in their long form (ISOPRO_FULL=1), and the native tests under
// the sanitisers, for NEON under qemu and through a BLAS. Every step runs even if one before it fails.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const script = (name) => [path.join('scripts', 'test-native.mjs'), name];
const steps = [
  { name: 'types', args: ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.test.json'] },
  { name: 'tests', args: ['--experimental-vm-modules', 'node_modules/jest/bin/jest.js', ...process.argv.slice(2)] },
  { name: 'tests with a real model', args: ['scripts/test-real.mjs'] },
  { name: 'native tests under sanitisers', args: script('--sanitize') },
  { name: 'trainer tests for NEON under qemu', args: script('--arm64') },
  { name: 'trainer tests with the products through a BLAS', args: script('--blas') },
];
const failed = [];
for (const { name, args } of steps) {
  console.log(`\n== ${name}`);
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit', env: { ...process.env, ISOPRO_FULL: '1' } });
  if (status !== 0) failed.push(name);
}
console.log(failed.length === 0 ? '\nall steps passed' : `\nfailed: ${failed.join(', ')}`);
process.exitCode = failed.length === 0 ? 0 : 1;
