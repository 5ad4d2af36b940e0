// `npm run test:full`: everything, in full. Types, all tests and campaigns in their long form
// (ISOPRO_FULL=1), and the native tests under the sanitisers, for NEON under qemu and through a
// BLAS. Every step runs even if one before it fails; the last lines say what failed, and which
// tests did not run.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const script = (name) => [path.join('scripts', 'test-native.mjs'), name];
const results = mkdtempSync(path.join(tmpdir(), 'isopro-full-'));
const kept = (file) => ['--json', `--outputFile=${path.join(results, file)}`];
const steps = [
  { name: 'types', args: ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.test.json'] },
  {
    name: 'tests',
    args: [
      '--experimental-vm-modules',
      'node_modules/jest/bin/jest.js',
      ...kept('all.json'),
      ...process.argv.slice(2),
    ],
    results: 'all.json',
  },
  {
    name: 'tests with a real model',
    args: ['scripts/test-real.mjs', ...kept('real.json')],
    results: 'real.json',
  },
  { name: 'native tests under sanitisers', args: script('--sanitize') },
  { name: 'trainer tests for NEON under qemu', args: script('--arm64') },
  { name: 'trainer tests with the products through a BLAS', args: script('--blas') },
];
const failed = [];
for (const { name, args } of steps) {
  console.log(`\n== ${name}`);
  const { status } = spawnSync(process.execPath, args, {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ISOPRO_FULL: '1' },
  });
  if (status !== 0) failed.push(name);
}

/**
 * Tests that are left out where something is not to be had; a step whose tests all are says so and
 * writes nothing.
 */
function leftOut() {
  const of = ({ name, results: file }) => {
    if (failed.includes(name)) return [];
    if (!existsSync(path.join(results, file))) return [name];
    return JSON.parse(readFileSync(path.join(results, file), 'utf8')).testResults.flatMap(
      ({ name: suite, assertionResults }) =>
        assertionResults
          .filter(({ status }) => status === 'pending')
          .map(({ fullName }) => `${path.relative(root, suite)}: ${fullName}`),
    );
  };
  return steps.filter((step) => step.results !== undefined).flatMap(of);
}

const missing = leftOut();
rmSync(results, { recursive: true, force: true });
if (missing.length > 0)
  console.log(
    `\nleft out, for reasons that their suites print above:\n${missing.map((test) => `  ${test}`).join('\n')}`,
  );
console.log(failed.length === 0 ? '\nall steps passed' : `\nfailed: ${failed.join(', ')}`);
process.exitCode = failed.length === 0 ? 0 : 1;
